"""Let other programs act, or the process end, before any call of any write to a vault, on each simulated system."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import NotariumError
from mcp_notarium.stores.contract import NOT_STORED, Acknowledgement
from mcp_notarium.stores.vault.store import VaultStore
from support.journal_entries import make_write
from support.long import sample
from support.systems import Killed, System, on_windows, opened, put, texts

BASE, OURS, THEIRS, SECRET = "base\n", "ours\n", "theirs\n", "secret outside\n"
NOTE = "Sub/Note.md"
KINDS = {
    "create": {},
    "text": {"text": OURS},
    "trash": {"trash": True},
    "untrash": {"trash": False},
    "name": {"title": "Sub/New"},
    "letter case": {"title": "Sub/NOTE"},
    "name and text": {"title": "Below/New", "text": OURS},
    "delete": None,
}
"""What is written -> what it changes of a note."""


class Case:
    """One write to a vault of its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.vault = folder / "vault"
        self.outside = folder / "outside"
        put(self.outside / "Note.md", SECRET)
        self.lies = self.vault / (".trash" if kind in ("untrash", "delete") else "") / NOTE
        self.lies.parent.mkdir(parents=True)
        if kind != "create":
            put(self.lies, BASE)

    def read(self, store: VaultStore) -> Revision | None:
        return None if self.kind == "create" else store._get(NOTE)

    def write(self, store: VaultStore, base: Revision | None) -> Acknowledgement | None:
        changes = KINDS[self.kind]
        if changes is None:
            assert base is not None
            store._writer.delete(NOTE, base.etag)
            return None
        if base is None:
            return store._writer.push(make_write(store, NOTE, Content(OURS, title="Note")))
        return store._writer.push(
            make_write(store, base.id, replace(base.content, **changes), base)
        )

    def notes(self) -> list[str]:
        return [text for name, text in texts(self.vault).items() if name.endswith(".md")]


Act = Callable[[System, Case], None]
"""What another program does."""


def numbers(system: System, folder: Path, kind: str, name: str, count: int) -> list[int]:
    """Draw calls of a write. The last number is behind them all."""
    case = Case(folder, kind)
    with opened(case.vault) as store:
        base = case.read(store)
        with system.acting_before(-1, lambda: None) as counted:
            case.write(store, base)
    system.settle()
    assert counted.calls > 8
    return [*sample(name, range(counted.calls), count), counted.calls]


def drawn(name: str, *acts: Act, count: int) -> list[tuple[str, Act]]:
    """Draw what is written, and what another program does meanwhile."""
    return sample(name, [*product(KINDS, acts)], count)


def append(system: System, case: Case) -> None:
    system.other.append(case.lies, THEIRS)


def save(system: System, case: Case) -> None:
    system.other.save(case.lies, THEIRS)


@pytest.mark.parametrize(("kind", "edit"), drawn("edits", append, save, count=4))
def test_an_edit_before_any_call_of_a_write_is_in_a_note_or_told(
    system: System, tmp_path: Path, kind: str, edit: Act
) -> None:
    for number in numbers(system, tmp_path / "counted", kind, f"edits {kind}", 4):
        case, edited, answer = Case(tmp_path / str(number), kind), [], None

        def act(case: Case = case, edited: list[bool] = edited) -> None:
            with suppress(OSError):  # the system refuses it while the file is in use
                edit(system, case)
                edited.append(True)

        with opened(case.vault) as store:
            base = case.read(store)
            with system.acting_before(number, act), suppress(NotariumError):
                answer = case.write(store, base)
        system.settle()
        displaced = answer.displaced.content.text if answer and answer.displaced else ""
        if edited:
            assert any(THEIRS in text for text in [*case.notes(), displaced]), number


def link_the_note(system: System, case: Case) -> None:
    system.other.rename(case.lies, case.lies.with_name("Away.txt"))
    system.other.link(case.lies, case.outside / "Note.md")


