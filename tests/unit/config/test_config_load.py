import sys
from pathlib import Path

import platformdirs
import pytest

from mcp_notarium import config
from mcp_notarium.config import accounts, settings
from mcp_notarium.config.common_variables import COMMON
from mcp_notarium.config.settings import default_data_dir
from mcp_notarium.config_variable import Kind, Trust
from mcp_notarium.errors import ConfigError, SettingsMissing
from mcp_notarium.secret import Secret
from mcp_notarium.stores import registry
from mcp_notarium.stores.simplenote.kind import KIND, USERNAME
from support.simplenote_settings import simplenote

ROOT = Path(__file__).parents[3]
VARIABLES = (*KIND.variables, *COMMON)
FILE_NAMES = {one.file_name for one in VARIABLES if one.has_file}
MINIMUM = {"SIMPLENOTE_USERNAME": "ada@example.org"}


def load(tmp_path, extra=(), **options):
    return config.load(MINIMUM | dict(extra), cwd=tmp_path, **options)


def refused(tmp_path, extra=(), **options):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, extra, **options)
    return caught.value


def test_a_username_alone_gives_every_documented_default(tmp_path):
    made = load(tmp_path).config
    assert made == config.Config(
        **simplenote("ada@example.org"), data_dir=tmp_path / "mcp-notarium"
    )
    assert (made.sync_interval, made.api_timeout, made.kdf_iterations) == (300.0, 30.0, 310_000)


def test_every_variable_reaches_the_configuration(tmp_path):
    made = load(
        tmp_path,
        {
            "SIMPLENOTE_PASSWORD": "the password",
            "SIMPLENOTE_TOKEN": "the token",
            "DB_ENCRYPTION_KEY": "the key",
            "DB_ENCRYPTION": "off",
            "DB_ENCRYPTION_KDF": "pbkdf2-sha512",
            "DB_ENCRYPTION_KDF_ITERATIONS": "400000",
            "DB_ON_UNREADABLE": "rebuild",
            "DB_CIPHER_MEMORY_SECURITY": "on",
            "SYNC_INTERVAL_SECONDS": "90.5",
            "API_TIMEOUT_SECONDS": "7",
            "LOG_LEVEL": "Warning",
            "LOG_FILE_PATH": str(tmp_path / "log"),
            "NOTARIUM_DATA_DIR": str(tmp_path / "elsewhere"),
            "NOTARIUM_STORE": "Simplenote",
            "NOTARIUM_TOOLS": "both",
            "NOTARIUM_NATIVE_NAMES": "Snake",
            "NOTARIUM_TOOL_PREFIX": "Notes_2_",
            "NOTARIUM_DESTRUCTIVE": "DENY",
            "NOTARIUM_KEYCHAIN": "no",
            "NOTARIUM_SANDBOX": "require",
            "NOTARIUM_AUDIT_DAYS": "30",
            "NOTARIUM_VERSION_DAYS": "7",
            "NOTARIUM_VERSION_MB": "8",
            "SIMPLENOTE_REQUEST_SOURCE": "nvalt",
            "SIMPERIUM_API_URL": "http://127.0.0.1:8000/1/",
            "SIMPERIUM_AUTH_URL": "http://[::1]:8000/1",
            "SIMPLENOTE_APP_URL": "http://localhost:8000",
            "SIMPERIUM_API_KEY": "another",
        },
    ).config
    assert made == config.Config(
        **simplenote(
            "ada@example.org",
            SIMPLENOTE_PASSWORD="the password",
            SIMPLENOTE_TOKEN="the token",
            SIMPLENOTE_REQUEST_SOURCE="nvalt",
            SIMPERIUM_API_URL="http://127.0.0.1:8000/1",
            SIMPERIUM_AUTH_URL="http://[::1]:8000/1",
            SIMPLENOTE_APP_URL="http://localhost:8000",
            SIMPERIUM_API_KEY="another",
        ),
        db_key=Secret("the key"),
        db_key_origin="DB_ENCRYPTION_KEY",
        db_encryption=False,
        kdf="pbkdf2-sha512",
        kdf_chosen=True,
        kdf_iterations=400_000,
        on_unreadable="rebuild",
        memory_security=True,
        sync_interval=90.5,
        api_timeout=7.0,
        log_level="warn",
        log_file=tmp_path / "log",
        data_dir=tmp_path / "elsewhere",
        tools="both",
        native_names="snake",
        tool_prefix="Notes_2_",
        destructive="deny",
        keychain=False,
        sandbox="require",
        audit_days=30,
        version_days=7,
        version_mb=8,
    )


