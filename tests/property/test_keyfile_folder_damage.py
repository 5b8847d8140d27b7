"""Test that after any damage to the files of an account a start opens a cache or refuses cleanly."""

import shutil
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.account import user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.secret import Secret
from support.account import (
    OTHER,
    PASSPHRASE,
    account,
    fingerprint,
    folder_of,
    made,
    open_cheaply,
)
from support.cheap_costs import CHEAPEST
from support.long import LONG

FILES = (
    "database",
    "key_file",
    "key_copy",
    "prepared_key_file",
    "plain_database",
)
DAMAGES = st.tuples(
    st.sampled_from(FILES),
    st.sampled_from(["flip", "cut", "zero", "delete", "empty", "copy of the key file", "rubbish"]),
    st.floats(0, 0.999),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A cache that is in order, to be copied."""
    place = tmp_path_factory.mktemp("whole")
    with_row = open_cheaply(account(place))
    with_row.database.run("INSERT INTO sync_metadata(key, value) VALUES ('mark', 'kept')")
    with_row.close()
    return place


def path_of(folder, name):
    if name == "database":
        return next(iter(sorted(folder.path.glob("*.encrypted"))), folder.path / "notarium_cache.x")
    return getattr(folder, name)


def spoil(folder, name, how, where):
    path = path_of(folder, name)
    if how in {"copy of the key file", "rubbish"}:
        source = folder.key_file.read_bytes() if folder.key_file.exists() else b""
        path.touch(mode=0o600)
        path.write_bytes(b"rubbish" * 2000 if how == "rubbish" else source)
        return
    if not path.exists():
        return
    content = bytearray(path.read_bytes())
    place = int(where * len(content))
    match how:
        case "flip" if content:
            content[place] ^= 0x10
        case "cut":
            del content[place:]
        case "zero":
            content[place:] = bytes(len(content) - place)
        case "empty":
            content = bytearray()
    path.write_bytes(content)
    if how == "delete":
        path.unlink()


@settings(
    max_examples=100 if LONG else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    damages=st.lists(DAMAGES, min_size=1, max_size=3),
    wrong_key=st.booleans(),
    rebuild=st.booleans(),
)
def test_any_damage_ends_in_a_cache_or_in_a_refusal_that_changed_nothing(
    whole, tmp_path_factory, damages, wrong_key, rebuild
):
    place = tmp_path_factory.mktemp("spoilt")
    shutil.copytree(whole, place, dirs_exist_ok=True)
    config = replace(
        account(place),
        on_unreadable="rebuild" if rebuild else "refuse",
        **({"db_key": Secret(OTHER)} if wrong_key else {}),
    )
    for damage in damages:
        spoil(folder_of(config), *damage)
    before = fingerprint(place)
    folder = folder_of(config)
    unfinished = folder.prepared_key_file.exists() and not (
        folder.key_file.exists() or folder.key_copy.exists()
    )
    try:
        opened = open_cheaply(config)
    except LockedError:
        assert fingerprint(place) == before
        return
    mark = opened.database.row("SELECT value FROM sync_metadata WHERE key = 'mark'")
    if opened.created:
        # Only where that was asked for, or where all signs say that the first start was cut short.
        assert rebuild or unfinished
        assert set(before.values()) <= set(fingerprint(place).values())
    else:
        assert not wrong_key
        assert mark == ("kept",)
    opened.close()
    again = open_cheaply(config)
    assert not again.created
    again.close()
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def key_files(tmp_path_factory):
    """A cache whose key was changed and back, and key files: of now, of before, of another vault."""
    place, other = tmp_path_factory.mktemp("changed"), tmp_path_factory.mktemp("other")
    config = made(place)
    folder = folder_of(config)
    older = folder.key_file.read_bytes()
    for old, new in ((PASSPHRASE, OTHER), (OTHER, PASSPHRASE)):
        given = ChangeOptions(old=Secret(old))
        user_key_rotation.rotate_passphrase(
            config, new=Secret(new), parameters=CHEAPEST, options=given
        )
    open_cheaply(config).close()
    other_key_file = folder_of(made(other)).key_file.read_bytes()
    return place, {
        "now": folder.key_file.read_bytes(),
        "older": older,
        "other vault": other_key_file,
    }


@pytest.mark.attack(7)
@pytest.mark.parametrize("copy", ["now", "older", "other vault", "damaged", "missing"])
@pytest.mark.parametrize("main", ["now", "older", "other vault", "damaged", "missing"])
def test_of_any_key_file_put_there_only_the_current_one_opens(tmp_path, key_files, main, copy):
    place, contents = key_files
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    config = account(tmp_path)
    folder = folder_of(config)
    for path, which in ((folder.key_file, main), (folder.key_copy, copy)):
        path.unlink()
        if which != "missing":
            path.touch(mode=0o600)
            path.write_bytes(contents.get(which, b"damaged"))
    before = fingerprint(tmp_path)
    counts = copy if main in {"damaged", "missing"} else main
    if counts == "now":
        open_cheaply(config).close()
        assert folder.key_file.read_bytes() == folder.key_copy.read_bytes() == contents["now"]
        return
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    if counts == "older":
        assert refused.value.verdict is Verdict.ROLLBACK_SEEN
    assert {name: fingerprint(tmp_path).get(name) for name in before} == before
