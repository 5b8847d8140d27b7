import json
import os
from pathlib import Path

import pytest

from mcp_notarium.config.common_variables import COMMON
from mcp_notarium.stores import registry
from support.whole import run

VARIABLES = (*registry.kind(registry.DEFAULT).variables, *COMMON)
FILE_NAMES = {one.file_name for one in VARIABLES if one.has_file}
BARE = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
SECRETS = {
    "SIMPLENOTE_PASSWORD": "Zq7 unicorn",
    "SIMPLENOTE_TOKEN": "c0ffee254729296a",
    "DB_ENCRYPTION_KEY": "battery staple nine",
    "SIMPERIUM_API_KEY": "0f1e2d3c4b5a6978",
}


def show(*arguments, env=(), cwd="/"):
    return run(BARE | dict(env), "--print-config-vars", *arguments, cwd=cwd)


def rows(done):
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_every_variable_is_listed_with_value_origin_and_purpose(tmp_path):
    done = show(env={"SIMPLENOTE_USERNAME": "ada@example.org", "LOG_LEVEL": "DEBUG"}, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    heading, *lines = done.stdout.splitlines()
    assert heading.split() == ["NAME", "VALUE", "FROM", "PURPOSE"]
    names = [(one.name, one.file_name) if one.has_file else (one.name,) for one in VARIABLES]
    assert [line.split()[0] for line in lines] == [name for both in names for name in both]
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["LOG_LEVEL"].split()[1:3] == ["debug", "environment"]
    assert by_name["SYNC_INTERVAL_SECONDS"].split()[1:3] == ["300", "default"]
    for variable in VARIABLES:
        assert variable.purpose in by_name[variable.name]


def test_secrets_are_shown_by_their_length_and_never_in_part(tmp_path):
    for arguments in ([], ["--json"]):
        done = show(*arguments, env=SECRETS, cwd=tmp_path)
        for secret in SECRETS.values():
            assert f"set ({len(secret)} characters)" in done.stdout
            assert secret[:4] not in done.stdout + done.stderr
            assert secret[-4:] not in done.stdout + done.stderr


def test_a_missing_and_a_wrong_variable_are_shown_in_their_rows(tmp_path):
    found = rows(show("--json", env={"API_TIMEOUT_SECONDS": "soon"}, cwd=tmp_path))
    assert found["SIMPLENOTE_USERNAME"]["problem"].startswith("SIMPLENOTE_USERNAME is not set")
    assert "not a number" in found["API_TIMEOUT_SECONDS"]["problem"]
    assert found["LOG_LEVEL"]["problem"] == ""
    table = show(env={"API_TIMEOUT_SECONDS": "soon"}, cwd=tmp_path).stdout
    assert (
        "! API_TIMEOUT_SECONDS holds something that is not a number (from the environment)."
        in table
    )
    assert "! SIMPLENOTE_USERNAME is not set." in table
    assert table.count("E-mail address of the Simplenote account.") == 1


def test_values_from_a_file_and_from_dotenv_name_where_they_came_from(tmp_path):
    tmp_path.chmod(0o700)
    (tmp_path / "key").write_text("k" * 20)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / ".env").write_text("SIMPLENOTE_USERNAME=ada@example.org\nDB_ENCRYPTION=off\n")
    (tmp_path / ".env").chmod(0o600)
    done = show("--json", env={"DB_ENCRYPTION_KEY_FILE": str(tmp_path / "key")}, cwd=tmp_path)
    found = rows(done)
    assert found["SIMPLENOTE_USERNAME"]["origin"] == ".env"
    assert found["DB_ENCRYPTION_KEY"]["origin"] == "DB_ENCRYPTION_KEY_FILE (environment)"
    assert found["DB_ENCRYPTION_KEY"]["value"] == "set (20 characters)"
    named = found["DB_ENCRYPTION_KEY_FILE"]
    assert (named["value"], named["origin"]) == (str(tmp_path / "key"), "environment")
    assert found["SIMPLENOTE_TOKEN_FILE"]["origin"] == "not set"
    assert found["DB_ENCRYPTION"]["value"] == "on"
    assert done.stderr.startswith("note: DB_ENCRYPTION in .env is ignored")


def test_a_secret_in_the_variable_of_its_file_is_not_repeated(tmp_path):
    env = {"SIMPLENOTE_USERNAME": "ada@example.org", "DB_ENCRYPTION_KEY_FILE": "marmalade/skies"}
    shown = show(env=env, cwd=tmp_path).stdout
    assert "DB_ENCRYPTION_KEY_FILE does not exist" in shown
    assert "set (15 characters)" in shown
    refused = run(env | BARE, "status").stderr
    assert "DB_ENCRYPTION_KEY_FILE does not exist" in refused
    assert "marmalade" not in shown + refused


def test_a_named_file_that_is_missing_is_reported_and_the_rest_shown(tmp_path):
    done = show("--json", "--env-file", str(tmp_path / "missing"), cwd=tmp_path)
    assert len(rows(done)) == len(VARIABLES) + len(FILE_NAMES)
    assert "--env-file" in done.stderr


def test_the_table_cannot_be_forged_by_a_value(tmp_path):
    done = show(env={"NOTARIUM_DATA_DIR": "/x\nFORGED  \x1b[2J"}, cwd=tmp_path)
    assert done.returncode == 0
    assert "\nFORGED" not in done.stdout
    assert "\x1b" not in done.stdout


def test_printing_creates_no_file(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    show(env={"HOME": str(home), "LOG_FILE_PATH": str(tmp_path / "log")}, cwd=tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["home"]


@pytest.mark.parametrize(
    "command", [["--print-config-vars"], ["--print-config-vars", "--json"], ["status"], []]
)
def test_a_secret_in_a_wrong_variable_is_not_repeated(tmp_path: Path, command: list[str]) -> None:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SIMPLENOTE_USERNAME": "someone@example.com",
        "SIMPLENOTE_PASSWORD": "marmalade-skies-77",
        "NOTARIUM_DESTRUCTIVE": "marmalade-skies-77",
    }
    done = run(env, *command)
    assert "NOTARIUM_DESTRUCTIVE" in done.stdout + done.stderr
    assert "marmalade" not in done.stdout + done.stderr
