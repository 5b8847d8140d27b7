"""What a bucket remembers, refuses and forgets."""

from __future__ import annotations

import itertools

import pytest

from notarium_devtools.simperium import Bucket, Limits, Refused, whole_note
from notarium_devtools.simperium.objects import NOTE, SchemaRefused

NOW = 1_700_000_000.0


def bucket(**limits) -> Bucket:
    return Bucket(rules=NOTE, limits=Limits(**limits), clock=lambda: NOW)


def note(content="text", **fields):
    return whole_note({"content": content, **fields}, now=NOW)


def refusal(action, *args, **kwargs) -> int:
    with pytest.raises(Refused) as caught:
        action(*args, **kwargs)
    return caught.value.status


def versions_kept(notes: Bucket, object_id: str) -> list[int]:
    newest = notes.read(object_id).version
    return [n for n in range(1, newest + 1) if _has(notes, object_id, n)]


def _has(notes, object_id, version) -> bool:
    try:
        notes.read(object_id, version)
    except Refused:
        return False
    return True


def test_a_new_object_is_version_one_and_grows_by_one():
    notes = bucket()

    first = notes.write("a", note("one"))
    second = notes.write("a", {"content": "two"})

    assert (first.version, second.version) == (1, 2)
    assert notes.read("a", 1).value["content"] == "one"


def test_a_partial_post_keeps_the_other_keys():
    notes = bucket()
    notes.write("a", note(tags=["x"]))

    stored = notes.write("a", {"content": "new"})

    assert stored.value["tags"] == ["x"]


def test_replace_drops_the_other_keys():
    notes = bucket()
    notes.write("a", {**note(), "junk": 1})

    stored = notes.write("a", note("new"), replace=True)

    assert "junk" not in stored.value


def test_a_repeated_ccid_is_refused_and_stores_nothing():
    notes = bucket()
    notes.write("a", note("one"), ccid="c1")

    assert refusal(notes.write, "a", {"content": "two"}, ccid="c1") == 409
    assert notes.read("a").value["content"] == "one"


def test_a_ccid_is_forgotten_after_many_others():
    notes = bucket(ccid_memory=2)
    for number in range(3):
        notes.write(f"n{number}", note(), ccid=f"c{number}")

    assert notes.write("a", note(), ccid="c0").version == 1
    assert refusal(notes.write, "b", note(), ccid="c2") == 409


def test_a_post_that_changes_nothing_is_412_and_makes_no_version():
    notes = bucket()
    notes.write("a", note())
    before = notes.current

    assert refusal(notes.write, "a", note(), ccid="c") == 412
    assert (notes.read("a").version, notes.current) == (1, before)


def test_posting_the_unchanged_base_again_is_no_revert():
    notes = bucket()
    notes.write("a", note("one"))
    notes.write("a", {"content": "two"})

    assert refusal(notes.write, "a", note("one"), base=1) == 412
    assert notes.read("a").value["content"] == "two"


def test_a_stale_base_is_rebased_without_an_error():
    notes = bucket()
    notes.write("a", note("b"))
    notes.write("a", {"content": "bc"})

    stored = notes.write("a", {"content": "bd"}, base=1)

    assert (stored.version, stored.value["content"]) == (3, "bcd")


@pytest.mark.parametrize("base", [2, 99])
def test_an_unknown_base_is_404(base):
    notes = bucket()
    notes.write("a", note())

    assert refusal(notes.write, "a", {"content": "x"}, base=base) == 404


def test_a_base_of_an_object_that_does_not_exist_is_404():
    assert refusal(bucket().write, "a", note(), base=1) == 404


@pytest.mark.parametrize("missing", sorted(NOTE.required))
def test_a_create_lacking_a_field_is_refused_by_its_name(missing):
    incomplete = {key: value for key, value in note().items() if key != missing}

    with pytest.raises(SchemaRefused) as caught:
        bucket().write("a", incomplete)
    assert (caught.value.status, caught.value.field) == (400, missing)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", 5),
        ("tags", "x"),
        ("tags", [1]),
        ("systemTags", None),
        ("creationDate", "2020-01-01"),
        ("creationDate", True),
        ("modificationDate", NOW * 1000),
        ("modificationDate", -1),
        ("deleted", 2),
        ("deleted", "yes"),
        ("publishURL", None),
    ],
)
def test_a_field_of_the_wrong_form_is_refused(field, value):
    assert refusal(bucket().write, "a", note(**{field: value})) == 400


