"""Serve one client on standard input and output, from the first byte to the exit code.

Order: take the descriptors, read and check the configuration, answer what is static; behind the first
answer protect the process. Once the client stays, confine the process and import the rest in a thread: the
event loop, which opens the account, and the SDK, which answers calls. A client that speaks is
served in locked mode if required settings are missing, and nobody else is waited for.
Exit codes: 0 the client left, 1 the server could not serve.

The handshake waits for what this module imports, so its functions import what it can do without.

The packages ``mcp`` and ``mcp.server`` import the SDK's client, its web server and its decorators when they are
initialized, and every model of the wire is built at once: two fifths of the time and half of the memory (mcp
2.3.0). Here the packages are not initialized, and such a model is built when it is first used. A release of
the SDK that does not permit this is imported as a whole.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Final

from mcp_notarium.protocol import stdio
from mcp_notarium.protocol.connection import Connection
from mcp_notarium.protocol.static_replies import StaticReplies, offering, read_replies
from mcp_notarium.protocol.stdio import (
    EndOfInput,
    Event,
    EventQueue,
    FlowControl,
    ImportDone,
    LineBuffer,
    Stop,
    TooLong,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from mcp_notarium import config
    from mcp_notarium.errors import NotariumError
    from mcp_notarium.logs import Logger

_TURN_SECONDS = 0.001
"""Seconds that a thread may keep Python from another that waits for it. With the usual 5 ms every step of
storing and answering waits that long during a first load."""
MOST_ALONE = 48 * 1024
"""Bytes of replies before there is an event loop: a pipe takes them even if nobody reads."""
_FIRST_BYTE_SECONDS = 10.0
"""Seconds that a server without a required setting waits for a client."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


_TOLD_BY = ("mcp_notarium.protocol.sdk_server", "mcp", "pydantic", "httpx")
_LOADED = (
    "mcp_notarium.protocol.event_loop",
    "mcp_notarium.protocol.sdk_server",
    "mcp_notarium.account.repair",
    "mcp_notarium.account.reencryption",
    *("httpx", "httpcore", "argon2.low_level"),
)


def serve(
    *,
    env_file: Path | str | None = None,
    account: str | None = None,
    profile: str = "",
    sandbox: config.Sandbox | None = None,
    notice: str = "",
) -> int:
    """Serve until the client leaves, and return the exit code. Raises nothing that is an error.

    * ``account``: the account of ``accounts.toml`` to serve; None: the settings alone name it;
    * ``profile``: the setting NOTARIUM_PROFILE, unless it is empty; ``sandbox``: the setting NOTARIUM_SANDBOX;
    * ``notice`` is written to stderr if the server waits for a client at all.
    """
    try:
        return _serve(env_file, account, profile, sandbox, notice)
    except Exception as error:  # noqa: BLE001 - the last resort: no trace with paths and values
        from mcp_notarium.errors import NotariumError  # noqa: PLC0415 - see the top

        if isinstance(error, NotariumError):
            _report(error)
        else:
            hint = "This is a fault in the program; please report it with this line."
            _log().critical("server.crashed", exc=error, hint=hint)
    return 1


def _serve(
    env_file: Path | str | None,
    account: str | None,
    profile: str,
    sandbox: config.Sandbox | None,
    notice: str,
) -> int:
    incoming, outgoing = stdio.take_descriptors()
    sys.setswitchinterval(_TURN_SECONDS)
    queue = EventQueue()
    catch_signals(queue)
    settings = _settings(env_file, account, profile)
    if settings is None or (settings.missing is not None and os.isatty(incoming)):
        return 1
    if notice and sys.stderr is not None:
        sys.stderr.write(notice)
    from mcp_notarium.sandbox.confinement import Confinement  # noqa: PLC0415 - see the top

    mode = sandbox or settings.config.sandbox
    opens = settings.missing is None and settings.config.store.persistent
    confinement = Confinement(settings.config, mode, opens=opens)
    flow, buffer = FlowControl(), LineBuffer()
    config = settings.config
    replies = offering(
        read_replies(config.toolset), config.policy, config.tool_prefix, config.store.lacking
    )
    connection = Connection(StaticReplies(replies), flow)
    stdio.read_lines(incoming, queue, flow, buffer, first=confinement.drop_all_rights)

    def load() -> None:
        _load(queue, settings, confinement.how)

    def confine() -> None:

        make_bytecode()
        confinement.enter()

    held = answer_alone(
        queue,
        connection,
        outgoing,
        flow,
        load,
        protect=_protect,
        confine=confine,
        patience=None if settings.missing is None or buffer.fed else _FIRST_BYTE_SECONDS,
        spoken=lambda: buffer.fed,
    )
    if held is None:
        return 0 if settings.missing is None else 1
    from mcp_notarium.protocol import event_loop  # noqa: PLC0415 - the loader has imported it

    return event_loop.run(
        queue,
        connection,
        outgoing,
        settings.config,
        flow=flow,
        held=held,
        report=_report,
        refused=settings.missing,
    )


