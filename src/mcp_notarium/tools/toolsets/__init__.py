"""Find a toolset by its name: ours, or one that is native to a kind of store, alone or with ours.

One line in ``NATIVE`` adds a native one. Its names are those of the prepared replies
(``protocol/static_replies.json``), made again by ``python -m notarium_devtools.static_replies``.
"""

from __future__ import annotations

from importlib import import_module

from mcp_notarium.tools.catalog import NOTARIUM, TITLED, WITH_PATHS, Toolset

OURS = {"notarium": NOTARIUM, "titled": TITLED, "with_paths": WITH_PATHS}
NATIVE = {
    "plain_pascal": ("plain", ["pascal"], TITLED),
    "plain_snake": ("plain", ["snake"], TITLED),
    "trilium": ("trilium", [], TITLED),
    "vault": ("vault", [], WITH_PATHS),
    "memento": ("memento", [], TITLED),
}
"""Name: module here, imported only if it is asked for; what its ``toolset`` takes; which of ours may go with it."""
_BOTH = "_both"


def native_modules() -> set[str]:
    """Return the modules of all native toolsets, which none imports before it is asked for."""
    return {f"{__name__}.{module}" for module, _, _ in NATIVE.values()}


def find_toolset(name: str) -> Toolset:
    """Return the toolset of that name; the one of a native toolset with ours ends with ``_both``."""
    if name in OURS:
        return OURS[name]
    module, arguments, ours = NATIVE[name.removesuffix(_BOTH)]
    native: Toolset = import_module(f"{__name__}.{module}").toolset(*arguments)
    return native if not name.endswith(_BOTH) else ours.beside(native)
