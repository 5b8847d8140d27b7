"""One deadline for the end: what is left of it for whom, and that it holds."""

import subprocess
import sys
import time

import pytest

from mcp_notarium.protocol.event_loop import SECONDS, ShutdownDeadline

PROGRAM = """
import time
from mcp_notarium.protocol.event_loop import ShutdownDeadline
deadline = ShutdownDeadline(0.2)
deadline.enforce(lambda: 3)
{begin}
time.sleep({work})
"""


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_calls_in_hand_closing_and_the_exit_share_one_deadline():
    clock = Clock()
    deadline = ShutdownDeadline(clock=clock)
    clock.now += 50  # nothing counts yet
    assert 0 < deadline.for_answers() < deadline.for_closing() < SECONDS
    deadline.begin()
    clock.now += 1
    left = deadline.for_closing()
    assert left == pytest.approx(deadline.for_answers() + 0.1 * SECONDS)
    deadline.begin()  # a signal after the end of input changes nothing
    assert deadline.for_closing() == left
    clock.now += 1
    assert deadline.for_answers() == deadline.for_closing() == 0


@pytest.mark.parametrize(
    ("begin", "work", "code"),
    [("deadline.begin()", 30, 3), ("", 0.5, 0), ("deadline.begin()", 0, 0)],
    ids=["hangs", "goes on", "ends by itself"],
)
def test_the_process_ends_at_the_deadline_whatever_it_does(begin, work, code):
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(begin=begin, work=work)], timeout=20, check=False
    )
    assert done.returncode == code
    assert time.monotonic() - began < 10
