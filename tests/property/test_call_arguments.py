"""No object of arguments makes an unexplained error: each tool answers, or refuses in a sentence with a way out."""

import json
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from mcp_notarium.errors import LONGEST_REFUSAL
from mcp_notarium.tools.catalog import flat_schema
from mcp_notarium.tools.toolsets import find_toolset
from support.long import LONG
from support.undo_places import PLACES

pytestmark = pytest.mark.slow("it calls every tool of four stores with hundreds of odd objects")
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 2**70, 10**30, 1.5, 3.0, 1e300]),
    st.sampled_from(
        ["", " ", "0", "1", "true", "False", "null", "undefined", "[]", "{}", "[[]]", "[[x]]", "[[x|y#z]]", "#", "#x",
         "../x", "a/b", "\x00", "\n", "x" * 3000, "9" * 5000, "2024-02-30", "*", "-", '"', "tag:", "NaN", "“”"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)  # fmt: skip
VALUES = st.recursive(
    ODD,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["line_number", "operation", "value", "pinned", "text", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)


def arguments(schema: dict[str, Any], note_id: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of the arguments of a tool, mostly with a real note and a fitting choice, and perhaps others."""
    fields = {
        name: st.sampled_from(one["enum"]) | VALUES
        if "enum" in one
        else (st.just(note_id) | VALUES if name in ("id", "noteId", "path") else VALUES)
        for name, one in schema["properties"].items()
    }
    chosen = st.fixed_dictionaries({}, optional=fields)
    needed = {name: fields[name] for name in schema.get("required", ())}
    others = {name: one for name, one in fields.items() if name not in needed}
    return st.one_of(
        chosen,
        st.fixed_dictionaries(needed, optional=others),
        st.dictionaries(st.text(max_size=5), VALUES, max_size=2),
    )


@pytest.mark.parametrize("store", ["local", "vault", "trilium", "memento"])
def test_no_arguments_make_an_unexplained_error(store, tmp_path):
    made: list[str] = []
    seen: list[str] = []

    async def run() -> None:
        async with PLACES[store](
            tmp_path, lambda place: made.append(place.put("one", "<p>one</p>", tags=["x"]))
        ) as place:
            toolset = find_toolset("vault_both" if store == "vault" else place.toolset)
            for name, tool in toolset.by_name().items():
                if name == "read_note":
                    continue
                pending: list[dict[str, Any]] = []
                collect(pending, arguments(flat_schema(tool.request, quiet=True), made[0]))
                for sent in pending:
                    if sent.get("action") == "reset_cache":
                        continue  # it takes seconds, and no other argument
                    check(name, sent, await said(place, name, sent))
                    seen.append(name)

    anyio.run(run)
    assert len(set(seen)) >= 4


def collect(into: list[dict[str, Any]], strategy: st.SearchStrategy[dict[str, Any]]) -> None:
    """Draw the objects first: the calls need the event loop."""

    @settings(
        max_examples=80 if LONG else 20,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(sent: dict[str, Any]) -> None:
        into.append(sent)

    draw()


async def said(place: Any, tool: str, sent: dict[str, Any]) -> dict[str, Any] | None:
    """Return the error of a call, or None."""
    try:
        result = await place.client.call_tool(tool, sent)
    except MCPError as error:
        return {"code": error.error.code} | dict(error.error.data or {})
    return json.loads(result.content[0].text) if result.is_error else None


def check(tool: str, sent: dict[str, Any], error: dict[str, Any] | None) -> None:
    if error is None:
        return
    told = f"{tool} {sent!r:.500} -> {error!r:.600}"
    assert error.get("category") not in (None, "INTERNAL"), told
    hint = error.get("resolution_hint", "")
    assert hint or error["message"].endswith("❌"), told
    if error.get("subcategory") != "confirmation_required":
        whole = error["message"] + (
            "" if "code" in error else hint
        )  # that of the protocol has the hint in it
        assert len(whole) < LONGEST_REFUSAL, told
