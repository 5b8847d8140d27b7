"""Send secrets, in every spelling, through every output of the process.

Run by ``test_redaction_matrix.py``: ``python redaction_child.py LOG_FILE MODE`` with the spellings
as JSON on stdin. MODE ``off`` switches the redaction off, to show that the search finds leaks.
Standard output is left alone, as in a server.
"""

import asyncio
import gc
import json
import logging
import os
import sys
import threading
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import structlog

from mcp_notarium import logs
from mcp_notarium.cli import main as cli
from mcp_notarium.errors import StoreError
from mcp_notarium.logs import logger, pipeline, redaction
from mcp_notarium.protocol import call_pipeline, sdk_server
from mcp_notarium.protocol.sdk_server import Call
from mcp_notarium.secret import Secret
from mcp_notarium.tools.tool import ToolNames

OWN = logs.get("matrix")
SINKS = {}


def sink(push):
    SINKS[push.__name__] = push
    return push


@dataclass
class Holder:
    text: str


class Finaliser:
    def __init__(self, text):
        self.redact_text = text

    def __del__(self):
        raise ValueError(self.text)

    def __repr__(self):
        return self.text


def raising(text):
    local_copy = text
    raise ValueError(text, local_copy)


def caught(text):
    try:
        raising(text)
    except ValueError as error:
        return error


@sink
def fact_under_a_listed_name(text):
    OWN.warning("matrix.fact", message=text)


@sink
def fact_under_another_name(text):
    OWN.warning("matrix.fact", something=text)


@sink
def fact_under_a_secrets_name(text):
    OWN.warning("matrix.fact", password=text)


@sink
def fact_as_identifier(text):
    OWN.warning("matrix.fact", note_id=text)


@sink
def event_name(text):
    OWN.warning(text)


@sink
def nested_mapping(text):
    OWN.warning("matrix.fact", message={"state": {"hint": text, text: 1}})


@sink
def nested_list(text):
    OWN.warning("matrix.fact", message=[[text], (text,), {text}])


@sink
def dataclass_value(text):
    OWN.warning("matrix.fact", message=Holder(text))


@sink
def path_value(text):
    OWN.warning("matrix.fact", where=Path(text.replace("\0", "")))


@sink
def bytes_value(text):
    OWN.warning("matrix.fact", message=text.encode("utf-8", "surrogateescape"))


@sink
def exception_argument(text):
    OWN.error("matrix.failed", exc=caught(text))


@sink
def exception_of_ours(text):
    OWN.error("matrix.failed", exc=StoreError(text))


@sink
def exception_from_the_system(text):
    OWN.error("matrix.failed", exc=OSError(5, text, text))


@sink
def exception_cause(text):
    error = RuntimeError("outer")
    error.__cause__ = caught(text)
    OWN.error("matrix.failed", exc=error)


@sink
def exception_group(text):
    OWN.error("matrix.failed", exc=ExceptionGroup(text, [caught(text), KeyError(text)]))


@sink
def exception_note(text):
    error = caught(text)
    error.add_note(text)
    OWN.error("matrix.failed", exc=error)


@sink
def library_message(text):
    logging.getLogger("httpx").warning(text)


@sink
def library_arguments(text):
    logging.getLogger("httpcore.http11").warning("headers %s %r", text, {"token": text})


@sink
def library_exception(text):
    try:
        raising(text)
    except ValueError:
        logging.getLogger("mcp.server").exception(text, stack_info=True)


@sink
def library_debug(text):
    logging.getLogger("mcp.client").debug("got %s", text, extra={"password": text})


@sink
def library_with_wrong_arguments(text):
    logging.getLogger("httpx").warning("%d of them", text)


@sink
def unknown_library(text):
    logging.getLogger("whatever").error(text)


@sink
def library_with_structlog(text):
    structlog.get_logger("other").error(text, token=text, exc_info=caught(text))


@sink
def library_request(text):
    logging.getLogger("httpx").warning(
        'HTTP Request: %s %s "%s %d %s"', "GET", f"https://h.example/{text}?{text}", text, 200, text
    )