def link_the_folder(system: System, case: Case) -> None:
    system.other.rename(case.lies.parent, case.lies.parent.with_name("Moved"))
    system.other.link(case.lies.parent, case.outside)


def link_emptied_folders(system: System, case: Case) -> None:
    for path in [case.lies, *case.vault.rglob("*.tmp")]:
        with suppress(OSError):
            system.other.remove(path)
    for path in sorted(case.vault.rglob("*"), reverse=True):
        with suppress(OSError):
            if path.is_dir():
                system.other.link(path, case.outside)


@pytest.mark.parametrize(
    ("kind", "spoil"),
    drawn("links", link_the_note, link_the_folder, link_emptied_folders, count=4),
)
def test_a_link_that_is_put_in_place_before_any_call_leads_nowhere(
    system: System, tmp_path: Path, kind: str, spoil: Act
) -> None:
    for number in numbers(system, tmp_path / "counted", kind, f"links {kind}", 4):
        case, answer = Case(tmp_path / str(number), kind), None

        def act(case: Case = case) -> None:
            with suppress(OSError):
                spoil(system, case)

        with opened(case.vault) as store:
            base = case.read(store)
            with system.acting_before(number, act), suppress(NotariumError):
                answer = case.write(store, base)
        system.settle()
        assert texts(case.outside) == {"Note.md": SECRET}
        assert SECRET not in str(answer)
        assert SECRET not in texts(case.vault).values()


@pytest.mark.parametrize("kind", sample("kills", [*KINDS], 3))
def test_a_process_that_ends_before_any_call_leaves_whole_notes(
    system: System, tmp_path: Path, kind: str
) -> None:
    for number in numbers(system, tmp_path / "counted", kind, f"kills {kind}", 6):
        case = Case(tmp_path / str(number), kind)

        def kill(case: Case = case) -> None:
            system.end_process(case.vault)
            raise Killed

        with opened(case.vault) as store:
            base = case.read(store)
            with suppress(Killed), system.acting_before(number, kill):
                case.write(store, base)
        with opened(case.vault) as again:
            again._list_page(None, 9, with_content=False)  # recovers what is left behind
        system.settle()
        held = case.notes()
        assert sorted(texts(case.vault).values()) == sorted(held), "something is left behind"
        assert held in WHOLE[kind], number


DENIED, FULL, BROKEN = 5, 112, 1117


@pytest.mark.parametrize(
    ("kind", "code", "lasting"),
    sample("faults", [*product(KINDS, (DENIED, FULL, BROKEN), (False, True))], 5),
)
def test_a_fault_at_any_call_never_passes_for_a_write_that_was_not_made(
    tmp_path: Path, kind: str, code: int, lasting: bool
) -> None:
    with on_windows() as system:
        for number in numbers(system, tmp_path / "counted", kind, f"faults {kind}", 6):
            case, error = Case(tmp_path / str(number), kind), None
            with opened(case.vault) as store:
                base, before = case.read(store), texts(case.vault)
                try:
                    with system.failing_at(number, code, lasting=lasting):
                        case.write(store, base)
                except NotariumError as caught:
                    error = caught
            with opened(case.vault) as again:
                again._list_page(None, 9, with_content=False)  # recovers what is left behind
            system.settle()
            held = texts(case.vault)
            assert kind in ("create", "delete") or {BASE, OURS} & {*held.values()}, number
            if isinstance(error, NOT_STORED):
                assert {name: text for name, text in held.items() if name.endswith(".md")} == before
            if error is None:
                assert case.notes() == WHOLE[kind][-1]


WHOLE = dict.fromkeys(KINDS, ([BASE],)) | {
    "create": ([], [OURS]),
    "text": ([BASE], [OURS]),
    "name and text": ([BASE], [OURS]),
    "delete": ([BASE], []),
}
"""What a vault may hold when a write was cut off."""