@pytest.mark.parametrize("prefix", ["notes-", "notes.", "2_", "_a", "n" * 25, "né", "no tes"])
def test_a_tool_prefix_has_only_letters_that_every_client_takes(tmp_path, prefix):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {"NOTARIUM_TOOL_PREFIX": prefix})
    assert "NOTARIUM_TOOL_PREFIX" in caught.value.message
    assert "letters" in caught.value.resolution_hint


def test_a_missing_username_is_refused_and_says_what_to_set(tmp_path):
    with pytest.raises(ConfigError) as caught:
        config.load({}, cwd=tmp_path)
    assert "SIMPLENOTE_USERNAME is not set" in caught.value.message
    assert "SIMPLENOTE_USERNAME" in caught.value.resolution_hint
    assert caught.value.exit_code == 1


def lacking(tmp_path, environ):
    return config.load(environ, cwd=tmp_path, complete=False)


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({}, ("SIMPLENOTE_USERNAME", "DB_ENCRYPTION_KEY")),
        ({"DB_ENCRYPTION": "off"}, ("SIMPLENOTE_USERNAME",)),
        ({"DB_ENCRYPTION_KEY": "a key"}, ("SIMPLENOTE_USERNAME",)),
    ],
)
def test_all_that_is_missing_is_named_at_once(tmp_path, environ, missing):
    with pytest.raises(SettingsMissing) as caught:
        config.load(environ, cwd=tmp_path)
    assert caught.value.details["missing"] == [*missing]
    assert all(f"{name} is not set" in caught.value.message for name in missing)
    loaded = lacking(tmp_path, environ)
    assert loaded.missing.to_dict() == caught.value.to_dict()
    without = USERNAME in missing
    assert ("NOTARIUM_STORE=local" in caught.value.resolution_hint) is without
    assert ("NOTARIUM_STORE=local" in caught.value.agent_hint) is without
    assert loaded.config.store_settings.text(USERNAME) == ""


def test_only_what_no_keychain_can_have_is_missing_for_sure(tmp_path):
    sure = lacking(tmp_path, {"NOTARIUM_KEYCHAIN": "off"}).missing.resolution_hint
    assert "keychain" not in sure
    assert "Unless the keychain has it" in lacking(tmp_path, {}).missing.resolution_hint
    assert load(tmp_path, {}, complete=False).missing is None


@pytest.mark.parametrize(
    "wrong", [{"LOG_LEVEL": "loud"}, {"DB_ENCRYPTION_KEY_FILE": "/nowhere/key"}]
)
def test_an_invalid_setting_besides_a_missing_one_is_refused(tmp_path, wrong):
    with pytest.raises(ConfigError) as caught:
        lacking(tmp_path, wrong)
    assert not isinstance(caught.value, SettingsMissing)
    assert "SIMPLENOTE_USERNAME is not set" in caught.value.message


def test_an_unknown_store_is_refused_with_the_known_ones_and_nothing_else_is_asked_for(tmp_path):
    with pytest.raises(ConfigError) as caught:
        lacking(tmp_path, {"NOTARIUM_STORE": "paper"})
    assert caught.value.message.startswith("NOTARIUM_STORE holds")
    assert "one of: simplenote" in caught.value.resolution_hint
    assert not isinstance(caught.value, SettingsMissing)
    assert "SIMPLENOTE_USERNAME" not in str(caught.value.to_dict())
    shown = config.inspect({"NOTARIUM_STORE": "paper"}, cwd=tmp_path).settings
    assert {one.name for one in shown} - FILE_NAMES == {one.name for one in COMMON}


