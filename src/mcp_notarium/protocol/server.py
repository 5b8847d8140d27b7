"""``serve``: one client on standard input and output, from the first byte to the exit code.

Order: take the descriptors, answer the handshake (``prelude``; where a policy may hold, after the
next step), read and check the configuration; then protect the process, start logging, unlock the key
file beside the imports, open the cache, answer the first reading, and load the engine. Nothing that
the handshake does not need is imported before it, logging and ``typing`` included. Where required
settings are missing, a client that speaks is served in locked mode, and nobody else is waited for.
Exit codes: 0 the client left, 1 the server could not serve.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Callable

from mcp_notarium.protocol import early_replies, stdio
from mcp_notarium.protocol.events import Answered, Loaded, Stop
from mcp_notarium.protocol.handshake import Greeting
from mcp_notarium.protocol.inbox import Inbox
from mcp_notarium.protocol.line_reader import LineBuffer, LineReader
from mcp_notarium.protocol.static_replies import Front, offering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from mcp_notarium import config
    from mcp_notarium.account.early_unlock import EarlyUnlock
    from mcp_notarium.errors import NotariumError
    from mcp_notarium.sandbox.confinement import Confinement

_TURN_SECONDS = 0.001
"""How long a thread may keep Python from another that waits for it. With the usual 5 ms whoever stores
or answers during a first load waits so long at every step."""
_PATIENCE = 10.0
"""How many seconds a server that lacks a required setting waits for somebody to tell that."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def serve(*, env_file: Path | str | None = None, sandbox: config.Sandbox | None = None) -> int:
    """Serve until the client leaves; returns the exit code. Raises nothing that is an error.

    ``sandbox`` stands in for the setting NOTARIUM_SANDBOX.
    """
    try:
        return _serve(env_file, sandbox)
    except Exception as error:  # noqa: BLE001 - the last resort: no trace with paths and values
        from mcp_notarium.errors import NotariumError  # noqa: PLC0415 - see above

        if isinstance(error, NotariumError):
            _report(error)
        else:
            _report_unexpected(error)
    return 1


def _serve(env_file: Path | str | None, sandbox: config.Sandbox | None) -> int:
    incoming, outgoing = stdio.claim()
    sys.setswitchinterval(_TURN_SECONDS)
    inbox: Inbox = Inbox()
    catch_signals(inbox)
    everything = surface()
    greeting, buffer = Greeting(Front(everything), outgoing), LineBuffer()
    if env_file is None and early_replies.may_answer(os.environ, incoming=incoming):
        early_replies.answer(incoming, greeting, buffer)
    settings = _settings(env_file)
    if settings is None or (settings.missing is not None and os.isatty(incoming)):
        return 1
    offered = offering(everything, settings.config.policy.tools)
    if not greeting.begun:
        greeting = Greeting(Front(offered), outgoing)
    elif offered != everything:
        raise _changed_meanwhile()
    confinement = _confinement(settings, sandbox)
    inbox.behind = greeting.behind
    LineReader(
        incoming,
        inbox.put,
        first=confinement.drop_all_rights,
        crowded=inbox.crowded,
        buffer=buffer,
    ).start()
    wanted = threading.Event()
    begun: list[EarlyUnlock] = []

    def load() -> None:
        _load(inbox, settings, confinement.how, wanted, begun)

    def confine() -> None:
        from mcp_notarium.protocol import bytecode_cache  # noqa: PLC0415 - the handshake does without

        bytecode_cache.make_missing()
        confinement.enter()

    timeouts = None if settings.missing is None or buffer.fed else _PATIENCE
    if not greet(
        inbox,
        greeting,
        load,
        protect=_protect,
        confine=confine,
        timeouts=timeouts,
        spoken=lambda: buffer.fed,
    ):
        return 0 if settings.missing is None else 1
    from mcp_notarium.protocol import event_loop  # noqa: PLC0415 - the loader has imported it

    return event_loop.run(
        inbox,
        greeting,
        outgoing,
        settings.config,
        report=_report,
        want_engine=wanted.set,
        ahead=begun[0],
        refused=settings.missing,
    )


def _changed_meanwhile() -> NotariumError:
    from mcp_notarium.errors import ConfigError  # noqa: PLC0415 - see above

    return ConfigError(
        "The policy has changed while the server was starting.",
        resolution_hint="Start the server again.",
    )


def _settings(env_file: Path | str | None) -> config.Loaded | None:
    """The configuration, checked as far as that goes without opening anything; None: refused.

    Required settings that are missing are reported already, and stand in ``missing``.
    """
    from dataclasses import replace  # noqa: PLC0415 - see the top
    from pathlib import Path  # noqa: PLC0415 - see the top

    from mcp_notarium.config import load_here  # noqa: PLC0415 - a refusal needs the descriptors
    from mcp_notarium.errors import NotariumError  # noqa: PLC0415 - the same
    from mcp_notarium.protocol.preflight import missing_key, refuse_early  # noqa: PLC0415 - the same

    loaded = None
    try:
        named = None if env_file is None else Path(env_file)
        loaded = load_here(env_file=named, complete=False)
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
    if loaded is not None and loaded.config.log_file is None:
        _start_logging(loaded)
    _protect_words()
    _report(error)


