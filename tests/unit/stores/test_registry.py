"""Test the list of stores."""

import subprocess
import sys

from mcp_notarium.config.common_variables import COMMON
from mcp_notarium.stores import registry


def test_every_kind_has_the_name_it_is_listed_under():
    assert [kind.name for kind in registry.kinds()] == [*registry.names()]
    assert registry.DEFAULT in registry.names()


def test_no_variable_is_declared_twice():
    names = [one.name for kind in registry.kinds() for one in kind.variables]
    names += [one.name for one in COMMON]
    assert len(names) == len({*names})


def test_declaring_every_kind_imports_nothing_that_only_an_open_store_needs():
    program = (
        "import sys; from mcp_notarium.stores import registry; registry.kinds(); "
        "print(sorted({'httpx', 'asyncio', 'ssl', 'socket', 'mcp_notarium.stores.http', "
        "'mcp_notarium.stores.contract'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=30, check=True
    )
    assert done.stdout == b"[]\n"