def test_an_empty_value_counts_as_not_set(tmp_path):
    made = load(tmp_path, {"SIMPLENOTE_PASSWORD": "", "LOG_LEVEL": "", "DB_ENCRYPTION_KEY": ""})
    assert made.config.store_settings.secret("SIMPLENOTE_PASSWORD") is None
    assert made.config.db_key is None
    assert made.config.log_level == "info"
    assert "SIMPLENOTE_USERNAME" in refused(tmp_path, {"SIMPLENOTE_USERNAME": ""}).message


@pytest.mark.parametrize("name", ["SYNC_INTERVAL_SECONDS", "API_TIMEOUT_SECONDS"])
@pytest.mark.parametrize(
    "text", ["soon", "1e3", "5s", "٣٠٠", "nan", "inf", "300,5", "0x3c", "--60"]
)
def test_what_is_not_a_number_is_refused(tmp_path, name, text):
    error = refused(tmp_path, {name: text})
    assert error.message.startswith(f"{name} holds")
    assert "number from" in error.resolution_hint


@pytest.mark.parametrize(
    "name",
    [
        variable.name
        for variable in VARIABLES
        if not variable.secret and variable.kind not in (Kind.TEXT, Kind.EMAIL, Kind.PATH)
    ],
)
def test_a_secret_pasted_into_the_wrong_line_is_not_repeated(tmp_path, name):
    store = "local" if name.startswith("LOCAL_") else "simplenote"
    words = "violet kettle under seven maps"
    error = refused(tmp_path, {"NOTARIUM_STORE": store} | {name: words})
    assert name in error.message
    assert not any(word in str(error.to_dict()) for word in ("violet", "kettle"))


def test_iterations_are_whole(tmp_path):
    assert "whole number" in refused(tmp_path, {"DB_ENCRYPTION_KDF_ITERATIONS": "310000.5"}).message


@pytest.mark.parametrize(
    ("name", "text", "field", "used"),
    [
        ("SYNC_INTERVAL_SECONDS", "59", "sync_interval", 60.0),
        ("SYNC_INTERVAL_SECONDS", "-1", "sync_interval", 60.0),
        ("SYNC_INTERVAL_SECONDS", "9" * 300, "sync_interval", 86_400.0),
        ("API_TIMEOUT_SECONDS", "4.9", "api_timeout", 5.0),
        ("API_TIMEOUT_SECONDS", "601", "api_timeout", 600.0),
        ("DB_ENCRYPTION_KDF_ITERATIONS", "1", "kdf_iterations", 210_000),
        ("DB_ENCRYPTION_KDF_ITERATIONS", "99999999999", "kdf_iterations", 10_000_000),
    ],
)
def test_a_number_out_of_bounds_is_clamped_with_a_warning(tmp_path, name, text, field, used):
    loaded = load(tmp_path, {name: text})
    assert getattr(loaded.config, field) == used
    assert len(loaded.warnings) == 1
    assert loaded.warnings[0].startswith(f"{name} is")


def test_numbers_at_their_bounds_pass_without_a_warning(tmp_path):
    loaded = load(
        tmp_path,
        {
            "SYNC_INTERVAL_SECONDS": "60",
            "API_TIMEOUT_SECONDS": " 600.0 ",
            "DB_ENCRYPTION_KDF_ITERATIONS": "210000",
        },
    )
    assert loaded.warnings == ()
    assert (loaded.config.sync_interval, loaded.config.api_timeout) == (60.0, 600.0)


@pytest.mark.parametrize(
    "name", [variable.name for variable in VARIABLES if variable.kind is Kind.CHOICE]
)
def test_an_unknown_choice_is_refused_and_the_choices_are_named(tmp_path, name):
    error = refused(tmp_path, {name: "perhaps"})
    choices = next(variable.words for variable in VARIABLES if variable.name == name)
    assert all(choice in error.resolution_hint for choice in choices)


