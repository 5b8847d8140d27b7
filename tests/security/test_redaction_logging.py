import ast
import asyncio
import io
import json
import logging
import os
import stat
import subprocess
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from mcp_notarium import logs
from mcp_notarium.config import Config
from mcp_notarium.errors import ConfigError
from mcp_notarium.logs import logger
from mcp_notarium.logs.logger import DROPPED
from mcp_notarium.logs.redaction import Redactor
from mcp_notarium.logs.setup import RedactingStream
from mcp_notarium.secret import Secret
from support.simplenote_settings import simplenote

SOURCE = Path(__file__).parents[2] / "src" / "mcp_notarium"
SECRET = "Zq7 unicorn-battery staple 9"
NOTE = "Dear diary, today I robbed a bank"
OWN = logs.get("tests")
ASYNCIO = ("asyncio", "debug")
LEVELS = {"trace", "debug", "info", "warning", "error", "critical"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def logging_to(monkeypatch):
    """Configures logging to a string and gives everything back afterwards."""

    def configure(level="info", file=None, stream=None, **options):
        stream = io.StringIO() if stream is None else stream
        logs.configure(level, file, stream=stream, **options)
        return stream

    monkeypatch.setattr(logger.STATE, "redactor", None)
    yield configure
    logs.close()


def events(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def note_in_everything():
    OWN.warning("tests.note", title=NOTE, text=NOTE, tags=[NOTE], query=NOTE, length=len(NOTE))
    OWN.error("tests.failed", exc=ValueError(NOTE))
    logging.getLogger("mcp.server").warning(f"rejected {NOTE}")  # noqa: G004 - as libraries do
    logging.getLogger("mcp.server").debug("received %s", {"text": NOTE})
    logging.getLogger("asyncio").error("Task exception: %r", KeyError(NOTE))
    logging.getLogger("anything").error(NOTE)
    warnings.warn(NOTE, stacklevel=1)
    thread = threading.Thread(target=lambda: {}[NOTE])
    thread.start()
    thread.join()
    asyncio.run(lose(NOTE))
    Finaliser()
    sys.excepthook(ValueError, ValueError(NOTE), None)


class Finaliser:
    def __del__(self):
        raise ValueError(NOTE)


async def lose(text):
    loop = asyncio.get_running_loop()
    logs.watch_loop(loop)
    loop.call_exception_handler({"message": "lost", "exception": KeyError(text), "task": text})


def test_note_text_reaches_no_line_even_at_trace(logging_to):
    stream = logging_to("trace")
    logs.listen_to_libraries()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        note_in_everything()
    shown = stream.getvalue()
    # asyncio itself says which selector it uses, in words of its own
    ours = [event for event in events(stream) if (event["logger"], event["level"]) != ASYNCIO]
    assert len(ours) == 11
    assert "diary" not in shown
    assert events(stream)[0]["length"] == len(NOTE)


@pytest.mark.attack(34)
def test_an_event_is_one_line_with_any_content(logging_to, tmp_path):
    forged = 'x\n{"event":"forged"}\r\x1b[2J\u2028\u202e\x85'
    stream = logging_to("info", tmp_path / "log", stream=Terminal())
    OWN.info("tests.event", message=forged, where=forged, note_id="a\nb")
    OWN.info(forged)
    in_file = (tmp_path / "log").read_text("utf-8")
    for shown in (stream.getvalue(), in_file):
        assert len(shown.splitlines()) == 2
        assert not set(shown) & set("\x1b\r\u2028\u202e\x85")
    assert json.loads(in_file.splitlines()[0])["message"] == forged


def test_an_event_says_when_how_bad_who_and_what_in_this_order(logging_to):
    stream = logging_to()
    OWN.warning("tests.event", notes=3, message="disk full")
    shown = events(stream)[0]
    assert list(shown) == ["timestamp", "level", "logger", "event", "notes", "message"]
    assert (shown["level"], shown["logger"], shown["event"]) == ("warning", "tests", "tests.event")


def test_a_terminal_gets_lines_for_people(logging_to):
    stream = logging_to(stream=Terminal())
    OWN.warning("tests.event", notes=3, message="disk full")
    assert stream.getvalue()[8:] == ' WARNING  tests: tests.event notes=3 message="disk full"\n'


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("trace", ["debug", "info", "warning", "error", "critical"]),
        ("debug", ["debug", "info", "warning", "error", "critical"]),
        ("INFO", ["info", "warning", "error", "critical"]),
        ("warn", ["warning", "error", "critical"]),
        ("error", ["error", "critical"]),
        ("critical", ["critical"]),
    ],
)
def test_events_below_the_level_are_not_written(logging_to, level, heard):
    stream = logging_to(level)
    for method in ("debug", "info", "warning", "error", "critical"):
        getattr(OWN, method)("tests.event")
    assert [event["level"] for event in events(stream)] == heard


