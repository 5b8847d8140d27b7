"""Test ``rotate-key``: lost passphrases, several keys, and refusals before any key is typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from mcp_notarium.account import key_changes, user_key_rotation
from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.secret import Secret
from support import cheap_stretching
from support.account import USERNAME, account, fingerprint
from support.account import made as made_cheaply
from support.terminal import CTRL_C, Terminal
from support.whole import SERVE, run, run_into

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are needed")

WORDS = "violet kettle under seven maps"
NEW = "nine hungry lamps by the river"
THIRD = "two slow trains cross the valley"
PAPER = user_key.generate_recovery_key()
FLOOR = "Argon2id 64 MiB, 3 passes, 4 lanes"


class Home:
    """An account whose cache opens by WORDS, and the real program on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = account(folder, db_key=Secret(WORDS))
        made_cheaply(folder)
        # The cheapest cost is refused by the real program.
        user_key_rotation.rotate_passphrase(
            self.config, new=Secret(WORDS), parameters=kdf.Argon2id(),
        )  # fmt: skip

    def env(self, **changes: str | None) -> dict[str, str]:
        settings: dict[str, str | None] = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "NOTARIUM_DATA_DIR": str(self.folder / "notarium"),
            "NOTARIUM_KEYCHAIN": "off",
            "SIMPLENOTE_USERNAME": USERNAME,
            "DB_ENCRYPTION_KEY": WORDS,
            **cheap_stretching.MARKED,
        }
        return {name: value for name, value in (settings | changes).items() if value is not None}

    def add(self, key: Secret | str, label: str = "") -> None:
        new = Secret(key) if isinstance(key, str) else key
        key_changes.add(self.config, new, label=label)

    def opens(self, key: str | Secret) -> bool:
        text = key if isinstance(key, str) else key.reveal_text()
        code = run(self.env(DB_ENCRYPTION_KEY=text), "status").returncode
        assert code in {0, 11}
        return code == 0

    def listed(self, key: str = NEW) -> list[tuple[object, ...]]:
        done = run(self.env(DB_ENCRYPTION_KEY=key), "keys", "list", "--json")
        found = json.loads(done.stdout)["slots"]
        return [(one["slot"], one["type"], one["label"]) for one in found]

    def costs(self) -> list[str]:
        done = run(self.env(), "keys", "list", "--json")
        return [one["cost"] for one in json.loads(done.stdout)["slots"]]

    def file(self, text: str, mode: int = 0o600) -> str:
        path = self.folder / "new key"
        path.write_text(text + "\n")
        path.chmod(mode)
        return str(path)

    def unchanged(self, *arguments: str, stdin: str = "", **changes: str | None):
        before = fingerprint(self.folder / "notarium")
        done = run(self.env(**changes), *arguments, stdin=stdin)
        assert done.returncode != 0, done.stderr
        assert fingerprint(self.folder / "notarium") == before
        return done


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    cheap_stretching.install(monkeypatch.setattr)
    return Home(tmp_path)


def test_the_key_on_paper_opens_without_hyphens(home: Home) -> None:
    home.add(PAPER, "on paper")
    assert home.opens(PAPER.reveal_text().replace("-", "").lower())
    bare = home.file(PAPER.reveal_text().replace("-", ""))
    done = home.unchanged("rotate-key", "--new-key-file", bare)
    assert "a recovery key cannot be the new key" in done.stderr


def test_a_key_on_paper_that_is_cut_short_is_called_that(home: Home) -> None:
    home.add(PAPER, "on paper")
    with Terminal(home.env(DB_ENCRYPTION_KEY=None), "rotate-key", "--ask-old") as screen:
        screen.shows("Old key: ")
        screen.type(PAPER.reveal_text()[:-5] + "\n")
        assert screen.ends() == 11, screen.screen
    shown = " ".join(screen.screen.split())
    assert "the key given opens nothing, and as a recovery key it is not whole" in shown


def test_a_key_that_opens_already_is_no_new_key(home: Home) -> None:
    home.add(THIRD)
    for words in (WORDS, THIRD):
        for how in ([], ["--reencrypt", "--drop-other-keys"]):
            done = home.unchanged("rotate-key", *how, "--new-key-file", home.file(words))
            assert "opens the cache already" in done.stderr


def test_no_recovery_key_is_shown_that_cannot_be_put_in_force(home: Home) -> None:
    cases = ((home.env(DB_ENCRYPTION_KEY=THIRD), 11), (home.env(SIMPLENOTE_USERNAME="you@x.y"), 14))
    for env, code in cases:
        with Terminal(env, "keys", "recovery", "create") as screen:
            assert screen.ends() == code, screen.screen
        assert "Write it on paper" not in screen.screen


