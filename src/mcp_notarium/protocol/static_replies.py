"""Answer handshake, discover, ping and lists from a prepared file.

``notarium_devtools.static_replies`` asks the SDK for them, so they are what the SDK would say in every
protocol version. Nothing here knows the connection: see ``connection``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mcp_notarium.domain.policy import Policy
from mcp_notarium.tools.tool import ToolNames, form_without, instructions_without

Json = dict[str, Any]
Reply = dict[str, Json]
"""``{"result": ...}`` or ``{"error": ...}``."""


PATH = Path(__file__).with_suffix(".json")
"""``notarium``: the replies of a server with our toolset; ``differences``: what those of each other toolset have instead;
``beside``: which of ours each native toolset goes with."""
BOTH = "_both"
"""The end of the name of a native toolset that goes with ours: such replies are composed of both."""


def read_replies(toolset: str = "notarium") -> Json:
    """Return the replies of a server with all tools of the toolset.

    ``rules`` name what the policy calls each tool, ``needs`` the tools that each prompt asks for, ``stands``
    the tool whose rules hold for each resource.
    """
    text = PATH.read_bytes()
    if not toolset.endswith(BOTH):
        return _read(json.loads(text), toolset)
    stored, native = json.loads(text), toolset.removesuffix(BOTH)
    both: Json = _join(_read(stored, stored["beside"][native]), _read(json.loads(text), native))
    return both


def _read(stored: Json, toolset: str) -> Json:
    """Return the replies of a toolset, made of the stored ones in their place."""
    replies: Json = stored["notarium"]
    for pointer, value in stored["differences"].get(toolset, {}).items():
        *above, last = pointer.split(" ")
        node: Any = replies
        for name in above:
            node = node[int(name)] if isinstance(node, list) else node[name]
        if not value:
            del node[last]
        elif isinstance(node, list):
            node[int(last)] = value[0]
        else:
            node[last] = value[0]
    return replies


def _join(ours: Any, other: Any, key: str = "") -> Any:
    """Return the replies of two toolsets as one."""
    if key in ("tools", "prompts") and isinstance(ours, list):
        return ours + other
    if key == "instructions":
        return f"{ours}\n{other}"
    if key == "lists":
        return [_join(*both) for both in zip(ours, other, strict=True)]
    if isinstance(ours, dict) and isinstance(other, dict):
        joined = {name: _join(ours[name], other[name], name) for name in ours if name in other}
        return ours | other | joined
    return ours


def offering(
    replies: Json, policy: Policy, prefix: str = "", lacking: Collection[str] = ()
) -> Json:
    """Return the replies of a server whose policy leaves out what it forbids altogether.

    ``prefix`` stands before the name of every tool. ``lacking``: see ``Toolset.permitted``.
    """
    parts = {*policy.forbidden_actions, *lacking}
    ours = {name for name, rule in replies["rules"].items() if rule == [name, None]}
    gone = {name for name, rule in replies["rules"].items() if not policy.offers(*rule)}
    unread = {name for name, tool in replies["stands"].items() if not policy.offers(tool)}
    without = {
        "tools": gone,
        "prompts": {name for name, tools in replies["needs"].items() if gone & set(tools)},
        "resources": unread,
        "resourceTemplates": unread,
    }

    names = ToolNames(prefix, replies["rules"])

    def narrow(node: Any, key: str = "") -> Any:
        if key == "instructions":
            return names.in_text(instructions_without(node, gone))
        if isinstance(node, list):
            left_out = without.get(key, ())
            kept = [narrow(each) for each in node if not left_out or each["name"] not in left_out]
            if key != "tools":
                return kept
            forms = [form_without(x, parts) if parts and x["name"] in ours else x for x in kept]
            return [form | {"name": names.shown(form["name"])} for form in forms]
        if isinstance(node, dict):
            pages = ("nextCursor",) if unread else ()
            return {k: narrow(v, k) for k, v in node.items() if k not in pages}
        return node

    if not (gone or unread or prefix or parts):
        return replies
    narrowed: Json = names.in_descriptions(narrow(replies))
    return narrowed


class StaticReplies:
    """Look up replies by protocol version and method."""

    def __init__(self, replies: Json) -> None:
        self._replies = replies

    def negotiate(self, requested: str) -> str:
        """Return the version of a connection whose client requests this one."""
        versions = list(self._replies["list_of"])
        return requested if requested in versions else versions[-1]

    def handshake(self, version: str) -> Json:
        """Return the result of ``initialize``."""
        result: Json = self._replies["initialize"]
        return result | {"protocolVersion": version}

    def find(self, version: str, method: str, params: Json) -> Reply | None:
        """Return the reply to a request in this version; None if the SDK has to give it."""
        if params.get("cursor") is not None:
            return None
        if self.serves(version):
            replies = self._replies["modern"][version]
        elif method == "tools/list":
            return {"result": self._replies["lists"][self._replies["list_of"][version]]}
        else:
            replies = self._replies["handshake"]
        reply: Reply | None = replies.get(method)
        return reply

    def serves(self, version: object) -> bool:
        """Return whether requests with an envelope of this version are served."""
        return isinstance(version, str) and version in self._replies["modern"]

    def unsupported_version_error(self, version: object) -> Json:
        """Return the error for an envelope of another version."""
        error: Json = self._replies["unsupported"]
        return error | {"data": error["data"] | {"requested": version}}