def _settings(
    env_file: Path | str | None, account: str | None, profile: str
) -> config.Loaded | None:
    """Return the configuration, checked as far as that goes without opening anything; None: refused.

    Required settings that are missing are reported already, and stand in ``missing``.
    """
    from dataclasses import replace  # noqa: PLC0415 - see the top
    from pathlib import Path  # noqa: PLC0415 - see the top

    from mcp_notarium.config import load_here  # noqa: PLC0415 - a refusal needs the descriptors
    from mcp_notarium.errors import NotariumError  # noqa: PLC0415 - the same
    from mcp_notarium.protocol.startup_checks import missing_key, refuse_early  # noqa: PLC0415 - the same

    loaded = None
    try:
        named = None if env_file is None else Path(env_file)
        loaded = load_here(env_file=named, account=account, profile=profile, complete=False)
        if loaded.config.log_file is not None:
            _start_logging(loaded)  # now, because a file that cannot be used is a refusal too
        refuse_early(loaded.config)
        loaded = replace(loaded, missing=loaded.missing or missing_key(loaded.config))
    except NotariumError as error:
        _refuse(loaded, error)
        return None
    if loaded.missing is not None:
        _refuse(loaded, loaded.missing)
    return loaded


def _refuse(loaded: config.Loaded | None, error: NotariumError) -> None:
    """Report the error. It may quote a value, and a secret may stand in a wrong place."""
    from mcp_notarium import logs  # noqa: PLC0415 - see the top
    from mcp_notarium.config import secrets_here  # noqa: PLC0415 - see the top

    if loaded is not None and loaded.config.log_file is None:
        _start_logging(loaded)
    logs.protect(*secrets_here())
    _report(error)


def _protect() -> None:
    """Hide the secrets, which have been read, from everybody else who looks into this process."""
    from mcp_notarium.config import secret_names  # noqa: PLC0415 - see the top
    from mcp_notarium.sandbox import confinement  # noqa: PLC0415 - see the top

    confinement.harden_process()
    # defence: secrets-wiped-after-answer
    confinement.wipe_environment(*secret_names())  # defence: server-wipes-environment


def _log() -> Logger:
    from mcp_notarium import logs  # noqa: PLC0415 - costs more than the handshake

    return logs.get("server")


def _start_logging(loaded: config.Loaded) -> None:
    """Start the log. Raises ``ConfigError`` if the log file cannot be used."""
    from mcp_notarium import logs  # noqa: PLC0415 - costs more than the handshake

    logs.configure(loaded.config.log_level, loaded.config.log_file, divert_stdout=True)
    logs.protect_config(loaded.config)
    for warning in loaded.warnings:
        _log().warning("config.odd", warning=warning)


def _report(error: NotariumError) -> None:
    """Log one CRITICAL line that says what is wrong and what to do."""
    _log().critical("server.refused", message=error.message, hint=error.resolution_hint)