@sink
def warning(text):
    warnings.warn(text, stacklevel=1)


@sink
def stderr_line(text):
    sys.stderr.write(f"<{text}>\n")


@sink
def stderr_in_pieces(text):
    for piece in (text[:3], text[3:7], text[7:]):
        sys.stderr.write(piece)
        sys.stderr.flush()
    sys.stderr.write("\n")


@sink
def stderr_printed(text):
    print({"value": text}, text, file=sys.stderr)  # noqa: T201 - a way out


@sink
def stderr_bytes(text):
    sys.stderr.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    sys.stderr.buffer.flush()


@sink
def printed_to_stdout(text):
    print(text)  # noqa: T201 - a way out


@sink
def printed_traceback(text):
    try:
        raising(text)
    except ValueError:
        traceback.print_exc()


@sink
def uncaught_exception(text):
    error = caught(text)
    sys.excepthook(type(error), error, error.__traceback__)


@sink
def thread_exception(text):
    thread = threading.Thread(target=raising, args=(text,))
    thread.start()
    thread.join()


@sink
def finaliser_exception(text):
    Finaliser(text)
    gc.collect(0)


@sink
def loop_exception(text):
    async def forget():
        logs.watch_loop(asyncio.get_running_loop())
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ValueError(text))
        del future
        gc.collect(0)

    asyncio.run(forget())


@sink
def error_text_for_a_client(text):
    sys.stderr.write(logs.scrub(text) + "\n")


@sink
def command_line_error(text):
    cli._show(StoreError(text, resolution_hint=text))


@sink
def command_line_fault(text):
    cli._show_unexpected(caught(text))


@sink
def tool_error(text):
    error = StoreError(text, resolution_hint=text, details={"why": [text, {"more": text}]})
    (block,) = sdk_server.result_of(call_pipeline.failure(error, ToolNames())).content
    _to_the_client(block.text)


@sink
def protocol_error(text):
    error = sdk_server._protocol_error(text, hint=text, known=[text])
    _to_the_client(json.dumps([error.error.message, error.error.data]))


@sink
def progress_message(text):
    said = []

    async def report(_done, _total, message):
        said.append(message)

    session = SimpleNamespace(report_progress=report, client_params=None)
    context = SimpleNamespace(session=session, request_id=1)
    call = Call(context, SimpleNamespace(name="list", arguments=None))
    asyncio.run(call.progress(1, 2, text))
    _to_the_client(json.dumps(said))


def _to_the_client(text):
    """Past the filter of standard error, as an answer goes past it."""
    os.write(2, text.encode("utf-8", "replace") + b"\n")


def switch_off():
    """The same ways out with the redaction removed: what the search must then find."""
    redaction.Redactor.redact_text = lambda self, text: text
    redaction.Redactor.redact_line = lambda self, text: text
    redaction.Redactor.redact_value = lambda self, name, value: (
        redaction.describe(value) if isinstance(value, BaseException) else _shown(value)
    )
    redaction.describe_message = lambda error: f"{error} {error.__dict__}"
    pipeline._message = logging.LogRecord.getMessage
    redaction.Redactor.remove_secrets = lambda self, text: text
    logger.scrub = lambda text: text


def _shown(value):
    return value if isinstance(value, str) else repr(value)


def main():
    file, mode = Path(sys.argv[1]), sys.argv[2]
    work = json.load(sys.stdin)
    if mode == "off":
        switch_off()
    logs.configure("trace", file, divert_stdout=True)
    warnings.simplefilter("always")
    logs.protect(*(Secret(secret) for secret in work["secrets"]))
    logs.listen_to_libraries()
    marks = os.open(file, os.O_WRONLY | os.O_APPEND)
    for name, push in SINKS.items():
        for descriptor in (2, marks):
            os.write(descriptor, f"@@{name}\n".encode())
        for spelling in work["spellings"]:
            push(spelling)
    logs.close()


if __name__ == "__main__":
    main()
