# ruff: noqa: RUF001 - Chinese and Japanese keep their own punctuation
"""Generate notes for an account: real prose for demos and measurements, and dirty old notes.

The same count and seed give the same notes on one Python version. Nothing here is a person's text:
the prose comes from Python's own documentation, the rest was written for this purpose.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from notarium_devtools.simperium.device import whole_note

_HEADING = re.compile(r'^(?P<title>\S.*)\n(?P<rule>[*=\-~^"])(?P=rule){3,}\n', re.MULTILINE)
_PART = 1_500
_SHORTEST = 120
_FIRST_DAY = 1_388_534_400  # 2014-01-01
_LAST_DAY = 1_767_139_200  # 2025-12-31
_TAGS = (
    "python", "reading", "work", "ideas", "someday", "talk", "questions", "project/atlas",
    "weekly-review", "howto", "Übersetzung", "książka", "資料",
)  # fmt: skip


def prose(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return ``count`` whole note objects in any order of age, spread over twelve years.

    A few are in the trash, pinned or Markdown; a few are Polish, German, Chinese, Japanese, Korean
    or Thai. Beyond a few hundred the texts repeat under numbered titles.
    """
    dice = random.Random(seed)  # noqa: S311 - repeatable, guards nothing
    return [_written(text, tags, dice) for text, tags in itertools.islice(_texts(dice), count)]


