"""Define the contract of writing: unchanged text, push, delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from contract.bench import Bench, OnABench, nothing_known
from mcp_notarium.domain.note import (
    Content,
    Properties,
    PropertyPlace,
    Revision,
    Tombstone,
    flags,
)
from mcp_notarium.errors import IdTaken, NoteNotFound, StoreRejected, VersionConflict
from mcp_notarium.markup.templates import Filling
from mcp_notarium.stores.contract import (
    SEEDED,
    Changes,
    Entry,
    PushStatus,
    Retry,
    Traits,
    Versions,
    WriteGuard,
    run_at_once,
)
from mcp_notarium.stores.extensions import CopyingStore
from mcp_notarium.sync.write_attempt import MOST_IDS

SEEDS = ("5ba1e77c" * 4, "5ba1e77d" * 4)
TEXTS = [
    "",
    "a",
    "no final newline",
    "ends with one\n",
    "windows\r\nlines\r\n",
    "lone\rreturn",
    "tab\tand\x00nul and \x0b",
    "línea ñandú ł đ ø",
    "e\u0301 and é are two",
    "汉字 かな 한글 ไทย",
    "flags 🇩🇪 family 👨‍👩‍👧 \U0001f600",
    "separators \u2028 \u2029 \x85",
    'quotes " \\ / <b> %41 ' + "&amp;",
    "\ufeffbyte order mark",
    "x" * 100_000,
]

ODD = [
    *("", " ", " a ", "a b", "a,b", "#a", "a#", "a:b", "a/b", "/a", "a/", "..", ".", "a.", "~a"),
    *("a\nb", "a\rb", "a\tb", "\x00", "\x7f", "\u2028", "\ud83d", "\ufeff", "e\u0301", "É", "İ"),
    *("'a'", '"a"', "[a]", "{a: b}", "- a", "a: b", "null", "true", "1", "1.0", "2031-06-20"),
    *("<b>", "&amp;", "%41", "\\", "a\\b", "CON", "con.md", "a.md", "x" * 300, "😀" * 80),
]

ODD_TITLES = ["", " a ", "a/b", "..", "a\nb", "\ud83d", "x" * 300]


def labelled(traits: Traits, values: Mapping[str, str]) -> Content:
    """A content with these properties, and with their names as tags where they are that, too."""
    return Content("t\n", (*values,) * traits.names_are_tags, properties=Properties(values))


def refuses(bench: Bench) -> bool:
    """Tell whether ``push`` refuses an old base."""
    return bench.store.traits.write_guard is WriteGuard.CAS or bench.store.traits.compares


def compares(bench: Bench) -> bool:
    """Tell whether ``push`` knows an old base."""
    return refuses(bench) or bench.store.traits.write_guard is WriteGuard.SERVER_MERGE


class WritingContract(OnABench):
    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    async def test_text_comes_back_byte_for_byte(self, bench: Bench, text: str) -> None:
        pushed = await self.create(bench, "n1", text)
        stored = self.as_stored(Content(text)).text
        assert pushed.content.text == stored
        assert (await bench.store.get(pushed.id)).content.text == stored
        assert await bench.text(pushed.id) == stored

    async def test_lone_surrogates_become_replacement_characters(self, bench: Bench) -> None:
        pushed = await self.create(bench, "n1", "half \ud83d of a pair")
        assert pushed.content.text == "half \ufffd of a pair"
        assert await bench.text(pushed.id) == "half \ufffd of a pair"

    async def test_tags_keep_order_and_case(self, bench: Bench) -> None:
        if not bench.store.traits.tags:
            return
        words = ("two words",) * bench.store.traits.spaced_tags
        content = Content("t", tags=("Zeta", "alpha", "ÄÖ", "zeta2", *words))
        answer = await bench.store.push(self.write(bench.store, "n1", content))
        assert answer.revision.content == self.as_stored(content)
        assert (await bench.store.get(answer.revision.id)).content == answer.revision.content

    async def test_a_title_goes_through_and_stays_when_the_text_changes(self, bench: Bench) -> None:
        if not bench.store.traits.titles:
            return
        content = Content("t\n", title="  Größe: *1* \U0001f600")
        made = (await bench.store.push(self.write(bench.store, "n1", content))).revision
        assert made.content == self.as_stored(content)
        assert (await bench.store.get(made.id)).content == made.content
        for number, then in enumerate(
            (replace(content, text="u\n"), Content("u\n", title="Other"), Content("u\n"))
        ):
            base = await bench.store.get(made.id)
            write = self.write(bench.store, made.id, then, base=base, write_id=f"0b{number}")
            assert (await bench.store.push(write)).revision.content == self.as_stored(then)

    async def test_properties_are_set_alone_and_others_stay(self, bench: Bench) -> None:
        store = bench.store
        names = sorted(store.traits.properties)
        if not names:
            return
        every = Content("t\n", properties=flags(*names))
        made = (await store.push(self.write(store, "n1", every))).revision
        assert made.content == self.as_stored(every)
        for number, name in enumerate(names):
            base = await store.get(made.id)
            fewer = replace(
                base.content, properties=base.content.properties.having({}, without=[name])
            )
            write = self.write(store, made.id, fewer, base=base, write_id=f"0b{number}")
            assert store.revision_of(made.id, write.body).content == fewer
            answer = await store.push(write)
            assert answer.revision.content == fewer
            assert answer.revision.etag != base.etag
        again = await store.get(made.id)
        assert again.content == Content("t\n")
        write = self.write(store, made.id, every, base=again, write_id="0c")
        assert (await store.push(write)).revision.content == self.as_stored(every)
        _, listed = await self.whole_listing(store, limit=9)
        assert [one.content for one in listed if isinstance(one, Revision)] == [every]

    async def test_a_field_takes_each_value_that_it_may_be_given_and_no_other_is_written(
        self, bench: Bench
    ) -> None:
        held = await self.create(bench, "n1", "t\n")
        for name, values in bench.store.traits.fields.items():
            for value in (*values, *values[:1]):
                properties = held.content.properties.having({name: value})
                write = self.write(
                    bench.store, "n1", replace(held.content, properties=properties), base=held,
                    write_id=f"{name} {value}",
                )  # fmt: skip
                answer = (await bench.store.push(write)).revision
                assert answer.content == bench.store.revision_of("n1", write.body).content
                held = await bench.store.get("n1")
                assert held.content == answer.content
                assert held.content.properties.get(name, values[0]) == value
            if not values:
                properties = held.content.properties.having({name: "made up"})
                wanted = replace(held.content, text="u\n", properties=properties)
                write = self.write(bench.store, "n1", wanted, base=held, write_id=f"{name} none")
                stored = (await bench.store.push(write)).revision.content
                assert stored == bench.store.revision_of("n1", write.body).content
                assert (stored.text, stored.properties) == ("u\n", held.content.properties)
                held = await bench.store.get("n1")

    async def test_a_property_of_any_name_is_set_and_removed_alone(self, bench: Bench) -> None:
        traits = bench.store.traits
        if traits.other_properties is not PropertyPlace.BESIDE:
            return
        both = {"status": "in work", "reviewed": "2031-06-20"}
        changes: list[dict[str, str]] = [
            both,
            both | {"status": "done"},
            {"reviewed": "2031-06-20"},
            {},
        ]
        base = await self.create(bench, "n1", "t\n")
        for number, wanted in enumerate(changes):
            names = (*wanted,) * traits.names_are_tags
            content = replace(base.content, tags=names, properties=Properties(wanted))
            write = self.write(bench.store, "n1", content, base=base, write_id=f"0b{number}")
            answer = (await bench.store.push(write)).revision
            assert answer.content == bench.store.revision_of("n1", write.body).content
            base = await bench.store.get("n1")
            tags = base.content.tags  # a label with another value may be the last one
            assert base.content == answer.content == replace(content, tags=tags)
            assert {*tags} == {*content.tags}

    async def test_a_tag_in_the_text_is_a_tag_where_the_store_says_so(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "plan #alpha\n")
        for number, (text, tags) in enumerate(
            (("plan #alpha\n", ("alpha",)), ("plan #beta\n", ("beta",)), ("plan\n", ()))
        ):
            content = Content(text, base.content.tags, title=base.content.title)
            write = self.write(bench.store, "n1", content, base=base, write_id=f"0b{number}")
            sent = bench.store.revision_of("n1", write.body)
            base = (await bench.store.push(write)).revision
            assert base.content.tags == tags * bench.store.traits.tags_in_text
            assert sent.content.tags == base.content.tags
            assert (await bench.store.get("n1")).content.tags == base.content.tags

    async def test_a_note_comes_back_from_the_trash(self, bench: Bench) -> None:
        if not bench.store.traits.trash:
            return
        await bench.put("n1", "t\n", trash=True)
        base = await bench.store.get("n1")
        assert base.content.trash
        back = self.write(bench.store, "n1", replace(base.content, trash=False), base=base)
        assert (await bench.store.push(back)).revision.content == replace(base.content, trash=False)
        assert not (await bench.store.get("n1")).content.trash
        with pytest.raises((StoreRejected, VersionConflict)):
            await bench.store.delete("n1", etag=base.etag, write_id="0d")
        assert await bench.text("n1") == "t\n"

    async def test_the_content_of_any_revision_makes_a_new_note(self, bench: Bench) -> None:
        """A conflict copy, and a note that comes back, must not be refused."""
        for number, text in enumerate(TEXTS[:-1:2]):
            await bench.put(f"n{number}", text, tags=("a",) * bench.store.traits.tags)
            held = await bench.store.get(f"n{number}")
            content = replace(held.content, title=held.content.title and f"Copy {number}")
            write = self.write(bench.store, f"c{number}", content, write_id=f"c{number}")
            made = (await bench.store.push(write)).revision
            copy = bench.store.revision_of(made.id, write.body).content
            assert made.content == (await bench.store.get(made.id)).content == copy
            assert made.content.tags == held.content.tags

    async def test_a_template_is_copied_with_its_places_filled(self, bench: Bench) -> None:
        if not bench.store.traits.copies:
            return
        store = cast("CopyingStore", bench.store)
        await bench.put("n1", "for {{title}} on {{date}}\n\nrest\n", tags=("plan",))
        template = await store.get("n1")
        filling = Filling(datetime(2031, 6, 20, tzinfo=UTC), "Mate")
        content, said = await store.copy(template, filling)
        assert content is not None
        assert said == ""
        new = self.write(store, "n2", replace(content, title="Mate"), write_id="0b")
        made = (await store.push(new)).revision
        assert "for Mate on 2031-06-20" in made.content.text
        assert "rest" in made.content.text
        assert made.content.tags == ("plan",)
        assert await store.get("n1") == template

    async def test_created_note_is_listed_and_reported_by_the_feed(self, bench: Bench) -> None:
        cursor, before = await self.whole_listing(bench.store, limit=10)
        assert before == []
        revision = await self.create(bench, "n1", "hello")
        _, after = await self.whole_listing(bench.store, limit=10)
        assert [entry.id for entry in after] == [revision.id]
        assert after[0].etag == revision.etag
        if Changes.FEED in bench.store.traits.changes:
            page = await bench.store.changes(cursor, wait=False, base_of=nothing_known)
            assert [change.id for change in page.changes] == [revision.id]

    async def test_update_keeps_unknown_fields_and_the_creation_date(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "one\n")
        if not base.raw:
            return  # its objects have no other fields
        raw = json.loads(base.raw) | {"savedate": 17, "syncdate": 1.5, "junk": {"a": [1, None]}}
        extended = replace(base, raw=json.dumps(raw).encode())
        write = self.write(
            bench.store, base.id, Content("two\n"), base=extended, write_id="0b", now=1_700_000_500
        )
        answer = await bench.store.push(write)
        kept = json.loads(answer.revision.raw)
        assert (kept["savedate"], kept["syncdate"], kept["junk"]) == (17, 1.5, {"a": [1, None]})
        assert answer.revision.created_at == base.created_at
        assert answer.revision.modified_at == 1_700_000_500 or not bench.store.traits.dates

    async def test_a_note_takes_the_dates_that_it_has_elsewhere(self, bench: Bench) -> None:
        if not bench.store.traits.keeps_dates:
            return
        content = Content("t\n", dates=(1_000_000_000.25, 1_100_000_000.5))
        made = (await bench.store.push(self.write(bench.store, "n1", content))).revision
        stored = await bench.store.get(made.id)
        assert (stored.created_at, stored.modified_at) == content.dates
        changed = replace(content, text="u\n", dates=(1.0, 1_200_000_000.5))
        write = self.write(bench.store, made.id, changed, base=stored, write_id="0b")
        later = (await bench.store.push(write)).revision
        assert (later.created_at, later.modified_at) == (1_000_000_000.25, 1_200_000_000.5)
        write = self.write(bench.store, made.id, Content("v\n"), base=later, write_id="0c")
        later = (await bench.store.push(write)).revision
        assert later.created_at == 1_000_000_000.25
        assert later.modified_at > 1_600_000_000

    async def test_etag_changes_with_every_stored_push(self, bench: Bench) -> None:
        one = await self.create(bench, "n1", "one")
        write = self.write(bench.store, one.id, Content("two"), base=one, write_id="0b")
        two = await bench.store.push(write)
        assert two.status is PushStatus.STORED
        assert two.revision.etag != one.etag

    async def test_composed_body_reads_as_what_is_stored(self, bench: Bench) -> None:
        traits = bench.store.traits
        base = await self.create(bench, "n1", "one\n")
        content = Content("two\r\n", tags=("x",) * traits.tags, trash=traits.trash)
        write = self.write(bench.store, base.id, content, base=base, write_id="0b")
        expected = bench.store.revision_of(base.id, write.body)
        stored = (await bench.store.push(write)).revision
        assert expected.etag == ""
        assert expected.content == self.as_stored(content) == stored.content
        assert expected.modified_at == stored.modified_at or not traits.dates

    async def test_every_composed_text_reads_as_the_store_will_hold_it(self, bench: Bench) -> None:
        """Otherwise a write whose answer was lost is taken for somebody else's, and made twice."""
        store = bench.store
        for number, text in enumerate(text for text in TEXTS if len(text) < 1000):
            new = self.write(store, f"n{number}", Content(text), write_id=f"c{number}")
            made = (await store.push(new)).revision
            assert (
                store.revision_of(made.id, new.body).content == (await store.get(made.id)).content
            )
            longer = Content(f"{text}\nmore", made.content.tags, title=made.content.title)
            change = self.write(store, made.id, longer, base=made, write_id=f"u{number}")
            await store.push(change)
            held = (await store.get(made.id)).content
            assert store.revision_of(made.id, change.body).content == held

    async def test_odd_tags_titles_and_properties_are_refused_or_read_as_stored(
        self, bench: Bench
    ) -> None:
        """Otherwise a write whose answer was lost is taken for somebody else's, and made twice."""
        store, traits = bench.store, bench.store.traits
        beside = traits.other_properties is PropertyPlace.BESIDE

        def takes(content: Content) -> bool:
            try:
                store.compose(None, content, now=1.0)
            except StoreRejected:
                return False
            return True

        tags = [odd for odd in ODD if traits.tags and takes(Content("t\n", (odd,)))]
        names = [odd for odd in ODD if beside and takes(labelled(traits, {odd: "x"}))]
        contents = [Content("t\n", tuple(tags + tags[:1]))]
        contents += [labelled(traits, dict(zip(names, ODD, strict=False)))] if beside else []
        contents += [Content("t\n", title=odd) for odd in ODD_TITLES if traits.titles]
        for number, content in enumerate(contents):
            await bench.put(f"u{number}", "t\n")
            for note_id in (f"n{number}", f"u{number}"):
                held = await store.get(note_id) if note_id[0] == "u" else None
                try:
                    write = self.write(store, note_id, content, base=held, write_id=note_id)
                    sent = store.revision_of(note_id, write.body)
                    stored = (await store.push(write)).revision
                except (StoreRejected, IdTaken):
                    assert content.title is not None, "each was taken by itself"
                    continue
                assert stored.content == sent.content
                assert (await store.get(stored.id)).content == sent.content

    async def test_repeated_write_id_has_no_second_effect(self, bench: Bench) -> None:
        if bench.store.traits.retry is not Retry.IDEMPOTENT:
            return
        base = await self.create(bench, "n1", "a\n")
        write = self.write(bench.store, base.id, Content("a\nb\n"), base=base, write_id="0b")
        first = await bench.store.push(write)
        again = await bench.store.push(write)
        assert again.status is PushStatus.REPEATED
        assert again.revision == first.revision
        assert await bench.text(base.id) == "a\nb\n"

    async def test_repeated_create_makes_no_second_note(self, bench: Bench) -> None:
        if bench.store.traits.retry is not Retry.IDEMPOTENT:
            return
        write = self.write(bench.store, "n1", Content("a"))
        await bench.store.push(write)
        assert (await bench.store.push(write)).status is PushStatus.REPEATED
        _, entries = await self.whole_listing(bench.store, limit=10)
        assert len(entries) == 1

    async def test_push_that_changes_nothing_says_so(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "same")
        write = self.write(bench.store, base.id, base.content, base=base, write_id="0b", now=2e9)
        answer = await bench.store.push(write)
        assert answer.status is PushStatus.UNCHANGED
        assert answer.revision.etag == base.etag
        assert answer.revision.modified_at == base.modified_at

    async def test_stale_base_is_refused_or_merged_as_the_write_guard_says(
        self, bench: Bench
    ) -> None:
        base = await self.create(bench, "n1", "b")
        await bench.put(base.id, "bc")
        write = self.write(bench.store, base.id, Content("bd"), base=base, write_id="0b")
        if refuses(bench):
            with pytest.raises(VersionConflict):
                await bench.store.push(write)
            assert await bench.text(base.id) == "bc"
        elif bench.store.traits.write_guard is WriteGuard.LAST_WRITER:
            try:
                answer = await bench.store.push(write)
            except VersionConflict:  # it has looked once more than it must
                assert await bench.text(base.id) == "bc"
                return
            assert answer.revision.content.text == "bd" == await bench.text(base.id)
            assert answer.displaced is None or answer.displaced.content.text == "bc"
        else:
            answer = await bench.store.push(write)
            assert answer.status is PushStatus.STORED
            assert answer.revision.content.text == "bcd" == await bench.text(base.id)

    async def test_the_revision_that_a_write_replaced_can_be_read(self, bench: Bench) -> None:
        traits = bench.store.traits
        if traits.write_guard is WriteGuard.CAS or traits.versions is not Versions.BY_ETAG:
            return
        base = await self.create(bench, "n1", "b")
        await bench.put(base.id, "bc")
        write = self.write(bench.store, base.id, Content("bd"), base=base, write_id="0b")
        answer = await bench.store.push(write)
        assert answer.before is not None
        before = await bench.store.get(base.id, etag=answer.before)
        assert before.content.text == "bc"
        again = await bench.store.push(write)
        assert again.before is None, "nothing was stored just now"

    async def test_the_first_revision_is_stored_on_top_of_nothing(self, bench: Bench) -> None:
        answer = await bench.store.push(self.write(bench.store, "n1", Content("b")))
        assert answer.before is None

    async def test_an_answer_tells_whether_somebody_else_wrote_in_between(
        self, bench: Bench
    ) -> None:
        traits = bench.store.traits
        if traits.write_guard is WriteGuard.CAS or traits.retry is Retry.ASK:
            return
        new = self.write(bench.store, "n1", Content("b"))
        created = await bench.store.push(new)
        assert created.alone
        assert (await bench.store.push(new)).alone
        base = created.revision
        same = self.write(bench.store, "n1", base.content, base=base, write_id="0a", now=2e9)
        assert (await bench.store.push(same)).alone
        await bench.put("n1", "bc")
        assert not (await bench.store.push(new)).alone
        assert not (await bench.store.push(same)).alone
        stale = self.write(bench.store, "n1", Content("bd"), base=base, write_id="0b")
        assert not (await bench.store.push(stale)).alone

    async def test_the_own_form_of_a_revision_gives_it_back(self, bench: Bench) -> None:
        own_form = bench.store.traits.own_form
        await bench.put("n1", "one\n\ntwo\n")
        old = await bench.store.get("n1")
        if not own_form(old):
            return
        changed = self.write(bench.store, "n1", replace(old.content, text="three"), base=old)
        now = (await bench.store.push(changed)).revision
        back = replace(old.content, native=own_form(old))
        write = self.write(bench.store, "n1", back, base=now, write_id="0b")
        again = (await bench.store.push(write)).revision
        assert (own_form(now) != own_form(old), own_form(again)) == (True, own_form(old))
        assert again.content == old.content == bench.store.revision_of("n1", write.body).content

    async def test_a_new_note_never_takes_the_place_of_another(self, bench: Bench) -> None:
        if not bench.store.traits.ids.named:
            return
        content = Content("Plan\nmine\n")
        taken = bench.store.new_id(content, seed="0a", attempt=0)
        await bench.put(taken, "Plan\nof somebody else\n")
        with pytest.raises(IdTaken):
            await bench.store.push(self.write(bench.store, taken, content, write_id="0a"))
        assert await bench.text(taken) == "Plan\nof somebody else\n"
        free = bench.store.new_id(content, seed="0a", attempt=1)
        assert free != taken
        await bench.store.push(self.write(bench.store, free, content, write_id="0a"))
        assert await bench.text(free) == "Plan\nmine\n"

    async def test_another_title_gives_another_id_where_ids_are_paths(self, bench: Bench) -> None:
        if not bench.store.traits.ids.paths:
            return
        await bench.put("n1", "one\n")
        await bench.put("n2", "two\n")
        held = await bench.store.get("n1")
        for title, text in (("New", "one\n"), ("Folder/Newer", "other\n"), ("/Newest", "other\n")):
            content = replace(held.content, title=title, text=text)
            write = self.write(bench.store, held.id, content, base=held)
            sent = bench.store.revision_of(held.id, write.body)
            stored = (await bench.store.push(write)).revision
            assert stored.id == sent.id == title.removeprefix("/")
            assert stored.content == sent.content
            with pytest.raises(NoteNotFound):
                await bench.store.get(held.id)
            assert (await bench.store.get(stored.id)).etag == stored.etag
            assert stored.identity == held.identity or text != held.content.text
            held = stored
        content = replace(held.content, title="N2", text="not saved\n")
        with pytest.raises(IdTaken):
            await bench.store.push(self.write(bench.store, held.id, content, base=held))
        assert await bench.text("n2") == "two\n"
        assert await bench.text(held.id) == "other\n"

    async def test_an_id_is_the_same_for_the_same_write(self, bench: Bench) -> None:
        content = Content("Plan\nmine\n")
        ids = {bench.store.new_id(content, seed="0a", attempt=0) for _ in range(2)}
        assert len(ids) == 1
        first = 0 if not bench.store.traits.ids.named else SEEDED
        for attempt in range(first, first + MOST_IDS):
            made = [bench.store.new_id(content, seed=one, attempt=attempt) for one in SEEDS]
            assert len({*made, *ids}) == len(SEEDS) + len(ids)
            assert all(len(note_id) <= 256 for note_id in made)

    async def test_base_that_the_store_forgot_is_a_conflict(self, bench: Bench) -> None:
        if not compares(bench):
            return  # the caller does
        base = await self.create(bench, "n1", "b")
        await bench.put(base.id, "bc")
        bench.forget_versions(base.id)
        write = self.write(bench.store, base.id, Content("bd"), base=base, write_id="0b")
        with pytest.raises(VersionConflict):
            await bench.store.push(write)
        assert await bench.text(base.id) == "bc"

    async def test_foreign_etag_is_a_conflict(self, bench: Bench) -> None:
        if not compares(bench):
            return  # the caller does
        base = replace(await self.create(bench, "n1", "b"), etag="not-one-of-ours")
        write = self.write(bench.store, base.id, Content("bd"), base=base, write_id="0b")
        with pytest.raises(VersionConflict):
            await bench.store.push(write)
        assert await bench.text(base.id) == "b"

    async def test_push_to_a_note_that_is_gone_finds_nothing(self, bench: Bench) -> None:
        if not compares(bench):
            return  # the caller does
        base = await self.create(bench, "n1", "b")
        await bench.remove(base.id)
        write = self.write(bench.store, base.id, Content("bd"), base=base, write_id="0b")
        with pytest.raises(NoteNotFound):
            await bench.store.push(write)

    async def test_deleted_note_is_gone_and_leaves_a_tombstone(self, bench: Bench) -> None:
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        revision = await self.create(bench, "n1", "x", trash=True)
        await bench.store.delete(revision.id, etag=revision.etag, write_id="0d")
        with pytest.raises(NoteNotFound):
            await bench.store.get(revision.id)
        _, entries = await self.whole_listing(bench.store, limit=10)
        assert entries == []
        if Changes.FEED in bench.store.traits.changes:
            page = await bench.store.changes(cursor, wait=False, base_of=nothing_known)
            (change,) = (
                page.changes
            )  # made and removed since: the store may leave it to `get` which came last
            assert change == Tombstone(revision.id) or isinstance(change, Entry)
            assert change.id == revision.id

    async def test_delete_of_a_changed_note_is_a_conflict(self, bench: Bench) -> None:
        if bench.store.traits.write_guard is WriteGuard.LAST_WRITER:
            return  # the caller compares
        revision = await self.create(bench, "n1", "x", trash=True)
        await bench.put(revision.id, "somebody edits", trash=True)
        with pytest.raises(VersionConflict):
            await bench.store.delete(revision.id, etag=revision.etag, write_id="0d")
        assert await bench.text(revision.id) == "somebody edits"

    async def test_delete_of_a_note_that_is_gone_is_done(self, bench: Bench) -> None:
        revision = await self.create(bench, "n1", "x", trash=True)
        await bench.store.delete(revision.id, etag=revision.etag, write_id="0d")
        await bench.store.delete(revision.id, etag=revision.etag, write_id="0d")
        await bench.store.delete(revision.id, etag=revision.etag, write_id="0e")
        await bench.store.delete("never-was", etag=revision.etag, write_id="0f")

    async def test_note_outside_the_trash_is_not_deleted(self, bench: Bench) -> None:
        if not bench.store.traits.trash:
            return
        revision = await self.create(bench, "n1", "x")
        with pytest.raises(StoreRejected):
            await bench.store.delete(revision.id, etag=revision.etag, write_id="0d")
        assert await bench.text(revision.id) == "x"

    async def test_a_write_in_the_database_never_waits_and_is_undone_with_its_transaction(
        self, bench: Bench
    ) -> None:
        if not bench.store.traits.in_database:
            return
        write = self.write(bench.store, "n1", Content("x", trash=True))
        etag = run_at_once(bench.store.push(write)).revision.etag
        bench.begin()
        run_at_once(bench.store.delete("n1", etag=etag, write_id="0d"))
        bench.roll_back()
        assert await bench.text("n1") == "x"
        run_at_once(bench.store.get("n1"))
        page = bench.store.list_page(since=None, mark=None, limit=9, with_content=False)
        cursor = run_at_once(page).cursor
        run_at_once(bench.store.changes(cursor, wait=True, base_of=nothing_known))
