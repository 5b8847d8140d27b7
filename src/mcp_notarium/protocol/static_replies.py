"""Answer handshake, discover, ping and lists from a prepared file, one for each toolset.

``notarium_devtools.static_replies`` asks the SDK for them, so they are what the SDK would say in every
protocol version. Nothing here knows the connection: see ``session``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mcp_notarium.domain.policy import Policy
from mcp_notarium.tools.tool_names import ToolNames, form_without, instructions_without

Json = dict[str, Any]
Reply = dict[str, Json]
"""``{"result": ...}`` or ``{"error": ...}``."""


def path_of(toolset: str) -> Path:
    """Return the file with the replies of this toolset."""
    return Path(__file__).with_name(f"static_replies.{toolset}.json")


def read_replies(toolset: str = "notarium") -> Json:
    """Return the content of the file: the replies of a server with all tools of the toolset.

    ``rules`` name what the policy calls each tool, ``needs`` the tools that each prompt asks for, ``stands``
    the tool whose rules hold for each resource.
    """
    replies: Json = json.loads(path_of(toolset).read_bytes())
    return replies


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

    def by_handshake(self, version: str, method: str, params: Json) -> Reply | None:
        """Return the reply on a connection that began with a handshake; None if the SDK has to give it."""
        if params.get("cursor") is not None:
            return None
        if method == "tools/list":
            return {"result": self._replies["lists"][self._replies["list_of"][version]]}
        reply: Reply | None = self._replies["handshake"].get(method)
        return reply

    def by_envelope(self, version: str, method: str, params: Json) -> Reply | None:
        """Return the reply to a request with an envelope; None if the SDK has to give it."""
        if params.get("cursor") is not None:
            return None
        reply: Reply | None = self._replies["modern"][version].get(method)
        return reply

    def serves(self, version: object) -> bool:
        """Return whether requests with an envelope of this version are served."""
        return isinstance(version, str) and version in self._replies["modern"]

    def unsupported_version_error(self, version: object) -> Json:
        """Return the error for an envelope of another version."""
        error: Json = self._replies["unsupported"]
        return error | {"data": error["data"] | {"requested": version}}
