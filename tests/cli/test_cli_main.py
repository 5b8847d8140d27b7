import argparse
import importlib
import json
import os
import pty
import signal
import subprocess
import sys
import sysconfig
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import pytest

from mcp_notarium import __version__
from mcp_notarium.cli import main as cli
from mcp_notarium.cli import signals, terminal
from mcp_notarium.cli.terminal import ask_yes
from mcp_notarium.errors import CacheError, LockedError, StoreUnavailable, Verdict
from support import whole

SCRIPT = Path(sysconfig.get_path("scripts")) / "mcp-notarium"
BARE = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
ENTRIES = [[str(SCRIPT)], [sys.executable, "-m", "mcp_notarium"]]


def run(*arguments, entry=None, env=(), cwd="/"):
    """One command to its end; ``entry``: by starting the program so, with all that a start does."""
    if entry is None:
        return whole.run(BARE | dict(env), *arguments, cwd=cwd)
    return subprocess.run(
        [*entry, *arguments],
        env=BARE | dict(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("entry", "option"), [(ENTRIES[0], "--version"), (ENTRIES[1], "-V")], ids=["--version", "-V"]
)
def test_version_is_one_line_on_stdout(entry, option):
    done = run(option, entry=entry)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"mcp-notarium {__version__}\n", "")


def test_help_names_every_command_and_imports_none():
    done = run("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for name, command in cli.COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert command.summary in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    [["frobnicate"], ["--frobnicate"], ["--json"], ["serve", "--frobnicate"], ["--env-file"],
     ["--print-config-var"]],
)  # fmt: skip
def test_a_command_line_that_makes_no_sense_exits_2_and_says_why_on_stderr(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "mcp-notarium" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["{}"], ["--{}"], ["keys", "{}"], ["audit", "tail", "-n", "{}"]]
)
def test_a_command_line_that_makes_no_sense_repeats_no_secret_and_steers_no_terminal(arguments):
    secret = "words that nobody reads"
    typed = [argument.format(f"{secret}\x1b[31m") for argument in arguments]
    done = run(*typed, env={"DB_ENCRYPTION_KEY": secret})
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "nobody" not in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("command", [[], ["status"], ["--print-config-vars"]], ids=str)
def test_a_secret_that_is_no_text_is_a_setting_to_be_mended_and_no_fault(command, tmp_path):
    wrong = {
        b"SIMPLENOTE_PASSWORD": b"\xff\xfe-and-more",
        b"SIMPLENOTE_USERNAME": b"ada@example.org",
    }
    done = subprocess.run(
        [*ENTRIES[1], *command], env={os.fsencode(n): os.fsencode(v) for n, v in BARE.items()} | wrong,
        cwd=tmp_path, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    output = (done.stdout + done.stderr).decode()
    assert "SIMPLENOTE_PASSWORD is not valid UTF-8" in output
    assert "unexpected" not in output
    assert "crashed" not in output
    assert "and-more" not in output


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_of_the_table_exists_and_takes_its_options(name):
    add_arguments, run = importlib.import_module(
        f"mcp_notarium.cli.{cli.COMMANDS[name].module}"
    ).COMMANDS[name]
    add_arguments(argparse.ArgumentParser())
    assert callable(run)


def test_serving_without_a_username_is_one_critical_line_and_exit_1(tmp_path):
    done = run(cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert '"level": "critical"' in done.stderr
    assert "SIMPLENOTE_USERNAME" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["serve"]])
def test_serving_does_not_wait_for_the_parser_of_command_lines(tmp_path, arguments):
    entry = [sys.executable, "-X", "importtime", "-m", "mcp_notarium"]
    imported = run(*arguments, entry=entry, cwd=tmp_path).stderr
    assert "mcp_notarium.protocol.server" in imported
    assert "argparse" not in imported
    assert "mcp_notarium.cli" not in imported


@pytest.mark.parametrize(
    "arguments", [["serve", "--env-file", "{}"], ["--env-file={}"], ["--env-file", "{}", "serve"]]
)
def test_serving_reads_the_file_named_before_or_after_the_command(tmp_path, arguments):
    named = tmp_path / "settings"
    named.write_text("SIMPLENOTE_USERNAME=ada@example.org\nLOG_LEVEL=deafening\n")
    named.chmod(0o600)
    done = run(*(word.format(named) for word in arguments), cwd=tmp_path)
    assert done.returncode == 1
    assert "LOG_LEVEL holds something that is not one of its choices" in done.stderr
    assert "SIMPLENOTE_USERNAME" not in done.stderr


