"""The front: answers what never changes from a prepared file, before the engine is even imported.

Clients start servers, shake hands, list tools and often go away again; none of that needs the
protocol library, which takes half a second to import, or the notes. What they ask next is nearly
always to find or read a note: such a call is taken out of its envelope as a :class:`Read`, for
others to answer, as long as the connection lasts. A sans-IO state machine: lines in, replies out. From
the first line on that it does not know exactly, it holds all but readings for the engine, which then sees
the lines that matter for its own state again (``replay``) and whose second answer to the same
``initialize`` is swallowed.
"""

from __future__ import annotations

import json
from collections.abc import Collection

TYPE_CHECKING = False
if TYPE_CHECKING:  # at run time the import costs more than the handshake
    from typing import Any

_PROTOCOL = "io.modelcontextprotocol/"
"""Under it a request's ``_meta`` has what may change the answer; other names are the client's own notes."""
_VERSION = f"{_PROTOCOL}protocolVersion"
_CAPABILITIES = f"{_PROTOCOL}clientCapabilities"
_CLIENT = f"{_PROTOCOL}clientInfo"
_MODERN = frozenset({_VERSION, _CAPABILITIES, _CLIENT})
_TEXTS = frozenset({"title", "websiteUrl", "description"})
_FEATURES = frozenset({"elicitation", "roots", "sampling", "experimental", "extensions", "tasks"})
"""What is known of capabilities; others mean nothing here, whatever they are (Cursor sends flags)."""
_DEEPEST = 4
_LONGEST = 1 << 16
_MOST_OPENED = 100
"""Bytes of a line, and brackets in it: beyond either it is the engine's, which refuses what is nested too deep."""
_ENDS = 200
"""Bytes at either end of a line in which its method stands."""

Json = dict[str, "Any"]
RequestId = int | str


class Read:
    """A call of a tool that only reads. ``forms``: what its result looks like, ``ok`` and ``error``.

    ``token``: what names it where its progress is told; None if nobody wants to know.
    """

    __slots__ = ("arguments", "client", "forms", "request_id", "token", "tool")

    def __init__(
        self,
        request_id: RequestId,
        tool: str,
        arguments: Json,
        client: str,
        forms: Json,
        *,
        token: RequestId | None = None,
    ) -> None:
        self.request_id = request_id
        self.tool = tool
        self.arguments = arguments
        self.client = client
        self.forms = forms
        self.token = token


class Cancel:
    """The client no longer waits for an answer."""

    __slots__ = ("request_id",)

    def __init__(self, request_id: RequestId) -> None:
        self.request_id = request_id


Due = bytes | Read | Cancel
"""What is to be done about a line: a reply to be written (``b""``: none), or one of the others."""


def offering(surface: Json, tools: Collection[str]) -> Json:
    """The surface with these tools only, as the engine that offers no others has it."""
    gone = {tool["name"] for listed in surface["lists"] for tool in listed["tools"]} - set(tools)
    modern = {
        version: {method: _narrowed(answer, gone) for method, answer in answers.items()}
        for version, answers in surface["modern"].items()
    }
    lists = [_narrowed(listed, gone) for listed in surface["lists"]]
    narrowed = {
        "initialize": _narrowed(surface["initialize"], gone),
        "lists": lists,
        "modern": modern,
        "reads": [name for name in surface["reads"] if name not in gone],
    }
    return surface | narrowed


def spoken(instructions: str, gone: Collection[str]) -> str:
    """The instructions without the lines that name a tool that is ``gone``."""
    lines = instructions.split("\n")
    return "\n".join(line for line in lines if not any(f"`{name}`" in line for name in gone))


def _narrowed(answer: Json, gone: Collection[str]) -> Json:
    narrowed = dict(answer)
    if "tools" in answer:
        narrowed["tools"] = [tool for tool in answer["tools"] if tool["name"] not in gone]
    if "instructions" in answer:
        narrowed["instructions"] = spoken(answer["instructions"], gone)
    return narrowed