@pytest.mark.parametrize(
    ("level", "heard"), [("info", 1), ("error", 0), ("debug", 2), ("trace", 2)]
)
def test_libraries_are_heard_from_warning_on_unless_debugging(logging_to, level, heard):
    stream = logging_to(level)
    logs.listen_to_libraries()
    logging.getLogger("httpx").info("GET %s", "https://h.example")
    logging.getLogger("httpx").warning("retrying %s", SECRET)
    assert len(events(stream)) == heard


def test_a_librarys_talk_of_files_is_kept_and_redacted(logging_to):
    stream = logging_to()
    logs.protect(Secret(SECRET))
    logs.listen_to_libraries()
    logging.getLogger("keyring").warning("waiting for %s with %s", "/tmp/lock", SECRET)
    assert events(stream)[0]["message"] == "waiting for /tmp/lock with [redacted]"


@pytest.mark.attack(33)
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("receive_response_headers.complete return_value=(b'HTTP/1.1', 200, b'divorce')",
         "receive_response_headers.complete"),
        ("divorce.started", "divorce.started"),
        ("divorce-lawyer", "[hidden: 14 characters]"),
        ("b'/ divorce.started'", "[hidden: 20 characters]"),
    ],
)  # fmt: skip
def test_of_a_connection_only_the_step_is_shown(logging_to, said, shown):
    stream = logging_to()
    logs.listen_to_libraries()
    logging.getLogger("httpcore.http11").warning(said)
    assert events(stream)[0]["message"] == shown


class Refusing(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503, "divorce")
        self.send_header("X-Reason", "divorce")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.attack(33)
def test_what_a_real_request_logs_names_neither_note_nor_header(logging_to):
    """The control of the one above: the libraries still log in the forms that are known."""
    stream = logging_to("trace")
    logs.listen_to_libraries()
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        target = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        httpx.get(f"{target}/tag/i/divorce", trust_env=False)
        thread.join()
    said = {event["logger"]: event["message"] for event in reversed(events(stream))}
    assert said["httpx"] == 'HTTP Request: %s %s "%s %d %s"'
    assert said["httpcore.connection"] == "connect_tcp.started"
    assert "divorce" not in stream.getvalue()


def test_a_server_hears_libraries_from_the_start_of_its_loop(logging_to):
    stream = logging_to("error")

    async def watch():
        logs.watch_loop(asyncio.get_running_loop())

    asyncio.run(watch())
    logging.getLogger("anything").error(NOTE)
    assert [event["event"] for event in events(stream)] == ["library.message"]
    assert "diary" not in stream.getvalue()


def test_of_another_library_only_the_constant_template_is_shown(logging_to):
    stream = logging_to()
    logs.listen_to_libraries()
    logging.getLogger("mcp.server").warning("refused %s", NOTE)
    shown = events(stream)[0]
    assert shown["message"] == "refused %s"
    assert shown["where"].startswith("test_redaction_logging:")


def test_unconfigured_logging_is_silent_below_warning_and_redacted_above(capsys):
    logs.close()
    OWN.info("tests.event")
    OWN.error("tests.failed", message="mail ada@example.org")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["message"].startswith("mail [email:")


class Hostile(str):
    __slots__ = ()

    def __len__(self):
        raise ZeroDivisionError


