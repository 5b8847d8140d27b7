"""One deadline for the end: what is left of it for whom, and that it holds."""

import subprocess
import sys
import time

import pytest

from mcp_notarium.protocol.transport import SECONDS, Ending

PROGRAM = """
import time
from mcp_notarium.protocol.transport import Ending
ending = Ending(0.2)
ending.enforce(lambda: 3)
{begin}
time.sleep({work})
"""


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_calls_in_hand_closing_and_the_exit_share_one_deadline():
    clock = Clock()
    ending = Ending(clock=clock)
    clock.now += 50  # nothing counts yet
    assert 0 < ending.for_answers() < ending.for_closing() < SECONDS
    ending.begin()
    clock.now += 1
    left = ending.for_closing()
    assert left == pytest.approx(ending.for_answers() + 0.1 * SECONDS)
    ending.begin()  # a signal after the end of input changes nothing
    assert ending.for_closing() == left
    clock.now += 1
    assert ending.for_answers() == ending.for_closing() == 0


@pytest.mark.parametrize(
    ("begin", "work", "code"),
    [("ending.begin()", 30, 3), ("", 0.5, 0), ("ending.begin()", 0, 0)],
    ids=["hangs", "goes on", "ends by itself"],
)
def test_the_process_ends_at_the_deadline_whatever_it_does(begin, work, code):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(begin=begin, work=work)], timeout=20, check=False
    )
    assert done.returncode == code
    assert time.monotonic() - began < 10
