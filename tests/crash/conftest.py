"""Give crash tests a folder for the files they examine."""

import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path):
    """A folder in memory where there is one: nobody has to wait for a disk that is not tested."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)
