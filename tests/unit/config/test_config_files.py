import os
import stat

import pytest

from mcp_notarium import config
from mcp_notarium.config.common_variables import COMMON, known_variables
from mcp_notarium.config_variable import Trust
from mcp_notarium.errors import ConfigError
from mcp_notarium.secret import Secret
from mcp_notarium.stores import registry
from mcp_notarium.stores.local.kind import NOTEBOOK

MINIMUM = {"SIMPLENOTE_USERNAME": "ada@example.org"}


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


def load(folder, environ=MINIMUM, **options):
    return config.load(environ, cwd=folder, **options)


def write(path, content, mode=0o600):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def refusal(folder, environ, **options):
    with pytest.raises(ConfigError) as caught:
        load(folder, MINIMUM | environ, **options)
    return caught.value


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("secret", "secret"),
        ("secret\n", "secret"),
        ("secret\r\n", "secret"),
        ("secret\n\n", "secret\n"),
        (" secret ", " secret "),
        ("żółw\n", "żółw"),
    ],
)
def test_a_secret_file_loses_one_final_newline_and_nothing_else(folder, content, value):
    path = write(folder / "s", content)
    loaded = load(folder, MINIMUM | {"SIMPLENOTE_PASSWORD_FILE": str(path)})
    assert loaded.config.store_settings.secret("SIMPLENOTE_PASSWORD") == Secret(value)
    assert loaded.warnings == ()


@pytest.mark.parametrize("content", ["", "\n", b"\xff\xfe\xfd", b"a\0b", b"x" * (64 * 1024 + 1)])
def test_a_secret_file_without_usable_text_is_refused(folder, content):
    path = write(folder / "s", content)
    error = refusal(folder, {"SIMPLENOTE_PASSWORD_FILE": str(path)})
    assert "SIMPLENOTE_PASSWORD_FILE" in error.message


def test_a_secret_file_that_is_missing_a_folder_or_a_pipe_is_refused_at_once(folder):
    os.mkfifo(folder / "pipe")
    for name in ("missing", ".", "pipe", "/dev/null"):
        error = refusal(folder, {"DB_ENCRYPTION_KEY_FILE": str(folder / name)})
        assert "DB_ENCRYPTION_KEY_FILE" in error.message
        assert str(folder / name) in error.message
        assert ("does not exist" if name == "missing" else "cannot be read") in error.message


@pytest.mark.parametrize(
    "name", ["SIMPLENOTE_PASSWORD_FILE", "SIMPLENOTE_TOKEN_FILE", "DB_ENCRYPTION_KEY_FILE"]
)
def test_a_secret_file_that_is_missing_is_named_and_no_recovery_is_advised(folder, name):
    error = refusal(folder, {name: str(folder / "missing")})
    assert f"named by {name} does not exist: {folder / 'missing'}" in error.message
    assert "put the file there" in error.resolution_hint
    relative = refusal(folder, {name: "hunter2hunter2"})
    assert "does not exist: a relative path, below" in relative.message
    assert "hunter2" not in relative.message + relative.resolution_hint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_secret_file_others_can_read_is_used_with_a_warning(folder, mode):
    path = write(folder / "s", "secret", mode)
    loaded = load(folder, MINIMUM | {"SIMPLENOTE_TOKEN_FILE": str(path)})
    assert loaded.config.store_settings.secret("SIMPLENOTE_TOKEN") == Secret("secret")
    assert "SIMPLENOTE_TOKEN_FILE" in loaded.warnings[0]


def test_the_credentials_folder_of_the_service_manager_is_trusted_with_its_modes(folder):
    path = write(folder / "s", "secret", 0o644)
    environ = {"SIMPLENOTE_TOKEN_FILE": str(path), "CREDENTIALS_DIRECTORY": str(folder)}
    assert load(folder, MINIMUM | environ).warnings == ()


@pytest.mark.parametrize("name", ["SIMPLENOTE_PASSWORD", "SIMPLENOTE_TOKEN"])
def test_a_variable_and_its_file_together_are_refused_naming_both(folder, name):
    path = write(folder / "s", "secret")
    error = refusal(folder, {name: "value", f"{name}_FILE": str(path)})
    assert f"Remove {name} to use the file" in error.resolution_hint
    assert f"{name}_FILE" in error.resolution_hint


def test_the_key_in_the_environment_is_used_before_its_file(folder):
    environ = {"DB_ENCRYPTION_KEY": "value", "DB_ENCRYPTION_KEY_FILE": str(folder / "unread")}
    loaded = load(folder, MINIMUM | environ)
    assert loaded.config.db_key == Secret("value")
    assert loaded.config.db_key_origin == "DB_ENCRYPTION_KEY"
    assert "DB_ENCRYPTION_KEY_FILE is not used" in loaded.warnings[0]


