"""The view of a profile counts versions as an account of its own, also after a restart, and shows nothing half taken over."""

from __future__ import annotations

import pytest

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.domain.policy import EVERYTHING, Limits, Policy, Visibility
from mcp_notarium.errors import CacheError, NotPermitted, PolicyChanged
from mcp_notarium.storage.cache import apply_rules
from mcp_notarium.storage.profile_view import ViewCache
from mcp_notarium.storage.usage_limits import UsageLimits
from support.cache_room import make, reopen

RULES = EVERYTHING.narrowed(Visibility(hidden_tags=("private",), hidden_ids=("named",)))


def revision(note_id, text, *tags, identity=None):
    """A revision of a store that counts no versions."""
    etag = f"{text} {' '.join(tags)}"
    return Revision(note_id, etag, Content(text, tags), 1.0, 2.0, b"", identity=identity)


def put(cache, *changes):
    for change in changes:
        with cache.transaction():
            cache.notes.apply([change])


def versions(cache):
    cache.follow()
    return dict(cache.database.rows("SELECT id, local_version FROM notes"))


@pytest.fixture(name="cache")
def _cache(tmp_path):
    cache = make(tmp_path, key=None, name="c.sqlite")
    apply_rules(cache)
    yield cache
    cache.close()


def test_no_number_tells_of_hidden_notes_or_means_another_text_after_a_restart(cache, tmp_path):
    view = ViewCache(cache, RULES, "guest")
    for turn in range(5):
        put(cache, revision("hidden", f"h{turn}", "private"))
    put(cache, Tombstone("hidden"), revision("a", "one"), revision("b", "two"))
    assert cache.notes.get("a").local_version > 1  # as the hidden note has left it
    assert versions(view) == {"a": 1, "b": 1}
    put(cache, revision("a", "one more"), revision("a", "one more", "private"))
    assert versions(view) == {"b": 1}
    put(cache, revision("a", "one more", "shown"), revision("b", "two more"))
    assert versions(view) == {"a": 2, "b": 2}
    told = cache.notes.get("b").local_version
    view.database.close()

    again = reopen(tmp_path, key=None, name="c.sqlite")
    put(again, Tombstone("b"), revision("c", "three"))
    view = ViewCache(again, RULES, "guest")
    assert versions(view) == {"a": 2, "c": 3}
    put(again, revision("b", "another"))
    assert versions(view)["b"] > 2, told
    view.close()


def test_an_id_that_a_profile_hides_hides_its_note_under_every_name(cache):
    view = ViewCache(cache, RULES, "guest")
    put(cache, revision("named", "secret", identity="7"), revision("free", "open", identity="8"))
    assert {*versions(view)} == {"free"}
    with cache.transaction():
        cache.notes.rename("named", "other")
    assert {*versions(view)} == {"free"}
    put(cache, revision("free", "open", "private", identity="8"))
    assert versions(view) == {}
    assert {*cache.notes.etags()} == {"other", "free"}


def test_a_note_that_was_renamed_while_no_server_had_the_profile_stays_hidden(tmp_path):
    cache = make(tmp_path, key=None, name="c.sqlite", rules=Visibility(followed_ids=("named",)))
    apply_rules(cache)
    put(cache, revision("named", "secret", identity="7"), revision("free", "open", identity="8"))
    with cache.transaction():  # as a listing tells it
        cache.notes.follow([("other", "7")])
        cache.notes.rename("named", "other")
    put(
        cache, revision("other", "secret as before", identity="9")
    )  # written anew: nothing but the id tells
    assert {*cache.notes.etags()} == {"free", "other"}
    view = ViewCache(cache, RULES, "guest")
    assert {*versions(view)} == {"free"}
    view.close()


def test_what_was_taken_over_in_part_is_forgotten_and_other_rules_stop_it(cache, monkeypatch):
    view = ViewCache(cache, RULES, "guest")
    put(cache, revision("a", "one"))
    before = versions(view)
    put(cache, revision("b", "two"), revision("a", "one", "private"))

    def fails(*_args):
        raise CacheError("the disk is gone")

    monkeypatch.setattr(view.notes, "apply", fails)
    with pytest.raises(CacheError):
        view.follow()
    assert view.notes.etags() == {}
    monkeypatch.undo()
    assert {*versions(view)} == {"b"} != {*before}
    cache.database.run("INSERT INTO sync_metadata VALUES ('policy.visibility', 'other')")
    with pytest.raises(PolicyChanged):
        view.follow()


def test_writes_of_an_hour_count_for_all_and_for_each_profile_alone(cache):
    policy = Policy(limits=Limits(writes_per_hour=3))
    narrow = policy.narrowed("narrow", Policy(limits=Limits(writes_per_hour=1)))
    wide = policy.narrowed("wide", Policy(limits=Limits(writes_per_hour=50)))

    def session(of):
        return UsageLimits(of.limits, cache, clock=lambda: 1000.0, hourly=of.hourly)

    def writes(one):
        with one.write():
            pass

    writes(session(narrow))
    for one in (session(narrow), session(narrow)):
        with pytest.raises(NotPermitted):
            writes(one)
    assert session(wide).writes_left == 2
    writes(session(wide))
    writes(session(policy))
    for of in (policy, wide, narrow):
        assert session(of).writes_left == 0
