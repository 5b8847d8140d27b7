"""Test what `list` and `search` say of a query that no note matches, through a connected client and a typed command."""

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.talker import SERVE
from support.undo_places import PLACES, Place
from support.whole import Server, store_environment

STORES = ["simplenote", "local", "vault", "trilium", "memento"]
TAGS = [
    ("tag:food,real", "food,real", "tag:food tag:real"),
    ("tag:(food)", "(food)", "tag:food"),
    ("tag:(food OR tag:real)", "(food", "tag:food"),
    ("tag:foood", "foood", "tag:food"),
]


@pytest.mark.anyio
@pytest.mark.parametrize("store", STORES)
async def test_a_tag_that_no_note_has_is_named_with_what_may_be_meant(store, tmp_path):
    def put(place: Place) -> None:
        text = "<p>one</p>" if store == "trilium" else "one\n"
        place.put("one", text, tags=["food", "real"])

    async with PLACES[store](tmp_path, put) as place:
        for typed, tag, meant in TAGS:
            rows = await place.call("list", query=typed)
            assert f"No note has the tag `{tag}`." in rows["note"], typed
            assert rows["suggestions"][0] == meant, typed
            assert (await place.call("list", query=meant))["total_items"] == 1, typed
        rows = await place.call("list", tags=["food", "nowhere"])
        assert (rows["note"], rows.get("suggestions")) == ("No note has the tag `nowhere`.", None)
        for typed in ("tag:food unheard", "tag:food -tag:real", "tag:food OR tag:nowhere"):
            assert "tag" not in (await place.call("list", query=typed)).get("note", ""), typed
        rows = await place.call("list", query="after:2024-05-02 before:2024-05-01")
        assert "No time is between" in rows["note"]


@pytest.mark.anyio
async def test_a_filter_that_was_understood_is_not_called_text_and_tags_mean_tag(tmp_path):
    text = "---\nstatus: open\ntags: [work]\n---\none\n"
    async with PLACES["vault"](tmp_path, lambda place: place.put("one", text)) as place:
        settings = tmp_path / "vault" / ".obsidian"
        settings.mkdir(exist_ok=True)
        (settings / "types.json").write_text('{"types": {"tags": "tags"}}')
        rows = await place.call("list", query="status:closed")
        assert rows["note"] == "No note has the property `status` with the value `closed`."
        both = (await place.call("list", query="status:closed author:ada"))["note"]
        assert both.startswith("`author:` was searched for as text.")
        assert (await place.call("list", query="tags:work"))["total_items"] == 1
        assert (await place.call("list", query="-tags:work"))["total_items"] == 0
        rows = await place.call("list", query="tags:wrok")
        assert (rows["note"], rows["suggestions"]) == ("No note has the tag `wrok`.", ["tag:work"])


@pytest.mark.anyio
@pytest.mark.parametrize("store", ["local", "vault"])
async def test_words_that_may_be_meant_otherwise_are_named(store, tmp_path):
    async with PLACES[store](tmp_path, lambda place: place.put("one", "one\n")) as place:
        said = (await place.call("list", query="AND"))["note"]
        assert said == "`AND` has nothing on one side, so it was searched for as a word."
        today = datetime.fromtimestamp(place.harness.app.clock(), UTC).date()
        for typed, days in (
            ("last week", 7),
            ("one, past 3 days", 3),
            ("yesterday", 1),
            ("Today", 0),
        ):
            said = (await place.call("list", query=typed))["note"]
            day = re.search(r"write `after:([0-9-]{10})`", said)
            assert day is not None, said
            assert (today - datetime.fromisoformat(day[1]).date()).days == days, typed
        for typed in ('"last week" elsewhere', "one", "weeks"):
            assert "note" not in (await place.call("list", query=typed)), typed


@pytest.mark.slow("starts servers")
def test_a_path_that_no_note_is_in_is_named_and_hidden_notes_stay_so(tmp_path: Path) -> None:
    vault, policy = tmp_path / "vault", tmp_path / "policy.toml"
    (vault / "Work").mkdir(parents=True)
    (vault / "Secrets").mkdir()
    (vault / "Work" / "Plan.md").write_text("plan\n")
    (vault / "Secrets" / "Diary.md").write_text("diary #private\n")
    policy.write_text('[notes]\nhidden_tags = ["private"]\n')
    policy.chmod(0o600)
    env = store_environment(tmp_path, "vault", VAULT_PATH=str(vault))
    with Server(env | {"NOTARIUM_POLICY_FILE": str(policy)}) as server:
        server.loaded(1)
        for path in ("Nope", "Secrets", "Secrets/Diary.md"):
            answer = server.tool("list", query=f"path:{path}")
            said = (answer["note"], answer.get("suggestions"))
            assert said == (
                f"No note is in `path:{path}`: write the whole path from the top, as in path:Folder/Below.",
                None,
            )
        for tag in ("private", "privat", "private,work", "unheard"):
            answer = server.tool("list", query=f"tag:{tag}")
            said = (answer["note"], answer.get("suggestions"))
            assert said == (f"No note has the tag `{tag}`.", None)
        assert "note" not in server.tool("list", query="path:Work unheard")
        assert server.leave() == 0
    searched = subprocess.run(
        [*SERVE, "search", "path:Nope", "tag:(private)"],
        env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    shown = " ".join(searched.stderr.split())
    assert "No note is in `path:Nope`" in shown
    assert "Did you mean tag:private?" in shown