class Front:
    """One connection: up to the first message that needs the engine, and its readings to the end.

    ``stays``: the client has shown that it is no throw-away copy (it has finished its handshake or
    asked for more), so the engine is worth loading. ``settled``: it has finished its handshake or
    listed the tools, so the notes are worth opening.
    """

    def __init__(self, surface: Json) -> None:
        self._surface = surface
        self._shaken: str | None = None
        self._client = ""
        self._in_hand: set[RequestId] = set()
        self._ready = False
        self.replay: list[bytes] = []
        self.swallow: set[RequestId] = set()
        self.stays = False
        self.settled = False
        self._holding = False
        self._sure = True

    def receive(self, line: bytes) -> Due | None:
        """What is due, or None if the engine must see this line.

        From the first such line on, only readings are due, and that one is no longer waited for.
        """
        message = _parsed(line)
        due = None
        if message is not None:
            due = self._beside(message) if self._holding else self._due(message, line)
        if due is None:
            self.hold()
            self.stays = True
            self._sure = self._sure and self._settles_nothing(message, line)
        return due

    def hold(self) -> None:
        """From now on everything but readings is for the engine."""
        self._holding = True

    def over(self, request_id: RequestId) -> None:
        """The reading of this id has been answered, or called off."""
        self._in_hand.discard(same(request_id))

    def _settles_nothing(self, message: Json | None, line: bytes) -> bool:
        """Whether the version that is spoken stays what it is, whatever the engine makes of this line."""
        raw = _value(line) if message is None else message
        if isinstance(raw, dict):
            if "method" not in raw or "id" not in raw:
                return True  # an answer, or a notification
            settles = raw["method"] == "initialize"
        else:
            ends = line[:_ENDS] + line[-_ENDS:]
            settles = b'"initialize"' in ends and b'"tools/call"' not in ends
        # Without a handshake the engine goes by the first request it sees.
        return not settles and (self._shaken is not None or _VERSION.encode() in line)

    def _beside(self, message: Json) -> Due | None:
        """What is due beside the engine, unless that may have settled another version by now."""
        if "id" in message:
            calls = self._sure and message["method"] == "tools/call"
            return self._reading(message["id"], message.get("params", {})) if calls else None
        if message["method"] == "notifications/initialized":
            self._ready = self._shaken is not None
        cancel = _cancel(message)
        return cancel if cancel is not None and same(cancel.request_id) in self._in_hand else None

    def _due(self, message: Json, line: bytes) -> Due | None:
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            initialized = method == "notifications/initialized"
            return self._initialized(line) if initialized else _cancel(message)
        if method == "tools/call":
            return self._reading(message["id"], params)
        if (refused := self._refused(method, params)) is not None:
            return _encoded(message["id"], "error", refused)
        result = self._result(method, params)
        if result is None:
            return None
        if method == "initialize":
            self.replay.append(line)
            self.swallow.add(message["id"])
        elif method == "tools/list":
            self.stays = self.settled = True
        return _encoded(message["id"], "result", result)

    def _initialized(self, line: bytes) -> bytes | None:
        if self._shaken is None:
            return None
        self.stays = self.settled = self._ready = True
        self.replay.append(line)
        return b""

    def _refused(self, method: str, params: Json) -> Json | None:
        """The error for what clients ask every server for, and this one does not have."""
        error: Json | None = self._surface["refused"].get(method)
        plain = error is not None and params.keys() <= {"_meta"}
        if not plain or self._spoken(params.get("_meta", {})) is None:
            return None
        self.stays = self.settled = True
        return error

    def _reading(self, request_id: RequestId, params: Json) -> Read | None:
        """The call, if it only reads and asks for nothing else."""
        meta: Json = params.get("_meta", {})
        tool, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            return None
        plain = (
            params.keys() <= {"name", "arguments", "_meta"}
            and tool in self._surface["reads"]
            and same(request_id) not in self._in_hand
        )
        version = self._spoken(meta) if plain else None
        if version is None:
            return None
        self.stays = self.settled = True
        self._in_hand.add(same(request_id))
        client = _named(meta[_CLIENT]) if _CLIENT in meta else self._client
        forms, token = self._surface["calls"][version], meta.get("progressToken")
        return Read(request_id, tool, arguments, client, forms, token=token)

    def _spoken(self, meta: Json) -> str | None:
        """The version of a request with this ``_meta``, None if that is not settled."""
        if _VERSION not in meta:
            return self._shaken if self._ready and _is_bare(meta) else None
        version = meta[_VERSION]
        spoken = isinstance(version, str) and version in self._surface["modern"]
        return version if spoken and self._shaken is None and _is_modern(meta) else None

    def _result(self, method: str, params: Json) -> Json | None:
        meta = params.get("_meta", {})
        if _VERSION in meta and method != "initialize":
            return self._modern(method, params, meta)
        if not _is_bare(meta):
            return None
        if method == "initialize" and self._shaken is None and _greets(params):
            self._client = _named(params["clientInfo"])
            return self._handshake(params["protocolVersion"])
        if method == "ping" and params.keys() <= {"_meta"}:
            return {}
        if method == "tools/list" and self._shaken is not None and params.keys() <= {"_meta"}:
            listed: Json = self._surface["lists"][self._surface["list_of"][self._shaken]]
            return listed
        return None

    def _handshake(self, wanted: str) -> Json:
        versions = list(self._surface["list_of"])
        self._shaken = wanted if wanted in versions else versions[-1]
        greeting: Json = self._surface["initialize"]
        return greeting | {"protocolVersion": self._shaken}

    def _modern(self, method: str, params: Json, meta: Json) -> Json | None:
        """The answer in the era without a handshake, where every request carries its envelope."""
        version = meta[_VERSION]
        known = isinstance(version, str) and self._shaken is None and params.keys() == {"_meta"}
        if not known or not _is_modern(meta):
            return None
        answer: Json | None = self._surface["modern"].get(version, {}).get(method)
        return answer


