"""List defences against the note service: hosts, answers, sync."""

from __future__ import annotations

from undefended.defence import Defence

_SESSION = "unit/stores/test_http_session.py"
_RULES = "unit/stores/test_http_rules.py"
_TRILIUM = "unit/stores/test_trilium_store.py"
_MEMENTO = "unit/stores/test_memento_store.py"
_SWEEPS = "unit/sync/test_news_and_sweeps.py"

_LIES = "security/test_wrong_answers_simplenote.py::test_a_wrong_answer_never_becomes_the_note"

SERVICE = (
    Defence(
        "an answer that contradicts what is known is not the note",
        "sync/note_fetch.py",
        "            if contradicts(known, newest, dated=store.traits.fixed_creation):\n",
        "            if False:\n",
        (_LIES,),
        (51,),
    ),
    Defence(
        "a newer answer is one that the change feed tells of",
        "sync/note_fetch.py",
        "        if not fed or await _is_told(cache, store, newest):\n",
        "        if True:\n",
        (_LIES,),
        (51,),
    ),
    Defence(
        "an object without a text is no note",
        "stores/simplenote/note_codec.py",
        "    if not is_note(value):\n",
        "    if not isinstance(value, dict):\n",
        ("unit/stores/test_simplenote_note_codec.py::test_an_object_without_a_text_is_no_note",),
        (51,),
    ),
    Defence(
        "only the hosts that were set",
        "stores/http.py",
        "        if origin_of(request.url) not in self._origins:\n",
        "        if False:\n",
        (f"{_SESSION}::test_only_configured_hosts_are_contacted",),
        (45,),
    ),
    Defence(
        "no redirect is followed",
        "stores/http.py",
        "    if reply.status not in _REDIRECTS:\n",
        "    if True:\n",
        (f"{_SESSION}::test_redirect_is_not_followed",),
        (45,),
    ),
    Defence(
        "plain http to this machine only",
        "stores/http_rules.py",
        '    if origin[0] == "http" and not permitted:\n',
        "    if False:\n",
        (f"{_RULES}::test_other_addresses_are_refused_without_being_quoted",),
        (45,),
    ),
    Defence(
        "no certificates of the environment",
        "sandbox/confinement.py",
        "    wipe_environment(*CERTIFICATES)\n",
        "",
        (
            "security/test_adversary_surroundings.py::test_certificates_of_the_environment_are_not_trusted",
        ),
        (44,),
    ),
    Defence(
        "certificates are checked",
        "stores/http.py",
        "    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n",
        "    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n"
        "    context.check_hostname = False\n    context.verify_mode = ssl.CERT_NONE\n",
        (
            f"{_SESSION}::test_certificates_are_checked",
            "security/test_adversary_surroundings.py::test_certificates_of_the_environment_are_not_trusted",
        ),
        (45,),
    ),
    Defence(
        "size of an answer",
        "stores/http.py",
        "        if size > largest:\n",
        "        if False:\n",
        (
            f"{_SESSION}::test_answer_over_the_limit_is_refused_while_it_is_read",
            f"{_SESSION}::test_compressed_answer_counts_as_it_unpacks",
        ),
    ),
    Defence(
        "deadline of an answer",
        "stores/http.py",
        "            async with asyncio.timeout(max(seconds, 0)):\n",
        "            async with asyncio.timeout(max(seconds, 0) + 20):\n",
        (f"{_SESSION}::test_dripping_answer_ends_at_the_deadline",),
    ),
    Defence(
        "depth of JSON",
        "stores/json_answers.py",
        "    if deepest is not None and deeper_than(value, deepest):\n",
        "    if False:\n",
        (f"{_RULES}::test_what_is_not_bounded_json_is_a_protocol_error_that_quotes_nothing",),
    ),
    Defence(
        "a header is never quoted",
        "stores/http.py",
        '            raise StoreProtocolError("the note store broke the HTTP protocol") from None\n',
        '            raise StoreProtocolError(f"{request.headers}") from None\n',
        (f"{_SESSION}::test_secret_in_a_header_is_never_quoted",),
        (33,),
    ),
    Defence(
        "what was stored is compared with what was sent",
        "sync/conflict_copy.py",
        "    if stored == sent:\n        return StoredAs.AS_SENT\n    if not inserted",
        "    if True:\n        return StoredAs.AS_SENT\n    if not inserted",
        (
            "unit/sync/test_conflict_copy.py::test_an_answer_is_checked_for_what_is_left_of_our_change",
            "unit/sync/test_writer_saves.py::test_our_line_is_kept_if_the_revision_before_is_unknown",
        ),
    ),
    Defence(
        "what a store rewrites is not sent again",
        "sync/push_answers.py",
        "        if alone or",
        "        if",
        (
            "property/test_rewriting_stores.py::test_what_a_store_rewrites_is_reported_and_cached_as_it_is",
        ),
    ),
    Defence(
        "a version that a store adds is not fought",
        "sync/push_answers.py",
        " or self._is_own(write, earlier, repaired=not repair):",
        ":",
        (
            "property/test_rewriting_stores.py::test_saves_into_a_store_that_adds_a_version_of_its_own_make_no_copy_however_many",
        ),
    ),
    Defence(
        "one sweep in a cycle",
        "sync/cycle_runner.py",
        "        if event is Event.CURSOR_LOST and self._cursor_lost:\n",
        "        if False:\n",
        (
            "unit/sync/test_backoff_cycles.py::test_reasons_without_news_are_followed_less_and_less_often",
        ),
    ),
    Defence(
        "success without news is slowed down",
        "sync/cycle_runner.py",
        "            self.backoff.record_empty()\n",
        "            pass\n",
        (
            "unit/sync/test_backoff_cycles.py::test_reasons_without_news_are_followed_less_and_less_often",
        ),
    ),
    Defence(
        "removal limit: a listing that lacks too many notes",
        "sync/pull_decisions.py",
        "    if (everything or lost > limit) and not whole:\n",
        "    if everything:\n",
        (
            f"{_SWEEPS}::test_too_many_missing_notes_halt_the_cycle_and_nothing_is_removed",
            f"{_SWEEPS}::test_a_feed_that_removes_most_of_the_notes_halts_the_cycle",
        ),
    ),
    Defence(
        "removal limit: an empty listing",
        "sync/pull_decisions.py",
        "    lost = len(removed if everything else removed - trashed)\n",
        "    lost = len(removed - trashed)\n",
        (
            "unit/sync/test_pull_decisions.py::test_an_empty_listing_is_believed_of_a_small_account_only",
        ),
    ),
    Defence(
        "removal needs proof that a note is gone",
        "sync/pull_decisions.py",
        "    (LocalState.KNOWN, RemoteState.MISSING): PlannedMove(\n        Move.FETCH",
        "    (LocalState.KNOWN, RemoteState.MISSING): PlannedMove(\n        Move.FORGET",
        ("unit/sync/test_pull_decisions.py::test_absence_from_a_listing_removes_nothing_but_asks",),
    ),
    Defence(
        "a store that overwrites is compared right before the write",
        "stores/trilium/store.py",
        "        if note.etag != etag:\n",
        "        if False:\n",
        (f"{_TRILIUM}::test_a_note_that_moved_is_not_overwritten",),
    ),
    Defence(
        "a content that is not the note's is none",
        "stores/trilium/note_reader.py",
        "            if read_again.blob_id == note.blob_id:\n                raise foreign_content_error()\n",
        "            if read_again.blob_id == note.blob_id:\n                return note, known\n",
        (f"{_TRILIUM}::test_a_content_that_is_not_the_notes_is_an_error_and_never_written",),
    ),
    Defence(
        "a text that Simplenote may drop is kept here",
        "sync/journal.py",
        "                in_store=self._store_has_versions and not stays,\n",
        "                in_store=self._store_has_versions,\n",
        ("interaction/test_kept_for_a_day.py::test_what_the_store_drops_by_itself_stays_here",),
    ),
    Defence(
        "asking for a deleted note takes away nothing that is left of it",
        "sync/native_reads.py",
        "        if seen is None:\n            return None\n",
        "",
        (
            "interaction/test_ways_back.py::test_no_later_call_takes_away_what_is_left_of_a_deleted_note",
        ),
    ),
    Defence(
        "two saves at once do not both count on the last room for a version",
        "sync/journal.py",
        "        if sizes and not self._cache.versions.has_room(size, now=self._clock()):\n",
        "        if False:\n",
        (
            "interaction/test_kept_for_a_day.py::test_of_two_saves_at_once_one_alone_takes_the_last_room",
        ),
    ),
    Defence(
        "a write that was answered and has changed nothing is not confirmed",
        "stores/trilium/store.py",
        "            if base is not None and note.etag == base.etag:\n",
        "            if False:\n",
        (f"{_TRILIUM}::test_a_write_that_was_answered_and_not_done_is_in_doubt",),
    ),
    Defence(
        "the id of a new note is asked for before it is used",
        "stores/trilium/store.py",
        "            made = await self._reader.note(write.note_id)\n",
        "            raise NoteNotFound('not asked for')\n",
        (f"{_TRILIUM}::test_an_existing_id_is_never_posted",),
    ),
    Defence(
        "a listing without the root removes nothing",
        "stores/trilium/note_reader.py",
        '        if not any(isinstance(row, dict) and row.get("noteId") == ROOT for row in rows):\n',
        "        if False:\n",
        (f"{_TRILIUM}::test_a_listing_that_failed_removes_nothing",),
    ),
    Defence(
        "protected notes are not read",
        "stores/trilium/note_reader.py",
        "            if note.protected:\n                raise missing_error(note.id)\n",
        "",
        (f"{_TRILIUM}::test_protected_notes_are_neither_listed_nor_read_nor_written",),
    ),
    Defence(
        "an edit that would lose something is refused",
        "markup/html_edit.py",
        "        if lost:\n",
        "        if False:\n",
        ("property/test_trilium_html.py::test_an_edit_that_would_lose_something_says_what",),
    ),
    Defence(
        "a note that the app has changed is not overwritten",
        "stores/memento/store.py",
        "        if note_codec.etag(held) != etag:\n",
        "        if False:\n",
        (
            "contract/test_memento_contract.py::TestMemento::test_stale_base_is_refused_or_merged_as_the_write_guard_says",
        ),
    ),
    Defence(
        "an app's file is never opened through a link",
        "stores/memento/database_file.py",
        "        if not stat.S_ISREG(found.st_mode):\n",
        "        if False:\n",
        (f"{_MEMENTO}::test_a_link_or_a_file_of_somebody_else_is_never_opened",),
    ),
    Defence(
        "an app's file of another user is never opened",
        "stores/memento/database_file.py",
        '        if hasattr(os, "getuid") and found.st_uid != os.getuid():\n',
        "        if False:\n",
        (f"{_MEMENTO}::test_a_link_or_a_file_of_somebody_else_is_never_opened",),
    ),
    Defence(
        "an app's file that is gone is not made anew",
        "stores/memento/database_file.py",
        "?mode=rw",
        "?mode=rwc",
        (f"{_MEMENTO}::test_no_file_is_made_where_one_goes_at_this_moment",),
    ),
    Defence(
        "a file of several users is refused until one is named",
        "stores/memento/note_table.py",
        "    if user_id in users or len(users) + bool(user_id) < 2:",
        "    if True:",
        (f"{_MEMENTO}::test_a_file_of_several_users_is_refused_until_one_is_named",),
    ),
    Defence(
        "notes of another user of an app are neither seen nor changed",
        "stores/memento/note_table.py",
        "        owned = bool(user_id) and _OWNER in columns\n",
        "        owned = False\n",
        (f"{_MEMENTO}::test_with_a_user_only_the_notes_of_this_user_and_of_nobody_are_there",),
    ),
    Defence(
        "another note of the same id is not taken for the one that was made",
        "stores/memento/store.py",
        "                elif not _is_ours(held, write):\n",
        "                elif False:\n",
        (f"{_MEMENTO}::test_another_note_of_the_same_id_is_never_taken_for_ours",),
    ),
    Defence(
        "dates are written in the form of the app's file",
        "stores/memento/note_table.py",
        '        if kinds and kinds.count("text") * 2 <= len(kinds):\n',
        "        if True:\n",
        (f"{_MEMENTO}::test_dates_have_the_form_of_the_file",),
    ),
    Defence(
        "an embedding of other words goes",
        "stores/memento/note_table.py",
        "        if change.rewords and EMBEDDING in self._columns:\n",
        "        if False:\n",
        (f"{_MEMENTO}::test_an_embedding_goes_when_the_words_change_and_stays_when_a_flag_does",),
    ),
    Defence(
        "a change replaces only what is kept",
        "stores/memento/store.py",
        "                if now and write.replaced not in (None, now.native):\n",
        "                if False:\n",
        (f"{_MEMENTO}::test_a_change_replaces_what_was_kept_and_nothing_else",),
    ),
    Defence(
        "a note is deleted as it was kept",
        "stores/memento/store.py",
        '                if self._kept_of.pop(note_id, held["updatedAt"]) != held["updatedAt"]:\n',
        "                if False:\n",
        (f"{_MEMENTO}::test_a_note_with_other_pictures_than_those_that_are_kept_is_not_deleted",),
    ),
    Defence(
        "rows of other tables come back with their note",
        "stores/memento/note_table.py",
        "        linked_rows.insert(self._db, change.links)\n",
        "",
        (
            "unit/sync/test_revived_notes.py::test_rows_of_other_tables_go_and_come_back_with_the_note",
        ),
    ),
    Defence(
        "what is kept of a removed note outlives a later note of its id",
        "sync/journal.py",
        "            self._cache.versions.put_back(earlier)\n",
        "",
        (
            "interaction/test_note_cards.py::test_a_deleted_note_whose_id_the_app_has_given_again_is_within_reach",
        ),
    ),
    Defence(
        "the app of a file can write between the portions of a long read",
        "stores/memento/note_table.py",
        "    for at in range(0, len(ids), PORTION):\n",
        "    for at in range(0, len(ids), len(ids)):\n",
        (f"{_MEMENTO}::test_the_app_can_write_between_any_two_portions_of_a_long_read",),
    ),
    Defence(
        "a store of files that has failed is looked at again soon",
        "sync/scheduler.py",
        "            delay = min(delay, FILE_RETRY)\n",
        "            pass\n",
        (
            "unit/sync/test_news_and_sweeps.py::test_a_store_of_files_that_fails_is_soon_followed_again",
        ),
    ),
    Defence(
        "a store of files is watched on after one failure",
        "sync/batch_reader.py",
        "                self.feed.record_success()  # this is how such a store reports a change\n",
        "                pass\n",
        (
            "unit/sync/test_news_and_sweeps.py::test_a_store_of_files_that_fails_is_soon_followed_again",
        ),
    ),
    Defence(
        "a write to a file that was replaced meanwhile is in doubt",
        "stores/memento/database_file.py",
        "            if self._identity() == identity:\n                return\n",
        "            return\n",
        (f"{_MEMENTO}::test_a_file_that_is_replaced_during_a_write_leaves_it_in_doubt",),
    ),
    Defence(
        "reading an app's file cannot write it",
        "stores/memento/database_file.py",
        '                connection.execute("PRAGMA query_only = ON")\n',
        "",
        (f"{_MEMENTO}::test_a_reading_connection_cannot_write",),
    ),
    Defence(
        "rows of an app that a rule hides are not shown",
        "sync/native_reads.py",
        "        return visibility.find_rule_for(row.id, row.tags, clear=row.tags_understood) is None\n",
        "        return True\n",
        ("interaction/test_note_cards.py::test_what_a_policy_hides_is_nowhere",),
    ),
)
