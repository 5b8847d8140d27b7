"""Test the end of logging in a process of its own."""

import subprocess
import sys

HALF_IMPORTED = """
import sys, types
from mcp_notarium.logs.setup import close
sys.modules["mcp_notarium.logs.pipeline"] = types.ModuleType("pipeline")
close()
"""


def test_logging_ends_while_another_thread_imports_the_pipeline() -> None:
    done = subprocess.run([sys.executable, "-c", HALF_IMPORTED], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