def test_the_help_of_a_command_names_its_arguments_and_breaks_between_words():
    said = run("report", "--help", env={"COLUMNS": "50"}).stdout
    assert said.startswith("usage: mcp-notarium report [OPTIONS] [PATH]\n\n")
    assert "(mcp-notarium-report.html)" in said
    action = run("audit", "verify-export", "--help").stdout
    usage = "usage: mcp-notarium audit verify-export [OPTIONS] FILE\n\n"
    assert action.startswith(f"{usage}Check an exported file.\n\n")
    lines = run("completion", "--help", env={"COLUMNS": "60"}).stdout.splitlines()
    assert "    mcp-notarium completion fish | source" in lines


def test_what_to_do_hangs_behind_its_arrow():
    assert terminal.wrap("→ Try it again in a minute or so.", 20) == [
        "→ Try it again in a", "  minute or so.",
    ]  # fmt: skip


@contextmanager
def at_a_terminal(folder, settings=MappingProxyType({}), command=("serve",)):
    """A server whose standard input is a terminal that stays open meanwhile."""
    ours, theirs = pty.openpty()
    env = BARE | dict(settings) | {"NOTARIUM_DATA_DIR": str(folder)}
    started = subprocess.Popen(
        [*ENTRIES[1], *command], env=env, cwd=folder, stdin=theirs, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(theirs)
    with started:
        try:
            yield started
        finally:
            os.close(ours)


def test_started_at_a_terminal_it_says_what_it_is_and_serves_all_the_same(tmp_path):
    key = "nine green lanterns at dusk"
    settings = {"SIMPLENOTE_USERNAME": "ada@example.org", "DB_ENCRYPTION_KEY": key}
    with at_a_terminal(tmp_path, settings) as started:
        lines = [started.stderr.readline() for _ in range(2)]
        assert started.poll() is None
    assert lines[0].startswith("This is an MCP server")
    assert "Ctrl+C" in lines[1]
    assert started.returncode == 0


def test_without_a_command_at_a_terminal_it_shows_help_and_state_and_ends(tmp_path):
    with at_a_terminal(tmp_path, command=()) as started:
        said, hints = started.communicate(timeout=60)
    assert "  search " in said
    assert "Begin with `mcp-notarium setup`" in hints
    assert started.returncode == 0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["serch"], "search"),
        (["status", "--jsno"], "--json"),
        (["audit", "tial"], "tail"),
        (["setup", "--store", "simplnote"], "simplenote"),
        (["--acount", "one", "status"], "--account"),
    ],
)
def test_what_was_meant_is_named(typed, meant):
    done = run(*typed)
    assert done.returncode == 2
    assert f"did you mean {meant}?" in done.stderr


def test_at_a_terminal_missing_settings_are_named_and_nothing_is_waited_for(tmp_path):
    with at_a_terminal(tmp_path) as started:
        said, hints = started.communicate(timeout=60)
    assert said == ""
    assert "SIMPLENOTE_USERNAME" in hints
    assert "This is an MCP server" not in hints
    assert started.returncode == 1


def test_a_reader_that_goes_away_causes_no_traceback():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*ENTRIES[1], "--print-config-vars"], env=BARE, cwd="/", stdout=writing,
        stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writing)
    assert done.returncode == cli.BROKEN_PIPE_EXIT
    assert done.stderr == ""


def redirected(redirection, *arguments, tmp_path):
    """The command with a standard stream that is closed, or leads to a full disk."""
    entry = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *ENTRIES[1]]
    env = {"SIMPLENOTE_USERNAME": "ada@example.org", "NOTARIUM_DATA_DIR": str(tmp_path)}
    return run(*arguments, entry=entry, env=env, cwd=tmp_path)


@pytest.mark.parametrize(
    ("redirection", "why"), [(">&-", "is closed"), (">/dev/full", "no space left")]
)
@pytest.mark.parametrize("command", [["--print-config-vars"], ["--help"]], ids=str)
def test_what_cannot_be_printed_is_a_message_on_stderr_and_no_fault(
    redirection, why, command, tmp_path
):
    done = redirected(redirection, *command, tmp_path=tmp_path)
    assert done.returncode == 1
    said, hint = done.stderr.splitlines()
    assert why in said
    assert hint.startswith("→ ")
    assert "fault" not in done.stderr


