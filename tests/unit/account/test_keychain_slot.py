"""The keychain as one way in, never the only one."""

from dataclasses import replace

import pytest

from mcp_notarium.account import key_changes, user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.errors import SlotsRefused
from mcp_notarium.crypto.key_file_codec import SlotType
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret
from support import keychains
from support.account import OTHER, PASSPHRASE, account, fingerprint, made, open_cheaply
from support.cheap_costs import CHEAPEST

RECOVERY_KEY = user_key.generate_recovery_key()


def by_keychain(config):
    """The same account with nothing but the keychain to open it."""
    return replace(config, db_key=None, db_key_origin="", keychain=True)


def entry(system, config):
    return system.read_back(keychain.KEY, config.owner_hash)


def test_the_keychain_opens_the_cache_beside_the_passphrase(tmp_path):
    config, system = made(tmp_path), keychains.working()
    done = user_key_rotation.enable_keychain(config, system)
    slot = done.after.slots[-1]
    assert (slot.id, slot.type, slot.label) == (2, SlotType.KEYCHAIN, "KWallet")
    open_cheaply(by_keychain(config), system=system).close()
    open_cheaply(config).close()


def test_the_secret_in_the_keychain_is_not_the_passphrase(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    kept = entry(system, config)
    assert kept != Secret(PASSPHRASE)
    assert kept.reveal_text().startswith("raw:")


def test_an_entry_that_is_there_already_is_left_alone(tmp_path):
    config, system = made(tmp_path), keychains.working()
    system.set(keychain.KEY, config.owner_hash, Secret("somebody else's"))
    before = fingerprint(config.account_dir)
    with pytest.raises(SlotsRefused):
        user_key_rotation.enable_keychain(config, system)
    assert entry(system, config) == Secret("somebody else's")
    assert fingerprint(config.account_dir) == before


def test_with_a_wrong_key_nothing_stays_in_the_keychain(tmp_path):
    config, system = made(tmp_path), keychains.working()
    wrong = replace(config, db_key=Secret(OTHER))
    with pytest.raises(LockedError) as error:
        user_key_rotation.enable_keychain(wrong, system)
    assert error.value.verdict is Verdict.WRONG_KEY
    assert entry(system, config) is None


def test_a_keychain_that_holds_a_key_is_not_free(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.require_free_keychain(config, system)
    user_key_rotation.enable_keychain(config, system)
    with pytest.raises(SlotsRefused, match="holds a key for this account already"):
        user_key_rotation.require_free_keychain(config, system)


@pytest.mark.parametrize(
    ("changes", "hinted"),
    [({}, True), ({"keychain": False}, False), ({"db_key_yields": True}, False)],
)
def test_a_wrong_key_that_keeps_the_keychain_from_opening_is_reported(tmp_path, changes, hinted):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    settings = {"db_key": Secret(OTHER), "keychain": True} | changes
    with pytest.raises(LockedError) as error:
        open_cheaply(replace(config, **settings), system=keychains.working())
    assert error.value.verdict is Verdict.WRONG_KEY
    assert ("remove DB_ENCRYPTION_KEY from" in error.value.resolution_hint) is hinted


def test_a_keychain_that_forgets_is_not_relied_on(tmp_path):
    config = made(tmp_path)
    one = keychains.backend(
        "keyring.backends.kwallet", "DBusKeyring", set_password=lambda *_given: None
    )
    before = fingerprint(config.account_dir)
    with pytest.raises(SlotsRefused, match="did not keep"):
        user_key_rotation.enable_keychain(config, Keychain(lambda: one))
    assert fingerprint(config.account_dir) == before


@pytest.mark.parametrize("module", ["keyrings.alt.file", "keyring.backends.null"])
def test_a_keychain_that_protects_nothing_is_refused(tmp_path, module):
    config = made(tmp_path)
    one = keychains.backend(module, "PlaintextKeyring")
    with pytest.raises(LockedError) as error:
        user_key_rotation.enable_keychain(config, Keychain(lambda: one))
    assert error.value.verdict is Verdict.KEYCHAIN_UNUSABLE
    assert one.kept == {}


def test_disabled_it_opens_nothing_and_keeps_nothing(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    kept = entry(system, config)
    user_key_rotation.disable_keychain(config, system)
    assert entry(system, config) is None
    assert key_changes.list_slots(config, kept).opened_by is None
    open_cheaply(config).close()


def test_the_keychain_is_not_taken_out_by_its_own_key(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    with pytest.raises(SlotsRefused) as error:
        user_key_rotation.disable_keychain(by_keychain(config), system)
    assert "--ask-key" in error.value.resolution_hint
    assert entry(system, config) is not None
    open_cheaply(by_keychain(config), system=system).close()


def test_without_an_entry_there_is_nothing_to_disable(tmp_path):
    with pytest.raises(SlotsRefused):
        user_key_rotation.disable_keychain(made(tmp_path), keychains.working())


def test_an_entry_that_opens_nothing_is_removed(tmp_path):
    config, system = made(tmp_path), keychains.working()
    system.set(keychain.KEY, config.owner_hash, Secret("raw:" + "11" * 32))
    assert user_key_rotation.disable_keychain(config, system) is None
    assert entry(system, config) is None


def test_the_passphrase_slot_stays_when_only_the_keychain_would_be_left(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    with pytest.raises(SlotsRefused, match="needs no keychain"):
        key_changes.remove(by_keychain(config), 1, options=ChangeOptions(system=system))


def nobody():
    return Keychain(lambda: keychains.backend("keyring.backends.fail", "Keyring"))


@pytest.mark.parametrize(
    ("system", "said"),
    [(keychains.working(), "KWallet knows no key"), (nobody(), "no keychain runs")],
)
def test_another_keychain_than_the_one_that_opens_the_cache_is_no_missing_key(
    tmp_path, system, said
):
    config, first = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, first)
    before = fingerprint(config.account_dir)
    with pytest.raises(LockedError) as error:
        open_cheaply(by_keychain(config), system=system)
    assert error.value.verdict is Verdict.KEYCHAIN_UNUSABLE
    assert said in error.value.message
    assert "DB_ENCRYPTION_KEY" in error.value.resolution_hint
    assert fingerprint(config.account_dir) == before
    open_cheaply(by_keychain(config), system=first).close()


@pytest.mark.parametrize("way", ["never enabled", "slot removed", "switched off"])
def test_where_no_keychain_opens_the_cache_the_key_is_missing(tmp_path, way):
    config, system = made(tmp_path), keychains.working()
    if way != "never enabled":
        slot = user_key_rotation.enable_keychain(config, system).after.slots[-1].id
    if way == "slot removed":
        key_changes.remove(config, slot)
    wanted = replace(by_keychain(config), keychain=way != "switched off")
    with pytest.raises(LockedError) as error:
        open_cheaply(wanted, system=nobody())
    assert error.value.verdict is Verdict.KEY_MISSING
    assert ("no keychain runs" in error.value.message) == wanted.keychain


def test_a_server_that_starts_by_the_keychain_alone_can_have_its_key_changed(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    key_changes.add(
        by_keychain(config),
        Secret(OTHER),
        parameters=CHEAPEST,
        options=ChangeOptions(system=system),
    )
    open_cheaply(replace(config, db_key=Secret(OTHER))).close()


def rotated_into(config, system, **options):
    return user_key_rotation.rotate_into_keychain(config, system, **options)


def with_recovery_key(tmp_path):
    config = made(tmp_path)
    key_changes.add(config, RECOVERY_KEY, label="on paper")
    return config


def test_the_key_moves_into_the_keychain_and_the_old_one_opens_nothing(tmp_path):
    config, system = with_recovery_key(tmp_path), keychains.working()
    after = rotated_into(config, system, from_keychain=False)
    assert [(slot.type, slot.label) for slot in after.slots] == [
        (SlotType.RECOVERY, "on paper"),
        (SlotType.KEYCHAIN, "KWallet"),
    ]
    open_cheaply(by_keychain(config), system=system).close()
    open_cheaply(replace(config, db_key=RECOVERY_KEY)).close()
    with pytest.raises(LockedError) as refused:
        open_cheaply(config)
    assert refused.value.verdict is Verdict.WRONG_KEY


def test_the_keychain_never_becomes_the_only_way_in(tmp_path):
    config, system = made(tmp_path), keychains.working()
    before = fingerprint(config.account_dir)
    with pytest.raises(SlotsRefused, match="only one") as refused:
        rotated_into(config, system, from_keychain=False)
    assert "keys recovery create" in refused.value.resolution_hint
    assert fingerprint(config.account_dir) == before
    assert entry(system, config) is None


def test_nor_by_an_exchange_where_it_is_the_only_one_already(tmp_path):
    system = keychains.working()
    config = by_keychain(account(tmp_path))
    system.set(keychain.KEY, config.owner_hash, user_key.generate())
    open_cheaply(config, system=system).close()
    before, kept = fingerprint(config.account_dir), entry(system, config)
    with pytest.raises(SlotsRefused, match="only one"):
        rotated_into(config, system, from_keychain=True)
    assert fingerprint(config.account_dir) == before
    assert entry(system, config) == kept


@pytest.mark.parametrize("beside", [True, False], ids=["beside a passphrase", "beside paper"])
def test_a_key_of_the_keychain_gives_way_to_another(tmp_path, beside):
    config, system = with_recovery_key(tmp_path), keychains.working()
    if beside:
        user_key_rotation.enable_keychain(config, system)
    else:
        rotated_into(config, system, from_keychain=False)
    before = entry(system, config)
    alone = by_keychain(config)
    after = rotated_into(alone, system, from_keychain=True)
    assert entry(system, config) != before
    assert len(after.slots) == 2 + beside
    assert (after.slots[-1].type, after.slots[-1].label) == (SlotType.KEYCHAIN, "KWallet")
    assert key_changes.list_slots(config, before).opened_by is None
    open_cheaply(alone, system=system).close()


def test_a_raw_key_that_only_the_keychain_has_gives_way_to_a_slot_that_says_so(tmp_path):
    system = keychains.working()
    config = by_keychain(account(tmp_path))
    system.set(keychain.KEY, config.owner_hash, user_key.generate())
    open_cheaply(config, system=system).close()
    key_changes.add(config, RECOVERY_KEY, options=ChangeOptions(system=system))
    after = rotated_into(config, system, from_keychain=True)
    assert [slot.type for slot in after.slots] == [SlotType.RECOVERY, SlotType.KEYCHAIN]
    open_cheaply(config, system=system).close()


def test_the_keychain_keeps_its_random_key_when_the_passphrase_is_changed(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    kept, options = entry(system, config), ChangeOptions(system=system)
    done = user_key_rotation.rotate_passphrase(
        by_keychain(config), new=Secret(OTHER), parameters=CHEAPEST, options=options
    )
    assert [slot.id for slot in done.gone] == [1]
    assert entry(system, config) == kept
    open_cheaply(by_keychain(config), system=system).close()
    open_cheaply(replace(config, db_key=Secret(OTHER))).close()
    with pytest.raises(LockedError):
        open_cheaply(config)


def test_a_raw_key_that_only_the_keychain_has_is_not_replaced_by_a_typed_one(tmp_path):
    system = keychains.working()
    config = by_keychain(account(tmp_path))
    system.set(keychain.KEY, config.owner_hash, user_key.generate())
    open_cheaply(config, system=system).close()
    options = ChangeOptions(system=system)
    done = user_key_rotation.rotate_passphrase(
        config, new=Secret(OTHER), parameters=CHEAPEST, options=options
    )
    assert (done.gone, done.notices) == ((), ())
    open_cheaply(config, system=system).close()
    open_cheaply(replace(config, db_key=Secret(OTHER))).close()


def test_a_passphrase_of_an_earlier_release_can_get_a_new_derivation(tmp_path):
    config, system = made(tmp_path), keychains.working()
    system.set(keychain.KEY, config.owner_hash, Secret(PASSPHRASE))
    done = user_key_rotation.rotate_passphrase(
        by_keychain(config), new=Secret(PASSPHRASE), parameters=kdf.Pbkdf2Sha512(7),
        options=ChangeOptions(system=system),
    )  # fmt: skip
    assert ([slot.id for slot in done.gone], done.slot.kdf) == ([1], kdf.Pbkdf2Sha512(7))
    open_cheaply(by_keychain(config), system=system).close()


@pytest.mark.parametrize("step", ["switch", "write_copy", "prove"])
def test_what_counts_is_not_taken_out_of_the_keychain_by_a_failure_behind_it(tmp_path, step):
    config, system = with_recovery_key(tmp_path), keychains.working()

    class Stopped(BaseException):
        pass

    def fail(name):
        if name == step:
            raise Stopped

    with pytest.raises(Stopped):
        user_key_rotation.rotate_into_keychain(
            config, system, from_keychain=False, options=ChangeOptions(at=fail)
        )
    open_cheaply(by_keychain(config), system=system).close()


def test_a_key_of_the_keychain_that_was_not_used_is_not_replaced(tmp_path):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    before, kept = fingerprint(config.account_dir), entry(system, config)
    with pytest.raises(SlotsRefused, match="already"):
        rotated_into(config, system, from_keychain=False)
    assert fingerprint(config.account_dir) == before
    assert entry(system, config) == kept


def test_with_a_wrong_key_nothing_moves_into_the_keychain(tmp_path):
    config, system = made(tmp_path), keychains.working()
    wrong = replace(config, db_key=Secret(OTHER))
    with pytest.raises(LockedError):
        rotated_into(wrong, system, from_keychain=False)
    assert entry(system, config) is None
    open_cheaply(config).close()


@pytest.mark.parametrize("at", range(1, 4))
def test_one_key_opens_wherever_the_exchange_stops(tmp_path, monkeypatch, at):
    config, system = made(tmp_path), keychains.working()
    user_key_rotation.enable_keychain(config, system)
    alone, steps = by_keychain(config), []

    class Stopped(BaseException):
        pass

    def counted(action):
        def step(*arguments, **options):
            steps.append(1)
            if len(steps) == at:
                raise Stopped
            return action(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(key_changes, "add", counted(key_changes.add))
        patch.setattr(system, "set", counted(system.set))
        patch.setattr(key_changes, "remove", counted(key_changes.remove))
        with pytest.raises(Stopped):
            rotated_into(alone, system, from_keychain=True)
    open_cheaply(alone, system=system).close()
    rotated_into(alone, system, from_keychain=True)
    open_cheaply(alone, system=system).close()
