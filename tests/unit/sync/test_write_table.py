"""Each row of the table by which writes are decided is reached by a test of its own kind, with a store behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_notarium.domain.note import WriteKind
from mcp_notarium.sync.write_decisions import DECISIONS

HERE = Path(__file__).parent
REACHES = (
    "test_writer_interruptions.py::test_a_definite_refusal_drops_the_intent_and_says_that_nothing_was_saved[True-rejected-StoreRejected]",
    "test_revived_notes.py::test_a_note_that_the_app_has_made_again_stays_as_it_is",
    "test_unlike_stores.py::test_a_name_that_is_taken_gets_another_one_and_both_notes_stay",
    "test_writer_interruptions.py::test_a_definite_refusal_drops_the_intent_and_says_that_nothing_was_saved[True-rejected-StoreRejected]",
    "test_displaced_texts.py::test_a_copy_that_a_merging_store_refuses_is_not_named_either",
    "test_unlike_stores.py::test_two_racing_edits_and_ours_are_all_kept[vault]",
    "test_displaced_texts.py::test_a_copy_that_a_merging_store_refuses_is_not_named_either",
    "test_journal_replay.py::test_a_created_note_that_was_removed_since_does_not_come_back",
    "test_journal_replay.py::test_a_released_write_is_taken_over_at_once_by_any_clock",
    "test_rare_turns.py::test_a_creation_that_a_cycle_has_found_is_known_as_its_clients",
    "test_hidden_since.py::test_the_tag_that_shows_a_new_note_is_not_put_back[trilium]",
    "test_entry_replay.py::test_a_note_that_was_made_without_its_tags_gets_them_beside_those_that_came",
    "test_unlike_stores.py::test_a_repeated_creation_says_merged_only_if_somebody_else_has_written[row10-True]",
    "test_several_processes.py::test_a_write_that_two_processes_send_and_others_edit_between_is_stored_once[vault-new]",
    "test_unlike_stores.py::test_an_unanswered_creation_is_not_mistaken_for_somebody_elses_note_of_that_name",
    "test_entry_replay.py::test_a_creation_in_doubt_goes_on_to_the_next_name_that_nothing_has",
    "test_entry_replay.py::test_a_creation_that_arrives_while_it_is_repeated_is_made_once[trilium]",
    "test_rare_turns.py::test_the_text_of_a_creation_in_doubt_for_which_no_name_is_left_is_kept",
    "test_writer_saves.py::test_a_note_removed_elsewhere_is_not_found_and_leaves_the_cache",
    "test_saved_titles.py::test_links_stay_if_the_name_is_taken",
    "test_writer_saves.py::test_saving_what_is_already_there_sends_nothing",
    "test_history.py::test_undo_refuses_when_something_came_that_is_not_known_here",
    "test_entry_replay.py::test_two_edits_that_together_would_hide_the_note_are_refused",
    "test_writer_saves.py::test_a_change_elsewhere_in_another_place_is_merged",
    "test_writer_saves.py::test_a_note_of_a_change_of_many_is_left_where_others_have_changed_the_same_lines",
    "test_writer_saves.py::test_text_that_the_store_dropped_in_a_race_is_tried_again",
    "test_saved_titles.py::test_links_stay_if_the_name_is_taken",
    "test_entry_replay.py::test_an_undo_is_refused_if_the_app_has_set_something_else_since",
    "test_rare_turns.py::test_a_note_that_goes_out_of_sight_under_a_save_is_told_in_the_same_words[removed]",
    "test_rare_turns.py::test_what_is_no_note_has_the_name_of_a_write_right_before_it_is_sent[False]",
    "test_displaced_texts.py::test_a_merge_that_is_refused_after_our_text_was_overwritten_is_no_success[trilium]",
    "test_saved_titles.py::test_links_that_are_refused_for_good_stay_and_are_no_rejected_write[True]",
    "test_displaced_texts.py::test_a_merge_that_is_refused_after_our_text_was_overwritten_is_no_success[trilium]",
    "test_several_processes.py::test_a_write_that_two_processes_send_and_others_edit_between_is_stored_once[simplenote-removed]",
    "test_journal_replay.py::test_a_change_of_tags_for_a_note_removed_elsewhere_is_dropped",
    "test_hidden_since.py::test_a_property_that_hides_a_note_is_not_taken_off[removed-local]",
    "test_journal_replay.py::test_text_for_a_note_removed_elsewhere_becomes_a_note_of_its_own",
    "test_hidden_since.py::test_a_property_that_hides_a_note_is_not_taken_off[nothing-local]",
    "test_journal_replay.py::test_one_failing_write_does_not_delay_the_others",
    "test_rare_turns.py::test_a_tag_of_others_is_put_back_by_whoever_finishes_the_write[pushed-theirs-nothing]",
    "test_entry_replay.py::test_an_unanswered_change_of_a_row_is_made_once_and_keeps_what_it_replaced[True]",
    "test_hidden_since.py::test_a_property_that_hides_a_note_is_not_taken_off[edited-simplenote]",
    "test_entry_replay.py::test_a_note_that_was_hidden_since_gets_our_lines_and_stays_hidden",
    "test_several_processes.py::test_a_write_that_two_processes_send_and_others_edit_between_is_stored_once[memento-changed]",
    "test_saved_titles.py::test_an_edit_of_a_linking_note_meanwhile_is_merged_and_never_lost[lines1]",
    "test_hidden_since.py::test_a_property_that_hides_a_note_is_not_taken_off[edited-local]",
    "test_journal_replay.py::test_a_conflict_copy_that_a_crash_left_behind_is_still_known_as_one",
    "test_saved_titles.py::test_a_renaming_in_doubt_whose_name_is_taken_leaves_the_links",
    "test_entry_replay.py::test_an_unanswered_undo_gives_way_to_what_the_app_has_set_since",
    "test_entry_replay.py::test_a_note_that_keeps_changing_is_left_to_a_later_cycle_of_any_process",
    "test_saved_titles.py::test_links_that_are_refused_for_good_stay_and_are_no_rejected_write[False]",
    "test_journal_replay.py::test_what_the_store_refuses_for_good_is_kept_as_rejected_and_not_sent_again",
    "test_writer_saves.py::test_of_an_answer_that_alone_is_rewritten_nothing_stays",
    "test_writer_saves.py::test_a_change_elsewhere_in_another_place_is_merged",
    "test_displaced_texts.py::test_a_merge_that_collides_again_is_in_doubt_until_every_text_is_stored[1-trilium]",
    "test_displaced_texts.py::test_a_new_note_that_somebody_edits_before_it_is_read_again_stays_as_they_made_it[trilium]",
    "test_writer_saves.py::test_tags_of_others_that_ours_replaced_are_put_back",
    "test_unlike_stores.py::test_an_edit_that_comes_over_a_repair_is_not_called_the_stores_own",
    "test_entry_replay.py::test_a_new_note_that_is_removed_before_it_is_read_again_is_gone",
    "test_displaced_texts.py::test_a_tag_that_was_displaced_makes_no_copy_of_a_removed_note",
    "test_renamed_notes.py::test_another_note_that_takes_the_name_right_before_the_push_is_put_back",
    "test_entry_replay.py::test_a_creation_that_is_edited_while_the_store_answers_that_it_has_it_is_looked_at_again",
    "test_writer_saves.py::test_text_that_the_store_dropped_in_a_race_is_tried_again",
    "test_renamed_hidden_notes.py::test_a_note_that_was_hidden_is_deleted_in_the_words_of_one_that_is_gone",
    "test_writer_removes.py::test_a_note_already_gone_there_or_here_is_success",
    "test_displaced_texts.py::test_a_note_that_somebody_brought_back_is_not_removed_again[vault]",
    "test_direct_write.py::test_a_note_is_removed_from_the_trash_only_and_as_it_was_seen",
    "test_entry_replay.py::test_a_removal_that_the_store_refuses_is_answered_with_its_reason",
    "test_revived_notes.py::test_a_removal_without_an_answer_is_finished_and_can_be_undone",
    "test_entry_replay.py::test_a_note_whose_removal_the_store_refuses_is_shown_and_not_removed_again",
    "test_displaced_texts.py::test_a_note_that_somebody_brought_back_is_not_removed_again[vault]",
    "test_entry_replay.py::test_an_edit_right_before_a_repeated_removal_stays",
    "test_entry_replay.py::test_an_edit_right_before_a_repeated_removal_stays",
    "test_entry_replay.py::test_a_note_whose_removal_the_store_refuses_is_shown_and_not_removed_again",
    "test_writer_removes.py::test_a_note_already_gone_there_or_here_is_success",
)
"""A test for each row, in the order of the rows; for one about new and changed notes two, of each one."""


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[int | str]]]:
    """The rows that these tests reach when they run, and for which kinds of writes."""
    file = tmp_path_factory.mktemp("rows") / "rows.json"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "support.decided_rows"]
        + [str(HERE / name) for name in dict.fromkeys(REACHES)],
        env=os.environ | {"DECIDED_ROWS": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    rows: dict[str, list[list[int | str]]] = json.loads(file.read_text())
    return rows


@pytest.mark.slow("one run of pytest for all rows")
def test_each_row_is_reached(reached: dict[str, list[list[int | str]]]) -> None:
    halves = [
        [number, kind.value]
        for number, row in enumerate(DECISIONS)
        for kind in ((row.kind,) if row.kind else (WriteKind.CREATE, WriteKind.UPDATE))
    ]
    for half, test in zip(halves, REACHES, strict=True):
        assert half in reached[test], f"{DECISIONS[int(half[0])]} is not reached by {test}"