def tag_objects(notes: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the tag bucket an official client would have made for these notes, by tag id."""
    names = {tag_id(name): name for note in notes for name in note.get("tags") or ()}
    return {key: {"name": name, "index": place} for place, (key, name) in enumerate(names.items())}


def tag_id(name: str) -> str:
    """Return the id of a tag object: lower-cased and percent-encoded but for ``-_.~``."""
    return quote(name.lower().encode("utf-8", "replace"), safe="")


def _texts(dice: random.Random) -> Iterator[tuple[str, tuple[str, ...]]]:
    sections = _sections()
    dice.shuffle(sections)
    own = iter(_OWN_NOTES)
    for number in itertools.count():
        turn, place = divmod(number, len(sections))
        if number % 5 == 2 and (note := next(own, None)) is not None:  # noqa: PLR2004 - early on
            title, body, tags = note
            yield f"{title}\n\n{body}", tags
            continue
        title, body = sections[place]
        again = f" ({turn + 1})" if turn else ""
        tags = tuple(dice.sample(_TAGS, dice.choice((0, 1, 1, 2, 3))))
        yield f"{title}{again}\n\n{body}", tags


def _written(text: str, tags: tuple[str, ...], dice: random.Random) -> dict[str, Any]:
    created = dice.randint(_FIRST_DAY, _LAST_DAY)
    modified = round(min(created + dice.expovariate(1 / 8_000_000), _LAST_DAY + 86_399), 3)
    system = [name for name, odds in (("pinned", 0.02), ("markdown", 0.1)) if dice.random() < odds]
    if text.startswith("# ") and "markdown" not in system:
        system.append("markdown")
    fields = {
        "content": text,
        "tags": list(tags),
        "systemTags": system,
        "creationDate": created,
        "modificationDate": modified,
        "deleted": dice.random() < 0.06,  # noqa: PLR2004 - about as many as in a real account
    }
    return whole_note(fields, now=modified)


def _sections() -> list[tuple[str, str]]:
    # Large, and only wanted here.
    from pydoc_data.topics import topics  # noqa: PLC0415 - half a megabyte nobody else needs

    # Topics overlap: the same section is filed under several keywords.
    return list(dict.fromkeys(part for name in sorted(topics) for part in _parts(topics[name])))


def _parts(topic: str) -> Iterator[tuple[str, str]]:
    found = list(_HEADING.finditer(topic))
    ends = [heading.start() for heading in found[1:]] + [len(topic)]
    for heading, end in zip(found, ends, strict=True):
        pages = _paged(topic[heading.end() : end].strip())
        for number, body in enumerate(pages, start=1):
            part = f", part {number}" if len(pages) > 1 else ""
            yield heading["title"].replace('"', "") + part, body


def _paged(text: str) -> list[str]:
    pages: list[str] = []
    page = ""
    for paragraph in text.split("\n\n"):
        page = f"{page}\n\n{paragraph}" if page else paragraph
        if len(page) > _PART:
            pages.append(page)
            page = ""
    if len(page) >= _SHORTEST or (page and not pages):
        pages.append(page)
    return pages


@dataclass(frozen=True, slots=True)
class Dirty:
    """Hold objects as old accounts have them, by id; no current client could post them."""

    notes: dict[str, dict[str, Any]]
    tags: dict[str, dict[str, Any]]


def dirty(seed: int = 0) -> Dirty:
    """Return one note for each kind of dirt known from real accounts, and a tag bucket with duplicates.

    Content is a text in every one of them; any other field may be missing or odd.
    """
    dice = random.Random(seed)  # noqa: S311 - repeatable, guards nothing
    notes = [(f"{dice.getrandbits(128):032x}", note) for note in _dirty_notes()]
    notes += [(key, whole_note({"content": f"odd id\n{key}"}, now=_LAST_DAY)) for key in _ODD_IDS]
    dice.shuffle(notes)
    return Dirty(notes=dict(notes), tags=_dirty_tags(dice))


_ODD_IDS = (
    "agtzaW1wbGUtbm90ZXINCxIETm90ZRiu6fYKDA",
    "legacy.note.with.dots",
    "a%20b",
    "someone@example.com",
    "ab",
    "0c3e9c0e-2b1f-4a52-9d2c-6e0f9f7a6c11",
    "x" * 256,
)


def _dirty_notes() -> list[dict[str, Any]]:
    now = float(_LAST_DAY)
    milliseconds = {"creationDate": 1_431_000_000_000, "modificationDate": 1_431_000_123_456}
    odd: list[dict[str, Any]] = [
        {"content": "dates in milliseconds", **milliseconds},
        {"content": "whole seconds", "creationDate": 1_300_000_000, "modificationDate": 1_300_000_009},
        {"content": "dates before anything", "creationDate": 0, "modificationDate": 0},
        {"content": "modified before it was made", "creationDate": now, "modificationDate": now - 9},
        {"content": "from the far future", "modificationDate": 4_102_444_800.0},
        {"content": "trashed by a number", "deleted": 1},
        {"content": "kept by a number", "deleted": 0},
        {"content": "junk\n", "key": "abc", "version": 7, "savedate": 1.5, "syncdate": 0},
        {"content": "nested junk", "owner": {"name": "x", "list": [1, None, {"y": True}]}},
        {"content": "unknown system tags", "systemTags": ["shared", "unread", "preview", "later"]},
        {"content": "address as tag", "tags": ["friend@example.com", "plans"]},
        {"content": "tags differing in case", "tags": ["Work", "work", "WORK"]},
        {"content": "odd tags", "tags": ["a b", "", "comma,inside", "a%20b", "ß", "İ"]},
        {"content": "windows\r\nline ends\r\n"},
        {"content": "mixed\r\nline\nends\rhere"},
        {"content": "separators\u2028that are\u2029no line ends\x0b\x0c\x85 to us"},
        {"content": "half a pair \ud83d and the other half \ude00 apart"},
        {"content": "half a pair in a tag", "tags": ["\udc00"]},
        {"content": "emoji family 👨‍👩‍👧‍👦 flag 🇵🇱 skin 👍🏽"},
        {"content": "zero \x00 byte, bell \x07, bidi \u202egnitirw"},
        {"content": ""},
        {"content": " \n\t\n "},
        {"content": "\n\n\ntitle after empty lines"},
        {"content": "e\u0301 decomposed, \u00e9 composed"},
        {"content": "published", "systemTags": ["published"], "publishURL": "pBc3Ft"},
        {"content": "x" * 200_000},
        {"content": "line\n" * 20_000},
    ]  # fmt: skip
    bare: list[dict[str, Any]] = [
        {"content": "nothing but text"},
        {"content": "no dates", "tags": ["bare"], "deleted": False},
        {"content": "no tags", "creationDate": now, "modificationDate": now},
    ]
    return [whole_note(fields, now=now) for fields in odd] + bare


def _dirty_tags(dice: random.Random) -> dict[str, dict[str, Any]]:
    return {
        "work": {"name": "Work", "index": 0},
        "a-b": {"name": "a-b", "index": 1},
        "a%2Db": {"name": "a-b"},
        f"{dice.getrandbits(128):032x}": {"name": "work", "index": 7},
        "friend%40example.com": {"name": "friend@example.com"},
        "a%20b": {"name": "a b", "index": 1},
        "nameless": {"index": 3},
    }


_OWN_NOTES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Lista zakupów",
        (
            "chleb żytni\nmasło\ntwaróg\nśledzie w oleju\nkasza gryczana\njabłka — te kwaśne\n\n"
            "Łódź: oddać książkę Żeromskiego do biblioteki przed środą."
        ),
        ("dom", "zakupy"),
    ),
    (
        "Notatki ze spotkania 12 marca",
        (
            "Obecni: Zofia, Michał, Bożena.\n\n1. Przenosimy wdrożenie na przyszły tydzień.\n"
            "2. Michał sprawdzi, dlaczego źle się liczą święta w kalendarzu.\n"
            "3. Następne spotkanie: czwartek, godzina dziewiąta, mała sala."
        ),
        ("praca", "spotkania"),
    ),
    (
        "Zwetschgenkuchen von Großmutter",
        (
            "500 g Mehl, ein Würfel Hefe, 80 g Zucker, ¼ l lauwarme Milch, 100 g Butter, 1 Ei.\n\n"
            "Den Teig gehen lassen, bis er sich verdoppelt hat. Dicht an dicht mit entsteinten "
            "Zwetschgen belegen, Streusel darüber, 35 Minuten bei 190 Grad.\n"
            "Schmeckt am zweiten Tag besser."
        ),
        ("Rezepte",),
    ),
    (
        "Steuererklärung: was noch fehlt",
        (
            "- Bescheinigung der Krankenversicherung\n- Quittungen für das Arbeitszimmer\n"
            "- Donaudampfschifffahrtsgesellschaft: Fahrkarte für die Dienstreise suchen\n"
            "- Frist ist der 31. Juli, Verlängerung ist möglich"
        ),
        ("Büro", "wichtig"),
    ),
    (
        "京都旅行の計画",
        (
            "四月の第一週に京都へ行く。桜が咲いているはず。\n\n一日目：清水寺と祇園を歩く。\n"
            "二日目：嵐山の竹林、午後は渡月橋のあたりで休む。\n三日目：図書館で古い地図を調べる。\n"
            "宿は二条駅の近くに予約した。"
        ),
        ("旅行", "日本"),
    ),
    (
        "读书笔记：红楼梦第一回",
        (
            "作者自云曾历过一番梦幻之后，故将真事隐去，而借通灵说此《石头记》一书也。\n\n"
            "想法：开头的神话和后面的日常生活形成对照。下次读第二回，注意冷子兴的叙述。"
        ),
        ("读书", "資料"),
    ),
    (
        "회의 메모",
        (
            "다음 주 화요일까지 번역을 마친다.\n민수는 그림을 고치고, 지영은 색인을 확인한다.\n"
            "인쇄소에 전화해서 종이 값을 물어볼 것."
        ),
        ("회의", "번역"),
    ),
    (
        "Garden diary 🌱",
        (
            "Sowed the first tomatoes 🍅 on the windowsill. The jar of seeds says “sow until April”, "
            "my neighbour says March is already too late.\n\nWater only from below. Café grounds "
            "against the slugs, naïve as that may be."
        ),
        ("garden",),
    ),
    (
        "# Reading list",
        (
            "* [ ] The Periodic Table, Primo Levi\n* [x] Invisible Cities, Italo Calvino\n"
            "* [ ] Solaris, Stanisław Lem (**Polish** first, then the translation)\n\n"
            "> Ask Ana which of these the library has."
        ),
        ("reading", "books"),
    ),
    (
        "สมุดบันทึก",
        "พรุ่งนี้ไปตลาดเช้า ซื้อมะม่วงและข้าวเหนียว\nโทรหาแม่ตอนเย็น",
        ("บ้าน",),
    ),
)
