"""The codec of the worked example: any object of the service is read or refused, and nothing else happens."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.stores.json_answers import parse_json, to_json
from notarium_devtools.jotter import codec
from notarium_devtools.jotter.simulator import JotterSimulator

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
IDS = st.sampled_from(["one", "two", "three"])
FIELDS = (*JotterSimulator().write("n1", parent_id="plans"), "todo_due")
CONTENTS = st.builds(Content, st.text(), trash=st.booleans(), title=st.none() | st.text(min_size=1))


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES), st.dictionaries(st.text(), VALUES))
def test_any_object_is_read_or_refused(spoiled, more):
    note = more | JotterSimulator().write("n1", body="x", parent_id="plans") | spoiled
    with suppress(StoreProtocolError):
        revision = codec.decode(note, {"plans": "Work/Plans"})
        assert codec.revision_of(revision.id, codec.compose(revision, revision.content, now=1))
        codec.describe(revision)


@given(st.lists(VALUES | st.fixed_dictionaries(dict.fromkeys(("id", "parent_id"), IDS))))
def test_any_notebooks_have_paths(notebooks):
    found = codec.notebook_paths(notebooks)
    assert all(isinstance(path, str) for path in found.values())


@given(CONTENTS, CONTENTS)
def test_what_is_sent_makes_the_note_that_was_meant(first, second):
    sim = JotterSimulator()
    made = codec.compose(None, first, now=1_700_000_000)
    held = codec.decode(sim.write("n1", **codec.fields_to_send(made)), {})
    assert held.content == first.cleaned() == codec.revision_of("n1", made).content
    changed = codec.compose(held, second, now=1_700_000_500)
    sent = parse_json(to_json(codec.fields_to_send(changed)))
    held = codec.decode(sim.write("n1", **sent), {})
    assert held.content == second.cleaned() == codec.revision_of("n1", changed).content
