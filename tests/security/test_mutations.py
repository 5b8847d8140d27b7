"""Test the mechanical changes that remove a defence."""

import ast
from itertools import islice
from random import Random

import pytest

from undefended.defence import PACKAGE, TOP
from undefended.mutants import GROUPS, draw
from undefended.mutations import Unfit, change, words

CODE = """\
def f(a, b):
    if a and not b:
        raise ValueError(a)
    with lock(a):
        use(a, key=b)
    try:
        x = g(a) | h(b)
    except (OSError, ValueError):
        x = [one for one in a if one]
    for one in a:
        pass
    while a:
        a = b.strip()
    open(
        a,
        0o600,
    )
    raise KeyError("not there") from None
"""


@pytest.mark.parametrize(
    ("line", "word", "old", "new"),
    [
        (2, "", "a and not b", "False"),
        (2, "=True", "a and not b", "True"),
        (2, "-b", "a and not b", "a"),
        (2, "-a", "a and not b", "not b"),
        (3, "", "raise ValueError(a)", "pass"),
        (4, "", "with lock(a)", "if True"),
        (5, "", "use(a, key=b)", "pass"),
        (5, "-key", "use(a, key=b)", "use(a)"),
        (5, "use()", "use(a, key=b)", "a"),
        (7, "-h", "g(a) | h(b)", "g(a)"),
        (7, "g()", "g(a)", "a"),
        (7, "g=h", "g(a)", "h(a)"),
        (8, "", "[one for one in a if one]", None),
        (8, "-OSError", "(OSError, ValueError)", "(ValueError,)"),
        (9, "=None", "if one]", "if None]"),
        (9, "-one", "if one]", "]"),
        (10, "", "for one in a:", "for one in ():"),
        (12, "", "while a", "while False"),
        (13, "strip()", "b.strip()", "b"),
        (13, "=None", "b.strip()", "None"),
        (16, "", "        0o600,\n", ""),
        (14, "0o600=0o666", "0o600", "0o666"),
        (15, "=b", "        a,\n", "        b,\n"),
        (18, "there=here", "not there", "not here"),
        (18, "=a", 'raise KeyError("not there") from None', "return a"),
    ],
)
def test_each_word_makes_its_change(line, word, old, new):
    wanted = CODE.replace("x = " + old, "raise") if new is None else CODE.replace(old, new, 1)
    if "for one in a:" in old:
        wanted = CODE.replace(old, new)
    assert wanted != CODE
    assert change(CODE, line, word) == ast.unparse(ast.parse(wanted)) + "\n"


@pytest.mark.parametrize(
    ("line", "word"),
    [(99, ""), (6, ""), (2, "-nothing"), (2, "nothing()"), (2, "odd"), (2, "a=a"), (2, "=a b")],
)
def test_what_changes_nothing_or_cannot_be_made_is_refused(line, word):
    with pytest.raises(Unfit):
        change(CODE, line, word)


def test_the_words_of_a_line_make_changes_that_differ():
    found = words(CODE, 2)
    assert found[:2] == ["", "=True"]
    assert "-b" in found
    assert len({change(CODE, 2, word) for word in found}) == len(found)


def test_random_changes_are_the_same_for_a_seed_and_of_each_group():
    drawn = list(draw(Random(1), 20))
    assert drawn == list(draw(Random(1), 20)) != list(draw(Random(2), 20))
    assert {one.tests for one in islice(drawn, len(GROUPS))} == set(GROUPS.values())
    for one in drawn:
        text = (TOP / PACKAGE / one.place.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(one.place.taken_out(text))) != ast.dump(ast.parse(text))
    for files, tests in GROUPS.items():
        assert all(any((TOP / PACKAGE).glob(pattern)) for pattern in files)
        assert all((TOP / "tests" / test).exists() for test in tests)