@pytest.mark.parametrize("command", [["rotate-key"], ["keys", "add"]])
def test_no_key_is_made_that_cannot_be_printed(tmp_path: Path, command: list[str]) -> None:
    home = Home(tmp_path)  # at full cost, for a process of its own
    before = fingerprint(home.folder / "notarium")
    line = [*SERVE, *command, "--generate"]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 1>&-', "sh", *line],
        env=home.env(), stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert "cannot be printed (standard output is closed); nothing was changed" in done.stderr
    assert "unexpected" not in done.stderr
    assert done.returncode == 1
    assert fingerprint(home.folder / "notarium") == before


def test_without_the_passphrase_the_recovery_key_opens(home: Home) -> None:
    home.add(PAPER, "on paper")
    lost = home.env(DB_ENCRYPTION_KEY=None)
    with Terminal(lost, "rotate-key", "--ask-old") as screen:
        screen.shows("Old key: ")
        screen.type(PAPER.reveal_text().lower().replace("-", " ") + "\n")
        screen.shows("New key: ")
        assert 'slot 3 ("on paper", recovery), which stays' in screen.screen
        assert "replaces slot 2 (passphrase)" in screen.screen
        screen.type(NEW + "\n")
        screen.shows("once more: ")
        screen.type(NEW + "\n")
        assert screen.ends() == 0, screen.screen
    assert 'slot 3 ("on paper", recovery) still opens the cache' in screen.screen
    assert "keys recovery create" in screen.screen
    assert "keys remove 3" in screen.screen
    for secret in (NEW, PAPER.reveal_text(), WORDS):
        assert secret not in screen.screen
    assert [home.opens(key) for key in (NEW, PAPER, WORDS)] == [True, True, False]
    assert home.listed() == [
        (3, "recovery", "on paper"),
        (4, "passphrase", ""),
    ]


def test_which_of_two_passphrases_is_lost_has_to_be_said(home: Home) -> None:
    home.add(THIRD, "the laptop")
    home.add(PAPER)
    done = home.unchanged(
        "rotate-key", "--new-key-file", home.file(NEW), DB_ENCRYPTION_KEY=PAPER.reveal_text()
    )
    assert "--slot" in done.stderr
    assert 'slot 3 ("the laptop", passphrase)' in done.stderr
    env = home.env(DB_ENCRYPTION_KEY=PAPER.reveal_text())
    done = run(env, "rotate-key", "--slot", "3", "--new-key-file", home.file(NEW))
    assert done.returncode == 0, done.stderr
    assert [home.opens(key) for key in (WORDS, THIRD, NEW)] == [True, False, True]


def test_a_wrong_old_key_is_said_before_a_new_one_is_asked_for(home: Home) -> None:
    for command in (["rotate-key"], ["rotate-key", "--reencrypt", "--ask-new"], ["keys", "add"]):
        with Terminal(home.env(DB_ENCRYPTION_KEY=NEW), *command) as screen:
            assert screen.ends() == 11, screen.screen
        assert "New key" not in screen.screen


def test_a_weak_new_key_is_said_before_it_is_typed_a_second_time(home: Home) -> None:
    with Terminal(home.env(), "rotate-key") as screen:
        screen.shows("New key: ")
        screen.type("short\n")
        assert screen.ends() == 1, screen.screen
    assert "once more" not in screen.screen


@pytest.mark.parametrize(
    "command", [["rotate-key"], ["rotate-key", "--reencrypt"], ["keys", "add"]], ids=" ".join
)
def test_a_made_up_key_is_not_shown_for_a_change_that_is_refused(
    home: Home, command: list[str]
) -> None:
    done = home.unchanged(*command, "--generate", DB_ENCRYPTION_KEY=NEW)
    assert done.stdout == ""
    full = Path("/dev/full")
    if full.exists():
        before = fingerprint(home.folder / "notarium")
        with full.open("w") as nowhere:
            code, said = run_into(nowhere, home.env(), *command, "--generate")
        assert (code, fingerprint(home.folder / "notarium")) == (1, before)
        assert "cannot be printed" in said
    done = run(home.env(), *command, "--generate")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"raw:[0-9a-f]{64}\n", done.stdout)
    assert home.opens(done.stdout.strip())


def test_a_dear_passphrase_is_followed_by_one_as_dear(home: Home) -> None:
    dear = kdf.Argon2id(memory_kib=131_072)
    user_key_rotation.rotate_passphrase(home.config, new=Secret(WORDS), parameters=dear)
    for command, old, new in (
        (["rotate-key"], WORDS, NEW),
        (["rotate-key", "--reencrypt"], NEW, WORDS),
    ):
        done = run(home.env(DB_ENCRYPTION_KEY=old), *command, "--new-key-file", home.file(new))
        assert done.returncode == 0, done.stderr
        assert home.costs() == ["Argon2id 128 MiB, 3 passes, 4 lanes"]


