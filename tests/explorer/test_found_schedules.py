"""Play schedules again in which something once did not hold."""

from __future__ import annotations

import pytest

from explorer.run import replayed, tell

FOUND = {
    "a removal without an answer, outrun by an edit": (
        "memento",
        {
            "act 2 of b #1": 7,
            "b1: delete fails #1": 1,
            "another device acts while b1 waits for an answer #1": 1,
        },
        ("b calls manage delete_permanently", "another device: edit the top"),
    ),
    "a version that was shown, and lost with the power": (
        "trilium",
        {
            "act 1 of another device #1": 1,
            "act 1 of another device comes after #1": 3,
            "act 1 of a #1": 9,
            "kill: a1 has committed #2": 2,
            "m: commits the disk still has #1": 1,
            "another device acts while m is dark #1": 1,
        },
        ("another device: edit the top", "the power of m fails"),
    ),
    "a tag that counts as renamed, of a note that another program has renamed": (
        "vault",
        {
            "act 1 of another device #1": 1,
            "act 2 of another device #1": 3,
            "act 3 of another device #1": 7,
            "act 1 of b #1": 12,
            "note of another device #3": 1,
        },
        ("another device: rename note1", "b calls manage rename_tag", "takes all of it back"),
    ),
    "two repairs at the same moment, in another order": (
        "example, apart",
        {
            "act 1 of a #1": 3,
            "act 1 of b #1": 4,
            "another device acts right before a push of a1 #1": 1,
        },
        ("another device: edit the top note0", "b: save {'id': 'note0', 'text'"),
    ),
    "a repair that waits, beside one in another order": (
        "example, apart",
        {
            "act 1 of a #1": 3,
            "act 1 of b #1": 4,
            "another device acts right before a push of a1 #1": 1,
            "a1: push fails #2": 4,
        },
        ("another device: edit the top note0", "push of a1 meets: rate limited", "in_doubt"),
    ),
    "a link that waits, to a note whose renaming is undone": (
        "vault files, links",
        {
            "act 1 of another device #1": 6,
            "act 2 of another device #1": 5,
            "act 2 of another device comes after #1": 27,
            "act 1 of a #1": 3,
            "act 1 of b #1": 9,
            "note of a #1": 1,
        },
        ("In 1 note the next sync does it", "b calls manage undo"),
    ),
    "a card that waits, of a note whose renaming another server has finished": (
        "vault files, links",
        {
            "act 1 of another device #1": 7,
            "act 2 of another device #1": 3,
            "act 3 of another device #1": 2,
            "act 3 of another device comes after #1": 29,
            "act 1 of a #1": 1,
            "act 1 of b #1": 9,
            "note of another device #2": 1,
            "b renames #1": 1,
            "act 2 of a #1": 8,
            "a renames #1": 1,
            "a1: a thread works: late #9": 1,
            "act 3 of a #1": 1,
            "act 2 of b #1": 7,
            "act 3 of b #1": 9,
            "b renames #2": 1,
            "b1: a thread works: late #15": 4,
        },
        ("the next sync does it", "b calls manage undo", "a: save {'id': 'name6.md', 'title'"),
    ),
    "a card of a note that is renamed, and renamed back, while another renaming is drafted": (
        "vault files, folders",
        {
            "act 1 of another device #1": 4,
            "act 2 of another device #1": 5,
            "act 2 of another device comes after #1": 8,
            "act 3 of another device #1": 4,
            "act 3 of another device comes after #1": 12,
            "act 1 of a #1": 8,
            "act 1 of b #1": 8,
            "b renames #1": 1,
            "note of another device #3": 1,
            "kill: b1 commits #2": 2,
            "act 2 of a #1": 1,
            "act 2 of b #1": 8,
            "kill: a2 has committed #1": 1,
            "act 3 of a #1": 9,
        },
        ("a calls manage undo", "b: save {'id': 'Work/note0.md', 'title'"),
    ),
    "a note that is renamed while its folder moves": (
        "vault files, folders",
        {
            "act 1 of another device #1": 5,
            "act 1 of another device comes after #1": 26,
            "act 2 of another device #1": 3,
            "act 2 of another device comes after #1": 12,
            "act 1 of a #1": 7,
            "act 1 of b #1": 9,
            "note of a #1": 1,
            "b renames #1": 1,
            "act 2 of a #1": 12,
            "b1 is kept waiting: it exchanges files: done #2": 1,
            "a1: a thread works: late #1": 4,
            "b1: the disk refuses #12": 1,
        },
        ("b: save {'id': 'Work/note1.md', 'title'", "are still to be changed; nothing was moved"),
    ),
    "links of a note that is written while a folder moves": (
        "vault files, folders",
        {
            "act 1 of another device #1": 5,
            "act 1 of another device comes after #1": 14,
            "act 1 of b #1": 12,
            "note of another device #1": 2,
            "b1: the disk refuses #9": 1,
        },
        ("another device: tag hub.md", "They are left in: hub.md"),
    ),
    "a link that waits, in a folder that moves": (
        "vault files, folders",
        {
            "act 1 of another device #1": 3,
            "act 2 of another device #1": 3,
            "act 2 of another device comes after #1": 22,
            "act 3 of another device #1": 7,
            "act 1 of a #1": 7,
            "act 1 of b #1": 7,
            "note of another device #3": 1,
            "kill: a1 before unlink #1": 1,
            "act 2 of a #1": 8,
            "act 3 of a #1": 7,
            "act 2 of b #1": 12,
        },
        (
            "In 1 note the next sync does it",
            "0.36 s  b: manage {'action': 'move_folder'",
        ),
    ),
    "a folder that moves back, with links in a note that was edited between its changes": (
        "vault files, folders",
        {
            "act 2 of another device #1": 2,
            "act 1 of b #1": 11,
            "another device acts before b1 exchanges files #1": 3,
        },
        (
            "another device: edit in place hub.md",
            "b calls manage undo",
            "Nothing was undone",
        ),
    ),
    "a note that gets another name while the links of its folder are looked up": (
        "vault files, folders",
        {
            "act 1 of another device #1": 3,
            "act 2 of another device #1": 4,
            "act 3 of another device #1": 5,
            "act 1 of a #1": 10,
            "act 2 of b #1": 8,
            "note of another device #3": 2,
            "b renames #1": 1,
            "act 3 of b #1": 7,
            "act 2 of a #1": 10,
        },
        (
            "In 2 notes the next sync does it",
            "It has got another name meanwhile",
        ),
    ),
    "a renaming that was shown, and lost with the power while links followed it": (
        "vault files, folders",
        {
            "act 1 of b #1": 8,
            "kill: b1 it exchanges files: done #1": 2,
            "m: commits the disk still has #1": 1,
            "another device acts while m is dark #1": 4,
        },
        ("the power of m fails (it exchanges files: done)", "another device: append Work/name"),
    ),
    "a note that takes the name of another one right after that was saved": (
        "vault files",
        {
            "act 1 of a #1": 2,
            "act 1 of b #1": 14,
            "b1 is kept waiting: before fsync #1": 1,
            "another device acts before b1 moves a file #1": 15,
        },
        ("another device: exchange note0.md", "a: save {'id': 'note0.md', 'append'"),
    ),
    "two blocks of front matter that come one after the other while a note is saved": (
        "vault files",
        {
            "act 2 of a #1": 4,
            "another device acts before a1 exchanges files #1": 10,
            "another device acts before a1 exchanges files #2": 10,
        },
        ("another device: tag note0.md (them4)", "another device: tag note0.md (them5)"),
    ),
    "a note that is rewritten while two servers remove it": (
        "vault files, apart",
        {
            "act 2 of a #1": 7,
            "act 1 of b #1": 7,
            "note of a #2": 1,
            "note of b #2": 1,
            "act 3 of a #1": 7,
            "act 3 of b #1": 7,
            "note of a #3": 1,
            "note of b #3": 1,
            "another device acts before a1 moves a file #2": 9,
        },
        ("another device: rewrite note1.md", "b: manage {'action': 'delete_permanently'"),
    ),
    "a card that waits, of a note whose folder moves": (
        "vault files, folders",
        {
            "act 1 of another device #1": 3,
            "act 2 of another device #1": 3,
            "act 1 of a #1": 9,
            "act 1 of b #1": 4,
            "kill: a1 has the answer to push #2": 1,
            "act 2 of a #1": 4,
            "kill: a2 flushes its log #1": 2,
            "another device acts while m is dark #1": 3,
            "act 2 of b #1": 12,
        },
        ("are still to be changed; nothing was moved", "b: manage {'action': 'move_folder'"),
    ),
    "a thread that waits in a server which ends for good": (
        "vault files",
        {
            "the system tells of no changes #1": 1,
            "act 1 of another device #1": 17,
            "a1 is kept waiting: it lists a folder #1": 1,
            "a server ends for good #1": 1,
        },
        ("a ends for good",),
    ),
    "front matter in the copy of a note that is gone": (
        "vault files",
        {
            "act 1 of another device #1": 9,
            "act 2 of another device #1": 10,
            "act 1 of b #1": 3,
            "kill: b1 flushes its log #1": 2,
            "another device acts while m is dark #1": 13,
        },
        ("another device: copy and remove",),
    ),
    "a save that was taken back counted as unknown when it was done": (
        "trilium",
        {
            "act 1 of a #1": 4,
            "act 1 of b #1": 4,
            "a takes a call back #2": 1,
            "b takes a call back #2": 2,
            "a call of a is taken back behind an event #1": 7,
        },
        ("a takes the call back", "b takes the call back"),
    ),
    "a note was made twice whose creation was taken back and repeated": (
        "simplenote",
        {"act 2 of b #1": 1, "act 3 of b #1": 1, "b takes a call back #2": 2},
        ("b takes the call back",),
    ),
}
"""By what went wrong: the world, the schedule, and what its story must tell, lest it has become another one."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_holds(name: str) -> None:
    world, schedule, told = FOUND[name]
    outcome = replayed(world, schedule)
    assert outcome.fault == "", tell(outcome)
    assert all(any(words in line for line in outcome.story) for words in told)
