"""Test that pages of files show what the policy shows of these very files, and nothing of any other."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.vault import note_codec
from mcp_notarium.stores.vault.folder import VaultFolder
from mcp_notarium.stores.vault.native import NativeVault, NotePages
from mcp_notarium.stores.vault.store import VaultStore
from support.cache_room import make

PATHS = ("a.md", "Work/a.md", "Work/Deep/ü.md", "work2/a.md")
PLACES = (*PATHS, "Work", "WORK/deep", "Work/Deep/U\u0308.MD", "work2", "nowhere")
TEXTS = (
    b"plain\n",
    b"a #secret text\n",
    b"---\ntags: [Work, secret]\n---\n",
    b"---\ntags: [broken\n---\n#work\n",
    b"caf\xe9 #work\n",
    b"`#secret` #work\n",
)
LONG_AGO = 1_700_000_000
tags = st.lists(st.sampled_from(["secret", "work", "other"]), max_size=2).map(tuple)
places = st.lists(st.sampled_from(PLACES), max_size=2).map(tuple)
rules = st.builds(
    Visibility,
    hidden_tags=tags,
    hidden_ids=st.lists(st.sampled_from(PATHS), max_size=1).map(tuple),
    allowed_tags=st.none() | tags,
    allowed_ids=st.none() | st.lists(st.sampled_from(PATHS), max_size=2).map(tuple),
    hidden_paths=places,
    allowed_paths=st.none() | places,
    untagged=st.booleans(),
)


@pytest.fixture(scope="module")
def room():
    with tempfile.TemporaryDirectory() as folder:
        cache = make(Path(folder))
        vault = Path(folder) / "vault"
        for path in PATHS:
            (vault / path).parent.mkdir(parents=True, exist_ok=True)
        yield vault, cache
        cache.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules, st.sampled_from(PATHS), st.sampled_from(TEXTS))
def test_a_page_is_shown_if_the_rules_show_the_file_as_it_is(room, rules, path, text):
    vault, cache = room
    (vault / path).write_bytes(text)
    os.utime(vault / path, (LONG_AGO, LONG_AGO))  # nobody is writing it
    folder = VaultFolder(vault)
    asked = NotePages(folder)
    judged = NativeVault(asked, NativeIndex(Cache(cache.database, rules), VaultStore(vault)))
    found, understood = note_codec.find_tags(text.decode(errors="replace"))
    clear = understood and b"\xe9" not in text
    hidden = rules.hidden_by(path, found, clear=clear)

    def page(of: str) -> str:
        return asyncio.run(judged.page(of, start=0, most=200)).text

    if hidden is None:
        assert page(path).encode() == text.decode(errors="replace").encode()
        return
    with pytest.raises(NoteNotFound) as refused:
        page(path)
    with pytest.raises(NoteNotFound) as missing:
        page("missing.md")
    assert refused.value.to_dict() | {"details": 0} == missing.value.to_dict() | {"details": 0}
