"""Find a toolset by its name: ours, or one that is native to a kind of store, alone or with ours.

One line in ``_NATIVE`` adds a native one. Its names are those of the prepared replies
(``protocol/static_replies.json``), made again by ``python -m notarium_devtools.static_replies``.
"""

from __future__ import annotations

from importlib import import_module

from mcp_notarium.tools.catalog import NOTARIUM, TITLED, WITH_PATHS, Toolset

_OURS = {"notarium": NOTARIUM, "titled": TITLED, "with_paths": WITH_PATHS}
_NATIVE = {
    "plain_pascal": ("plain", ["pascal"], TITLED),
    "plain_snake": ("plain", ["snake"], TITLED),
    "trilium": ("trilium", [], TITLED),
    "vault": ("vault", [], WITH_PATHS),
    "memento": ("memento", [], TITLED),
}
"""Name: module here, imported only if it is asked for; what its ``toolset`` takes; which of ours may go with it."""
_BOTH = "_both"


def toolset_names() -> tuple[str, ...]:
    """Return the name of every toolset."""
    return (*_OURS, *_NATIVE, *(f"{name}{_BOTH}" for name in _NATIVE))


def beside_names() -> dict[str, str]:
    """Return the name of each native toolset, and of ours that may go with it."""
    ours = {id(toolset): name for name, toolset in _OURS.items()}
    return {name: ours[id(toolset)] for name, (_, _, toolset) in _NATIVE.items()}


def native_modules() -> set[str]:
    """Return the modules of all native toolsets, which none imports before it is asked for."""
    return {f"{__name__}.{module}" for module, _, _ in _NATIVE.values()}


def find_toolset(name: str) -> Toolset:
    """Return the toolset of that name, which is one of :func:`toolset_names`."""
    if name in _OURS:
        return _OURS[name]
    module, arguments, ours = _NATIVE[name.removesuffix(_BOTH)]
    native: Toolset = import_module(f"{__name__}.{module}").toolset(*arguments)
    return native if not name.endswith(_BOTH) else ours.beside(native)
