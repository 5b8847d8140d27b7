"""Ask ``list`` the judged queries of ``quality``, beside plain FTS5, an older commit and other servers on the same notes.

Each engine answers as an agent gets it that names no limit: the first page counts. The queries of one group are few, so every share
has its interval, and engines are compared in pairs, query by query (``quality/scoring.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench import corpus
from bench.measure import Figure
from bench.older import Older
from bench.processes import CONSOLE, DEADLINE, Json, Service, Speaker, WrongAnswer
from bench.rows_tokens import counts
from bench.search_peers import peers
from quality import texts
from quality.plain import PlainIndex
from quality.scoring import MEASURES, Answer, Interval, difference, interval, values
from quality.texts import Note, Query

ALL = "all"
"""The group of all queries."""
OURS = "here"
_UNREAD = "still being read"
_MOST_FOR_PEERS = 1000
"""Beside more notes some of them take minutes for an index, or read every file for each query."""

Ask = Callable[[str], Answer]


def search(
    folder: Path, count: int, older: Older | None, tokenizer: Path, *, beside_peers: bool
) -> Iterator[Figure]:
    """Rows of each group and of all queries, among ``count`` made-up notes and the others of ``quality``."""
    queries = texts.queries()
    notes = [*texts.notes(), *texts.others()]
    answers: dict[str, list[Answer]] = {}
    with _servers(folder, count, notes, older) as servers:
        for name, ask in servers.items():
            answers[name] = [ask(query.text) for query in queries]
    plain = PlainIndex([*notes, *texts.made_up(count)])
    answers["FTS5 AND"] = [plain.ask(query.text, "AND") for query in queries]
    answers["FTS5 OR"] = [plain.ask(query.text, "OR") for query in queries]
    plain.close()
    if beside_peers and count <= _MOST_FOR_PEERS:
        everything = [*notes, *texts.made_up(count)]
        answers |= peers(folder, everything, [query.text for query in queries])
    yield from _figures(answers, queries, count, tokenizer)


@contextmanager
def _servers(
    folder: Path, count: int, notes: Sequence[Note], older: Older | None
) -> Iterator[Mapping[str, Ask]]:
    """Start this build, and the older one, on an account with these notes; both have all of them."""
    builds: dict[str, dict[str, str]] = {OURS: {}}
    if older:
        builds[older.name] = older.variables
    with Service(count) as service, ExitStack() as stack:
        for note in notes:
            fields = {"content": note.text, "tags": list(note.tags)}
            dates = {"creationDate": note.date, "modificationDate": note.date}
            service.order(put=note.id, **fields, **dates)
        asked: dict[str, Ask] = {}
        for number, (name, variables) in enumerate(builds.items()):
            place = folder / f"build {number}"
            place.mkdir()
            server = stack.enter_context(Speaker(CONSOLE, service.settings(place) | variables))
            server.greet()
            _wait(server, corpus.active(count) + len(notes))
            asked[name] = lambda text, server=server: _ask(server, text)  # type: ignore[misc]
        yield asked


def _wait(server: Speaker, expected: int) -> None:
    """Wait until all notes are there and misspelt words are corrected."""
    deadline = time.monotonic() + DEADLINE
    while True:
        answer = server.tool("list", limit=1)
        if answer["total_items"] == expected and not answer.get("sync"):
            break
        if time.monotonic() > deadline:
            raise WrongAnswer(f"{answer['total_items']} notes, never {expected}")
        time.sleep(0.05)
    while _UNREAD in (server.tool("list", query="zzqqx").get("note") or ""):
        if time.monotonic() > deadline:
            raise WrongAnswer("the words of the notes are never read")
        time.sleep(0.05)


def _ask(server: Speaker, text: str) -> Answer:
    """Return the first page; a refusal is an empty one."""
    began = time.perf_counter()
    result = server.ask("tools/call", {"name": "list", "arguments": {"query": text}})
    took = (time.perf_counter() - began) * 1000
    rows: list[Json] = (result.get("structuredContent") or {}).get("content") or []
    said = "".join(str(block.get("text", "")) for block in result["content"])
    return Answer(tuple(str(row.get("uuid")) for row in rows), said, took)


def _figures(
    answers: Mapping[str, Sequence[Answer]],
    queries: Sequence[Query],
    count: int,
    tokenizer: Path,
) -> Iterator[Figure]:
    read, unit = _tokens(answers, tokenizer)
    for group in (ALL, *texts.groups()):
        places = [at for at, query in enumerate(queries) if group in {ALL, query.group}]
        asked = [queries[at] for at in places]
        of_group = {name: [given[at] for at in places] for name, given in answers.items()}
        for measure in MEASURES:
            taken = {name: values(measure, given, asked) for name, given in of_group.items()}
            yield _share(f"{group}: {measure}", count, len(places), taken)
            if group == ALL:
                yield from _differences(measure, count, taken)
        amounts = {name: median(found[at] for at in places) for name, found in read.items()}
        yield _figure(f"{group}: tokens", count, unit, amounts)
        times = {name: median(answer.took for answer in of_group[name]) for name in read}
        yield _figure(f"{group}: time", count, "ms", times)


def _tokens(
    answers: Mapping[str, Sequence[Answer]], tokenizer: Path
) -> tuple[dict[str, list[float]], str]:
    """Return the tokens of each answer of those that gave text."""
    read: dict[str, list[float]] = {}
    unit = ""
    for name, given in answers.items():
        if any(answer.text for answer in given):
            read[name], unit = counts([answer.text for answer in given], tokenizer)
    return read, unit


def _share(row: str, count: int, size: int, taken: Mapping[str, Sequence[float]]) -> Figure:
    found = {name: interval(numbers) for name, numbers in taken.items()}
    ours = found.pop(OURS)
    floors = {name: one.value for name, one in found.items()}
    bounds = (ours.low, ours.high)
    unit = f"of {size} queries"
    return Figure("search", row, count, unit, ours.value, floors=floors, interval=bounds)


def _differences(
    measure: str, count: int, taken: Mapping[str, Sequence[float]]
) -> Iterator[Figure]:
    for name, numbers in taken.items():
        if name != OURS:
            more: Interval = difference(taken[OURS], numbers)
            row, bounds = f"{measure} beyond {name}", (more.low, more.high)
            yield Figure("search", row, count, "in pairs", more.value, interval=bounds)


def _figure(row: str, count: int, unit: str, found: Mapping[str, float]) -> Figure:
    floors = {name: value for name, value in found.items() if name != OURS}
    return Figure("search", row, count, unit, found[OURS], floors=floors)
