"""Test that only the package ``system`` asks which system it runs on, and test the rule itself."""

import pytest

from support.scripts import SCRIPTS, script


@pytest.fixture(scope="module")
def rule():
    with script("platforms") as module:
        yield module


def found(rule, *modules):
    listed = [(name, "sys.platform") for name in rule.PERMITTED]
    listed += [(name, "os.open(path)") for name in rule.PAST_THE_PORT]
    return [str(fault) for fault in rule.find(iter([*listed, *modules]))]


def test_no_other_module_asks_for_the_system(rule, capsys):
    assert rule.main() == 0, capsys.readouterr().err
    assert "scripts/platforms.py\n" in (SCRIPTS / "check").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        'if sys.platform == "win32":',
        'x = 1 if os.name == "nt" else 2',
        "from sys import argv, platform",
        "    import fcntl",
        "    from msvcrt import locking",
        'if platform.system() == "Darwin":',
        'if hasattr(os, "getuid"):',
        "system.PLATFORM",
        "if error.errno == errno.EWOULDBLOCK:",
        "said = shlex.quote(path)",
    ],
)
def test_each_way_to_ask_is_found_outside_the_package_alone(rule, line):
    fault = f"mcp_notarium.app, line 2: asks for the system: {line.strip()}"
    assert found(rule, ("mcp_notarium.app", f"\n{line}")) == [fault]
    assert found(rule, ("notarium_devtools.demo", line))
    assert found(rule, ("mcp_notarium.system", line), ("mcp_notarium.system.windows", line)) == []
    assert found(rule, ("mcp_notarium.systems", line))


@pytest.mark.parametrize(
    "line",
    [
        "os.replace(one, other)",
        "    shutil.copyfile(one, other)",
        "shutil.rmtree(place)",
        "path.unlink(missing_ok=True)",
        "self.path.write_bytes(data)",
        'with path.open("rb") as file:',
        "with open(path) as file:",
        "temporary.rename(path)",
        "if os.path.samestat(os.fstat(file), path.stat()):",
        "program = shutil.which(name)",
    ],
)
def test_files_are_changed_through_the_port(rule, line):
    fault = f"mcp_notarium.app, line 1: uses files past the port: {line.strip()}"
    assert found(rule, ("mcp_notarium.app", line)) == [fault]
    assert found(rule, ("mcp_notarium.system.posix", line), ("notarium_devtools.demo", line)) == []


def test_other_words_are_none_of_it_and_an_exception_must_be_needed(rule):
    assert (
        found(
            rule,
            ("mcp_notarium.app", "pos.name, os.names, platformdirs, platform.python_version()"),
            (
                "mcp_notarium.app",
                "SYSTEM.unlink(f), text.replace(a, b), def open(self), os.fdopen(n)",
            ),
        )
        == []
    )
    assert len([*rule.find(iter([]))]) == len(rule.PERMITTED) + len(rule.PAST_THE_PORT)