def test_what_the_redaction_cannot_handle_is_dropped_and_nothing_else_lost(logging_to, monkeypatch):
    stream = logging_to()
    logs.protect(Secret(SECRET))
    OWN.info("tests.before")
    OWN.info("tests.odd", anything=Hostile(SECRET))
    with monkeypatch.context() as patch:
        patch.setattr(Redactor, "redact_line", lambda self, text: 1 / 0)
        OWN.info("tests.unredactable", message=SECRET)
        logging.getLogger("httpx").warning(SECRET)
        sys.stderr.write(SECRET + "\n")
        assert logs.scrub(SECRET) == DROPPED
    OWN.info("tests.after")
    assert "unicorn" not in stream.getvalue()
    lines = [line for line in stream.getvalue().splitlines() if line != DROPPED]
    shown = [json.loads(line)["event"] for line in lines]
    assert shown == ["tests.before", DROPPED, DROPPED, DROPPED, "tests.after"]
    assert stream.getvalue().count(DROPPED) == 4


def test_text_that_cannot_be_scrubbed_is_not_shown(monkeypatch):
    class Broken:
        def text(self, _text):
            raise RuntimeError

        without_known = text

    monkeypatch.setattr(logger.STATE, "redactor", Broken())
    assert logs.scrub("words") == logger.DROPPED
    assert logs.scrub_for_client({"said": ["words"]}) == {logger.DROPPED: [logger.DROPPED]}


def test_logging_to_a_closed_stream_does_not_break_the_caller(logging_to):
    stream = logging_to()
    stream.close()
    OWN.error("tests.failed", message="nobody hears")


def test_a_secret_learnt_later_is_redacted_from_then_on(logging_to):
    stream = logging_to()
    OWN.info("tests.event", message="token-abc-123")
    logs.protect(Secret("token-abc-123"))
    OWN.info("tests.event", message="token-abc-123")
    assert [event["message"] for event in events(stream)] == ["token-abc-123", "[redacted]"]


def test_a_secret_that_only_the_finished_line_spells_is_redacted(logging_to):
    stream = logging_to(stream=Terminal())
    logs.protect(Secret("tests.event notes=314"))
    OWN.info("tests.event", notes=314, message="disk full")
    assert stream.getvalue()[8:] == ' INFO     tests: [redacted] message="disk full"\n'


def test_every_secret_of_a_configuration_is_protected(logging_to):
    digits = "0f1e2d3c" * 8
    logging_to()
    logs.protect_config(
        Config(
            **simplenote(
                "ada@example.org",
                SIMPLENOTE_PASSWORD="the password",
                SIMPLENOTE_TOKEN="the token",
                SIMPERIUM_API_KEY="application",
            ),
            data_dir=Path("/x"),
            db_key=Secret(f"raw:{digits}"),
        )
    )
    spelled = ["the password", "the token", "application", digits, bytes.fromhex(digits).hex(":")]
    assert {logs.scrub(f"<{text}>") for text in spelled} == {"<[redacted]>"}


def surroundings():
    return [
        sys.stderr,
        sys.stdout,
        sys.excepthook,
        threading.excepthook,
        sys.unraisablehook,
        warnings.showwarning,
        *logging.getLogger().handlers,
    ]


def test_closing_gives_everything_back_as_it_was(logging_to):
    before = surroundings()
    logging_to(stream=sys.stderr, divert_stdout=True)
    logs.listen_to_libraries()
    during = surroundings()
    assert sys.stdout is sys.stderr
    logs.close()
    assert surroundings() == before
    assert all(one not in before for one in during[:6])


def test_the_log_file_is_private_and_appended_to(logging_to, tmp_path):
    file = tmp_path / "log"
    file.write_text("before\n")
    file.chmod(0o644)
    previous = os.umask(0)
    try:
        logging_to(file=file)
        logging_to(file=tmp_path / "new")
        logging_to(file=file)
    finally:
        os.umask(previous)
    OWN.info("tests.event")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    first, second = file.read_text().splitlines()
    assert first == "before"
    assert json.loads(second)["event"] == "tests.event"


def a_link(path):
    path.with_name("target").write_text("")
    path.symlink_to(path.with_name("target"))


def a_link_to_nothing(path):
    path.symlink_to(path.with_name("created"))


def a_hard_link(path):
    path.with_name("target").write_text("")
    path.hardlink_to(path.with_name("target"))


def a_folder(path):
    path.mkdir()


def a_pipe(path):
    os.mkfifo(path)


def a_folder_of_everybody(path):
    path.parent.chmod(0o777)


def somebody_elses(path):
    path.write_text("")
    os.chown(path, 12345, -1)


AS_ROOT = [somebody_elses] if os.geteuid() == 0 else []


