"""What ``doctor`` finds about rights: what agents may do, and what a server keeps of its own.

Tells what ``serve`` would do with the same configuration; enters nothing and changes nothing.
"""

from __future__ import annotations

import sys

from mcp_notarium.app import App
from mcp_notarium.cli.doctor_folder import BAD, OK, WARN, Finding
from mcp_notarium.config import Sandbox
from mcp_notarium.config.policy_file import READ_ONLY_VARIABLE, FoundPolicy
from mcp_notarium.errors import ConfigError
from mcp_notarium.files.display_paths import display_path
from mcp_notarium.sandbox.confinement import describe_effect


def policy(found: FoundPolicy) -> Finding:
    """The file that holds, and the tools that are left; its rules are for ``policy show``."""
    where = "no policy file" if found.path is None else display_path(found.path)
    if found.read_only:
        where += f", {READ_ONLY_VARIABLE}"
    tools = ", ".join(found.policy.tools) or "none"
    return Finding("policy", OK, f"{where}; mode {found.policy.mode}; tools: {tools}")


def on_record(app: App) -> Finding:
    """The keyed digest that a server started now leaves in the audit chain for this policy."""
    digest = app.audit.digest("policy", app.policy.meaning)
    if not digest:
        return Finding("policy digest", OK, "none without encryption")
    return Finding("policy digest", OK, digest)


def sandbox(wanted: Sandbox) -> Finding:
    """Whether a server would confine itself, and to what, on this kernel."""
    try:
        effect = describe_effect(wanted)
    except ConfigError as error:
        return Finding("sandbox", BAD, error.message, error.resolution_hint or "")
    if effect is None:
        return Finding("sandbox", WARN, "off: a server keeps all its rights (NOTARIUM_SANDBOX=off)")
    weak = "not confined" in effect and sys.platform == "linux"
    return Finding("sandbox", WARN if weak else OK, f"{wanted}: {effect}")