@pytest.mark.parametrize("text", ["trace", "DEBUG", "Info", "warn", "WARNING", "fatal", "critical"])
def test_levels_are_accepted_in_any_case(tmp_path, text):
    assert load(tmp_path, {"LOG_LEVEL": text}).config.log_level in text.casefold().replace(
        "fatal", "critical"
    )


@pytest.mark.parametrize(
    "text",
    [
        "http://api.simperium.com/1",
        "http://127.0.0.1.evil.example/1",
        "http://localhost.evil.example",
        "http://0x7f000001/",
        "http://10.0.0.1/",
        "http://[::2]/",
        "ftp://api.simperium.com",
        "https://user:pass@api.simperium.com",
        "https://api.simperium.com?x=1",
        "https://api.simperium.com#x",
        "https://api.simperium.com:99999",
        "https://api.simperium.com:0",
        "https://a b",
        "https://127.0.0.1\\@evil.example",
        "api.simperium.com",
        "//evil.example",
        "https://",
    ],
)
def test_an_address_that_is_unsafe_or_odd_is_refused(tmp_path, text):
    assert "SIMPERIUM_AUTH_URL" in refused(tmp_path, {"SIMPERIUM_AUTH_URL": text}).message


def test_another_host_is_used_with_a_warning_that_names_it(tmp_path):
    loaded = load(tmp_path, {"SIMPERIUM_API_URL": "https://proxy.example/1"})
    assert loaded.config.store_settings.text("SIMPERIUM_API_URL") == "https://proxy.example/1"
    assert "proxy.example" in loaded.warnings[0]


@pytest.mark.parametrize("text", ["${SIMPLENOTE_KEY}", "${user_config.key}", "{{ key }}"])
def test_a_placeholder_nobody_filled_in_never_becomes_a_secret(tmp_path, text):
    assert "placeholder" in refused(tmp_path, {"DB_ENCRYPTION_KEY": text}).message


def test_every_problem_is_named_at_once(tmp_path):
    error = refused(tmp_path, {"LOG_LEVEL": "loud", "API_TIMEOUT_SECONDS": "x"})
    assert "2 settings" in error.message
    assert "LOG_LEVEL" in error.message
    assert "API_TIMEOUT_SECONDS" in error.message


def test_a_relative_path_is_resolved_with_a_warning_and_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    loaded = load(tmp_path, {"LOG_FILE_PATH": "x.log", "NOTARIUM_DATA_DIR": "~/notes"})
    assert loaded.config.log_file == tmp_path / "x.log"
    assert loaded.config.data_dir == tmp_path / "home" / "notes"
    assert [warning.split()[0] for warning in loaded.warnings] == ["LOG_FILE_PATH"]


def test_a_misspelt_variable_of_ours_is_pointed_out(tmp_path):
    assert "SIMPLENOTE_USER " in load(tmp_path, {"SIMPLENOTE_USER": "x"}).warnings[0]


def test_a_secret_that_is_not_utf8_is_refused_without_showing_it(tmp_path):
    error = refused(tmp_path, {"SIMPLENOTE_PASSWORD": "hun\udcffter2"})
    assert "UTF-8" in error.message
    assert error.__cause__ is None
    assert "ter2" not in f"{error.message}{error.resolution_hint}"


def test_settings_mask_secrets_and_say_where_each_came_from(tmp_path):
    loaded = load(tmp_path, {"SIMPLENOTE_PASSWORD": "correct horse", "LOG_LEVEL": "debug"})
    settings = {setting.name: setting for setting in loaded.settings}
    assert [name for name in settings if name not in FILE_NAMES] == [
        one.name for one in (*KIND.variables, *COMMON)
    ]
    assert set(FILE_NAMES) < set(settings)
    assert settings["SIMPLENOTE_PASSWORD"].value == "set (13 characters)"
    assert settings["LOG_LEVEL"].origin == "environment"
    assert settings["SYNC_INTERVAL_SECONDS"].origin == "default"
    assert settings["SIMPLENOTE_TOKEN"].origin == "not set"
    assert "correct" not in repr(loaded)


