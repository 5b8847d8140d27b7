"""List defences of exports, imports and backups."""

from __future__ import annotations

from undefended.defence import Defence

_FORMATS = "unit/transfer/test_formats.py"
_PLAN = "unit/transfer/test_import_plan.py"
_BACKUP = "unit/account/test_backup.py"
_DAMAGED = (
    "cli/test_cli_backup.py::test_a_file_that_is_damaged_or_of_another_account_changes_nothing"
)

TRANSFER = (
    Defence(
        "the files of an export belong to the person alone",
        "transfer/formats.py",
        "os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)",
        "os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)",
        (f"{_FORMATS}::test_an_export_is_private_and_overwrites_nothing",),
    ),
    Defence(
        "an export overwrites nothing",
        "transfer/formats.py",
        "        if os.path.lexists(path):\n            raise FileExistsError(path)\n        if form",
        "        if form",
        (f"{_FORMATS}::test_an_export_is_private_and_overwrites_nothing",),
    ),
    Defence(
        "an export that fails leaves nothing",
        "transfer/formats.py",
        "        shutil.rmtree(unfinished, ignore_errors=True)\n",
        "",
        (f"{_FORMATS}::test_what_fails_in_the_middle_leaves_nothing",),
    ),
    Defence(
        "an import follows no link and opens no pipe",
        "transfer/formats.py",
        "            if not stat.S_ISREG(at.lstat().st_mode):\n                continue\n",
        "",
        (
            f"{_FORMATS}::test_a_folder_of_other_markdown_is_read_and_links_are_not_followed",
            f"{_FORMATS}::test_of_a_folder_only_files_are_read_and_all_of_them",
        ),
    ),
    Defence(
        "a folder that cannot be read is no empty one",
        "transfer/formats.py",
        "os.walk(root, onerror=_raise)",
        "os.walk(root)",
        (f"{_FORMATS}::test_of_a_folder_only_files_are_read_and_all_of_them",),
    ),
    Defence(
        "a document and a note are read up to a limit",
        "transfer/formats.py",
        "    if len(data) > LARGEST_DOCUMENT:\n        raise InvalidRequest",
        "    if False:\n        raise InvalidRequest",
        (f"{_FORMATS}::test_a_zip_bomb_and_files_that_are_too_large_are_refused",),
    ),
    Defence(
        "a document has no more values than fit into the memory",
        "transfer/formats.py",
        "    _require_few_values(data)\n",
        "",
        (f"{_FORMATS}::test_every_kind_of_value_counts",),
    ),
    Defence(
        "folders are read to a limited depth",
        "transfer/formats.py",
        "        if below and folder.count(os.sep, len(str(root))) >= DEEPEST:\n",
        "        if False:\n",
        (f"{_FORMATS}::test_folders_are_read_to_a_depth_that_no_person_has",),
    ),
    Defence(
        "front matter holds values and lists of values only",
        "transfer/markdown_folder.py",
        "        elif not isinstance(event, yaml.ScalarEvent):\n",
        "        elif isinstance(event, yaml.AliasEvent):\n            continue\n"
        "        elif not isinstance(event, yaml.ScalarEvent):\n",
        (f"{_FORMATS}::test_a_damaged_front_matter_is_refused_with_file_and_reason",),
    ),
    Defence(
        "an import shares no note",
        "transfer/import_plan.py",
        "    addresses = find_new_addresses(content.tags, present=()) if traits.shares_by_tag else ()\n",
        "    addresses: tuple[str, ...] = ()\n",
        (f"{_PLAN}::test_what_a_store_cannot_hold_is_counted",),
    ),
    Defence(
        "names that differ in letter case alone are one name",
        "transfer/import_plan.py",
        'unicodedata.normalize("NFC", note_id).casefold() if self._named else note_id',
        "note_id",
        (f"{_PLAN}::test_in_a_vault_a_repeated_import_finds_the_names_it_has_given",),
    ),
    Defence(
        "notes of the same id in an export are two notes",
        "transfer/import_plan.py",
        "    seed += names.count(seed)\n",
        "",
        (f"{_PLAN}::test_notes_without_an_id_are_all_imported_once",),
    ),
    Defence(
        "notes of an import are whole transactions",
        "sync/write_sender.py",
        "        with self._transaction(None):\n",
        "        for _ in [0]:\n",
        (
            f"{_PLAN}::test_a_local_import_that_is_killed_between_transactions_is_finished_by_the_next",
        ),
    ),
    Defence(
        "a backup of another account is refused",
        "account/backup.py",
        "    if not valid or not key_slots.belongs_to(keyfile, data_key, settings.owner_hash):\n",
        "    if not valid:\n",
        (_DAMAGED,),
    ),
    Defence(
        "an account with notes keeps its keys from a backup with others",
        "account/backup.py",
        "        if not changed and not JournalTable(opened.database).count():\n            return\n",
        "        return\n",
        (f"{_BACKUP}::test_an_account_with_other_keys_is_left_alone",),
    ),
    Defence(
        "an account makes no room for a damaged backup",
        "account/backup.py",
        "        copies.require_authentic(folder.copies / copy, data_key)\n",
        "        pass\n",
        (f"{_BACKUP}::test_an_account_with_other_keys_is_left_alone",),
    ),
    Defence(
        "a backup that cannot be read back is none",
        "account/backup.py",
        "        copies.require_authentic(copy, data_key)\n",
        "",
        (f"{_BACKUP}::test_a_backup_that_cannot_be_made_leaves_nothing",),
    ),
    Defence(
        "a backup overwrites nothing",
        "account/backup.py",
        "        if os.path.lexists(to):\n",
        "        if False:\n",
        (
            "cli/test_cli_backup.py::test_a_backup_is_one_private_file_that_brings_everything_back_elsewhere",
        ),
    ),
)
