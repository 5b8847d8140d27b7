"""Test which account of ``accounts.toml`` a command or a server uses, and which files are refused."""

import stat

import pytest

from mcp_notarium import config
from mcp_notarium.config import accounts
from mcp_notarium.config.accounts import ONLY, Account, AccountError

LOCAL = Account("home", "keychain", {"NOTARIUM_STORE": "local", "LOCAL_NOTEBOOK": "diary"})
ADA = Account(
    "work",
    "file",
    {
        "NOTARIUM_STORE": "simplenote",
        "SIMPLENOTE_USERNAME": "ada@example.org",
        "DB_ENCRYPTION_KEY_FILE": "/nowhere/work.key",
    },
)


@pytest.fixture
def home(tmp_path):
    """A home whose folder for settings is ours alone."""
    (tmp_path / "here").mkdir(mode=0o700)
    return tmp_path


def write(home, *given):
    accounts.write_accounts(home / "mcp-notarium", {one.name: one for one in given})
    return home / "mcp-notarium" / "accounts.toml"


def inspect(home, account, environ=None, **options):
    environ = {"XDG_CONFIG_HOME": str(home), "NOTARIUM_DATA_DIR": str(home / "data")} | (
        environ or {}
    )
    return config.inspect(environ, cwd=home / "here", account=account, **options)


def values(report):
    return {one.name: one.value for one in report.settings}


def test_accounts_are_read_as_they_were_written_in_a_file_of_the_user_alone(home):
    path = write(home, LOCAL, ADA)
    assert accounts.read_accounts(path.parent) == {"home": LOCAL, "work": ADA}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_command_uses_the_only_account(home):
    write(home, LOCAL)
    report = inspect(home, ONLY)
    assert report.store.name == "local"
    assert values(report)["LOCAL_NOTEBOOK"] == "diary"
    assert report.account == LOCAL
    assert {one.origin for one in report.settings if one.name == "LOCAL_NOTEBOOK"} == {
        "account home"
    }


def test_a_server_that_names_no_account_reads_no_account(home):
    write(home, LOCAL).write_text("not [ toml")
    report = inspect(home, None)
    assert report.store.name == "simplenote"
    assert report.account is None


def test_several_accounts_want_a_name(home):
    write(home, LOCAL, ADA)
    (problem,) = inspect(home, ONLY).problems()
    assert problem.message == "there are 2 accounts, and it is not said which one is meant"
    assert "`--account home` (local), `--account work` (simplenote)" in problem.resolution_hint
    assert values(inspect(home, "home"))["LOCAL_NOTEBOOK"] == "diary"


def test_an_unknown_name_is_refused_and_the_known_ones_are_named(home):
    write(home, LOCAL)
    (problem,) = inspect(home, "hoem").problems()
    assert "there is no account `hoem`" in problem.message
    assert problem.resolution_hint.startswith("Did you mean `home`? There are: home.")
    assert "mcp-notarium setup" in problem.resolution_hint


def test_a_name_in_another_letter_case_is_near(home):
    write(home, LOCAL)
    (problem,) = inspect(home, "HOME").problems()
    assert problem.resolution_hint.startswith("Did you mean `home`?")


def test_no_file_is_no_account(home):
    assert inspect(home, ONLY).account is None


@pytest.mark.parametrize(
    "environ",
    [
        {"NOTARIUM_STORE": "local"},
        {"SIMPLENOTE_USERNAME": "eve@example.org"},
        {"LOCAL_NOTEBOOK": "x"},
    ],
)
def test_an_environment_that_names_an_account_is_another_account_than_the_only_one(home, environ):
    write(home, ADA)
    report = inspect(home, ONLY, environ)
    assert report.account is None
    assert values(report)["DB_ENCRYPTION_KEY_FILE"] == ""
    (name,) = environ
    said = f"{name} is set, so no account of accounts.toml is used; `--account work` uses one."
    assert said in report.warnings
    assert not inspect(home, None, environ).warnings, "a server uses none anyway"
    write(home).write_text("no accounts")
    assert not inspect(home, ONLY, environ).warnings


def test_the_environment_wins_over_a_named_account_value_by_value(home):
    write(home, LOCAL)
    found = values(inspect(home, "home", {"LOCAL_NOTEBOOK": "other"}))
    assert (found["NOTARIUM_STORE"], found["LOCAL_NOTEBOOK"]) == ("local", "other")


def test_the_named_file_wins_over_a_named_account(home):
    write(home, LOCAL)
    (home / "env").write_text("LOCAL_NOTEBOOK=other\n")
    (home / "env").chmod(0o600)
    found = values(inspect(home, "home", env_file=home / "env"))
    assert found["LOCAL_NOTEBOOK"] == "other"


def test_a_file_in_the_working_folder_does_not_change_the_account(home):
    write(home, ADA)
    (home / "here" / ".env").write_text(
        "SIMPLENOTE_USERNAME=eve@example.org\nSIMPLENOTE_TOKEN=stolen\n"
    )
    report = inspect(home, ONLY)
    assert values(report)["SIMPLENOTE_USERNAME"] == "ada@example.org"
    assert values(report)["SIMPLENOTE_TOKEN"] == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[a]\nDB_ENCRYPTION_KEY = "secret"\n', "may not hold DB_ENCRYPTION_KEY"),
        ('[a]\nSIMPLENOTE_PASSWORD = "secret"\n', "may not hold SIMPLENOTE_PASSWORD"),
        ('[a]\nPATH = "/evil"\n', "may not hold PATH"),
        ('[a]\nNOTARIUM_STORE = "local"\nTRILIUM_URL = "https://x"\n', "may not hold TRILIUM_URL"),
        ('[a]\nNOTARIUM_STORE = "shoe box"\n', "names a store that does not exist"),
        ('[a]\nkey = "pocket"\n', "in none of these"),
        ('[a]\nkey = "file"\n', "has DB_ENCRYPTION_KEY_FILE if"),
        ('a = "b"\n', "no table of texts"),
        ("[a\n", "cannot be used"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_without_quoting_it(home, text, said):
    path = write(home, LOCAL)
    path.write_text(text)
    with pytest.raises(AccountError) as caught:
        accounts.read_accounts(path.parent)
    assert said in caught.value.message
    assert "secret" not in caught.value.message
    assert "mcp-notarium setup" in caught.value.resolution_hint


def test_a_file_that_others_may_write_is_refused(home):
    path = write(home, LOCAL)
    path.chmod(0o622)
    (problem,) = inspect(home, ONLY).problems()
    assert "others may write to it" in problem.message
    assert "chmod go-w" in problem.resolution_hint
