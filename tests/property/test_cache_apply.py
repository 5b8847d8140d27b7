"""Compare the note table with a dictionary, over any sequence of changes from a note service."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.search.parser import parse
from mcp_notarium.storage import integrity
from mcp_notarium.storage.note_rows import with_text, without_text
from mcp_notarium.storage.note_table import Counts
from support import corpus
from support.cache_room import make

IDS = [f"n{number}" for number in range(6)]
WORDS = ("wombat", "zebra", "ŁÓDŹ", "東京", "")

edit = st.tuples(
    st.sampled_from(IDS),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(("a", "A", "ż")), max_size=3).map(tuple),
    st.booleans(),
)
step = st.one_of(
    edit.map(lambda made: ("edit", *made)),
    st.tuples(st.just("again"), st.sampled_from(IDS)),
    st.tuples(st.just("gone"), st.sampled_from(IDS)),
)
page = st.lists(step, max_size=14)
life = st.lists(st.one_of(page, page, st.just("clear"), st.just("tidy")), max_size=6)


class Service:
    """A note service: what it holds, its version numbers, and everything it ever said."""

    def __init__(self, *, numbered):
        self.notes = {}
        self.versions = dict.fromkeys(IDS, 0)
        self.numbered = numbered

    def say(self, kind, note_id, word="", tags=(), trash=False):
        if kind == "gone":
            self.notes.pop(note_id, None)
            return Tombstone(note_id)
        if kind == "again":
            return self.notes.get(note_id, Tombstone(note_id))
        self.versions[note_id] += 1
        version = self.versions[note_id]
        content = Content(f"{word} text of version {version}\n", tags, trash)
        made = corpus.make(note_id, content, version=version)
        if not self.numbered:
            made = Revision(made.id, made.etag, content, 1.5, 2.5, made.raw)
        self.notes[note_id] = made
        return made


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    made = make(tmp_path_factory.mktemp("model"))
    yield made
    made.close()


def agrees(cache, notes):
    assert cache.notes.etags() == {note.id: note.etag for note in notes.values()}
    assert {note_id: cache.notes.base(note_id) for note_id in notes} == notes
    trashed = sum(note.content.trash for note in notes.values())
    assert cache.notes.counts() == Counts(len(notes) - trashed, trashed)
    for word in filter(None, WORDS):
        holding = {note.id for note in notes.values() if word in note.content.text}
        found = cache.search.find(parse(f"{word} trash:any"), limit=20)
        assert {summary.id for summary in found.notes} == holding


@settings(max_examples=40, deadline=None)
@given(life=life, numbered=st.booleans())
def test_the_table_holds_what_the_service_said_last(cache, life, numbered):
    service, shown = Service(numbered=numbered), {}
    with cache.transaction():
        cache.notes.clear()
        cache.sync_state.set("local_version_floor", None)
    for event in life:
        if event == "tidy":
            cache.notes.tidy()
            continue
        with cache.transaction():
            if event == "clear":
                cache.notes.clear()
            else:
                cache.notes.apply([service.say(*step) for step in event])
        known = {} if event == "clear" else service.notes
        if event != "clear":
            missing = [note for note in known.values() if cache.notes.get(note.id) is None]
            with cache.transaction():
                cache.notes.apply(missing)
        agrees(cache, known)
        for note_id in known:
            note = cache.notes.get(note_id)
            # One number never stands for two texts, whatever was cleared in between.
            if note_id not in {step[1] for page in life for step in page if step[0] == "gone"}:
                assert shown.setdefault((note_id, note.local_version), note.text) == note.text
    assert integrity.check(cache.database) == ()


text = st.text(alphabet=st.characters(), max_size=60)  # lone surrogates too


@given(raw=text, note=text)
def test_any_raw_object_is_put_together_again_exactly(raw, note):
    try:
        raw.encode()
    except UnicodeEncodeError:
        return
    assert with_text(without_text(raw, note), note) == raw


@given(note=text, escaped=st.booleans(), rest=st.dictionaries(text, text, max_size=3))
def test_the_text_is_not_stored_twice_in_either_spelling_of_json(note, escaped, rest):
    raw = json.dumps({"a": rest, "content": note, "z": rest}, ensure_ascii=escaped)
    stored = without_text(raw, note)
    if any("\ud800" <= character <= "\udfff" for character in raw):
        assert json.loads(with_text(stored, note)) == json.loads(raw)
    else:
        assert stored.text_at is not None
        assert with_text(stored, note) == raw
