"""What counts as dropping most of a note, and what is only an edit."""

import time

import pytest

from mcp_notarium.tools.save_checks import drops_most

PROSE = " ".join(f"word{n} and" for n in range(200))
LIST = "\n".join(f"- item number {n}" for n in range(100))
CHINESE = "\u7684\u4e00\u662f\u4e86\u6211\u4e0d\u4eba\u5728\u4ed6\u6709" * 80


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PROSE, ""),
        (PROSE, "short"),
        (PROSE, PROSE[:60]),
        (PROSE, " ".join(f"other{n} or" for n in range(200))),
        (LIST, "\n".join(f"+ thing {n}" for n in range(100))),
        (CHINESE, "\u4f60\u597d"),
        ("-" * 600, "x"),
    ],
)
def test_losing_nine_tenths_counts(old, new):
    assert drops_most(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x " * 200, ""),  # small
        (" \n" * 600, "x"),  # nothing to lose
        (PROSE, PROSE),
        (PROSE, PROSE + " more"),
        (PROSE, PROSE[: len(PROSE) // 5]),
        (PROSE, PROSE.replace("word7 ", "changed ")),
        (LIST, "\n".join(reversed(LIST.splitlines()))),
        (LIST, LIST.replace("- ", "    * ")),
        (LIST.replace("\n", " "), LIST),
        (CHINESE, CHINESE[:400]),
    ],
)
def test_shortening_sorting_and_rewording_do_not(old, new):
    assert not drops_most(old, new)


def test_one_megabyte_is_checked_quickly():
    old = "\n".join(f"line {n} of a long note" for n in range(45_000))
    began = time.process_time()
    assert not drops_most(old, old.replace("line 7 ", "row 7 "))
    assert time.process_time() - began < 5