def test_the_origin_of_a_key_from_a_file_is_the_variable_that_named_it(folder):
    path = write(folder / "s", "key")
    loaded = load(folder, MINIMUM | {"DB_ENCRYPTION_KEY_FILE": str(path)})
    assert loaded.config.db_key_origin == "DB_ENCRYPTION_KEY_FILE"
    origin = {setting.name: setting.origin for setting in loaded.settings}["DB_ENCRYPTION_KEY"]
    assert origin == "DB_ENCRYPTION_KEY_FILE (environment)"


def test_a_trusted_dotenv_sets_what_it_may_and_the_environment_wins(folder):
    write(
        folder / ".env",
        "\ufeffexport SIMPLENOTE_USERNAME=ada@example.org\nSIMPLENOTE_PASSWORD='pass word'\n"
        'SIMPLENOTE_TOKEN="tok"\nDB_ENCRYPTION_KEY=${HOME}x # comment\nSYNC_INTERVAL_SECONDS=120\n'
        "API_TIMEOUT_SECONDS=9\nLOG_LEVEL=debug\nUNRELATED=1\n",
    )
    loaded = load(folder, {"API_TIMEOUT_SECONDS": "11"})
    made = loaded.config
    assert made.store_settings.text("SIMPLENOTE_USERNAME") == "ada@example.org"
    assert made.store_settings.secret("SIMPLENOTE_PASSWORD") == Secret("pass word")
    assert made.store_settings.secret("SIMPLENOTE_TOKEN") == Secret("tok")
    assert made.db_key == Secret("${HOME}x")
    assert made.db_key_yields
    assert made.db_key_origin == f"DB_ENCRYPTION_KEY of {folder}/.env"
    assert (made.sync_interval, made.api_timeout, made.log_level) == (120.0, 11.0, "debug")
    (warning,) = loaded.warnings
    assert warning.startswith(f"DB_ENCRYPTION_KEY comes from {folder}/.env")
    assert {setting.name: setting.origin for setting in loaded.settings}["LOG_LEVEL"] == ".env"


HOSTILE = {
    "SIMPLENOTE_PASSWORD_FILE": "/etc/hostname",
    "SIMPLENOTE_TOKEN_FILE": "/etc/hostname",
    "DB_ENCRYPTION_KEY_FILE": "/etc/hostname",
    "NOTARIUM_DATA_DIR": "/tmp/theirs",
    "LOG_FILE_PATH": "/tmp/theirs",
    "SIMPERIUM_API_URL": "https://evil.example",
    "SIMPERIUM_AUTH_URL": "https://evil.example",
    "SIMPLENOTE_APP_URL": "https://evil.example",
    "SIMPERIUM_API_KEY": "theirs",
    "DB_ENCRYPTION": "off",
    "DB_ENCRYPTION_KDF": "pbkdf2-sha512",
    "DB_ON_UNREADABLE": "rebuild",
    "NOTARIUM_DESTRUCTIVE": "ask",
    "NOTARIUM_KEYCHAIN": "off",
    "NOTARIUM_STORE": "paper",
    "NOTARIUM_MEANING_MODEL": "theirs",
    "NOTARIUM_TOOLS": "native",
    "NOTARIUM_NATIVE_NAMES": "snake",
    "NOTARIUM_TOOL_PREFIX": "theirs_",
    "SIMPLENOTE_REQUEST_SOURCE": "theirs",
    "DB_ENCRYPTION_KDF_ITERATIONS": "210000",
    "DB_CIPHER_MEMORY_SECURITY": "on",
    "NOTARIUM_SANDBOX": "off",
    "NOTARIUM_AUDIT_DAYS": "1",
    "NOTARIUM_VERSION_DAYS": "0",
    "NOTARIUM_VERSION_MB": "1",
    "NOTARIUM_POLICY_FILE": "/tmp/theirs",
    "NOTARIUM_READ_ONLY": "on",
    "NOTARIUM_PROFILE": "theirs",
}
"""What a ``.env`` must not set, each with a value that would change something."""
TRILIUM = {
    "TRILIUM_URL": "https://evil.example",
    "TRILIUM_TOKEN": "theirs",
    "TRILIUM_TOKEN_FILE": "/etc/hostname",
    "TRILIUM_ALLOW_HTTP": "1",
}

HARMLESS = {
    "SIMPLENOTE_USERNAME",
    "SIMPLENOTE_PASSWORD",
    "SIMPLENOTE_TOKEN",
    "DB_ENCRYPTION_KEY",
    "SYNC_INTERVAL_SECONDS",
    "API_TIMEOUT_SECONDS",
    "LOG_LEVEL",
}


