"""Test ``policy show | check | explain`` with real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support.whole import Server, environment, run

FILE = """\
mode = "write"

[tools]
save = false

[notes]
hidden_tags = ["private"]
"""


OVER_ALL = (
    *("list_tags", "list_properties", "rename_tag", "find_duplicates"),
    *("list_folders", "move_folder", "find_problems"),
)
HISTORY = ("history", "restore_version", "undo", "change")


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator()
    simulator.put("seen", content="a plain note", tags=["work"])
    simulator.put("kept", content="a secret note", tags=["private"])
    with simulator.running():
        yield simulator


@pytest.fixture(name="env")
def _env(simulator: Simulator, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "cache").mkdir(mode=0o700)
    path = tmp_path / "cache" / "policy.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return environment(simulator, tmp_path)


def printed(env: dict[str, str], *arguments: str) -> dict[str, object]:
    done = run(env, "policy", *arguments, "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == (0 if facts.get("allowed", True) else 1), done.stderr
    return facts


def test_show_names_every_rule_and_its_origin(env):
    shown = printed(env | {"NOTARIUM_READ_ONLY": "1"}, "show")
    rules = {row["rule"]: (row["value"], row["from"]) for row in shown["rules"]}
    assert rules["mode"] == ("read-only", "NOTARIUM_READ_ONLY")
    assert rules["tools.save"] == (False, "policy.toml, line 4")
    assert rules["notes.hidden_tags"] == (["private"], "policy.toml, line 7")
    assert rules["limits.writes_per_hour"] == (None, "default")
    assert shown["tools"] == ["list", "get", "manage"]
    text = run(env, "policy", "show").stdout
    assert "policy.toml, line 7" in text
    assert "tools an agent is offered: list, get, manage" in text


def test_check_tells_a_right_file_from_a_wrong_one(env, tmp_path):
    assert run(env, "policy", "check").returncode == 0
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[limits]\nwrites_per_our = 1\n")
    wrong.chmod(0o600)
    done = run(env, "policy", "check", str(wrong))
    assert done.returncode == 1
    assert "line 2, `limits.writes_per_our`" in done.stderr
    assert f"`mcp-notarium policy check {wrong}`" in done.stderr
    as_json = run(env, "policy", "check", str(wrong), "--json")
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout)["line"] == 2
    assert run(env | {"NOTARIUM_POLICY_FILE": str(wrong)}, "policy", "check").returncode == 1


def test_check_names_the_folders_from_which_no_file_can_come(env, tmp_path):
    for name in ("scans", "settings/mcp-notarium"):
        (tmp_path / name).mkdir(parents=True, mode=0o700)
    env |= {"XDG_CONFIG_HOME": str(tmp_path / "settings")}
    file = tmp_path / "cache" / "policy.toml"
    listed = [
        f'"{tmp_path}/{one}"' for one in ("scans", "none", "cache/in", "settings/mcp-notarium")
    ]
    (tmp_path / "cache" / "in").mkdir()
    text = f'import_paths = [{", ".join(listed)}]\n[profiles.a]\nimport_paths = [{listed[0]}, "{tmp_path}"]\n'
    file.write_text(text + '[profiles.b]\nimport_paths = ["/usr"]\n')
    facts = printed(env, "check")
    told = [one.replace(str(tmp_path), "") for one in facts["warnings"]]
    assert told == [
        "no file can come from /none of import_paths: there is no such folder",
        "no file can come from /cache/in of import_paths: it belongs to notes, to this program or to a client",
        "no file can come from /settings/mcp-notarium of import_paths: it belongs to notes, to this program or to a client",
        "no file can come from /usr of profiles.b.import_paths: it is outside the `import_paths` of the policy itself",
    ]
    of_profile = run(env, "policy", "check", str(file), "--profile", "b")  # for no account
    assert of_profile.returncode == 0
    for one in ("none of import_paths", "settings/mcp-notarium of", "/usr of import_paths"):
        assert one in "".join(of_profile.stdout.split("\n"))
    assert "scans" not in of_profile.stdout


def test_a_wrong_file_stops_the_server_before_the_handshake(env, tmp_path):
    (tmp_path / "cache" / "policy.toml").write_text("[tools]\nsearch = false\n")
    done = run(env, stdin='{"jsonrpc":"2.0"}\n')
    assert done.returncode == 1
    assert done.stdout == ""
    assert "line 2, `tools.search`" in done.stderr


def test_check_tells_which_profiles_suit_which_accounts(env, tmp_path):
    file = tmp_path / "cache" / "policy.toml"
    file.write_text('[profiles.a]\nmode = "write"\n[profiles.b.notes]\nwritable_paths = ["In"]\n')
    listed = tmp_path / "settings" / "mcp-notarium"
    listed.mkdir(parents=True)
    listed.chmod(0o700)
    data = f'NOTARIUM_DATA_DIR = "{tmp_path / "cache"}"'
    (listed / "accounts.toml").write_text(
        f'[diary]\nkey = "keychain"\nNOTARIUM_STORE = "local"\nLOCAL_NOTEBOOK = "diary"\n{data}\n'
        f'[files]\nkey = "keychain"\nNOTARIUM_STORE = "vault"\nVAULT_PATH = "{tmp_path}"\n{data}\n'
        '[elsewhere]\nkey = "keychain"\nNOTARIUM_STORE = "local"\nLOCAL_NOTEBOOK = "other"\n'
        f'NOTARIUM_DATA_DIR = "{tmp_path}"\n'
    )
    (listed / "accounts.toml").chmod(0o600)
    here = {
        name: value
        for name, value in env.items()
        if not name.startswith(("SIMPLE", "NOTARIUM_DATA"))
    }
    here |= {"XDG_CONFIG_HOME": str(listed.parent)}
    check = ("--account", "diary", "policy", "check")
    facts = json.loads(run(here, *check, "--json").stdout)
    told = {one["account"]: (one["profiles"], one["unfit_profiles"]) for one in facts["accounts"]}
    assert told == {"diary": (["a"], {"b": ["writable_paths"]}), "files": (["a", "b"], {})}
    assert "b (writable_paths)" in run(here, "--account", "diary", "policy", "show").stdout
    refused = run(here, "--account", "diary", "policy", "show", "--profile", "b")
    assert refused.returncode == 1
    assert "the notes of the local notebook have no paths" in refused.stderr
    installed = run(here, "--account", "diary", "install", "--print", "other", "--profile", "b")
    assert (installed.returncode, installed.stdout) == (1, "")
    file.write_text('[notes]\nhidden_paths = ["In"]\n[profiles.a]\nmode = "write"\n')
    wrong = run(here, *check)
    assert wrong.returncode == 1
    assert "the policy itself (hidden_paths)" in wrong.stdout
    nobody = {name: here[name] for name in ("PATH", "XDG_CONFIG_HOME")}
    assert "it is not said which one is meant" in run(nobody, "policy", "check").stderr
    shared = run(nobody | {"NOTARIUM_POLICY_FILE": str(file)}, "policy", "check")  # by all accounts
    assert (shared.returncode, "the policy itself" in shared.stdout) == (0, True)
    by_name = json.loads(run(here, *check[:-1], "check", str(file), "--json").stdout)
    assert {one["account"]: one["unfit"] for one in by_name["accounts"]} == {
        "diary": ["hidden_paths"],
        "files": [],
        "elsewhere": ["hidden_paths"],
    }


def test_a_server_is_bound_by_its_own_profile_alone(env, tmp_path):
    (tmp_path / "cache" / "policy.toml").write_text(
        '[profiles.a.notes]\nhidden_tags = ["private"]\n[profiles.b.notes]\nhidden_paths = ["In"]\n'
    )
    with Server(env | {"NOTARIUM_PROFILE": "a"}) as server:
        server.loaded(1)
        assert server.leave() == 0
    done = run(env | {"NOTARIUM_PROFILE": "b"}, stdin='{"jsonrpc":"2.0"}\n')
    assert (done.returncode, done.stdout) == (1, "")
    assert "hidden_paths: the notes of Simplenote have no paths" in done.stderr


def test_explain_says_why(env, tmp_path):
    assert printed(env, "explain", "kept", "get")["visible"] is None
    with Server(env) as server:
        server.loaded(1)
        assert server.leave() == 0
    kept = printed(env, "explain", "kept", "manage")
    assert (kept["visible"], kept["rule"]) == (False, 'hidden_tags "private"')
    assert kept["allowed"] is False
    assert "delete_permanently" in kept["refused"]
    assert kept["permitted"] == [
        "trash",
        "untrash",
        "pin",
        "unpin",
        *HISTORY,
        *OVER_ALL,
        "get_stats",
    ]
    seen = printed(env, "explain", "seen", "save")
    assert (seen["visible"], seen["rule"], seen["offered"]) == (True, None, False)
    by_words = printed(env, "explain", *seen["title"].split()[:2], "save")
    assert by_words == seen
    assert printed(env, "explain", "no", "such", "words", "save")["visible"] is None
    said = run(env, "policy", "explain", "kept", "SAVE").stdout
    assert 'Note kept is hidden by hidden_tags "private".' in said
    assert said.splitlines()[-1].startswith("Verdict: no. `save` is refused")
    (tmp_path / "cache" / "policy.toml").write_text('mode = "full"')
    later = printed(env, "explain", "kept", "get")
    assert "until a server is restarted" in later["remark"]


def found(env: dict[str, str], *, code: int = 0) -> dict[str, dict[str, str]]:
    done = run(env, "doctor", "--json", "--offline")
    assert done.returncode == code, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)["findings"]}


def test_doctor_names_the_policy_that_a_server_puts_on_record(env, tmp_path):
    with Server(env) as server:
        server.tool("list")
        assert server.leave() == 0
    facts = found(env)
    shown = run(env, "audit", "tail", "--json", "-n", "50").stdout
    (start,) = [json.loads(line) for line in shown.splitlines() if '"server.start"' in line]
    assert facts["policy digest"]["seen"] == start["facts"]["policy"]
    seen = facts["policy"]["seen"]  # HOME of these tests is tmp_path
    assert seen == "~/cache/policy.toml; mode write; tools: list, get, manage"
    assert "private" not in json.dumps(facts)
    (tmp_path / "cache" / "policy.toml").unlink()
    seen = found(env | {"NOTARIUM_READ_ONLY": "1"})["policy"]["seen"]
    assert seen == "no policy file, NOTARIUM_READ_ONLY; mode read-only; tools: list, get, manage"
    assert f"policy         {seen}\n" in run(env | {"NOTARIUM_READ_ONLY": "1"}, "doctor").stdout


def test_doctor_says_that_a_policy_file_cannot_be_used(env, tmp_path):
    (tmp_path / "cache" / "policy.toml").chmod(0o644)
    (finding,) = found(env, code=1).values()
    assert finding["state"] == "bad"
    assert "policy.toml" in finding["seen"]
