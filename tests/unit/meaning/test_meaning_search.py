"""Test that every note gets its vector, in the background, and that the nearest are found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from mcp_notarium import logs
from mcp_notarium.domain.note import Content, Tombstone
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.meaning import meaning_search
from mcp_notarium.meaning.embedder import Embedder
from mcp_notarium.meaning.meaning_search import MeaningSearch
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.vector_table import VectorTable
from support import cache_room, corpus
from support.sync_rig import until
from support.tiny_model import write_model


@pytest.fixture(name="cache")
def _cache(tmp_path: Path) -> Iterator[Cache]:
    made = cache_room.make(tmp_path)
    yield made
    made.close()


@pytest.fixture(name="model", scope="module")
def _model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning_search, "_REST", 0.01)


def put(cache: Cache, version: int = 1, **texts: str) -> None:
    cache_room.store(
        cache,
        [
            corpus.make(note, Content(text=text), version=version, modified_at=1e9 + number)
            for number, (note, text) in enumerate(texts.items())
        ],
    )


def ids(cache: Cache, found: list[tuple[int, float]]) -> list[str]:
    return [cache.database.row("SELECT id FROM notes WHERE pk = ?", (pk,))[0] for pk, _ in found]  # type: ignore[index]


def search(
    cache: Cache,
    model: Path,
    work: Callable[[MeaningSearch], Awaitable[None]],
    *,
    leads: Callable[[], bool] = lambda: True,
) -> None:
    async def scenario() -> None:
        made = MeaningSearch(
            model,
            cache.database,
            leads=leads,
            log=logs.get("test"),
        )
        task = asyncio.create_task(made.run())
        try:
            await asyncio.wait_for(work(made), 30)
        finally:
            task.cancel()
            await asyncio.wait({task})

    asyncio.run(scenario())


async def until_nearest(cache: Cache, made: MeaningSearch, text: str, *nearest: str) -> None:
    while ids(cache, await made.find_nearest(text, most=1)) != [*nearest]:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0.01)


def has_vectors(cache: Cache, count: int) -> Callable[[], bool]:
    return lambda: cache.database.number("SELECT count(*) FROM note_vectors") == count


def test_notes_are_embedded_and_found_whatever_changes(cache: Cache, model: Path) -> None:
    put(cache, a="my dog", b="a car", c="the invoice")

    async def work(made: MeaningSearch) -> None:
        await until(has_vectors(cache, 3))
        assert ids(cache, await made.find_nearest("hound", most=1)) == ["a"]
        assert ids(cache, await made.find_nearest("facture", most=1)) == ["c"]
        put(cache, version=2, a="a physician")
        await until_nearest(cache, made, "doctor", "a")
        put(cache, d="the hound")
        await until(has_vectors(cache, 4))
        assert ids(cache, await made.find_nearest("dog", most=1)) == ["d"]

    search(cache, model, work)


def test_work_goes_on_where_it_was_and_another_model_begins_anew(
    cache: Cache, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, **{f"n{number}": "my dog" for number in range(20)})
    made = MeaningSearch(model, cache.database, leads=lambda: True, log=logs.get("test"))
    wrote: list[int] = []
    write = VectorTable.write

    def count(table: VectorTable, name: str, vectors: list[object]) -> None:
        wrote.append(len(vectors))
        write(table, name, vectors)  # type: ignore[arg-type]

    monkeypatch.setattr(VectorTable, "write", count)

    async def stop_early() -> None:
        task = asyncio.create_task(made.run())
        await until(lambda: len(wrote) == 1)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(stop_early())
    assert 0 < sum(wrote) < 20
    search(cache, model, lambda _: until(has_vectors(cache, 20)))
    assert sum(wrote) == 20
    other = write_model(tmp_path / "other", seed=2)

    search(cache, other, lambda _: until(lambda: sum(wrote) == 40))
    assert cache.database.number("SELECT count(DISTINCT model) FROM note_vectors") == 1


def test_the_newest_come_first_and_those_in_the_trash_last(cache: Cache) -> None:
    cache_room.store(
        cache,
        [
            corpus.make("old", Content(text="x"), modified_at=1e9),
            corpus.make("new", Content(text="x"), modified_at=1e9 + 9),
            corpus.make("gone", Content(text="x", trash=True), modified_at=1e9 + 99),
        ],
    )
    missing = VectorTable(cache.database).find_missing("m", characters=9, limit=9)
    wanted = [
        cache.database.row("SELECT id FROM notes WHERE pk = ?", (one.pk,))[0] for one in missing
    ]  # type: ignore[index]
    assert wanted == ["new", "old", "gone"]


def test_the_vector_of_a_removed_or_hidden_note_goes_with_it(cache: Cache, model: Path) -> None:
    put(cache, a="my dog", b="the hound")
    search(cache, model, lambda _: until(has_vectors(cache, 2)))
    cache_room.store(cache, [Tombstone("a")])
    assert has_vectors(cache, 1)()
    hidden = Cache(cache.database, Visibility(hidden_ids=("b",)))
    assert apply_rules(hidden) == 1
    assert has_vectors(cache, 0)()


def test_removed_notes_take_no_place_and_leave_no_meaning_to_others(
    cache: Cache, model: Path
) -> None:
    put(cache, a="a car", b="my dog")

    async def work(made: MeaningSearch) -> None:
        await until(has_vectors(cache, 2))
        leading.clear()
        await until(rounds_ended.is_set)  # a round that has begun would find the new note
        assert ids(cache, await made.find_nearest("hound", most=1)) == ["b"]
        cache_room.store(cache, [Tombstone("b")])
        assert ids(cache, await made.find_nearest("hound", most=9)) == ["a"]
        put(cache, c="an invoice")  # SQLite gives it the number of the removed one
        assert ids(cache, await made.find_nearest("hound", most=9)) == ["a"]

    leading, rounds_ended = {"yes"}, asyncio.Event()

    def leads() -> bool:
        if not leading:
            rounds_ended.set()
        return bool(leading)

    search(cache, model, work, leads=leads)


def test_a_process_that_does_not_lead_searches_and_writes_nothing(
    cache: Cache, model: Path
) -> None:
    put(cache, a="my dog", b="a car")
    search(cache, model, lambda _: until(has_vectors(cache, 2)))
    put(cache, c="the hound")

    async def work(made: MeaningSearch) -> None:
        await until_nearest(cache, made, "dog", "a")
        await asyncio.sleep(0.2)
        assert has_vectors(cache, 2)()
        assert ids(cache, await made.find_nearest("chien", most=1)) == ["a"]

    search(cache, model, work, leads=lambda: False)


@pytest.mark.parametrize("method", ["embed_passage", "embed_query"])
def test_a_model_that_fails_at_a_text_leaves_the_search_by_words(
    cache: Cache, model: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    put(cache, a="my dog")

    def fail(_: Embedder, text: str) -> bytes:
        raise RuntimeError(text)

    async def work(made: MeaningSearch) -> None:
        await until_nearest(cache, made, "dog", "a")
        monkeypatch.setattr(Embedder, method, fail)
        put(cache, b="a car")
        if method == "embed_query":
            await until(has_vectors(cache, 2))
            assert await made.find_nearest("hound", most=1) == []
        await until_nearest(cache, made, "hound")

    search(cache, model, work)