def test_a_command_that_prints_nothing_needs_no_standard_output(tmp_path):
    done = redirected(">&- <&-", "login", "--code-stdin", tmp_path=tmp_path)
    assert "unexpected" not in done.stderr
    assert done.returncode == Verdict.KEY_MISSING, done.stderr


def test_text_for_a_closed_stderr_never_reaches_the_output(tmp_path):
    done = redirected("2>&-", "generate-key", tmp_path=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.startswith("raw:")


def test_a_command_works_without_standard_error(tmp_path):
    done = redirected("2>&-", "status", "--json", tmp_path=tmp_path)
    assert done.returncode == Verdict.KEY_MISSING
    assert json.loads(done.stdout)["verdict"] == "key_missing"


def test_a_question_is_answered_by_no_where_standard_input_is_closed(command, monkeypatch, capfd):
    command(lambda _args: 7 if ask_yes("Go on?") else 5)
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.run(["command"]) == 5
    assert capfd.readouterr().err == "Go on? [y/N] \n"


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Installs a command whose ``run`` does what the test says."""

    def install(act):
        module = type(sys)("command_under_test")
        module.COMMANDS = {
            "command": (lambda parser: parser.add_argument("--loud", action="store_true"), act)
        }
        monkeypatch.setitem(sys.modules, "mcp_notarium.cli.command_under_test", module)
        monkeypatch.setitem(cli.COMMANDS, "command", cli.Command("command_under_test", "do it"))

    return install


def raising(error):
    def act(_args):
        raise error

    return act


def test_a_command_gets_its_options_and_gives_the_exit_code(command):
    seen = []
    command(lambda args: seen.append(args) or 7)
    assert cli.run(["--env-file", "one", "command", "--loud"]) == 7
    assert cli.run(["command", "--env-file", "two"]) == 7
    assert [(args.loud, args.env_file) for args in seen] == [
        (True, Path("one")),
        (False, Path("two")),
    ]


def test_an_error_of_ours_is_its_message_and_what_to_do(command, capsys):
    command(raising(StoreUnavailable("no route", resolution_hint="Try later.")))
    assert cli.run(["command"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "mcp-notarium: no route\n→ Try later.\n"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_locked_cache_gives_the_exit_code_of_its_verdict(command, verdict, capsys):
    command(raising(LockedError(verdict, "locked", resolution_hint="Unlock it.")))
    assert cli.run(["command"]) == int(verdict)
    assert "→ Unlock it." in capsys.readouterr().err


def test_a_stop_that_came_inside_of_the_database_is_no_error_of_it(command, capsys):
    def act(_args):
        with suppress(KeyboardInterrupt):  # as SQLite does, whose callbacks are functions of ours
            signal.raise_signal(signal.SIGTERM)
        raise CacheError("the database refused a statement")

    command(act)
    assert cli.run(["command"]) == 128 + signal.SIGTERM
    assert capsys.readouterr().err.startswith("\nInterrupted.")
    command(raising(CacheError("the database refused a statement")))
    assert cli.run(["command"]) == 1


def test_an_unexpected_error_shows_its_place_and_not_its_text(command, capsys):
    command(raising(ValueError("a note's text")))
    assert cli.run(["command"]) == 1
    shown = capsys.readouterr().err
    assert "unexpected ValueError" in shown
    assert "test_cli_main.py" in shown
    assert "note's text" not in shown


def test_an_error_cannot_steer_the_terminal(command, capsys):
    command(raising(StoreUnavailable("bad\x1b[2J\u202e answer", resolution_hint="x\ry")))
    cli.run(["command"])
    assert not set(capsys.readouterr().err) & set("\x1b\u202e\r")


def test_an_interrupt_exits_130_without_a_traceback(command, capsys):
    command(raising(KeyboardInterrupt()))
    assert cli.run(["command"]) == 130
    assert capsys.readouterr().err == f"\n{signals.describe_interruption()}\n"


def test_an_error_is_shown_on_a_stream_that_cannot_encode_it(command, monkeypatch, tmp_path):
    command(raising(StoreUnavailable("żółw", resolution_hint="Wait.")))
    with (tmp_path / "err").open("w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        assert cli.run(["command"]) == 1
    assert (tmp_path / "err").read_text("ascii").endswith("\\u2192 Wait.\n")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_arrives_inside_a_finaliser_still_ends_a_command():
    class Finalised:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)

    with signals.stop_on_signals():
        signals.raise_if_stopped()
        Finalised()
        with pytest.raises(signals.CommandStopped):
            signals.raise_if_stopped()