def catch_signals(queue: EventQueue) -> None:
    """Put each signal into the queue, behind what came before it."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, lambda _number, _frame: queue.put(Stop()))


def answer_alone(
    queue: EventQueue,
    connection: Connection,
    outgoing: int,
    flow: FlowControl,
    load: Callable[[], None],
    *,
    protect: Callable[[], None] = lambda: None,
    confine: Callable[[], object] = lambda: None,
    patience: float | None = None,
    spoken: Callable[[], bool] = lambda: False,
) -> list[Event] | None:
    """Answer what is static until the event loop is imported; return None if the client has left again.

    Otherwise return what the event loop has to see first: the end of input or a signal behind calls, and
    lines for which there was no room. A client from which nothing comes within ``patience`` seconds, not
    even a part of a line (``spoken``), counts as one that has left.

    ``protect`` is called right behind the first answer, because a client may shake hands and then
    leave the process alone for hours. Once the client has shown that it stays, ``confine`` is called,
    and ``load`` is run in a thread of its own; it puts ``ImportDone`` into the queue.
    """
    held: list[Event] = []
    written = 0
    loading = protected = False
    while connection.has_open_calls or not (held and isinstance(held[0], EndOfInput | Stop)):
        if connection.stays and not loading:
            loading = True
            confine()  # before the thread, which inherits it
            threading.Thread(target=load, name="loader", daemon=True).start()
        event = queue.wait(patience)
        if event is None and not spoken():
            return None
        patience = None
        if isinstance(event, ImportDone):
            event.demand()
            return held
        # defence: bounded-at-start -MOST_ALONE
        if isinstance(event, bytes | TooLong) and not held and written <= MOST_ALONE:
            reply = connection.receive(event)
            try:
                stdio.write_all(outgoing, reply)
            except OSError:  # nobody reads it
                return None
            if reply:
                written += len(reply)
                flow.done(stdio.size_of(event) or 0)
        elif event is not None:
            held.append(event)
            connection.stays = connection.stays or isinstance(event, bytes | TooLong)
        if event is not None and not protected:
            protected = True
            protect()
    return None


def _load(queue: EventQueue, settings: config.Loaded, confined: str) -> None:
    """Import what opens the account, then the SDK."""
    try:
        gc.disable()  # nothing that is imported is ever garbage; looking for it costs an eighth
        if settings.config.log_file is None and settings.missing is None:
            _start_logging(settings)
        _log().info("server.confined", state=confined)
        from mcp_notarium.protocol import event_loop  # noqa: F401, PLC0415 - imported to be there

        queue.put(ImportDone())

        import_sdk()
        gc.freeze()
        queue.put(ImportDone())
    except BaseException as error:  # noqa: BLE001 - the main thread raises it
        queue.put(ImportDone(error))
    finally:
        gc.enable()


def make_bytecode() -> None:
    """Import what a server needs if that has no bytecode yet, so that Python writes it now.

    A confined process writes nothing next to the sources, and without bytecode every start compiles some
    hundred modules again. pip compiles what it installs; other installers leave it to the first import.
    Nothing that anybody wrote is read by then.
    """
    if sys.dont_write_bytecode or not any(map(_lacks_bytecode, _TOLD_BY)):
        return
    from mcp_notarium.tools import toolsets  # noqa: PLC0415 - rarely needed

    for name in (*_LOADED, *toolsets.native_modules()):
        import_module(name)  # defence: bytecode-made-first


def _lacks_bytecode(name: str) -> bool:
    spec = find_spec(name)
    if spec is None or spec.cached is None or spec.origin is None or Path(spec.cached).exists():
        return False
    return os.access(Path(spec.origin).parent, os.W_OK)


_UNINITIALIZED: Final = ("mcp", "mcp.server")
_NEEDLESS: Final = ("httpx._main", "uvicorn")
"""Modules that the SDK and the HTTP client import if they are there: a command line, a web server. None in
``sys.modules`` means to Python that it is not there."""
_STARTED: Final = ("mcp.", "mcp_types", "mcp_notarium.protocol.")
"""Beginnings of the names of modules that a failed import may leave."""


def import_sdk() -> None:
    """Import ``sdk_server``, and with it what it needs of the SDK."""
    for module in _NEEDLESS:
        sys.modules[module] = None  # type: ignore[assignment]
    if "mcp" in sys.modules:
        _import_server()
        return
    before = set(sys.modules)
    try:
        for package in _UNINITIALIZED:
            spec = find_spec(package)
            assert spec is not None  # noqa: S101 - it is a dependency
            sys.modules[package] = module_from_spec(spec)
        from mcp_types._wire_base import WireModel  # noqa: PLC0415 - the order matters

        WireModel.model_config["defer_build"] = True
        _import_server()
    except (ImportError, AttributeError):
        for name in set(sys.modules) - before:
            if name == "mcp" or name.startswith(_STARTED):
                del sys.modules[name]
        _import_server()


def _import_server() -> None:
    from mcp_notarium.protocol import sdk_server  # noqa: F401, PLC0415 - imported to be there
