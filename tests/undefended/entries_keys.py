"""List defences of key file, key derivation, slots, rotation and keychain."""

from __future__ import annotations

from undefended.defence import Defence

_FOLDER = "property/test_keyfile_folder_damage.py"
_HOSTILE = "property/test_keyfile_properties.py"

KEYS = (
    Defence(
        "a wrong key deletes nothing",
        "account/startup_outcomes.py",
        '        if seen.on_unreadable != "rebuild":\n            return Locked(',
        "        if seen.on_unreadable is None:\n            return Locked(",
        (
            "security/test_adversary_keys.py::test_any_number_of_wrong_keys_changes_no_byte",
            "unit/account/test_rebuilding.py::test_without_the_setting_nothing_moves",
        ),
        (1,),
    ),
    Defence(
        "a rebuild is made once a day at most",
        "account/startup_outcomes.py",
        "    if seen.rebuilt_recently:\n",
        "    if False:\n",
        (
            "unit/account/test_rebuilding.py::test_two_clients_with_different_keys_do_not_rebuild_each_other_for_ever",
        ),
        (1,),
    ),
    Defence(
        "checksum of the key file",
        "crypto/key_file_codec.py",
        'if found.get("format") != FORMAT or written != _checksum(found):',
        'if found.get("format") != FORMAT:',
        (f"{_HOSTILE}::test_every_single_flipped_bit_is_damage_and_never_a_wrong_key",),
        (2,),
    ),
    Defence(
        "the copy of the key file takes its place",
        "keys/key_file_store.py",
        "        if self.main.state in {FileState.MISSING, FileState.DAMAGED}:\n",
        "        if False:\n",
        (
            "security/test_adversary_keys.py::test_if_any_byte_of_the_key_file_is_damaged_its_copy_opens",
            "unit/account/test_opener.py::test_a_cut_key_file_is_taken_from_its_copy_and_kept_in_quarantine",
        ),
        (2, 3),
    ),
    Defence(
        "a key file that is no JSON is damage",
        "crypto/canonical_json.py",
        "    except (ValueError, RecursionError):\n",
        "    except RecursionError:\n",
        (f"{_HOSTILE}::test_every_truncation_is_damage",),
        (3,),
    ),
    Defence(
        "size limit of the key file",
        "crypto/canonical_json.py",
        "    if len(raw) > LARGEST:\n",
        "    if False:\n",
        ("unit/crypto/test_canonical_json.py::test_hostile_bytes_are_refused_as_damage",),
        (4,),
    ),
    Defence(
        "no name twice in the key file",
        "crypto/canonical_json.py",
        "    if len(found) != len(pairs):\n",
        "    if False:\n",
        ("unit/crypto/test_canonical_json.py::test_hostile_bytes_are_refused_as_damage",),
        (4,),
    ),
    Defence(
        "no huge numbers in the key file",
        "crypto/canonical_json.py",
        "    if len(digits) > _DIGITS:\n",
        "    if False:\n",
        ("unit/crypto/test_canonical_json.py::test_hostile_bytes_are_refused_as_damage",),
        (4,),
    ),
    Defence(
        "no deep nesting in the key file",
        "crypto/canonical_json.py",
        "    except (ValueError, RecursionError):\n",
        "    except ValueError:\n",
        (f"{_HOSTILE}::test_a_bomb_is_refused_quickly_and_without_much_memory",),
        (4,),
    ),
    Defence(
        "only the canonical form is read",
        "crypto/key_file_codec.py",
        "    if serialise(keyfile) != raw:\n",
        "    if False:\n",
        ("unit/crypto/test_key_file_codec.py::test_white_space_is_refused",),
    ),
    Defence(
        "cost bounds before any work",
        "crypto/kdf.py",
        "    if reason := bounds.refuses(parameters):\n        raise KeyFileDamaged(reason)\n    match",
        "    match",
        (
            "unit/crypto/test_kdf.py::test_a_bomb_is_refused_before_any_work",
            "unit/crypto/test_kdf.py::test_production_refuses_a_cost_below_its_floor",
        ),
        (5, 6),
    ),
    Defence(
        "cost bounds when the key file is read",
        "crypto/key_file_codec.py",
        "    if reason := bounds.refuses(parameters):\n",
        "    if reason := None:\n",
        (
            "unit/crypto/test_key_file_codec.py::test_production_bounds_refuse_the_cheap_files_of_tests",
        ),
        (5, 6),
    ),
    Defence(
        "one bound for the cost of all slots",
        "crypto/key_file_codec.py",
        "    if not bounds.permits_together(slot.kdf for slot in slots):\n",
        "    if False:\n",
        (
            "property/test_keyfile_properties.py::test_a_bomb_is_refused_quickly_and_without_much_memory",
            "property/test_keyfile_properties.py::test_what_is_written_is_read_again_and_costs_no_more_than_one_slot_may",
        ),
        (5, 6),
    ),
    Defence(
        "the cost of a slot is bound to what it wraps",
        "crypto/key_file_codec.py",
        '        "kdf": _kdf_fields(slot.kdf),\n        "salt": _b64(slot.salt),\n        "type"',
        '        "salt": _b64(slot.salt),\n        "type"',
        ("vectors/test_keyfile_vectors.py::test_a_golden_key_file_opens_and_belongs_to_its_owner",),
        (6,),
    ),
    Defence(
        "a passphrase is never tried unstretched",
        "crypto/key_file_codec.py",
        "    if (type_ is SlotType.PASSPHRASE) == isinstance(parameters, kdf.HkdfSha256):\n",
        "    if False:\n",
        (
            "unit/crypto/test_key_file_codec.py::test_a_file_forged_with_a_right_checksum_is_refused",
        ),
        (6,),
    ),
    Defence(
        "MAC of the key file",
        "crypto/key_slots.py",
        "    if not has_valid_mac(keyfile, data_key):\n",
        "    if False:\n",
        (
            "unit/crypto/test_key_slots.py::test_without_a_key_nothing_around_the_slots_can_be_changed",
        ),
        (8,),
    ),
    Defence(
        "an older key file than the database has seen",
        "account/startup_table.py",
        "and found.sequence > expected.sequence",
        "and False",
        (f"{_FOLDER}::test_of_any_key_file_put_there_only_the_current_one_opens",),
        (7,),
    ),
    Defence(
        "an older key file than its copy",
        "keys/key_file_store.py",
        "return copy if copy.sequence > main.sequence else None",
        "return None",
        (
            "security/test_key_rollback.py::test_the_copy_alone_tells_where_the_database_was_never_opened_again",
        ),
        (7,),
    ),
    Defence(
        "the database remembers the newest key file",
        "account/opener.py",
        "            record_key_sequence(found.database, found.keyfile)\n",
        "            pass\n",
        (
            "unit/account/test_opener.py::test_opening_lets_the_database_remember_the_newest_key_file_it_was_opened_with",
        ),
        (7,),
    ),
    Defence(
        "a slot belongs to its vault",
        "crypto/key_file_codec.py",
        '{"format": FORMAT, "slot": place, "vault": vault_id, "version": VERSION}',
        '{"format": FORMAT, "slot": place, "version": VERSION}',
        ("unit/crypto/test_key_slots.py::test_a_slot_of_another_vault_does_not_open_here",),
        (8,),
    ),
    Defence(
        "the database belongs to its key file",
        "account/startup_table.py",
        "    return (found.vault_id, found.generation) == (expected.vault_id, expected.generation)",
        "    return True",
        (
            "security/test_adversary_keys.py::test_a_database_that_says_another_generation_is_refused",
        ),
        (9,),
    ),
    Defence(
        "a change of key is read back before it counts",
        "files/private_files.py",
        "        _compare(temporary, content)\n",
        "",
        (
            "unit/account/test_slot_rotation.py::test_a_disk_that_stores_nothing_is_noticed_before_the_switch",
        ),
        (17, 18),
    ),
    Defence(
        "files are flushed before they count",
        "files/private_files.py",
        "            _flush(file.fileno())\n",
        "",
        (
            "unit/files/test_private_files.py::test_the_file_is_flushed_before_the_switch_and_the_folder_after",
        ),
        (18,),
    ),
    Defence(
        "one change of keys at a time",
        "files/locks.py",
        "        lock.acquire(timeout=timeout, poll_interval=_POLL)\n",
        "        lock.release()\n",
        ("unit/files/test_locks.py::test_a_second_holder_of_the_key_lock_is_refused_as_busy",),
        (22,),
    ),
    Defence(
        "what a full disk leaves half made is removed",
        "account/generation.py",
        "            remove_prepared(self.folder, new_keyfile)\n            raise\n\n    def switch(",
        "            raise\n\n    def switch(",
        (
            "unit/account/test_reencryption.py::test_a_disk_that_fills_up_leaves_the_old_cache_and_nothing_else",
        ),
        (19,),
    ),
    Defence(
        "the cache is re-encrypted by one who is alone",
        "files/locks.py",
        "        self._take(exclusive=True, timeout=timeout)\n",
        "        self._take(exclusive=False, timeout=timeout)\n",
        (
            "unit/account/test_reencryption.py::test_while_a_server_runs_it_is_refused_and_the_server_is_named",
        ),
        (20, 21),
    ),
    Defence(
        "a copy is compared before it counts",
        "account/generation.py",
        "check=lambda target: compare(old, target)",
        "check=lambda target: None",
        ("unit/account/test_reencryption.py::test_a_copy_that_differs_never_counts",),
        (17,),
    ),
    Defence(
        "keys are removed first",
        "account/purge.py",
        '    keys = [path for path in ours if "notarium_keys" in path.name]\n',
        "    keys: list[Path] = []\n",
        ("unit/account/test_purge.py::test_the_keys_go_first",),
        (48,),
    ),
    Defence(
        "the last key that needs no keychain stays",
        "crypto/key_slots.py",
        "    if all(slot.type is SlotType.KEYCHAIN for slot in slots):\n",
        "    if False:\n",
        (
            "unit/crypto/test_slot_changes.py::test_one_active_slot_that_needs_no_keychain_always_stays",
        ),
        (46,),
    ),
    Defence(
        "only keychains that protect something",
        "keys/keychain.py",
        "    if kind not in _ALLOWED:\n        return _refuse(backend)\n    return backend",
        "    return backend",
        (
            "unit/keys/test_keychain.py::test_an_unprotected_keychain_is_refused_by_name_and_never_used",
        ),
        (46,),
    ),
    Defence(
        "no fall-through to another source of the key",
        "keys/credentials.py",
        "        if not settings.db_key_yields:\n            return given\n",
        "",
        ("unit/keys/test_credentials.py::test_the_settings_decide_before_the_keychain",),
        (46,),
    ),
    Defence(
        "a removed slot opens nothing",
        "crypto/slot_changes.py",
        "    kept = tuple(slot for slot in keyfile.slots if slot.id != gone.id)\n",
        "    kept = keyfile.slots\n",
        (
            "unit/crypto/test_slot_changes.py::test_a_removed_slot_is_gone_and_the_others_stay",
            "unit/account/test_slot_management.py::test_a_slot_taken_away_opens_nothing_and_the_others_do",
            "security/test_adversary_keys.py::test_a_recovery_key_opens_until_it_is_removed",
        ),
        (47,),
    ),
)