def test_an_old_odd_value_may_stay_while_another_field_changes():
    notes = bucket()
    notes.load({"a": {"content": "old", "modificationDate": NOW * 1000, "junk": {}}})

    stored = notes.write("a", {**notes.read("a").value, "content": "new"})

    assert stored.value["modificationDate"] == NOW * 1000


def test_a_numeric_deleted_flag_is_accepted():
    assert bucket().write("a", note(deleted=1)).value["deleted"] == 1


def test_an_object_too_large_after_the_merge_is_413():
    notes = bucket(max_object_bytes=1_000)
    notes.write("a", {**note("x" * 400), "junk": "y" * 300})

    assert refusal(notes.write, "a", {"content": "x" * 700}) == 413
    assert notes.read("a").version == 1


@pytest.mark.parametrize("bad", ["", "a b", "a/b", "é", "x" * 257])
def test_a_bad_id_is_400(bad):
    assert refusal(bucket().write, bad, note()) == 400
    assert refusal(bucket().read, bad) == 400


@pytest.mark.parametrize("good", ["a", "a.b", "a%20b", "x@y.z", "x" * 256, "A-_9"])
def test_every_allowed_id_is_taken(good):
    assert bucket().write(good, note()).id == good


def test_an_object_outside_the_trash_is_not_deleted():
    notes = bucket()
    notes.write("a", note())

    assert refusal(notes.remove, "a") == 400
    assert "a" in notes


def test_a_deleted_object_is_gone_with_all_its_versions():
    notes = bucket()
    notes.write("a", note())
    notes.write("a", {"deleted": True})

    notes.remove("a", base=2)

    assert [refusal(notes.read, "a", v) for v in (None, 1, 2)] == [404, 404, 404]
    assert notes.page(limit=9).entries == ()
    assert refusal(notes.remove, "a") == 404


@pytest.mark.parametrize(("base", "status"), [(1, 405), (3, 404), (0, 404)])
def test_a_delete_naming_another_than_the_newest_version_is_refused(base, status):
    notes = bucket()
    notes.write("a", note())
    notes.write("a", {"deleted": True})

    assert refusal(notes.remove, "a", base=base) == status
    assert "a" in notes


@pytest.mark.parametrize(("restart", "version"), [(True, 1), (False, 3)])
def test_a_created_again_id_restarts_or_continues_its_versions(restart, version):
    notes = bucket(restart_versions=restart)
    notes.write("a", note())
    notes.write("a", {"deleted": True})
    notes.remove("a")

    assert notes.write("a", note("again")).version == version
    assert notes.read("a").value["content"] == "again"


def test_old_versions_go_as_the_vendors_example_says():
    notes = bucket(recent_versions=50, archived_versions=2)
    notes.write("a", note("0"))
    for number in range(1, 100):
        notes.write("a", {"content": str(number)})

    assert versions_kept(notes, "a") == [31, 41, *range(51, 101)]
    assert notes.read("a", 41).value["content"] == "40"


def test_by_default_sixty_versions_stay_and_every_tenth_before():
    notes = bucket()
    notes.write("a", note("0"))
    for number in range(1, 200):
        notes.write("a", {"content": str(number)})

    assert versions_kept(notes, "a") == [*range(1, 141, 10), *range(141, 201)]
    assert refusal(notes.write, "a", {"content": "x"}, base=140) == 404


def test_the_index_lists_the_latest_change_first():
    notes = bucket()
    for name in "abc":
        notes.write(name, note())
    notes.write("a", {"content": "changed"})

    assert [entity.id for entity in notes.page(limit=9).entries] == ["a", "c", "b"]


def test_pages_cover_everything_once_and_only_the_last_has_no_mark():
    notes = bucket()
    for number in range(25):
        notes.write(f"n{number:02}", note())

    seen, mark, marks = [], None, []
    for _ in range(3):
        page = notes.page(limit=10, mark=mark)
        seen += [entity.id for entity in page.entries]
        mark = page.mark
        marks.append(mark)

    assert seen == [f"n{number:02}" for number in reversed(range(25))]
    assert [m is None for m in marks] == [False, False, True]


