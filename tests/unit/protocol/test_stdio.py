"""Standard input and output belong to the protocol alone, also where the parent closed them."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from mcp_notarium.protocol import stdio as fds
i, o = fds.take_descriptors()
print("after")
os.write(1, b"raw\\n")
os.system("echo child; cat")
fds.write_all(o, b"protocol:" + (os.read(i, 100) or b"<end>"))
sys.stdout and sys.stdout.flush()
assert not os.get_inheritable(i) and not os.get_inheritable(o)
assert i > 2 and o > 2
"""


BLOCKING = """
import os
from mcp_notarium.protocol import stdio as fds
print(*map(os.get_blocking, fds.take_descriptors()), flush=True)
"""


def run(program=PROGRAM, redirections=""):
    command = ["/bin/sh", "-c", f'exec "$0" -c "$1" {redirections}', sys.executable, program]
    return subprocess.run(command, input=b"line\n", capture_output=True, timeout=20, check=False)


def test_only_the_protocol_reaches_standard_output():
    done = run()
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"protocol:line\n"
    assert sorted(done.stderr.split()) == sorted([b"raw", b"child", b"after"])


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- 2>&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_no_accident(closed):
    done = run(redirections=closed)
    assert done.returncode == 0, done.stderr
    assert b"descriptor" not in done.stderr
    expected = b"protocol:<end>" if "<&-" in closed else b"protocol:line\n"
    assert done.stdout == (b"" if ">&-" in closed.split() else expected)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
def test_non_blocking_pipes_of_the_parent_are_waited_for():
    reading, writing = os.pipe()
    try:
        for end in (reading, writing):
            os.set_blocking(end, False)
        done = subprocess.run(
            [sys.executable, "-c", BLOCKING],
            stdin=reading, stdout=writing, stderr=subprocess.PIPE, timeout=20, check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    assert done.stderr.split() == [b"True", b"True"]
