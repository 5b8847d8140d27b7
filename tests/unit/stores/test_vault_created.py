"""When a vault's note was made stays the same over saves, also for a server that knows nothing yet."""

import asyncio
import errno
import os
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.markup.front_matter import read_created
from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault import folder as vault_folder
from mcp_notarium.stores.vault.store import VaultStore
from support import needs
from support.journal_entries import make_write
from support.sync_rig import quick_folder

LONG_AGO = 1_500_000_000
DAY = 1_556_668_800.0  # 1 May 2019, UTC


@pytest.fixture(name="vault")
def _vault(monkeypatch):
    monkeypatch.setattr(vault_folder, "SETTLED", 0.0)
    with quick_folder() as folder:
        (folder / "Plan.md").write_text("plan\n")
        os.utime(folder / "Plan.md", (LONG_AGO, LONG_AGO))
        yield folder


def read(vault):
    """The note as a server reads it that has just been started, without an index."""

    async def ask():
        store = VaultStore(vault)
        try:
            return await store.get("Plan.md")
        finally:
            await store.close()

    return asyncio.run(ask())


def save(vault, text):
    async def push():
        store = VaultStore(vault)
        try:
            base = await store.get("Plan.md")
            content = replace(base.content, text=text)
            return await store.push(make_write(store, "Plan.md", content, base, write_id=text))
        finally:
            await store.close()

    return asyncio.run(push()).revision


def test_saves_keep_the_date_of_making_also_if_the_index_is_lost(vault):
    for text in ("one\n", "two\n", "three #tag\n"):
        saved = save(vault, text)
        assert saved.created_at == read(vault).created_at == LONG_AGO
        assert saved.modified_at > LONG_AGO
    (vault / "Plan.md").rename(vault / "Other.md")
    (vault / "Other.md").rename(vault / "Plan.md")
    (vault / "Plan.md").write_text("an editor writes into the same file\n")
    assert read(vault).created_at == LONG_AGO


@needs.POSIX
def test_where_a_drive_takes_no_attributes_the_answer_has_the_date_all_the_same(vault, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOTSUP, "no attributes here")

    monkeypatch.setattr(file_writer.os, "setxattr", refuse)
    assert save(vault, "one\n").created_at == LONG_AGO
    assert read(vault).created_at > LONG_AGO, "a new file: what docs/vault.md says of such drives"


@needs.POSIX
@pytest.mark.parametrize("noted", [b"", b"nan", b"-inf", b"words", b"\xff\xfe", b"1e999"])
def test_an_attribute_that_is_no_date_is_ignored(vault, noted):
    os.setxattr(vault / "Plan.md", "user.mcp-notarium.created", noted)
    assert read(vault).created_at == LONG_AGO


@needs.POSIX
def test_a_later_date_in_the_attribute_does_not_make_a_note_younger_than_its_file(vault):
    os.setxattr(vault / "Plan.md", "user.mcp-notarium.created", b"1900000000")
    assert read(vault).created_at == LONG_AGO


@pytest.mark.parametrize(
    ("lines", "created"),
    [
        ("created: 2019-05-01", DAY),
        ('created: "2019-05-01"', DAY),
        ("Date created: '2019-05-01'  # kept", DAY),
        ("created_at: 2019-05-01T12:30:00Z", DAY + 45_000),
        ("createdAt: 2019-05-01 12:30", DAY + 45_000),
        ("created: 2019-05-01T14:30:00+02:00", DAY + 45_000),
        ("creation_date: 2019-05-01T12:30:00.250Z", DAY + 45_000.25),
        ("date: 2019-05-01", DAY),
        ("date: 2024-01-01\ncreated: 2019-05-01", DAY),
        ("created: soon\ndate: 2019-05-01", DAY),
        ("created: 2019-13-45\ndate: 2019-05-01", DAY),
        ("created: 1950-01-01", -631_152_000.0),
        ("recreated: 2019-05-01", None),
        ("x:\n  created: 2019-05-01", None),
        ("created: [2019-05-01]", None),
        ("created: 2019-05-01 or so", None),
        ("tags: [created, date]", None),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_date_that_the_front_matter_states_is_the_date(vault, lines, created, end):
    text = f"---\n{lines}\n---\nplan\n".replace("\n", end)
    assert read_created(text) == created
    (vault / "Plan.md").write_bytes(text.encode())
    os.utime(vault / "Plan.md", (LONG_AGO, LONG_AGO))
    assert read(vault).created_at == (LONG_AGO if created is None else created)
    assert read_created(text.replace("---", "===")) is None
    assert Content(text).text == read(vault).content.text