def test_no_secret_and_no_address_is_in_the_repr_of_a_configuration(tmp_path):
    shown = repr(load(tmp_path, {"SIMPLENOTE_TOKEN": "token-of-ada"}).config)
    assert "example.org" not in shown
    assert "token-of" not in shown


def test_inspect_shows_a_wrong_configuration_instead_of_raising(tmp_path):
    inspected = config.inspect(
        {"LOG_LEVEL": "loud"},
        cwd=tmp_path,
        env_file=tmp_path / "missing",
    )
    problems = {setting.name: setting.problem for setting in inspected.settings if setting.problem}
    assert set(problems) == {"SIMPLENOTE_USERNAME", "LOG_LEVEL"}
    assert "trace, debug" in problems["LOG_LEVEL"]
    assert "--env-file" in inspected.source_problem.message


def test_the_account_folder_depends_on_the_account_alone(tmp_path):
    one = load(tmp_path).config
    same = load(tmp_path, {"SIMPLENOTE_USERNAME": " ADA@example.org "}).config
    other = load(tmp_path, {"SIMPLENOTE_USERNAME": "bob@example.org"}).config
    elsewhere = load(tmp_path, {"SIMPERIUM_API_URL": "https://proxy.example/1"}).config
    assert one.account_dir == same.account_dir == tmp_path / "mcp-notarium" / one.owner_hash[:16]
    assert len({one.account_dir, other.account_dir, elsewhere.account_dir}) == 3


@pytest.mark.parametrize("xdg", ["", "/var/tmp/xdg"])
def test_the_default_data_folder_is_the_one_platformdirs_gives(monkeypatch, xdg):
    monkeypatch.setenv("XDG_DATA_HOME", xdg)
    environ = {"XDG_DATA_HOME": xdg}
    expected = platformdirs.user_data_path("mcp-notarium", appauthor=False)
    assert default_data_dir(environ) == expected


def test_on_windows_nothing_of_ours_is_below_appdata(monkeypatch):
    """A server that a packaged client starts would get a copy of its own there, and with it another database."""
    monkeypatch.setattr(sys, "platform", "win32")
    folders = (default_data_dir({}), accounts.config_dir({}))
    assert folders == (Path.home() / ".mcp-notarium",) * 2


def test_a_data_folder_that_cannot_be_found_is_a_problem_with_a_way_out(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "default_data_dir", lambda _environ: Path("not/absolute"))
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert "NOTARIUM_DATA_DIR" in caught.value.resolution_hint


TRUSTED = {
    Trust.ENVIRONMENT: "environment",
    Trust.ENV_FILE: "environment, `--env-file`",
    Trust.WORKING_FOLDER: "environment, `--env-file`, `.env`",
}


UNWRITTEN_DEFAULTS = {
    "NOTARIUM_DATA_DIR": "the platform's folder for application data",
    "NOTARIUM_POLICY_FILE": "policy.toml in NOTARIUM_DATA_DIR, if there is one",
    "SIMPERIUM_API_KEY": "built in",
}


def row(variable):
    """The variable's row in the table of docs/configuration.md."""
    name, places = f"`{variable.name}`", TRUSTED[variable.trust]
    if variable.has_file:
        name += f"<br>`{variable.file_name}`"
        places += " (the file variant not in `.env`)"
    default = f"`{variable.default}`" if variable.default else "none"
    values = ", ".join(f"`{choice}`" for choice in variable.words) or variable.kind.value
    if variable.maximum:
        values = f"{variable.minimum} to {variable.maximum}"
    shown = "required" if variable.required else UNWRITTEN_DEFAULTS.get(variable.name, default)
    return f"| {name} | {variable.purpose} | {shown} | {values} | {places} |"


@pytest.mark.parametrize("variables", [COMMON, *(kind.variables for kind in registry.kinds())])
def test_the_tables_of_the_page_are_those_of_the_variables(variables):
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert "\n".join(map(row, variables)) in page


def test_every_variable_has_a_purpose_and_number_bounds_hold_its_default():
    for variable in VARIABLES:
        assert variable.purpose.endswith(".")
        if variable.maximum:
            assert variable.minimum <= float(variable.default) <= variable.maximum