def _protect_words() -> None:
    """An error may quote a value, and a secret may stand in a wrong place."""
    from mcp_notarium import logs  # noqa: PLC0415 - see above
    from mcp_notarium.config import secrets_here  # noqa: PLC0415 - see above

    logs.protect(*secrets_here())


def _confinement(settings: config.Loaded, wanted: config.Sandbox | None) -> Confinement:
    """Raises ``ConfigError`` if it is required and cannot be had."""
    from mcp_notarium.sandbox.confinement import Confinement  # noqa: PLC0415 - see above

    config = settings.config
    return Confinement(config, wanted or config.sandbox, opens=settings.missing is None)


def _protect() -> None:
    """The secrets are read: from here on nobody else finds them in this process."""
    from mcp_notarium.config import secret_names  # noqa: PLC0415 - see above
    from mcp_notarium.sandbox import process_hardening  # noqa: PLC0415 - see above

    process_hardening.harden_process()
    process_hardening.wipe_environment(*secret_names())


def _start_logging(loaded: config.Loaded) -> None:
    """Raises ``ConfigError`` if the log file cannot be used."""
    from mcp_notarium import logs  # noqa: PLC0415 - costs more than the handshake

    logs.configure(loaded.config.log_level, loaded.config.log_file, divert_stdout=True)
    logs.protect_config(loaded.config)
    for warning in loaded.warnings:
        logs.get("server").warning("config.odd", warning=warning)


def _log_confinement(confined: str) -> None:
    from mcp_notarium import logs  # noqa: PLC0415 - see above

    logs.get("server").info("server.confined", state=confined)


def _report(error: NotariumError) -> None:
    """One CRITICAL line that says what is wrong and what to do."""
    from mcp_notarium import logs  # noqa: PLC0415 - see above

    logs.get("server").critical("server.refused", message=error.message, hint=error.resolution_hint)


def _report_unexpected(error: Exception) -> None:
    """The same for a fault of ours: its class and its places in the source, no values."""
    from mcp_notarium import logs  # noqa: PLC0415 - see above

    logs.get("server").critical(
        "server.crashed",
        exc=error,
        hint="This is a fault in the program; please report it with this line.",
    )


def surface() -> dict[str, Any]:
    """The prepared answers of the front."""
    path = os.path.join(os.path.dirname(__file__), "static_replies.json")  # noqa: PTH118, PTH120 - cheap
    with open(path, "rb") as file:  # noqa: PTH123 - the same
        answers: dict[str, Any] = json.load(file)
    return answers


def catch_signals(inbox: Inbox) -> None:
    """A signal is an arrival like any other: what is in hand is finished first."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, lambda _number, _frame: inbox.put(Stop()))


def greet(
    inbox: Inbox,
    greeting: Greeting,
    load: Callable[[], None],
    *,
    protect: Callable[[], None] = lambda: None,
    confine: Callable[[], object] = lambda: None,
    timeouts: float | None = None,
    spoken: Callable[[], bool] = lambda: False,
) -> bool:
    """Answer alone until the event loop is imported. False: the client has left again.

    It counts as one that has left if nothing comes within ``patience`` seconds, not even a part of a
    line (``spoken``).

    ``protect`` is called right behind the first answer, because a client may shake hands and then
    leave the process alone for hours. Once the client has shown that it stays, ``confine`` is called,
    and ``load`` is run in a thread of its own; it puts ``Loaded`` events into the inbox.
    """
    loading = protected = False
    while not greeting.over:
        if greeting.begun and not protected:
            protected = True
            protect()
        if greeting.front.stays and not loading:
            loading = True
            confine()  # before the thread, which inherits it
            threading.Thread(target=load, name="loader", daemon=True).start()
        event = inbox.wait(timeouts)
        if event is None and not spoken():
            return False
        timeouts = None
        if event is None:
            continue
        if isinstance(event, Loaded):
            event.demand()
            return True
        if not isinstance(event, Answered):  # only an event loop lets anything be answered
            greeting.answer(event)
    return False


def _load(
    inbox: Inbox,
    settings: config.Loaded,
    confined: str,
    wanted: threading.Event,
    begun: list[EarlyUnlock],
) -> None:
    """Import what opens and reads the notes; when it is ``wanted``, the engine too.

    The attempt to unlock the key file is ``begun`` as soon as it can be.
    """
    try:
        gc.disable()  # nothing that is imported is ever garbage; looking for it costs an eighth
        if settings.config.log_file is None and settings.missing is None:
            _start_logging(settings)
        _log_confinement(confined)
        from mcp_notarium.account.early_unlock import EarlyUnlock  # noqa: PLC0415 - see above

        begun.append(EarlyUnlock(settings.config))
        if settings.missing is None:
            begun[0].begin()
        from mcp_notarium.protocol import event_loop  # noqa: F401, PLC0415 - imported to be there

        gc.enable()
        inbox.put(Loaded("serving"))
        wanted.wait()
        gc.disable()
        from mcp_notarium.protocol import sdk_server  # noqa: F401, PLC0415 - the same

        gc.freeze()
        inbox.put(Loaded("engine"))
    except BaseException as error:  # noqa: BLE001 - told to the main thread, which raises it
        inbox.put(Loaded("", error))
    finally:
        gc.enable()
