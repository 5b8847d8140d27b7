"""Links of notes and links to them, and notes of a folder: as the notes are now, without hidden ones."""

import pytest

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.markup.obsidian_links import Links, find_targets
from mcp_notarium.search.parser import parse
from mcp_notarium.storage.cache import Cache, apply_rules


def note(path, text="", *, etag="1", aliases=(), **content):
    links = Links(find_targets(text), tuple(aliases))
    return Revision(path, etag, Content(text, **content), 0.0, 0.0, b"", links=links)


def put(cache, *notes):
    with cache.transaction():
        cache.notes.apply(notes)


def links(cache, path):
    return list(cache.notes.links.of(path).links)


def linked_from(cache, path):
    return list(cache.notes.links.of(path).linked_from)


def found(cache, query):
    page = cache.search.find_words(parse(query), limit=50)
    assert page.total == len(page.notes)
    return sorted(one.id for one in page.notes)


@pytest.fixture
def vault(cache):
    put(
        cache,
        note("Plan.md", "[[Tea]] [[nobody]] [[Plan]] [milk](Shop/Milk.md)"),
        note("Work/Tea.md", "[[Chai]]", aliases=("Chai", "Brew")),
        note("Shop/Milk.md", "![[plan#x]] [[brew]]"),
        note("Shopping.md", "[[Milk]]"),
    )
    return cache


def test_links_name_the_notes_that_they_mean(vault):
    assert links(vault, "Plan.md") == [
        ("Tea", "Work/Tea.md"),
        ("nobody", None),
        ("Plan", "Plan.md"),
        ("Shop/Milk.md", "Shop/Milk.md"),
    ]
    assert links(vault, "Work/Tea.md") == [("Chai", "Work/Tea.md")]
    assert linked_from(vault, "Work/Tea.md") == ["Plan.md", "Shop/Milk.md"]
    assert linked_from(vault, "Plan.md") == ["Shop/Milk.md"]
    assert linked_from(vault, "Shop/Milk.md") == ["Plan.md", "Shopping.md"]
    assert vault.notes.links.of("none.md").linked_from == ()


def test_a_note_that_comes_nearer_takes_the_links(vault):
    put(vault, note("Tea.md"))
    assert links(vault, "Plan.md")[0] == ("Tea", "Tea.md")
    assert linked_from(vault, "Work/Tea.md") == ["Shop/Milk.md"]
    put(vault, Tombstone("Tea.md"))
    assert linked_from(vault, "Work/Tea.md") == ["Plan.md", "Shop/Milk.md"]


def test_links_follow_edits_renames_and_the_trash(vault):
    put(vault, note("Plan.md", "[[Milk]]", etag="2"))
    assert links(vault, "Plan.md") == [("Milk", "Shop/Milk.md")]
    with vault.transaction():
        vault.notes.rename("Shop/Milk.md", "Shop/Cream.md")
    assert links(vault, "Plan.md") == [("Milk", None)]
    assert links(vault, "Shop/Cream.md")[0] == ("plan", "Plan.md")
    assert found(vault, "path:shop/cream.md") == ["Shop/Cream.md"]
    assert found(vault, "path:shop/milk.md") == []
    put(vault, note("Plan.md", "[[Milk]]", etag="3", trash=True))
    assert links(vault, "Shop/Cream.md")[0] == ("plan", None)
    put(vault, note("Shopping.md", "[[Cream]]", etag="2", trash=True))
    assert linked_from(vault, "Shop/Cream.md") == []
    with vault.transaction():
        vault.notes.clear()
    assert vault.database.number("SELECT count(*) FROM note_names") == 0


def test_links_to_a_place_where_a_note_was_before_are_found_with_where_it_is_now(vault):
    targets = ["Tea", "Work/Tea.md", "Chai", "nobody", "Milk"]
    assert vault.notes.links.find_moved("Plan.md", targets) == {}
    with vault.transaction():
        vault.notes.rename("Work/Tea.md", "Work/Mate.md")
    once = vault.notes.links.find_moved("Plan.md", targets)
    assert once == {
        ("Tea", False): "Mate",
        ("Tea", True): "Mate",
        ("Work/Tea.md", False): "Work/Mate.md",
        ("Work/Tea.md", True): "Work/Mate.md",
    }
    with vault.transaction():
        vault.notes.rename("Work/Mate.md", "Home/Tea.md")
    assert vault.notes.links.find_moved("Plan.md", ["Mate", "Tea"]) == {
        ("Mate", False): "Tea",
        ("Mate", True): "Tea",
    }
    put(vault, note("Work/Mate.md"))
    assert vault.notes.links.find_moved("Plan.md", ["Mate"]) == {}, "another note has that name"


@pytest.mark.parametrize(
    "rules",
    [
        Visibility(hidden_paths=("work",)),
        Visibility(hidden_tags=("private",)),
        Visibility(hidden_ids=("Work/Tea.md",)),
    ],
)
def test_a_hidden_note_is_no_end_of_a_link(cache, rules):
    secret = note("Work/Tea.md", "[[Plan]]", tags=("private",), aliases=("Chai",))
    plan = note("Plan.md", "[[Tea]] [[Chai]] [[Work/Tea]]")
    put(cache, plan, secret)
    assert linked_from(cache, "Plan.md") == ["Work/Tea.md"]
    ruled = Cache(cache.database, rules)
    apply_rules(ruled)
    for _ in range(2):
        assert links(ruled, "Plan.md") == [("Tea", None), ("Chai", None), ("Work/Tea", None)]
        assert linked_from(ruled, "Plan.md") == []
        assert found(ruled, "path:work") == []
        for table in ("note_names", "note_links"):
            rows = ruled.database.rows(f"SELECT * FROM {table}")
            assert not [row for row in rows if "work/tea" in row or "chai" in row[:2]]
        put(ruled, secret)


def test_a_folder_is_found_with_all_below_it_in_any_spelling(vault):
    put(vault, note("shop/deep/Übung.md", "milk"), note("Über/a.md"), note("Plan/b.md"))
    assert found(vault, "path:Shop") == ["Shop/Milk.md", "shop/deep/Übung.md"]
    assert found(vault, "path:SHOP/Deep/") == ["shop/deep/Übung.md"]
    assert found(vault, 'path:"u\u0308ber"') == ["Über/a.md"]
    assert found(vault, "path:Sho") == found(vault, "path:Plan.m") == []
    assert found(vault, "path:plan") == ["Plan/b.md"]
    assert found(vault, "path:shop milk") == ["shop/deep/Übung.md"]
    assert found(vault, "path:shop OR path:work") == found(
        vault, "-path:plan -path:plan.md -path:shopping.md -path:über"
    )
    assert found(vault, "milk -path:shop") == ["Plan.md", "Shopping.md"]


def test_notes_of_a_store_without_paths_have_no_names(cache):
    put(cache, Revision("1", "1", Content("[[2]]"), 0.0, 0.0, b""))
    assert cache.notes.links.of("1").links == ()
    for table in ("note_names", "note_links"):
        assert cache.database.number(f"SELECT count(*) FROM {table}") == 0
