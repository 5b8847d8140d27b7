"""Test the ``audit`` commands over the records of a real server."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support import cheap_stretching
from support.needs import programs
from support.whole import Server, account_folder, environment, run


@pytest.fixture(name="simulator", scope="module")
def _simulator():
    simulator = Simulator()
    simulator.load(prose(3, seed=6))
    with simulator.running():
        yield simulator


@pytest.fixture(name="filled", scope="module")
def _filled(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the records of one server; tests work on copies."""
    place = tmp_path_factory.mktemp("filled")
    with Server(environment(simulator, place)) as server:
        server.tool("list")
        server.tool("save", text="words that nobody else may read")
        server.error("get", id="no such note")
        assert server.leave() == 0
    return place


@pytest.fixture(name="env")
def _env(simulator: Simulator, filled: Path, tmp_path: Path) -> dict[str, str]:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return environment(simulator, tmp_path, **cheap_stretching.MARKED)


def head_of(env: dict[str, str]) -> str:
    return json.loads(run(env, "audit", "verify", "--json").stdout)["head"]


def test_the_records_of_a_server_are_complete(env: dict[str, str]) -> None:
    done = run(env, "audit", "verify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The audit chain is whole." in done.stdout
    shown = run(env, "audit", "tail", "-n", "50", "--json").stdout
    records = [json.loads(line) for line in shown.splitlines()]
    assert [record["act"] for record in records] == [
        *("chain.begun", "server.start", "tool.list", "tool.save", "tool.save", "tool.get"),
        "server.stop",
    ]
    assert records[0]["facts"] == {"why": "created"}
    assert records[3]["client"] == "talker 1"
    assert (records[3]["outcome"], records[4]["outcome"]) == ("", "ok")
    assert records[4]["refers"] == records[3]["number"]
    assert "words" not in shown
    assert "such" not in shown
    _day, *lines = run(env, "audit", "tail", "-n", "2").stdout.splitlines()
    assert len(lines) == 2
    assert "tool.get" in lines[0]


def test_head_noted_elsewhere_is_compared(env: dict[str, str]) -> None:
    head = head_of(env)
    assert run(env, "audit", "verify", "--expect", head).returncode == 0
    other = head[:-1] + ("0" if head[-1] != "0" else "1")
    done = run(env, "audit", "verify", "--expect", other)
    assert done.returncode == 3
    assert "not the one you noted" in done.stdout
    assert run(env, "audit", "verify", "--expect", "nonsense").returncode == 1


def test_two_servers_at_once_make_one_chain_and_one_anchor(env: dict[str, str]) -> None:
    with Server(env) as one, Server(env) as two:
        for number in range(10):
            one.tool("list")
            two.tool("save", text=f"by two {number}")
            one.tool("save", text=f"by one {number}")
            two.tool("list")
        assert one.leave() == 0
        two.tool("list")
        assert two.leave() == 0
    found = json.loads(run(env, "audit", "verify", "--json").stdout)
    assert found["whole"], found
    shown = run(env, "audit", "tail", "-n", "500", "--json").stdout.splitlines()
    acts = [json.loads(line)["act"] for line in shown]
    assert acts.count("tool.save") == 2 + 2 * 20
    assert acts.count("tool.list") == 1 + 21
    assert acts.count("server.start") == acts.count("server.stop") == 3


def test_the_start_names_the_policy_without_telling_its_tags(
    env: dict[str, str], tmp_path: Path
) -> None:
    policy = tmp_path / "cache" / "policy.toml"
    for text in (None, '[notes]\nhidden_tags = ["secretive"]\n', None):
        if text is not None:
            policy.write_text(text)
            policy.chmod(0o600)
        elif policy.exists():
            policy.unlink()
        with Server(env) as server:
            server.tool("list")
            assert server.leave() == 0
    shown = run(env, "audit", "tail", "-n", "500", "--json").stdout
    assert "secretive" not in shown
    starts = [json.loads(line) for line in shown.splitlines() if '"server.start"' in line]
    digests = [start["facts"]["policy"] for start in starts]
    first, permissive, hiding, again = digests
    assert first == permissive == again
    assert hiding != first
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.attack(16)
def test_older_copy_of_the_database_is_found(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    database = next(account_folder(simulator, tmp_path).glob("*.sqlite.encrypted"))
    older = database.read_bytes()
    with Server(env) as server:
        server.tool("save", text="a later note")
        assert server.leave() == 0
    database.write_bytes(older)
    done = run(env, "audit", "verify", "--json")
    assert done.returncode == 3
    (fault,) = json.loads(done.stdout)["faults"]
    assert fault["kind"] == "tail_cut"
    with Server(env) as server:
        (notice,) = server.tool("manage", action="get_stats")["stats"]["notices"]
        assert " audit records after number " in notice
        refused = server.error("save", text="not saved")
        assert refused["subcategory"] == "rollback_seen"
        assert " are missing, up to " in refused["message"]
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 3  # going on does not make it good


def test_cache_that_was_quarantined_is_followed_by_a_new_chain_that_says_so(
    env: dict[str, str],
) -> None:
    other = env | {"DB_ENCRYPTION_KEY": "raw:" + "6b" * 32}
    assert run(other, "reset-cache", "--yes").returncode == 0
    first = run(other, "audit", "export").stdout.splitlines()[0]
    facts = json.loads(first)["facts"]
    assert (json.loads(first)["act"], facts["why"]) == ("chain.begun", "created")
    assert facts["older_files"] == "quarantine"
    assert run(other, "audit", "verify").returncode == 0


def test_emptying_the_cache_in_place_continues_with_the_chain(env: dict[str, str]) -> None:
    before = head_of(env)
    assert run(env, "reset-cache", "--yes").returncode == 0
    assert run(env, "audit", "verify", "--expect", before).returncode == 0
    shown = run(env, "audit", "tail", "-n", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["act"] for line in shown] == ["cli.reset-cache"] * 2


def test_commands_are_on_record(env: dict[str, str]) -> None:
    words = "nine hungry lamps by the river"
    assert run(env, "keys", "add", "--new-key-stdin", stdin=words).returncode == 0
    assert run(env, "logout").returncode == 0
    shown = run(env, "audit", "tail", "-n", "3", "--json").stdout
    records = [json.loads(line) for line in shown.splitlines()]
    assert [record["act"] for record in records] == ["keys.changed", "cli.logout", "cli.logout"]
    assert records[0]["facts"] == {"sequence": 2, "added": ["2 passphrase"]}
    assert run(env, "audit", "verify").returncode == 0


def test_export_is_signed_and_a_changed_one_is_found(env: dict[str, str], tmp_path: Path) -> None:
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    _make_keys(private, public)
    out = tmp_path / "audit.jsonl"
    done = run(env, "audit", "export", "--out", str(out), "--sign", str(private))
    assert done.returncode == 0, done.stderr
    assert out.stat().st_mode & 0o777 == 0o600
    check = ("audit", "verify-export", str(out), "--public", str(public))
    facts = json.loads(run(env, *check, "--json").stdout)
    assert facts == {"head": facts["head"], "signature": True, "faults": []}
    done = run({"PATH": env["PATH"]}, *check)  # needs no cache and no key
    assert done.returncode == 0, done.stdout + done.stderr
    assert _openssl_verifies(out, public)
    lines = out.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["records"] == len(lines) - 1
    for broken in (
        lines[:-1],
        lines[:2] + lines[3:],
        [lines[0].replace(b"created", b"rebuilt"), *lines[1:]],
        [lines[1], lines[0], *lines[2:]],
        [*lines, lines[0]],
        lines[:-2] + lines[-1:],
        [b"nonsense\n", *lines],
    ):
        out.write_bytes(b"".join(broken))
        assert run(env, *check[:3]).returncode == 3
        assert run(env, *check).returncode == 3
        assert not _openssl_verifies(out, public)
    assert run(env, "audit", "export", "--out", str(out)).returncode == 1  # never overwrites
    assert run(env, "audit", "export", "--sign", str(private)).returncode == 1


def test_export_of_some_days_begins_at_the_given_day(env: dict[str, str], tmp_path: Path) -> None:
    (line,) = run(env, "audit", "export", "--since", "2999-01-01").stdout.splitlines()
    assert json.loads(line)["records"] == 0
    head = json.loads(line)["head"]
    assert head == head_of(env)
    assert run(env, "audit", "verify", "--expect", head).returncode == 0
    assert run(env, "audit", "verify", "--expect", f"0:{'0' * 64}").returncode == 3
    out = tmp_path / "nothing.jsonl"
    done = run(env, "audit", "export", "--since", "2999-01-01", "--out", str(out))
    assert "No record is of that day or later" in done.stderr
    done = run(env, "audit", "verify-export", str(out))
    assert done.returncode == 0
    assert "there is no record in it" in done.stdout
    lines = run(env, "audit", "export", "--since", "2020-01-01").stdout.splitlines()
    assert len(lines) > 5
    assert json.loads(lines[-2])["act"] == "cli.audit.export"
    assert run(env, "audit", "export", "--since", "yesterday").returncode == 1


def test_looking_at_the_record_makes_no_cache(simulator: Simulator, tmp_path: Path) -> None:
    done = run(environment(simulator, tmp_path), "audit", "verify")
    assert done.returncode == 14
    assert not list(tmp_path.rglob("notarium_*"))


def test_cache_that_is_locked_is_refused_with_its_own_exit_code(env: dict[str, str]) -> None:
    done = run(env | {"DB_ENCRYPTION_KEY": "another passphrase altogether"}, "audit", "verify")
    assert done.returncode == 11


def _openssl_verifies(out: Path, public: Path) -> bool:
    """The commands of the page, with the names of its files."""
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    commands = page.partition("OpenSSL 3 verifies")[2].partition("```sh\n")[2].partition("```")[0]
    assert (out.name, public.name) == ("audit.jsonl", "public.pem")
    script = ["sh", "-e", "-c", commands]
    return subprocess.run(script, cwd=out.parent, capture_output=True, check=False).returncode == 0


def _make_keys(private: Path, public: Path) -> None:
    programs("openssl")
    made = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(private)]
    subprocess.run(made, check=True, capture_output=True)
    shown = ["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)]
    subprocess.run(shown, check=True, capture_output=True)


def test_doctor_warns_of_a_chain_as_status_does_and_says_what_to_do(
    env: dict[str, str], simulator: Simulator, tmp_path: Path
) -> None:
    folder = account_folder(simulator, tmp_path)
    assert chain_in_doctor(env)["state"] == "ok"
    (database,) = folder.glob("*.sqlite.encrypted")
    older = database.read_bytes()
    with Server(env) as server:
        server.tool("list")
        assert server.leave() == 0
    database.write_bytes(older)
    for expected in (" are missing, up to ", "the anchor is missing"):
        found = chain_in_doctor(env)
        assert found["state"] == "warn"
        assert expected in found["seen"]
        (notice,) = json.loads(run(env, "status", "--json").stdout)["notices"]
        assert notice.startswith(found["seen"])
        assert "mcp-notarium audit verify" in found["hint"]
        assert "mcp-notarium audit accept" in found["hint"]
        (folder / "audit_anchor.json").unlink(missing_ok=True)
    assert f"warn  audit chain    {found['seen']}\n" in run(env, "doctor", "--offline").stdout


def chain_in_doctor(env: dict[str, str]) -> dict[str, str]:
    done = run(env, "doctor", "--json", "--offline")
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (o for o in json.loads(done.stdout)["findings"] if o["name"] == "audit chain")
    return found


@pytest.mark.parametrize("how", ["removed", "changed", "older database"])
def test_accepting_an_anchor_that_does_not_fit_is_recorded(
    env: dict[str, str], simulator: Simulator, tmp_path: Path, how: str
) -> None:
    folder = account_folder(simulator, tmp_path)
    anchor = folder / "audit_anchor.json"
    (database,) = folder.glob("*.sqlite.encrypted")
    older = database.read_bytes()
    with Server(env) as server:
        server.tool("list")
        assert server.leave() == 0
    match how:
        case "removed":
            anchor.unlink()
        case "changed":
            anchor.write_bytes(anchor.read_bytes().replace(b'"count":', b'"count":1'))
        case _:
            database.write_bytes(older)
    with Server(env) as server:
        server.tool("list")
        assert server.leave() == 0
        assert "audit verify" in server.errors()  # the log says that something is odd
    found = run(env, "audit", "verify")
    assert found.returncode == 3
    if how != "older database":
        assert "mcp-notarium audit accept" in found.stdout
    before = head_of(env)
    refused = run(env, "audit", "accept")
    assert (refused.returncode, head_of(env)) == (1, before)
    assert f"; head {before}\n" in refused.stdout  # what is asked about can be read
    assert f"({before.partition(':')[0]}:{before.partition(':')[2][:16]}…)" in refused.stderr
    assert "[redacted]" not in refused.stderr
    done = run(env, "audit", "accept", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads(run(env, "audit", "tail", "-n", "1", "--json").stdout)
    assert (last["act"], last["facts"]["head"]) == ("cli.audit.accept", before)
    assert run(env, "audit", "verify").returncode == 0
    assert "nothing to accept" in run(env, "audit", "accept", "--yes").stderr


def test_a_server_takes_records_away_when_the_days_of_its_setting_are_over(
    simulator: Simulator, tmp_path: Path
) -> None:
    env = environment(
        simulator, tmp_path, DB_ENCRYPTION="off", DB_ENCRYPTION_KEY=None, NOTARIUM_AUDIT_DAYS="2"
    )
    with Server(env) as server:
        server.tool("save", text="a note")
        assert server.leave() == 0
    path = account_folder(simulator, tmp_path) / "notarium_cache.sqlite"
    with closing(sqlite3.connect(path)) as plain:
        guards = plain.execute("SELECT name, sql FROM sqlite_master WHERE name LIKE 'audit%'")
        triggers = [(name, sql) for name, sql in guards if "CREATE TRIGGER" in (sql or "")]
        for name, _ in triggers:
            plain.execute(f"DROP TRIGGER {name}")
        plain.execute("UPDATE audit SET at_ms = at_ms - 3 * 86400000")
        for _, sql in triggers:
            plain.execute(sql)
        plain.commit()
    with Server(env) as server:
        server.tool("list")
        assert server.leave() == 0
    lines = run(env, "audit", "tail", "-n", "50", "--json").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    acts = [record["act"] for record in records]
    assert "chain.begun" not in acts
    assert acts.count("chain.pruned") == 1
    assert {record["digest"] for record in records} == {""}, "no key, no digest"
