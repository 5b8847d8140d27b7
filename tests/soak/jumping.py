"""The program with a wall clock that somebody else sets: ``python jumping.py CLOCK ARGUMENTS...``.

``CLOCK`` is a file of eight bytes, the seconds to add to the time as a double. It is mapped before the
program confines itself, and read at every look at the clock. What the program does not ask Python's
``time`` for (the time of files, of SQLite, of the log's own lines) is the machine's; nothing of what it
decides comes from there. The monotonic clock is left alone, as a clock that is set leaves it alone.
"""

import mmap
import struct
import sys
import time
from pathlib import Path


def jump(path: Path) -> None:
    """From now on the wall clock of this process is off by what the file says."""
    with path.open("rb") as file:
        offset = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + struct.unpack("d", offset)[0]
    time.time_ns = lambda: nanoseconds() + int(struct.unpack("d", offset)[0] * 1e9)


if __name__ == "__main__":
    jump(Path(sys.argv.pop(1)))
    from mcp_notarium.__main__ import main  # after the clock: it is taken over by name

    sys.exit(main())
