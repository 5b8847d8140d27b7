"""Start the real server with every choice of every documented setting, as people write it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest

from mcp_notarium.config.common_variables import COMMON, STORE
from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.sandbox import landlock
from mcp_notarium.stores import registry
from support import short_pauses
from support.talker import call
from support.whole import Server, run, store_environment

FORMS: dict[str, Callable[[str], str]] = {
    "as documented": str,
    "in capitals": str.upper,
    "in quotation marks": '"{}"'.format,
    "between blanks": "  {} ".format,
}
WORDS = {"on": ("1", "true", "Yes"), "off": ("0", "False", "no")}
UNSET = ("", "   ", '""', "' '", "\t")
UNUSED = {"NOTARIUM_SANDBOX": () if landlock.version() else ("require",)}
"""What this system cannot do."""


def own_settings(folder: Path, store: str) -> dict[str, str]:
    """The least that a store needs to open."""
    place = folder / "notes"
    place.mkdir(exist_ok=True)
    address = "http://127.0.0.1:9"
    of_kind = {Kind.URL: address, Kind.PATH: str(place), Kind.EMAIL: "ada@example.org"}
    named = {"TRILIUM_URL": address, "MEMENTO_DATABASE": str(folder / "dev.db")}
    needed = [one for one in registry.kind(store).variables if one.required]
    return {one.name: named.get(one.name) or of_kind[one.kind] for one in needed}


def values(variable: Variable, store: str) -> list[str]:
    """Every documented value, or the ends of what is documented."""
    if variable.name == "NOTARIUM_TOOLS" and not registry.kind(store).native_toolset:
        return ["notarium"]
    if variable.kind is Kind.CHOICE:
        return [one for one in variable.words if one not in UNUSED.get(variable.name, ())]
    if variable.kind in (Kind.COUNT, Kind.NUMBER):
        return [variable.default, str(variable.minimum), str(variable.maximum)]
    return []


def rows(store: str) -> list[dict[str, str]]:
    """Settings for several starts which together have each documented value of this store once."""
    known = (*registry.kind(store).variables, *COMMON)
    several = {
        one.name: found for one in known if one.name != STORE and (found := values(one, store))
    }
    return [
        {name: one for name, one in zip(several, row, strict=True) if one is not None}
        for row in zip_longest(*several.values())
    ]


def read_back(env: dict[str, str], folder: Path) -> dict[str, dict[str, str]]:
    done = run(env, "--print-config-vars", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)}


def serves(env: dict[str, str], folder: Path) -> bool:
    """Whether a server starts, offers tools, opens its account and ends well."""
    with Server(env, cwd=folder) as server:
        listed = server.ask({"jsonrpc": "2.0", "id": "l", "method": "tools/list"})["result"]
        first = listed["tools"][0]["name"]
        server.ask(call("c", first))
        server.hang_up()
        assert server.leave() == 0, server.errors()
        return '"level": "critical"' not in server.errors()


@pytest.mark.slow("starts servers of five stores with each of their settings")
@pytest.mark.parametrize(
    ("store", "form"),
    [
        *((store, "as documented") for store in registry.names() if store != "memory"),
        *(("trilium", form) for form in FORMS if form != "as documented"),
    ],
)
def test_each_documented_value_can_be_set(tmp_path: Path, store: str, form: str) -> None:
    for number, row in enumerate(rows(store)):
        written = {name: FORMS[form](one) for name, one in row.items()}
        folder = tmp_path / str(number)
        folder.mkdir()
        env = store_environment(folder, store, **own_settings(tmp_path, store)) | written
        seen = read_back(env, folder)
        for name, one in row.items():
            assert not seen[name]["problem"], (name, seen[name])
            assert (
                float(seen[name]["value"]) == float(one)
                if one[0].isdigit()
                else seen[name]["value"] == one
            )
        if not number or form == "as documented":
            assert serves(env, folder)


@pytest.mark.slow("starts a command for each store")
@pytest.mark.parametrize("blank", UNSET)
def test_blank_is_not_set_for_every_setting(tmp_path: Path, blank: str) -> None:
    for store in registry.names():
        plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), STORE: store}
        names = [
            one.name for one in (*registry.kind(store).variables, *COMMON) if one.name != STORE
        ]
        assert read_back(plain | dict.fromkeys(names, blank), tmp_path) == read_back(
            plain, tmp_path
        )


@pytest.mark.slow("starts a command for each store")
@pytest.mark.parametrize(("value", "word"), [(v, w) for v, words in WORDS.items() for w in words])
def test_yes_and_no_have_the_usual_words(tmp_path: Path, value: str, word: str) -> None:
    found = {}
    for store in registry.names():
        known = (*registry.kind(store).variables, *COMMON)
        names = [one.name for one in known if set(one.words) == {"on", "off"}]
        plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), STORE: store}
        seen = read_back(plain | dict.fromkeys(names, word), tmp_path)
        found |= {name: seen[name]["value"] for name in names}
    assert set(found.values()) == {value}
    assert "TRILIUM_ALLOW_HTTP" in found


def test_plain_http_in_the_local_network_can_be_permitted(tmp_path: Path) -> None:
    env = store_environment(
        tmp_path, "trilium", TRILIUM_URL="http://10.1.2.3:8080", TRILIUM_TOKEN="x_y"
    )
    assert serves(env | {"TRILIUM_ALLOW_HTTP": "1"}, tmp_path)
    done = run(env, cwd=tmp_path)
    assert done.returncode == 1
    assert "TRILIUM_ALLOW_HTTP=on" in done.stderr


@pytest.mark.parametrize(
    "written", ["C:\\Users\\me\\Vault", '"D:/Notes"', "\\\\server\\share\\notes"]
)
@pytest.mark.skipif(os.name != "posix", reason="these are paths of Windows")
def test_a_path_of_windows_is_not_looked_for_in_the_working_folder(
    tmp_path: Path, written: str
) -> None:
    env = store_environment(tmp_path, "vault", VAULT_PATH=written)
    done = run(env, cwd=tmp_path)
    assert done.returncode == 1
    assert "is a Windows path" in done.stderr
    assert str(tmp_path) not in done.stderr.replace(str(tmp_path / "data"), "")


@pytest.mark.parametrize("written", ["file:./dev.db", "FILE:///home/me/dev.db"])
def test_an_address_of_a_file_is_not_taken_for_a_path(tmp_path: Path, written: str) -> None:
    env = store_environment(tmp_path, "memento", MEMENTO_DATABASE=written)
    done = run(env)
    assert done.returncode == 1
    assert "MEMENTO_DATABASE is an address (file:...), not a path" in done.stderr


@pytest.mark.slow("starts doctor for several stores")
def test_doctor_names_the_place_of_the_notes_that_cannot_be_used_before_the_first_start(
    tmp_path: Path,
) -> None:
    places = {
        ("vault", "VAULT_PATH"): "no-such-folder",
        ("memento", "MEMENTO_DATABASE"): "no-such.db",
        ("trilium", "TRILIUM_URL"): "",
    }
    for (store, name), place in places.items():
        value = str(tmp_path / place) if place else "http://127.0.0.1:9"
        env = store_environment(tmp_path, store, TRILIUM_TOKEN='"x_y"', **short_pauses.MARKED)
        env |= {name: value}
        done = run(env, "doctor", "--json", cwd=tmp_path)
        found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
        usable = store == "trilium"  # nobody listens there now
        assert (found["service"]["state"], done.returncode) == (
            ("warn", 0) if usable else ("bad", 1)
        )
        assert found["service"]["hint"]
        assert place in found["service"]["seen"]
        assert place == "" or name in found["service"]["seen"]
    assert not (tmp_path / "data").exists()
