from __future__ import annotations

import re
import sqlite3
import sys

import pytest
import sqlcipher3.dbapi2

from mcp_notarium.search import folding
from mcp_notarium.search.folding import (
    CONTEXT,
    GRAM,
    SENTINEL,
    fold,
    gram_runs,
    grams,
    is_searchable,
    pieces,
    supplement,
    tokenizer_folds,
    without_grams,
    words_only,
)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Plain ASCII\n", "plain ascii\n"),
        ("Łódź", "lodz"),
        ("Đà Nẵng", "da nang"),
        ("Tiếng Việt", "tieng viet"),
        ("Tie\u0302\u0301ng", "tieng"),
        ("Smørrebrød", "smorrebrod"),
        ("Straße STRASSE", "strasse strasse"),
        ("Þór, Æsir, œuvre", "thor, aesir, oeuvre"),
        ("Ħal ŧ \u0131I İ", "hal t ii i"),
        ("ﬁne \uff37\uff49\uff44\uff45", "fine wide"),
        ("Ὀδυσσεύς", "οδυσσευσ"),
        ("Ещё мой ёлка", "еще мой елка"),
        ("и\u0306", "й"),
        ("كَتَبَ", "كتب"),
        ("exam\u00adple zero\u200bwidth", "example zerowidth"),
        ("がぎ ｶﾞ", "がぎ ガ"),
        ("한글", "한글"),
        ("👩\u200d💻 ❤\ufe0f", "👩💻 ❤"),
    ],
)
def test_letters_fold_to_their_plain_form(text, folded):
    assert fold(text) == folded


def test_grams_are_no_words_and_end_with_the_last_character_alone():
    assert grams("東京都") == [f"{GRAM}026481020140", f"{GRAM}020140037117", f"{GRAM}037117"]
    assert grams("東") == [f"{GRAM}026481"]
    assert pieces(fold(" ".join(grams("東京都")))) == ["026481020140", "020140037117", "037117"]


def test_runs_are_what_is_written_without_spaces_and_pictures():
    assert gram_runs("iPhone手机、東京 สวัสดี ok😀🎉 ភាសា မြန်မာ ລາວ 한글") == [
        "手机", "東京", "สวัสดี", "😀🎉", "ភាសា", "မြန်မာ", "ລາວ", "한글",
    ]  # fmt: skip
    assert without_grams("iPhone手机x") == "iPhone x"
    assert words_only("\uff21 iPhone手机-x_y") == "a iphone x y"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain ASCII, with 123",
        "Café à la crème — “naïve” … 20 €",
        "Привет, мир",
        "Ωμεγα",
        "שלום",
    ],
)
def test_simple_text_has_no_supplement(text):
    assert supplement(text) == ""


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        ("Łódź", "lodz"),
        ("plain\nŁódź\nwords", "plain lodz words"),
        ("Łódź\nplain\nStraße", "lodz plain strasse"),
        ("東京", "$026481020140 $020140"),
        ("東、京", "$026481 $020140"),
        ("iPhone手", "iphone $025163 $ i phone"),
        ("An iPhone 手 x", "an iphone $025163 x $ i phone"),
        ("ArrayPool, getURL()\nArrayPool", "array pool $ get url"),
        ("и 東 д", "и $026481 д"),
        ("🚀 launch", "$128640 launch"),
        ("東🚀", "$026481 $128640"),
    ],
)
def test_the_supplement_holds_folded_lines_and_grams(text, extra):
    assert supplement(text) == extra.replace("$", GRAM)


NUMBERS = [str(number) for number in range(100, 200)]


def test_of_plain_text_the_supplement_holds_what_is_near():
    near = " ".join(NUMBERS[-CONTEXT:])
    assert supplement(" ".join(NUMBERS) + "\nŁódź") == f"{near} lodz"
    assert supplement("\n".join(NUMBERS) + "\nŁódź") == f"{near} lodz"
    near = " ".join(NUMBERS[:CONTEXT])
    assert supplement("Łódź\n" + "\n\n".join(NUMBERS)) == f"lodz {near}"


@pytest.mark.parametrize("count", [2 * CONTEXT, 2 * CONTEXT + 1])
def test_between_two_lines_nothing_is_left_out_where_it_is_all_near(count):
    between = NUMBERS[:count]
    found = supplement("Łódź\n" + "\n".join(between) + "\nŁódź").split()
    left_out = [SENTINEL] if count > 2 * CONTEXT else []
    kept = [*between[:CONTEXT], *left_out, *between[-CONTEXT:]]
    assert found == ["lodz", *kept, "lodz"]


@pytest.mark.parametrize("text", ["a", "1", "-x", "東", "😀", "é", "\u00b2"])
def test_letters_digits_and_pictures_are_searchable(text):
    assert is_searchable(text)


@pytest.mark.parametrize("text", ["", "++", "->", "©", "…", "\0", "\ufffd", "\u0301"])
def test_signs_alone_are_not_searchable(text):
    assert not is_searchable(text)


def _tokens_of_every_plain_character(driver):
    """What this SQLite's tokenizer makes of each of them between two letters."""
    codes = [code for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
    db = driver.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='unicode61 remove_diacritics 1')")
    db.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
    plain = [code for code in codes if tokenizer_folds(chr(code)) and not gram_runs(chr(code))]
    db.executemany(
        "INSERT INTO t(rowid, x) VALUES (?, ?)", [(code, f"a{chr(code)}b") for code in plain]
    )
    tokens: dict[int, list[str]] = {code: [] for code in plain}
    for term, code in db.execute("SELECT term, doc FROM v ORDER BY doc, offset"):
        tokens[code].append(term)
    db.close()
    return tokens


@pytest.mark.parametrize("driver", [sqlite3, sqlcipher3.dbapi2])
def test_characters_called_plain_are_those_the_tokenizer_folds_alike(driver):
    tokens = _tokens_of_every_plain_character(driver)
    assert len(tokens) > 1000
    differing = {
        f"U+{code:04X}": (made, words_only(f"a{chr(code)}b"))
        for code, made in tokens.items()
        if made != words_only(f"a{chr(code)}b").split()
    }
    assert differing == {}


def test_common_letters_of_many_languages_are_plain():
    assert tokenizer_folds("äöüÄÖÜéèêëàâçñíóúåÅčšžřďťňěůőűąęćńśźżğşăâîșț")
    assert not re.search("[łŁøØßđĐæœþðı]", "".join(filter(tokenizer_folds, "łŁøØßđĐæœþðı")))


def test_the_fold_table_learns_characters_lazily():
    assert folding._TABLE[ord("Ł")] == "l"