def same(request_id: RequestId) -> RequestId:
    """What an id is known by: the library takes 7 and "7" for one."""
    try:
        return int(request_id)
    except ValueError:
        return request_id


def _value(line: bytes) -> object:
    """The JSON value of a line; None where it is too much to look at, or the engine might refuse it."""
    if len(line) > _LONGEST or line.count(b"{") + line.count(b"[") > _MOST_OPENED:
        return None
    try:
        message = json.loads(line.decode())
        if b"\\u" in line:
            json.dumps(message, ensure_ascii=False).encode()  # fails at half a character
    except (ValueError, RecursionError):
        return None
    return message


def _parsed(line: bytes) -> Json | None:
    """A plain request or notification, or None for anything else."""
    message = _value(line)
    if not isinstance(message, dict) or not message.keys() <= {"jsonrpc", "id", "method", "params"}:
        return None
    if message.get("params", {}) is None:
        del message["params"]  # some say so that there are none
    params = message.get("params", {})
    sound = (
        message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
        and isinstance(params, dict)
        and isinstance(params.get("_meta", {}), dict)
        and _is_id(message.get("id", 0))
        and _is_id(params.get("_meta", {}).get("progressToken", 0))
    )
    return message if sound else None


def _is_id(value: object) -> bool:
    """A plain id; one with half a character, which no encoding can carry, is for the engine."""
    if isinstance(value, str):
        return value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool)


def _greets(params: Json) -> bool:
    """This is an ``initialize`` that the engine will accept too, beyond doubt."""
    return (
        params.keys() <= {"protocolVersion", "capabilities", "clientInfo", "_meta"}
        and isinstance(params.get("protocolVersion"), str)
        and _is_features(params.get("capabilities"))
        and _is_client(params.get("clientInfo"))
    )


def _is_modern(meta: Json) -> bool:
    """The envelope of the era without a handshake, with nothing about the protocol that is not known."""
    return (
        all(name in _MODERN or not name.startswith(_PROTOCOL) for name in meta)
        and _is_features(meta.get(_CAPABILITIES))
        and (_CLIENT not in meta or _is_client(meta[_CLIENT]))
    )


def _is_bare(meta: Json) -> bool:
    """Nothing in it is about the protocol."""
    return not any(name.startswith(_PROTOCOL) for name in meta)


def _named(client: Json) -> str:
    """Name and version of the client program."""
    return f"{client['name']} {client['version']}"


def _cancel(message: Json) -> Cancel | None:
    params = message.get("params", {})
    plain = (
        message["method"] == "notifications/cancelled"
        and "id" not in message
        and params.keys() <= {"requestId", "reason", "_meta"}
        and "requestId" in params
        and _is_id(params["requestId"])
        and isinstance(params.get("reason", ""), str)
    )
    return Cancel(params["requestId"]) if plain else None


def _is_client(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ("name", "version"))
        and all(isinstance(value[name], str | None) for name in value.keys() & _TEXTS)
        and _is_icons(value.get("icons", []))
    )


def _is_icons(value: object) -> bool:
    """Pictures of the client, each with its address and its type."""
    return isinstance(value, list) and all(
        isinstance(icon, dict)
        and {"src"} <= icon.keys() <= {"src", "mimeType"}
        and all(isinstance(text, str) for text in icon.values())
        for icon in value
    )


def _is_features(value: object) -> bool:
    """Capabilities; those that are known have nothing but objects and flags inside."""
    return isinstance(value, dict) and all(
        feature is None or (isinstance(feature, dict) and _is_plain(name, feature))
        for name, feature in value.items()
        if name in _FEATURES
    )


def _is_plain(name: str, feature: Json) -> bool:
    if name == "roots":
        return feature.keys() <= {"listChanged"} and all(
            isinstance(flag, bool) for flag in feature.values()
        )
    if name == "tasks":
        return _is_nested(feature, _DEEPEST)
    return all(isinstance(inner, dict) for inner in feature.values())


def _is_nested(value: object, depth: int) -> bool:
    """Objects in objects and nothing else."""
    return (
        isinstance(value, dict)
        and depth > 0
        and all(_is_nested(inner, depth - 1) for inner in value.values())
    )


def _encoded(request_id: RequestId, kind: str, content: Json) -> bytes:
    reply = {"jsonrpc": "2.0", "id": request_id, kind: content}
    return json.dumps(reply, separators=(",", ":")).encode() + b"\n"
