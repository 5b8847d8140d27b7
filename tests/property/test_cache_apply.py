"""Compare the note table with a dictionary, over any sequence of changes from a note service."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.search.parser import parse
from mcp_notarium.storage import integrity
from mcp_notarium.storage.note_table import VERSION_FLOOR, Counts
from mcp_notarium.stores.simplenote import note_codec
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
        found = cache.search.find_words(parse(f"{word} trash:any"), limit=20)
        assert {summary.id for summary in found.notes} == holding


@settings(max_examples=40, deadline=None)
@given(life=life, numbered=st.booleans())
def test_the_table_holds_what_the_service_said_last(cache, life, numbered):
    service, shown, newest = Service(numbered=numbered), {}, {}
    with cache.transaction():
        cache.notes.clear()
        cache.sync_state.set(VERSION_FLOOR, None)
    for event in life:
        if event == "tidy":
            cache.notes.index.tidy()
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
            # A store may begin its numbers again for a note that is made again; ours never go back.
            gone = {step[1] for page in life for step in page if step[0] == "gone"}
            if not numbered or note_id not in gone:
                assert newest.get(note_id, 0) <= note.local_version
                newest[note_id] = note.local_version
                # One number never stands for two texts, whatever was cleared in between.
                assert shown.setdefault((note_id, note.local_version), note.text) == note.text
    assert integrity.check(cache.database) == ()


text = st.text(st.characters(codec=None), max_size=20)  # lone surrogates too
number = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
value = st.recursive(
    st.none() | st.booleans() | number | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
known = ("content", "tags", "systemTags", "deleted", "creationDate", "modificationDate")
NOW = 1_700_000_000.25
EDITED = {"content": "edited\r\n", "modificationDate": NOW}


@settings(deadline=None)
@given(fields=st.dictionaries(st.sampled_from(known) | text, value | text), content=text)
def test_a_stored_note_is_posted_as_the_service_had_it_with_the_edits(cache, fields, content):
    if not note_codec.is_note(fields):  # the service takes no note without a text
        fields |= {"content": content}
    revision = note_codec.revision_from("n", fields, version=1)
    with cache.transaction():
        cache.notes.clear()
        cache.notes.apply([revision])
    base = cache.notes.base("n")
    unedited = note_codec.compose_fields(note_codec.fields_of(base), base.content, now=NOW)
    assert as_json(unedited) == as_json(fields)
    wanted = replace(base.content, text="edited\r\n")
    posted = note_codec.compose_fields(note_codec.fields_of(base), wanted, now=NOW)
    unchanged = fields.get("content") == "edited\r\n"
    assert as_json(posted) == as_json(fields if unchanged else fields | EDITED)


def as_json(fields):
    """Tell 1 from True and 1.0, which compare equal; the order of keys means nothing."""
    return json.dumps(fields, sort_keys=True)
