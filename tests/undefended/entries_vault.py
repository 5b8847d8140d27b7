"""List defences of a vault: its files are other programs' as well, at any moment."""

from __future__ import annotations

from undefended.defence import Defence

_FOLDER = "unit/stores/test_vault_folder.py"
_STORE = "unit/stores/test_vault_store.py"
_CHANGES = "unit/stores/test_vault_changes.py"
_WATCH = "unit/stores/test_vault_watch.py"
_CODEC = "unit/stores/test_vault_codec.py"
_TITLES = "unit/sync/test_saved_titles.py"
_KEPT = "unit/sync/test_kept_texts.py"
_RENAMES = "interaction/test_agent_renames.py"

VAULT = (
    Defence(
        "events of a vault are believed for a while only",
        "stores/vault/store.py",
        "        if names is not None and since < within and self._table.look_at(root, names):\n",
        "        if names is not None and self._table.look_at(root, names):\n",
        (f"{_CHANGES}::test_a_change_without_an_event_is_found_by_the_next_look_at_all_files",),
    ),
    Defence(
        "events of a vault are not believed where some are missing",
        "stores/vault/watch.py",
        "            known = self._works and self._file is not None and not self._uncertain\n",
        "            known = self._file is not None\n",
        (
            f"{_WATCH}::test_at_the_limit_of_watches_each_look_is_at_all_files",
            f"{_WATCH}::test_more_events_than_the_system_keeps_are_noticed_as_lost",
        ),
    ),
    Defence(
        "what a link in a vault leads to is not watched",
        "stores/vault/watch.py",
        "    | _ONLY_FOLDERS | _NO_LINKS\n",
        "    | _ONLY_FOLDERS\n",
        (
            f"{_WATCH}::test_a_link_that_takes_the_place_of_a_folder_is_not_watched_and_ends_no_other_watch",
        ),
    ),
    Defence(
        "files of a vault that were exchanged are no new texts",
        "stores/vault/store.py",
        "        if any(one in (None, entries[name].identity) for name, one in moved.items()):\n",
        "        if False:\n",
        (f"{_CHANGES}::test_what_may_be_more_than_new_text_is_listed_in_full",),
    ),
    Defence(
        "a folder of a vault is no link",
        "stores/vault/folder.py",
        "_FOLDER = _ROOT | os.O_NOFOLLOW\n",
        "_FOLDER = _ROOT\n",
        (f"{_FOLDER}::test_what_is_put_in_its_place_before_any_system_call_is_not_read",),
    ),
    Defence(
        "a file of a vault is no link",
        "stores/vault/folder.py",
        "_FILE = os.O_RDONLY | os.O_NOFOLLOW | ",
        "_FILE = os.O_RDONLY | ",
        (f"{_FOLDER}::test_what_is_put_in_its_place_before_any_system_call_is_not_read",),
    ),
    Defence(
        "a file of a vault has one name",
        "stores/vault/folder.py",
        "    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:\n",
        "    if not stat.S_ISREG(found.st_mode):\n",
        (f"{_FOLDER}::test_links_and_what_is_no_file_are_not_read",),
    ),
    Defence(
        "another folder is no empty vault",
        "stores/vault/folder.py",
        "                if self._identity != (found.st_dev, found.st_ino):\n",
        "                if False:\n",
        (f"{_FOLDER}::test_another_folder_in_its_place_is_no_empty_vault",),
    ),
    Defence(
        "ignored folders at any depth",
        "stores/vault/paths.py",
        '    return None if any(map(is_ignored_folder, ("", *parts), parts[:-1])) else parts\n',
        "    return parts\n",
        (f"{_FOLDER}::test_no_other_path_is_a_note",),
    ),
    Defence(
        "a save tells what it displaced",
        "stores/vault/note_writer.py",
        "        if other is not None and other.etag == base_etag:\n",
        "        if True:\n",
        (f"{_STORE}::test_an_edit_before_any_system_call_of_a_save_is_kept_or_told",),
    ),
    Defence(
        "files are exchanged, and the displaced one read",
        "stores/vault/file_writer.py",
        "        certain = system_calls.rename(parent, temporary, parent, name, system_calls.EXCHANGE)\n",
        "        certain = False\n",
        (f"{_STORE}::test_an_edit_before_any_system_call_of_a_save_is_kept_or_told",),
    ),
    Defence(
        "a new file overwrites none",
        "stores/vault/file_writer.py",
        "        system_calls.move(parent, temporary, parent, name)\n    finally:\n",
        "        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)\n    finally:\n",
        (f"{_STORE}::test_an_edit_before_any_system_call_of_any_other_write_stays_in_a_note",),
    ),
    Defence(
        "what is deleted is what was read",
        "stores/vault/file_writer.py",
        "    if not same:\n",
        "    if False:\n",
        (
            f"{_STORE}::test_what_changes_right_before_it_is_deleted_stays",
            f"{_STORE}::test_an_edit_before_any_system_call_of_any_other_write_stays_in_a_note",
        ),
    ),
    Defence(
        "a displaced edit is recovered",
        "stores/vault/file_writer.py",
        '            if digest in (found["ours"], found["read"], digest_of(b"")):\n',
        "            if True:\n",
        (f"{_STORE}::test_a_displaced_edit_that_a_killed_process_leaves_becomes_a_note",),
    ),
    Defence(
        "an edit leaves the front matter readable",
        "stores/vault/note_codec.py",
        "        _require_unbroken(old, text)\n",
        "",
        (f"{_CODEC}::test_an_edit_that_breaks_the_block_is_refused_and_one_that_mends_it_is_not",),
    ),
    Defence(
        "tags that cannot be read hide a note",
        "stores/vault/note_codec.py",
        "        listed, understood = (), False\n",
        "        listed, understood = (), True\n",
        (f"{_CODEC}::test_tags_that_cannot_be_read_hide_a_note_where_tags_matter",),
    ),
    Defence(
        "another state of a file is read again",
        "stores/vault/listing.py",
        "        return held if held is not None and held.state == state else None\n",
        "        return held\n",
        (
            f"{_STORE}::test_files_that_have_not_changed_are_not_read_again",
            f"{_STORE}::test_the_next_start_reads_only_the_files_that_have_changed",
        ),
    ),
    Defence(
        "a renaming overwrites no file",
        "stores/vault/file_writer.py",
        "        system_calls.move(parent, name, target, new_name)\n    except FileExistsError:\n",
        "        os.rename(name, new_name, src_dir_fd=parent, dst_dir_fd=target)\n    except FileExistsError:\n",
        (f"{_STORE}::test_a_file_that_comes_right_before_a_renaming_is_not_overwritten",),
    ),
    Defence(
        "a renaming takes no other file that got the old name",
        "stores/vault/note_writer.py",
        "            if moved.found.st_ino != held.found.st_ino:  # another file had the old name by then\n",
        "            if False:\n",
        (f"{_STORE}::test_another_file_that_gets_the_old_name_right_before_is_put_back",),
    ),
    Defence(
        "a note takes no id that rules hide",
        "sync/updater.py",
        "        if known or not self._journal.sees(new_id, write.content):\n",
        "        if known:\n",
        (f"{_TITLES}::test_a_name_that_a_rule_hides_is_refused_as_if_it_were_taken",),
    ),
    Defence(
        "the new place of a note is judged before it is written",
        "library.py",
        "        return place if note is None else stored.id, content\n",
        "        return place, content\n",
        (
            f"{_RENAMES}::test_the_policy_judges_the_new_place_and_no_name_betrays_a_hidden_note",
            f"{_RENAMES}::test_with_rules_on_paths_alone_a_name_stays_as_it_is_given",
        ),
    ),
    Defence(
        "a name that is taken betrays no hidden note",
        "library.py",
        "        hides = self._cache.notes.visibility.rules.hides_beside_seen\n",
        "        hides = False\n",
        (f"{_RENAMES}::test_the_policy_judges_the_new_place_and_no_name_betrays_a_hidden_note",),
    ),
    Defence(
        "an unanswered renaming is looked for under its new name",
        "sync/entry_replay.py",
        "        if isinstance(head, Tombstone) and (moved := await self._find_under_new_name(write)):\n",
        "        if False and (moved := await self._find_under_new_name(write)):\n",
        (f"{_TITLES}::test_a_rename_that_ends_anywhere_is_finished_exactly_once",),
    ),
    Defence(
        "links wait for the renaming",
        "sync/entry_replay.py",
        "            if self._journal.waits(write):\n",
        "            if False:\n",
        (f"{_TITLES}::test_no_note_that_waits_for_a_renaming_is_saved_before_it",),
    ),
    Defence(
        "links stay where the note keeps its name",
        "storage/journal_table.py",
        '        self._db.run("DELETE FROM journal WHERE after = ?", (write_id,))\n',
        "        return\n",
        (
            f"{_TITLES}::test_links_stay_if_the_name_is_taken",
            f"{_TITLES}::test_a_renaming_in_doubt_whose_name_is_taken_leaves_the_links",
        ),
    ),
    Defence(
        "what another program replaces of ours is kept",
        "storage/note_table.py",
        "            (old.pk, one.revision) for old, one in changed if old.written_here\n",
        "            (old.pk, one.revision) for old, one in changed if False\n",
        (f"{_KEPT}::test_a_text_of_ours_that_another_program_replaces_is_a_version",),
    ),
    Defence(
        "a note of ours that goes elsewhere is kept",
        "sync/batch_apply.py",
        "            lost = find_lost(self._cache, gone) if self._keeps_lost else []\n",
        "            lost = find_lost(self._cache, gone[:0])\n",
        (f"{_KEPT}::test_a_note_of_ours_that_an_older_copy_lacks_can_be_made_again",),
    ),
)