def test_a_dotenv_may_set_these_and_nothing_else():
    known = known_variables()
    assert {one.name for one in known if one.trust is Trust.WORKING_FOLDER} == HARMLESS
    ours = (*COMMON, *registry.kind(registry.DEFAULT).variables)
    names = {one.name for one in ours} | {one.file_name for one in ours if one.has_file}
    assert HOSTILE.keys() == names - HARMLESS


def test_a_dotenv_sends_no_token_anywhere(folder):
    write(folder / ".env", "".join(f"{name}={value}\n" for name, value in TRILIUM.items()))
    environment = {"NOTARIUM_STORE": "trilium", "TRILIUM_URL": "http://127.0.0.1:8080"}
    loaded = config.load(environment, cwd=folder)
    assert loaded.config == config.load(environment, cwd=folder.parent).config
    ignored = [
        name for name in TRILIUM if any(f"{name} in .env is" in one for one in loaded.warnings)
    ]
    assert ignored == [name for name in TRILIUM if name != "TRILIUM_URL"]  # set in the environment


def test_a_dotenv_names_no_notebook(folder):
    write(folder / ".env", f"{NOTEBOOK}=theirs\n")
    loaded = config.load({"NOTARIUM_STORE": "local"}, cwd=folder)
    assert loaded.config.account.name == "notebook"
    assert f"{NOTEBOOK} in .env is ignored" in loaded.warnings[0]


@pytest.mark.attack(44)
@pytest.mark.parametrize(("name", "value"), HOSTILE.items())
def test_a_dotenv_cannot_redirect_or_loosen_anything(folder, name, value):
    write(folder / ".env", f"{name}={value}\n")
    loaded = load(folder)
    assert loaded.config == load_without_dotenv(folder)
    assert len(loaded.warnings) == 1
    assert f"{name} in .env is ignored" in loaded.warnings[0]


def test_an_empty_line_for_a_forbidden_variable_is_no_reason_for_a_warning(folder):
    write(folder / ".env", "NOTARIUM_DATA_DIR=\nLOG_FILE_PATH\n")
    assert load(folder).warnings == ()


def load_without_dotenv(folder):
    (folder / "empty").mkdir()
    return config.load(MINIMUM, cwd=folder / "empty").config


def test_a_token_in_a_dotenv_does_not_lead_a_known_account_elsewhere(folder):
    write(folder / ".env", "SIMPLENOTE_USERNAME=eve@example.org\nSIMPLENOTE_TOKEN=eves\n")
    loaded = load(folder)
    assert loaded.config.store_settings.secret("SIMPLENOTE_TOKEN") is None
    assert "SIMPLENOTE_TOKEN in .env is ignored" in loaded.warnings[0]


def test_a_key_file_named_in_the_environment_beats_a_key_in_a_dotenv(folder):
    path = write(folder / "s", "mine")
    write(folder / ".env", "DB_ENCRYPTION_KEY=theirs\n")
    loaded = load(folder, MINIMUM | {"DB_ENCRYPTION_KEY_FILE": str(path)})
    assert loaded.config.db_key == Secret("mine")
    assert not loaded.config.db_key_yields
    assert loaded.warnings == ()


def test_a_key_of_a_named_file_is_as_good_as_one_of_the_environment(folder):
    named = write(folder / "mine.env", "DB_ENCRYPTION_KEY=mine\n")
    loaded = load(folder, env_file=named)
    assert (loaded.config.db_key, loaded.config.db_key_yields) == (Secret("mine"), False)
    assert loaded.warnings == ()


def distrust_file_mode(folder):
    (folder / ".env").chmod(0o620)


def distrust_world(folder):
    (folder / ".env").chmod(0o602)


def distrust_folder(folder):
    folder.chmod(0o777)


def distrust_link(folder):
    (folder / ".env").rename(folder / "real")
    (folder / ".env").symlink_to(folder / "real")


def distrust_pipe(folder):
    (folder / ".env").unlink()
    os.mkfifo(folder / ".env")


def distrust_size(folder):
    write(folder / ".env", "LOG_LEVEL=debug\n" + "#" * 64 * 1024)


def distrust_bytes(folder):
    write(folder / ".env", b"LOG_LEVEL=debug\n\xff")


def distrust_owner(folder):
    os.chown(folder / ".env", 12345, -1)


def distrust_folder_owner(folder):
    os.chown(folder, 12345, -1)


AS_ROOT = [distrust_owner, distrust_folder_owner] if os.geteuid() == 0 else []


@pytest.mark.parametrize(
    "distrust",
    [
        distrust_file_mode,
        distrust_world,
        distrust_folder,
        distrust_link,
        distrust_pipe,
        distrust_size,
        distrust_bytes,
        *AS_ROOT,
    ],
)
def test_a_dotenv_that_others_may_have_written_is_ignored_with_the_reason(folder, distrust):
    write(folder / ".env", "LOG_LEVEL=debug\n")
    assert load(folder).config.log_level == "debug"
    distrust(folder)
    loaded = load(folder)
    assert loaded.config.log_level == "info"
    assert loaded.warnings[0].startswith("the .env in the working folder is ignored: ")
    assert str(folder / ".env") in loaded.warnings[0]