def test_exactly_one_full_page_has_no_mark():
    notes = bucket()
    for number in range(10):
        notes.write(f"n{number}", note())

    assert notes.page(limit=10).mark is None


def test_a_note_changed_between_pages_is_missed_by_the_later_page():
    notes = bucket()
    for name in "abcd":
        notes.write(name, note())
    first = notes.page(limit=2)

    notes.write("a", {"content": "jumps ahead"})
    second = notes.page(limit=2, mark=first.mark)

    assert [entity.id for entity in second.entries] == ["b"]
    assert second.current != first.current


@pytest.mark.parametrize("mark", ["", "zz", "0000000000", "nonsense"])
def test_a_mark_that_was_never_given_is_400(mark):
    assert refusal(bucket().page, limit=5, mark=mark) == 400


def test_since_lists_what_changed_but_never_a_removal():
    notes = bucket()
    for name in "abc":
        notes.write(name, note(deleted=True))
    cv = notes.current
    notes.write("b", {"content": "changed"})
    notes.remove("c")

    assert [entity.id for entity in notes.page(limit=9, since=cv).entries] == ["b"]


def test_a_cv_is_24_hex_digits_and_does_not_count():
    notes = bucket()
    cvs = []
    for number in range(50):
        notes.write(f"n{number}", note())
        cvs.append(notes.current)

    assert all(len(cv) == 24 and int(cv, 16) >= 0 for cv in cvs)
    assert len(set(cvs)) == 50
    assert cvs != sorted(cvs)


def test_changes_since_a_cv_come_oldest_first_and_end_at_the_current_one():
    notes = bucket()
    notes.write("a", note())
    cv = notes.current
    notes.write("b", note(), ccid="c", clientid="me")
    notes.write("a", {"deleted": True})
    notes.remove("a")

    changes = notes.changes_since(cv)

    assert [(c.id, c.start_version, c.end_version) for c in changes] == [
        ("b", 0, 1),
        ("a", 1, 2),
        ("a", 2, 3),
    ]
    assert (changes[0].ccids, changes[0].clientid) == (("c",), "me")
    assert changes[-1].after is None
    assert changes[-1].cv == notes.current


@pytest.mark.parametrize("cv", [None, "", "0" * 24])
def test_a_cv_that_is_missing_or_unknown_is_404(cv):
    assert refusal(bucket().changes_since, cv) == 404


def test_a_cv_ages_out_of_the_bounded_log():
    notes = bucket(change_log=3)
    cvs = [notes.current]
    for number in range(5):
        notes.write(f"n{number}", note())
        cvs.append(notes.current)

    answers = [
        refusal(notes.changes_since, cv) if n < 2 else len(notes.changes_since(cv))
        for n, cv in enumerate(cvs)
    ]

    assert answers == [404, 404, 3, 2, 1, 0]


def test_loaded_objects_are_old_news():
    notes = bucket()
    before = notes.current
    notes.load({"old": note("old"), "new": note("new")})

    assert [entity.id for entity in notes.page(limit=9).entries] == ["new", "old"]
    assert notes.changes_since(notes.current) == ()
    assert refusal(notes.changes_since, before) == 404


def test_a_forgotten_log_still_takes_new_changes():
    notes = bucket()
    notes.write("a", note())
    notes.forget_changes()
    cv = notes.current
    notes.write("b", note())

    assert [c.id for c in notes.changes_since(cv)] == ["b"]


def test_many_changes_of_few_objects_leave_the_index_right():
    notes = bucket()
    notes.write("quiet", note())
    names = "abc"
    for name in names:
        notes.write(name, note())
    for number, name in zip(range(3_000), itertools.cycle(names), strict=False):
        notes.force_write(name, note(str(number)))

    first = notes.page(limit=2)
    second = notes.page(limit=2, mark=first.mark)

    assert [e.id for e in first.entries + second.entries] == ["c", "b", "a", "quiet"]
    assert second.mark is None


def test_a_half_surrogate_pair_is_kept():
    notes = bucket()
    notes.write("a", note("half \ud83d pair"))

    assert notes.read("a").value["content"] == "half \ud83d pair"