@pytest.mark.parametrize(
    "prepare",
    [a_link, a_link_to_nothing, a_hard_link, a_folder, a_pipe, a_folder_of_everybody, *AS_ROOT],
)
def test_a_log_file_that_is_not_simply_ours_is_refused(tmp_path, prepare):
    before = sys.stderr
    prepare(tmp_path / "log")
    with pytest.raises(ConfigError) as caught:
        logs.configure("info", tmp_path / "log")
    assert f"LOG_FILE_PATH names {str(tmp_path / 'log')!r}, " in caught.value.message
    assert sys.stderr is before
    assert not (tmp_path / "created").exists()


def test_the_folder_of_the_log_file_must_exist(tmp_path):
    with pytest.raises(ConfigError):
        logs.configure("info", tmp_path / "missing" / "log")
    assert not (tmp_path / "missing").exists()


def test_configuring_imports_neither_json_nor_the_stdlibs_logging():
    program = (
        "import sys; from mcp_notarium import logs; logs.get('x').debug('x.y'); logs.configure();"
        "print(sorted({'logging', 'json', 'asyncio', 'mcp'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_a_secret_of_several_lines_is_redacted_though_standard_error_is_read_by_lines():
    inner = io.StringIO()
    secret = "correct horse\nbattery staple\r\nand a third line"
    stream = RedactingStream(inner, Redactor(b"k").with_secret(Secret(secret)).redact_text)
    print(f"refused: {secret}", file=stream)
    stream.finish()
    shown = inner.getvalue()
    assert shown.startswith("refused: ")
    for word in ("correct", "battery", "staple", "third"):
        assert word not in shown


def test_text_written_in_pieces_is_joined_before_it_is_searched():
    inner = io.StringIO()
    stream = RedactingStream(inner, Redactor(b"k").with_secret(Secret(SECRET)).redact_text)
    for piece in ("say ", SECRET[:9], SECRET[9:], " twice\nand ", "so on"):
        stream.write(piece)
        stream.flush()
    assert inner.getvalue() == "say [redacted] twice\n"
    stream.finish()
    assert inner.getvalue() == "say [redacted] twice\nand so on"


def test_a_prompt_on_a_terminal_is_shown_without_waiting_for_its_line_to_end():
    inner = Terminal()
    stream = RedactingStream(inner, str)
    stream.write("Code: ")
    stream.flush()
    assert inner.getvalue() == "Code: "


def test_a_terminal_shows_its_reader_addresses_but_no_secret(logging_to):
    stream = logging_to(stream=Terminal())
    logs.protect(Secret(SECRET))
    sys.stderr.write(f"a code was sent to ada@example.org, not {SECRET}\n")
    assert stream.getvalue() == "a code was sent to ada@example.org, not [redacted]\n"


def test_a_line_without_an_end_is_not_held_for_ever():
    inner = io.StringIO()
    RedactingStream(inner, str).write("x" * 70_000)
    assert len(inner.getvalue()) == 70_000


def log_calls():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                holder = node.func.value
                name = getattr(holder, "id", getattr(holder, "attr", ""))
                if name == "_log" and node.func.attr in LEVELS:
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node


def test_every_event_in_the_source_has_a_constant_dotted_name_and_no_note_under_its_facts():
    calls = dict(log_calls())
    assert calls
    for place, call in calls.items():
        event = call.args[0]
        assert len(call.args) == 1, place
        assert isinstance(event, ast.Constant), place
        assert "." in event.value, place
        assert " " not in event.value, place
        named = {keyword.arg for keyword in call.keywords}
        forbidden = {
            None,
            "text",
            "title",
            "tag",
            "tags",
            "content",
            "preview",
            "query",
            "username",
        }
        assert not named & forbidden, place


def test_the_name_of_an_address_in_the_log_is_another_one_in_each_process():
    code = "from mcp_notarium import logs; print(*[logs.scrub('ada@example.org') for _ in 'ab'])"
    names = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert all(one == again and one.startswith("[email:") for one, again in names)
    assert names[0] != names[1]


def test_no_message_of_ours_is_taken_for_a_secret():
    """Every fixed text of several words; "one" stands for what a message fills in."""
    texts = set()
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts |= {fixed_text(node) for node in nodes if id(node) not in docstrings}
    assert [text for text in texts if " " in text and logs.scrub(text) != text] == []


def fixed_text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(fixed_text(part) or "one" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
