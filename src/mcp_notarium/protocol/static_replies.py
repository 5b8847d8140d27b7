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

from mcp_notarium.protocol import plain_messages
from mcp_notarium.protocol.plain_messages import CLIENT, VERSION, Json, RequestId, same

_ENDS = 200
"""Bytes at either end of a line in which its method stands."""


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
        message = plain_messages.parsed(line)
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
        raw = plain_messages.json_value(line) if message is None else message
        if isinstance(raw, dict):
            if "method" not in raw or "id" not in raw:
                return True  # an answer, or a notification
            settles = raw["method"] == "initialize"
        else:
            ends = line[:_ENDS] + line[-_ENDS:]
            settles = b'"initialize"' in ends and b'"tools/call"' not in ends
        # Without a handshake the engine goes by the first request it sees.
        return not settles and (self._shaken is not None or VERSION.encode() in line)

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
        known = error is not None and params.keys() <= {"_meta"}
        if not known or self._spoken(params.get("_meta", {})) is None:
            return None
        self.stays = self.settled = True
        return error

    def _reading(self, request_id: RequestId, params: Json) -> Read | None:
        """The call, if it only reads and asks for nothing else."""
        meta: Json = params.get("_meta", {})
        tool, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            return None
        only_reads = (
            params.keys() <= {"name", "arguments", "_meta"}
            and tool in self._surface["reads"]
            and same(request_id) not in self._in_hand
        )
        version = self._spoken(meta) if only_reads else None
        if version is None:
            return None
        self.stays = self.settled = True
        self._in_hand.add(same(request_id))
        client = plain_messages.named(meta[CLIENT]) if CLIENT in meta else self._client
        forms, token = self._surface["calls"][version], meta.get("progressToken")
        return Read(request_id, tool, arguments, client, forms, token=token)

    def _spoken(self, meta: Json) -> str | None:
        """The version of a request with this ``_meta``, None if that is not settled."""
        if VERSION not in meta:
            return self._shaken if self._ready and plain_messages.is_bare(meta) else None
        version = meta[VERSION]
        spoken = isinstance(version, str) and version in self._surface["modern"]
        return (
            version if spoken and self._shaken is None and plain_messages.is_modern(meta) else None
        )

    def _result(self, method: str, params: Json) -> Json | None:
        meta = params.get("_meta", {})
        if VERSION in meta and method != "initialize":
            return self._modern(method, params, meta)
        if not plain_messages.is_bare(meta):
            return None
        if method == "initialize" and self._shaken is None and plain_messages.greets(params):
            self._client = plain_messages.named(params["clientInfo"])
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
        version = meta[VERSION]
        known = isinstance(version, str) and self._shaken is None and params.keys() == {"_meta"}
        if not known or not plain_messages.is_modern(meta):
            return None
        answer: Json | None = self._surface["modern"].get(version, {}).get(method)
        return answer


def _cancel(message: Json) -> Cancel | None:
    request_id = plain_messages.called_off(message)
    return None if request_id is None else Cancel(request_id)


def _encoded(request_id: RequestId, kind: str, content: Json) -> bytes:
    reply = {"jsonrpc": "2.0", "id": request_id, kind: content}
    return json.dumps(reply, separators=(",", ":")).encode() + b"\n"
