"""Play the short schedules of faults that the explorer has found, each mended since."""

from __future__ import annotations

from explorer.run import Outcome, replayed, tell


def play_again(world: str, schedule: dict[str, int], *, story: tuple[str, ...]) -> Outcome:
    """Play a schedule that failed once; its story must still be about the same."""
    outcome = replayed(world, schedule, rests=False)
    told = tell(outcome)
    assert not outcome.fault, told
    for words in story:
        assert words in told
    return outcome


def test_what_a_save_has_displaced_is_kept_if_its_folder_cannot_be_flushed() -> None:
    schedule = {
        "act 1 of another device #1": 6,
        "act 1 of a #1": 3,
        "a1: the disk refuses #3": 1,
    }
    play_again(
        "vault files",
        schedule,
        story=("hold open and write note0.md", "another program writes", "in_doubt"),
    )


def test_front_matter_that_two_add_at_the_same_moment_stays_one_block() -> None:
    schedule = {
        "act 1 of another device #1": 10,
        "act 1 of b #1": 9,
        "note of another device #1": 1,
        "another device acts before b1 exchanges files #1": 15,
    }
    play_again(
        "vault files, apart", schedule, story=("tag note1.md", "exchange note0.md", "'tags': ")
    )


LINE_ABOVE = {
    "act 3 of another device #1": 10,
    "act 2 of a #1": 3,
    "another device acts before a1 exchanges files #1": 2,
    "another device acts before a1 exchanges files #2": 17,
}


NOT_MOVED = {
    "act 1 of a #1": 1,
    "another device acts before a1 exchanges files #1": 2,
    "a1: the disk refuses #4": 1,
}


def test_what_a_save_has_displaced_is_kept_if_the_note_cannot_go_to_the_trash() -> None:
    play_again(
        "vault files, trash",
        NOT_MOVED,
        story=("edit the end note0.md (them4)", "'trash': True", "local_version 3, changed"),
    )


def test_a_line_above_front_matter_during_a_save_costs_the_block_no_tags() -> None:
    play_again(
        "vault files",
        LINE_ABOVE,
        story=("tag note0.md", "edit above front matter note0.md", "---\\ntags:\\n  - them3\\n---"),
    )


def test_a_property_that_two_set_at_the_same_moment_does_not_stand_twice() -> None:
    schedule = {"act 1 of a #1": 13, "kill: a1 it exchanges files: done #1": 2, "act 2 of a #1": 16}
    play_again(
        "vault files, parts",
        schedule,
        story=(
            "a calls manage change",
            "the power of m fails",
            "a: save {'id': 'note0.md', 'properties'",
        ),
    )