def test_the_kdf_changes_only_on_request_and_the_change_is_printed(home: Home) -> None:
    done = run(home.env(), "rotate-key", "--kdf", "pbkdf2-sha512", "--keep-key")
    assert done.returncode == 0, done.stderr
    assert f"PBKDF2-SHA512, 310,000 rounds from now on; before: {FLOOR}" in done.stderr
    assert home.costs() == ["PBKDF2-SHA512, 310,000 rounds"]
    done = run(home.env(), "rotate-key", "--new-key-file", home.file(NEW))
    assert "--kdf argon2id" in done.stderr
    done = run(home.env(DB_ENCRYPTION_KEY=NEW), "rotate-key", "--new-key-file", home.file(WORDS))
    assert home.costs() == ["PBKDF2-SHA512, 310,000 rounds"]
    done = run(
        home.env(DB_ENCRYPTION_KDF="argon2id"), "rotate-key", "--new-key-file", home.file(NEW)
    )
    assert f"key derivation is {FLOOR} from now on" in done.stderr
    for wrong in (
        ["--kdf", "argon2id", "--generate"],
        ["--keep-key"],
        ["--keep-key", "--kdf", "argon2id", "--reencrypt"],
        ["--reencrypt", "--slot", "1"],
    ):
        assert home.unchanged("rotate-key", *wrong, DB_ENCRYPTION_KEY=NEW).returncode == 1


def test_both_commands_name_the_files_with_the_old_key(home: Home) -> None:
    config = home.folder / ".cursor" / "mcp.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"env": {"DB_ENCRYPTION_KEY": WORDS}}))
    for command, old, new in (
        (["rotate-key", "--reencrypt"], WORDS, NEW),
        (["rotate-key"], NEW, WORDS),
    ):
        done = run(home.env(DB_ENCRYPTION_KEY=old), *command, "--new-key-file", home.file(new))
        assert done.returncode == 0, done.stderr
        assert "Every client configuration that holds the old key" in done.stderr
        assert "came from DB_ENCRYPTION_KEY; put the new one there" in done.stderr
        assert (f"still stands in {config} (Cursor)" in done.stderr) is (old == WORDS)


def test_a_file_that_others_can_read_is_named(home: Home) -> None:
    done = run(home.env(), "rotate-key", "--new-key-file", home.file(NEW, mode=0o644))
    assert done.returncode == 0
    assert "others on this machine can read" in done.stderr
    assert "chmod 600" in done.stderr
    done = run(home.env(DB_ENCRYPTION_KEY=NEW), "rotate-key", "--new-key-file", home.file(WORDS))
    assert "others on this machine" not in done.stderr


def test_slots_that_do_not_follow_are_named_and_confirmed_before_the_cache_is_rewritten(
    home: Home,
) -> None:
    home.add(PAPER, "on paper")
    home.add(THIRD)
    done = home.unchanged("rotate-key", "--reencrypt")
    named = ('slot 3 ("on paper", recovery)', "slot 4 (passphrase)")
    assert all(one in done.stderr for one in named)
    for answer, code in (("n", 1), (CTRL_C, 130), ("y", 0)):
        before = fingerprint(home.folder / "notarium")
        with Terminal(home.env(), "rotate-key", "--reencrypt", "--ask-new") as screen:
            screen.shows("[y/N]")
            assert all(one in screen.screen for one in named)
            screen.type(answer if answer == CTRL_C else answer + "\n")
            if answer == "y":
                for prompt in ("New key: ", "once more: "):
                    screen.shows(prompt)
                    screen.type(NEW + "\n")
            assert screen.ends() == code, screen.screen
        assert (fingerprint(home.folder / "notarium") == before) is (code != 0)
    assert f"{named[0]} was dropped" in screen.screen
    assert "keys recovery create" in screen.screen
    assert home.listed() == [(5, "passphrase", "")]


def test_the_recovery_key_follows_when_it_is_the_way_in(home: Home) -> None:
    home.add(PAPER, "on paper")
    with Terminal(
        home.env(), "rotate-key", "--reencrypt", "--ask-old", "--ask-new", "--drop-other-keys"
    ) as screen:
        screen.shows("Old key: ")
        screen.type(PAPER.reveal_text() + "\n")
        for prompt in ("New key: ", "once more: "):
            screen.shows(prompt)
            screen.type(NEW + "\n")
        assert screen.ends() == 0, screen.screen
    assert "slot 2 (passphrase) was dropped" in screen.screen
    assert home.listed() == [
        (3, "recovery", "on paper"),
        (4, "passphrase", ""),
    ]
    assert home.opens(PAPER)
