"""Mount a small disk that can be filled."""

import subprocess
from contextlib import suppress
from pathlib import Path


class SmallDisk:
    """A folder on a disk of its own where we may mount one; else ``mounted`` is False."""

    def __init__(self, folder: Path, size: str) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.mounted = self._mount(f"size={size},mode=700")

    def resize(self, size: str) -> None:
        """Give it another size; what lies on it stays."""
        assert self._mount(f"remount,size={size}")

    def fill(self) -> Path:
        """Take all the room that is left; gives the file that has it."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        file.write(b"x" * size)
        return filler

    def unmount(self) -> None:
        """Take it away, with what lies on it."""
        if self.mounted:
            subprocess.run(["umount", self.folder], check=True)

    def _mount(self, options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
