"""Test what is imported with the SDK, in processes of their own."""

import subprocess
import sys

IMPORT = """
import sys
from mcp_notarium.protocol.server import import_sdk
import_sdk()
import httpx
"""
SHOW = """
parts = ["mcp.server.lowlevel", "mcp.client", "mcp.server.mcpserver", "uvicorn.config", "click", "rich"]
print(*(part for part in parts if part in sys.modules))
"""
REFUSE_ONCE = """
import sys
class RefuseOnce:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp.server.lowlevel":
            sys.meta_path.remove(self)
            raise ImportError(name)
sys.meta_path.insert(0, RefuseOnce())
"""


def output_of(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_client_no_web_server_and_no_command_line_is_imported_with_the_sdk():
    assert output_of(IMPORT + SHOW) == "mcp.server.lowlevel"


def test_sdk_that_cannot_be_imported_in_parts_is_imported_as_a_whole():
    shown = output_of(REFUSE_ONCE + IMPORT + SHOW + "import mcp; print(mcp.ClientSession.__name__)")
    assert shown == "mcp.server.lowlevel mcp.client mcp.server.mcpserver\nClientSession"


def test_sdk_that_is_there_already_is_left_as_it_is():
    assert (
        output_of("import mcp\nwhole = mcp" + IMPORT + "print(sys.modules['mcp'] is whole)")
        == "True"
    )
