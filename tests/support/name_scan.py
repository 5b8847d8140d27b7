"""Find words in the messages of a server that stand outside the marks around what notes say."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from mcp_notarium.tools.untrusted_text import BEGIN, END, SAID
from support.talker import ENVELOPE, HELLO, INITIALIZED, Talker

DATA = "note data"
MARK = f"The text above is {SAID}."
_ENCLOSED = re.compile(rf"([0-9a-f]{{16}}) {SAID}: (.*) \({END}: \1\)", re.DOTALL)
_NAMED = re.compile(rf"{DATA} ([0-9a-f]{{16}}): .* :\1", re.DOTALL)
_QUOTED = re.compile("“[^“”]*”")
"""What a person reads: a name cannot hold these quotation marks."""
LATER = 15.0


def outside(value: Any) -> Iterator[str]:
    """Yield every text of a message that stands outside of the marks, names of fields too."""
    if isinstance(value, dict):
        if _is_marked(value):
            return
        if "requestedSchema" in value:
            value = value | {"message": _QUOTED.sub("", value["message"])}
        if _is_marked_text(value.get("content")):
            value = {name: one for name, one in value.items() if name != "content"}
        for name, one in value.items():
            yield name
            yield from outside(one)
    elif isinstance(value, list):
        for one in value:
            yield from outside(one)
    elif isinstance(value, str):
        yield from _outside_text(value)


def _outside_text(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except ValueError:
        yield _NAMED.sub("", _ENCLOSED.sub("", text))
        return
    if isinstance(value, dict | list):
        yield from outside(value)
    else:
        yield text


def _is_marked(value: dict[str, Any]) -> bool:
    names = list(value)
    return (
        names[:1] == [BEGIN]
        and names[-1:] == [END]
        and value[BEGIN] == f"{value[END]} {SAID}"
        and len(value[END]) == 16
        and value[END] not in json.dumps([*value.items()][1:-1])
    )


def _is_marked_text(parts: Any) -> bool:
    """Tell whether these are the parts of a plain answer whose last one says what stood before."""
    return isinstance(parts, list) and len(parts) == 2 and parts[1]["text"].startswith(MARK)


def without_marks(message: str) -> str:
    """Return the message of a protocol error as its data has it, which are marked themselves."""
    return _ENCLOSED.sub(r"\2", message)


class Scanner:
    """Speak to a server in one era, agree to what it asks, and look at every message.

    ``asks``: the client can ask its user. ``driven``: what each tool and action has answered, fine or not.
    """

    def __init__(self, server: Talker, word: str, *, modern: bool, asks: bool) -> None:
        self.server, self.word = server, word.casefold()
        self.modern = modern
        self.agrees = True
        self.seen = 0
        self.shown = 0
        self.driven: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.questions: list[str] = []
        self.told: list[dict[str, Any]] = []
        """Notifications that came before an answer that was waited for."""
        self._number = 0
        self._can = {"elicitation": {"form": {}}} if asks else {}
        if not modern:
            server.send(HELLO | {"params": HELLO["params"] | {"capabilities": self._can}})
            self._look(server.receive())
            server.send(INITIALIZED)

    def _look(self, message: dict[str, Any]) -> dict[str, Any]:
        """Fail if the word stands outside of the marks of a message."""
        self.seen += 1
        whole = json.dumps(message, ensure_ascii=False).casefold()
        self.shown += self.word in whole
        found = [text for text in outside(message) if self.word in text.casefold()]
        assert not found, (found, message)
        return message

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a request: its ``result``, or its ``error`` under that name."""
        self._number += 1
        number = self._number
        meta = {"progressToken": number} | (self._envelope() if self.modern else {})
        params = params | {"_meta": meta}
        self.server.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            message = self._look(self.server.receive())
            if message.get("id") == number and "method" not in message:
                break
            if "id" not in message:
                self.told.append(message)
            elif message.get("method") == "elicitation/create":
                self.questions.append(message["params"]["message"])
                self.server.send(
                    {"jsonrpc": "2.0", "id": message["id"], "result": self._user_says()}
                )
        if "error" in message:
            return {"error": message["error"]}
        result = message["result"]
        if result.get("resultType") == "input_required":
            (name, asked), *_ = result["inputRequests"].items()
            self.questions.append(asked["params"]["message"])
            del params["_meta"]
            return self.request(
                method,
                **params,
                inputResponses={name: self._user_says()},
                requestState=result["requestState"],
            )
        return result

    def _envelope(self) -> dict[str, Any]:
        name = "io.modelcontextprotocol/clientCapabilities"
        return ENVELOPE | {name: self._can}

    def _user_says(self) -> dict[str, Any]:
        if self.agrees:
            return {"action": "accept", "content": {"confirm": True}}
        return {"action": "decline"}

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its value, its text as ``text``, or the error under ``error``."""
        result = self.request("tools/call", name=tool, arguments=arguments)
        failed = "error" in result or result.get("isError", False)
        key = (tool, arguments.get("action", "") if tool == "manage" else "")
        self.driven[key].add("refused" if failed else "done")
        if "error" in result:
            return {"error": result["error"]["data"]}
        if failed:
            return {"error": json.loads(result["content"][0]["text"])}
        return result.get("structuredContent") or {"text": result["content"][0]["text"]}

    def listen(self, wanted: dict[str, Any]) -> None:
        """Open a stream of changes, which stays open."""
        self._number += 1
        params = {"notifications": wanted, "_meta": self._envelope()}
        method = "subscriptions/listen"
        self.server.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})

    def wait_until_updated(self, uri: str) -> None:
        """Wait for the notification that a resource has changed; it may be one of ``told``."""
        updated = {"method": "notifications/resources/updated", "uri": uri}
        while not any(updated == _named(one) for one in self.told):
            self.told.append(self._look(self.server.receive(within=LATER)))


def _named(message: dict[str, Any]) -> dict[str, Any]:
    """Return what a notification of a resource is about."""
    return {"method": message.get("method"), "uri": message.get("params", {}).get("uri")}