@pytest.mark.parametrize(
    ("distrust", "command"),
    [
        (distrust_file_mode, "chmod go-w {}/.env"),
        (distrust_folder, "chmod go-w {}`"),
        (distrust_link, "symbolic link, which is not followed"),
    ],
)
def test_a_missing_variable_that_an_ignored_dotenv_sets_is_refused_with_the_way_out(
    folder, distrust, command
):
    write(folder / ".env", "SIMPLENOTE_USERNAME=ada@example.org\n")
    assert load(folder, {}).config.account.name == "ada@example.org"
    distrust(folder)
    with pytest.raises(ConfigError) as caught:
        load(folder, {})
    assert "SIMPLENOTE_USERNAME is not set" in caught.value.message
    assert command.format(folder) in caught.value.resolution_hint


def test_an_ignored_dotenv_is_no_reason_for_a_wrong_value_in_the_environment(folder):
    write(folder / ".env", "SIMPLENOTE_USERNAME=ada@example.org\n")
    distrust_world(folder)
    assert ".env" not in str(refusal(folder, {"LOG_LEVEL": "loud"}).resolution_hint)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("LOG_LEVEL=verbose", "log_level", "info"),
        ("SYNC_INTERVAL_SECONDS=nonsense", "sync_interval", 300.0),
        ("API_TIMEOUT_SECONDS=${TIMEOUT}", "api_timeout", 30.0),
        ("DB_ENCRYPTION_KEY=${PASSWORD}", "db_key", None),
    ],
)
def test_a_value_of_a_dotenv_that_cannot_be_used_is_ignored_and_the_file_is_named(
    folder, line, field, value
):
    write(folder / ".env", f"{line}\n")
    loaded = load(folder)
    assert getattr(loaded.config, field) == value
    (warning,) = loaded.warnings
    assert warning.startswith(line.partition("=")[0])
    assert f"(from {folder}/.env); it is ignored." in warning


def test_a_wrong_value_is_refused_with_the_place_it_comes_from(folder):
    assert "(from the environment)" in refusal(folder, {"LOG_LEVEL": "verbose"}).message
    named = write(folder / "mine.env", "LOG_LEVEL=verbose\n")
    assert f"(from {named})" in refusal(folder, {}, env_file=named).message


def test_a_required_variable_with_an_invalid_dotenv_value_is_missing_and_the_refusal_says_why(
    folder,
):
    write(folder / ".env", "SIMPLENOTE_USERNAME='a\tb'\n")
    with pytest.raises(ConfigError) as caught:
        load(folder, {})
    assert "SIMPLENOTE_USERNAME is not set" in caught.value.message
    assert f"{folder}/.env" in caught.value.resolution_hint


def test_lines_of_a_dotenv_that_make_no_sense_are_named_by_number_only(folder):
    write(folder / ".env", "LOG_LEVEL=debug\n'secret stuff\n")
    loaded = load(folder)
    assert loaded.config.log_level == "debug"
    assert loaded.warnings == ("line 2 of the .env in the working folder is not understood.",)


def test_a_named_file_may_set_all_but_the_addresses_and_replaces_the_dotenv(folder):
    write(folder / ".env", "SYNC_INTERVAL_SECONDS=120\n")
    named = write(folder / "mine.env", "NOTARIUM_DESTRUCTIVE=deny\nDB_ENCRYPTION=off\n")
    loaded = load(folder, env_file=named)
    assert (loaded.config.destructive, loaded.config.db_encryption) == ("deny", False)
    assert loaded.config.sync_interval == 300.0
    assert loaded.warnings == ()
    write(named, "SIMPERIUM_AUTH_URL=https://evil.example\n")
    error = refusal(folder, {}, env_file=named)
    assert "SIMPERIUM_AUTH_URL may not be set in --env-file" in error.message


def test_a_named_file_that_cannot_be_read_is_refused(folder):
    assert "--env-file" in refusal(folder, {}, env_file=folder / "missing").message


def test_a_named_file_that_others_can_read_is_used_with_a_warning(folder):
    named = write(folder / "mine.env", "LOG_LEVEL=debug\n", 0o644)
    loaded = load(folder, env_file=named)
    assert loaded.config.log_level == "debug"
    assert "chmod 600" in loaded.warnings[0]


def test_loading_writes_nothing(folder):
    write(folder / ".env", "LOG_LEVEL=debug\n")
    load(folder, MINIMUM | {"LOG_FILE_PATH": str(folder / "log")})
    assert [path.name for path in folder.iterdir()] == [".env"]
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600
