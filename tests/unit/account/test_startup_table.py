import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.account import startup_outcomes, startup_table
from mcp_notarium.account.startup_outcomes import (
    Create,
    Files,
    Identity,
    KeySource,
    Locked,
    Observations,
    Open,
    Opening,
    Rebuild,
    SchemaSeen,
    Unwrap,
)
from mcp_notarium.account.startup_table import decide, row_for
from mcp_notarium.cli import main
from mcp_notarium.crypto.key_file_codec import FileState
from mcp_notarium.errors import ASK_DOCTOR, LONGEST_REFUSAL, LockedError, Verdict
from mcp_notarium.files.account_folder import Problem
from mcp_notarium.storage.integrity import PageSample

ME = Identity(owner_hash="me", vault_id="v", generation="g", sequence=3)
GOOD_SAMPLE = PageSample(size=40_960, good=5)
GOOD = Observations(
    key=KeySource.FOUND,
    source="DB_ENCRYPTION_KEY",
    main=FileState.OK,
    copy=FileState.OK,
    cipher_floor=4,
    schema_floor=1,
    unwrap=Unwrap.OPENED,
    owner_matches=True,
    files=Files(current=True),
    sample=GOOD_SAMPLE,
    opening=Opening.OPENED,
    expected=ME,
    found=ME,
    schema=SchemaSeen(version=1, program=1),
)
PLAIN = replace(
    GOOD,
    plain=True,
    key=KeySource.ABSENT,
    main=FileState.MISSING,
    copy=FileState.MISSING,
    cipher_floor=0,
    schema_floor=0,
    unwrap=Unwrap.NOT_TRIED,
    owner_matches=False,
    files=Files(plain=True),
    sample=PageSample(size=40_960, plaintext_magic=True),
    expected=Identity("me"),
    found=Identity("me"),
)
NOTHING = Observations(key=KeySource.FOUND, source="DB_ENCRYPTION_KEY")
NO_KEY_FILE = {
    "main": FileState.MISSING,
    "copy": FileState.MISSING,
    "unwrap": Unwrap.NOT_TRIED,
    "sample": None,
    "opening": Opening.NOT_TRIED,
    "found": None,
    "schema": None,
}
UNOPENED = {"opening": Opening.NOT_TRIED, "found": None, "schema": None}

CASES = [
    # row, what is seen, what is decided, words of the way out
    ("the driver is unsuitable", replace(GOOD, driver_problem="it is too old"), 21, "pip"),
    ("the driver is unsuitable", replace(PLAIN, driver_problem="it is too old"), 21, "pip"),
    ("a path is unsafe", replace(GOOD, path_problem=Problem("it is open", "Run `chmod 700 x`.")), 20, "chmod 700"),
    ("plain mode beside an encrypted cache", replace(PLAIN, files=Files(plain=True, unknown=1)), 22, "DB_ENCRYPTION_KEY"),
    ("plain mode beside an encrypted cache", replace(PLAIN, main=FileState.DAMAGED), 22, "reset-cache"),
    ("encrypted mode beside a plain cache", replace(NOTHING, files=Files(plain=True)), 22, "DB_ENCRYPTION=off"),
    ("no plain cache yet", replace(PLAIN, files=Files(), sample=None, **UNOPENED), Create, None),
    ("the plain database is empty", replace(PLAIN, sample=PageSample(size=0), **UNOPENED), 14, "reset-cache"),
    ("the plain database is no database", replace(PLAIN, sample=PageSample(size=99), **UNOPENED), 13, "reset-cache"),
    ("the keychain cannot be used", replace(GOOD, key=KeySource.KEYCHAIN_UNUSABLE, reason="locked"), 23, "DB_ENCRYPTION_KEY"),
    ("no usable key for an existing cache", replace(GOOD, key=KeySource.MALFORMED), 10, "the key this cache was made with"),
    ("the key source holds no usable key", replace(NOTHING, key=KeySource.MALFORMED, reason="too odd"), 10, "generate-key"),
    ("the keychain that opens the cache is not this one", replace(GOOD, key=KeySource.ABSENT, unwrap=Unwrap.NOT_TRIED, keychain="no keychain runs", keychain_slot=True), 23, "keychain enable"),
    ("no key for an existing cache", replace(GOOD, key=KeySource.ABSENT, unwrap=Unwrap.NOT_TRIED), 10, "DB_ENCRYPTION_KEY"),
    ("no key for an existing cache", replace(GOOD, key=KeySource.ABSENT, unwrap=Unwrap.NOT_TRIED, keychain_slot=True), 10, "DB_ENCRYPTION_KEY"),
    ("no key for an existing cache", replace(GOOD, key=KeySource.ABSENT, unwrap=Unwrap.NOT_TRIED, keychain="no keychain runs"), 10, "DB_ENCRYPTION_KEY"),
    ("no key for an existing cache", replace(NOTHING, key=KeySource.ABSENT, files=Files(prepared=True)), 10, "reset-cache"),
    ("no key at all", replace(NOTHING, key=KeySource.ABSENT), 10, "generate-key"),
    ("the key file is of a later release", replace(GOOD, main=FileState.NEWER, newer_version=9), 16, "Update MCP Notarium"),
    ("the key file is of a later release", replace(GOOD, main=FileState.MISSING, copy=FileState.NEWER, newer_version=9), 16, "Update MCP Notarium"),
    ("the key of a new cache is weak", replace(NOTHING, weakness="it is short"), 10, "generate-key"),
    ("no cache yet", replace(NOTHING, files=Files(prepared=True)), Create, None),
    ("no cache yet", NOTHING, Create, None),
    ("the key file is gone", replace(GOOD, **NO_KEY_FILE, files=Files(unknown=1)), 12, "restore --key-file"),
    ("the key file is gone", replace(GOOD, **NO_KEY_FILE, files=Files(unknown=1, prepared=True)), 12, "reset-cache"),
    ("the key file and its copy are damaged", replace(GOOD, main=FileState.DAMAGED, copy=FileState.DAMAGED), 12, "restore --key-file"),
    ("the key file and its copy are damaged", replace(GOOD, main=FileState.DAMAGED, copy=FileState.MISSING), 12, "restore --key-file"),
    ("the key file and its copy are damaged", replace(GOOD, main=FileState.MISSING, copy=FileState.DAMAGED), 12, "restore --key-file"),
    ("the key file was tampered with", replace(GOOD, unwrap=Unwrap.FORGED), 12, "backup"),
    ("the key file is older than its copy", replace(GOOD, copy_ahead=True), 19, "restore --key-file`"),
    ("the key file is older than its copy", replace(GOOD, copy_ahead=True, unwrap=Unwrap.WRONG_KEY), 19, "restore --key-file`"),
    ("the key is wrong and meant as a recovery key", replace(GOOD, unwrap=Unwrap.WRONG_KEY, typo="too short"), 11, "nine groups of four"),
    ("the key is wrong", replace(GOOD, unwrap=Unwrap.WRONG_KEY, rotated="2025-11-20"), 11, "DB_ENCRYPTION_KEY"),
    ("the key file is somebody else's", replace(GOOD, owner_matches=False), 15, "the store and the account"),
    ("the key file asks for a later SQLCipher", replace(GOOD, cipher_floor=5), 21, "pip"),
    ("the database is gone", replace(GOOD, files=Files(), sample=None, **UNOPENED), 14, "backup"),
    ("the database is gone", replace(GOOD, files=Files(unknown=1), sample=None, **UNOPENED), 14, "backup"),
    ("the database is empty", replace(GOOD, sample=PageSample(size=0, salt_ok=False), **UNOPENED), 14, "backup"),
    ("a plain database in an encrypted one's place", replace(GOOD, sample=PageSample(size=8192, bad=2, plaintext_magic=True), **UNOPENED), 22, "reset-cache"),
    ("no page of the database is authentic", replace(GOOD, sample=PageSample(size=8192, bad=2), **UNOPENED), 13, "reset-cache"),
    ("no page of the database is authentic", replace(GOOD, sample=PageSample(size=100), **UNOPENED), 13, "reset-cache"),
    ("some pages are damaged", replace(GOOD, sample=PageSample(size=8192, good=1, bad=1, bad_pages=(2,)), **UNOPENED), 13, "repair"),
    ("the first page is damaged", replace(GOOD, sample=PageSample(size=8192, good=1, bad=1, bad_pages=(1,)), **UNOPENED), 13, "reset-cache"),
    ("some pages are damaged", replace(GOOD, sample=PageSample(size=8191, good=1), **UNOPENED), 13, "reset-cache"),
    ("another process holds the database", replace(GOOD, opening=Opening.BUSY, found=None, schema=None), 18, "Wait"),
    ("the database is a mixture of two states", replace(GOOD, opening=Opening.MIXED, lacks="1 record is missing", found=None, schema=None), 19, "repair"),
    ("the database cannot be read", replace(GOOD, opening=Opening.DAMAGED, found=None, schema=None), 13, "repair"),
    ("the plain database cannot be read", replace(PLAIN, opening=Opening.DAMAGED, found=None, schema=None), 13, "reset-cache"),
    ("the database is not ours", replace(PLAIN, schema=SchemaSeen(0, 1, ours=False), found=None), 15, "reset-cache"),
    ("the schema is newer", replace(GOOD, schema=SchemaSeen(2, 1)), 16, "Update MCP Notarium"),
    ("the database belongs to another key file", replace(GOOD, found=replace(ME, vault_id="w")), 13, "reset-cache"),
    ("the database belongs to another key file", replace(GOOD, found=replace(ME, generation="h")), 13, "reset-cache"),
    ("the database is somebody else's", replace(GOOD, found=replace(ME, owner_hash="you")), 15, "the store and the account"),
    ("the database is somebody else's", replace(PLAIN, found=Identity("you")), 15, "the store and the account"),
    ("the key file is older than the database has seen", replace(GOOD, found=replace(ME, sequence=4)), 19, "restore --key-file PATH"),
    ("the schema is older than the key file allows", replace(GOOD, schema=SchemaSeen(1, 3), schema_floor=2), 19, "backup"),
    ("the schema is older", replace(GOOD, schema=SchemaSeen(1, 2), found=None), 17, "Go back to the release"),
    ("the schema is older", replace(PLAIN, schema=SchemaSeen(0, 1), found=None), 17, "Go back to the release"),
    ("everything is right", GOOD, Open, None),
    ("everything is right", replace(GOOD, found=replace(ME, sequence=2)), Open, None),
    ("everything is right", PLAIN, Open, None),
    ("nothing that is seen from outside is wrong", replace(GOOD, **UNOPENED), Open, None),
    ("nothing that is seen from outside is wrong", replace(PLAIN, **UNOPENED), Open, None),
    ("what was seen does not fit together", replace(GOOD, unwrap=Unwrap.NOT_TRIED), 13, "reset-cache"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "seen", "outcome", "way_out"), CASES)
def test_every_row_decides_its_case(row, seen, outcome, way_out):
    decision = decide(seen)
    assert row_for(seen).name == row
    if isinstance(outcome, int):
        assert isinstance(decision, Locked)
        assert decision.verdict == Verdict(outcome)
        assert way_out in decision.hint
    else:
        assert isinstance(decision, outcome)


def test_no_row_is_untested():
    assert {row.name for row in startup_table.TABLE} == {name for name, *_ in CASES}


def test_no_two_rows_have_one_name():
    assert len({row.name for row in startup_table.TABLE}) == len(startup_table.TABLE)


COMMANDS = set(main.COMMANDS)


@pytest.mark.parametrize(("row", "seen", "outcome", "way_out"), CASES)
def test_sentences_are_whole_and_name_only_commands_that_exist(row, seen, outcome, way_out):
    decision = decide(seen)
    if isinstance(decision, Locked):
        assert decision.message
        assert decision.hint.endswith(".")
        assert "{" not in decision.message + decision.hint
        assert set(re.findall(r"`mcp-notarium ([a-z-]+)", decision.hint)) <= COMMANDS


RISKY = re.compile(
    r"reset-cache|rebuild|aside|anew|delet|remov|eras|purge|quarantine|\bmv\b", re.IGNORECASE
)
VARIANTS = [
    {},
    {"source": "DB_ENCRYPTION_KEY_FILE of ~/project/.env", "rotated": "2025-11-20"},
    {"keychain_slot": True, "keychain": "Secret Service knows no key for this account"},
    {"on_unreadable": "rebuild", "rebuilt_recently": True},
]


@pytest.mark.parametrize(("row", "seen", "outcome", "way_out"), CASES)
def test_an_agent_gets_one_way_out_that_moves_no_file(row, seen, outcome, way_out):
    """In a few words; the others stand in the hint, which ``doctor`` prints."""
    for variant in VARIANTS:
        decision = decide(replace(seen, **variant))
        if not isinstance(decision, Locked):
            continue
        reply = decision.error().to_dict()
        assert reply["message"] == decision.message
        assert len(reply["message"]) + len(reply["resolution_hint"]) < LONGEST_REFUSAL
        assert reply["resolution_hint"] == decision.agent_hint
        assert decision.agent_hint.startswith(("Ask the user to ", "Try again in a few seconds"))
        assert decision.agent_hint.endswith(".")
        assert not RISKY.search(decision.agent_hint)
        commands = set(re.findall(r"`mcp-notarium ([a-z-]+)", decision.agent_hint))
        assert commands <= set(re.findall(r"`mcp-notarium ([a-z-]+)", decision.hint)) | {
            "doctor",
            "status",
        }
        if isinstance(outcome, int):
            assert decision.error().resolution_hint == decision.hint


def test_damage_met_while_open_is_reported_in_the_same_way():
    for plain, setting, only_copy in itertools.product(YES_NO, ("refuse", "rebuild"), YES_NO):
        decision = startup_outcomes.decide_on_damage(
            plain=plain, on_unreadable=setting, only_copy=only_copy
        )
        rebuilds = setting == "rebuild" and not only_copy
        assert ("reset-cache" in decision.hint) == (not only_copy)
        assert ("rebuild then moves" in decision.hint) == rebuilds
        reply = decision.error().to_dict()
        assert len(reply["message"]) + len(reply["resolution_hint"]) < LONGEST_REFUSAL
        assert not RISKY.search(reply["resolution_hint"])


@pytest.mark.parametrize("verdict", Verdict)
def test_a_refusal_that_quotes_its_surroundings_at_length_is_cut_for_an_agent(verdict):
    error = LockedError(verdict, "held by " + "process 1; " * 90, resolution_hint="Close them.")
    reply = error.to_dict()
    assert len(reply["message"]) + len(reply["resolution_hint"]) == LONGEST_REFUSAL - 1
    assert reply["message"].endswith("…")
    assert reply["resolution_hint"] == ASK_DOCTOR
    assert error.resolution_hint == "Close them."


def test_the_sentence_says_where_the_wrong_key_came_from_and_when_it_was_changed():
    decision = decide(replace(GOOD, unwrap=Unwrap.WRONG_KEY, rotated="2025-11-20"))
    assert "DB_ENCRYPTION_KEY" in decision.message
    assert "2025-11-20" in decision.message
    assert "changed on" not in decide(replace(GOOD, unwrap=Unwrap.WRONG_KEY)).message


def test_damaged_pages_are_named_and_not_all_of_a_thousand():
    pages = tuple(range(2, 1000))
    seen = replace(GOOD, sample=PageSample(size=8192, good=1, bad=998, bad_pages=pages), **UNOPENED)
    assert "page 2, 3, 4" in decide(seen).message
    assert len(decide(seen).message) < 200


def test_pages_torn_by_a_crash_are_left_to_the_log():
    torn = PageSample(size=8192, good=1, bad=1, bad_pages=(2,))
    seen = replace(GOOD, sample=torn, files=Files(current=True, wal=True))
    assert isinstance(decide(seen), Open)


@pytest.mark.attack(14)
def test_an_encrypted_file_made_to_look_plain_is_opened():
    looks_plain = PageSample(size=40_960, salt_ok=False, good=5, plaintext_magic=True)
    decision = decide(replace(GOOD, sample=looks_plain))
    assert isinstance(decision, Open)
    assert "16 bytes" in decision.notices[0]


@pytest.mark.parametrize("main", [FileState.MISSING, FileState.DAMAGED])
def test_a_good_copy_takes_the_place_of_a_lost_key_file_with_a_notice(main):
    decision = decide(replace(GOOD, main=main))
    assert isinstance(decision, Open)
    assert decision.finish_key_files
    assert "notarium_keys.json.bak" in decision.notices[0]


@pytest.mark.parametrize(
    "left",
    [{"change_unfinished": True}, {"files": Files(current=True, prepared=True)}],
)
def test_files_left_by_a_crash_are_cleaned_up(left):
    assert decide(replace(GOOD, **left)) == Open(finish_key_files=True)


def test_a_wrong_key_error_names_every_way_out():
    wrong = replace(GOOD, unwrap=Unwrap.WRONG_KEY, source="DB_ENCRYPTION_KEY")
    assert "rotate-key --ask-old" in decide(wrong).hint
    assert "restore --key-file PATH" in decide(wrong).hint
    assert "keychain" not in decide(wrong).hint
    hint = decide(replace(wrong, keychain_slot=True)).hint
    assert "remove DB_ENCRYPTION_KEY from the client's configuration" in hint
    missing = replace(GOOD, key=KeySource.ABSENT, unwrap=Unwrap.NOT_TRIED)
    assert "rotate-key --ask-old" in decide(missing).hint


@pytest.mark.parametrize(
    ("source", "called"),
    [("the key given", "the key given"), ("DB_ENCRYPTION_KEY", "the key in DB_ENCRYPTION_KEY")],
)
def test_a_wrong_key_is_called_by_where_it_came_from(source, called):
    wrong = decide(replace(GOOD, unwrap=Unwrap.WRONG_KEY, source=source))
    assert wrong.message.startswith(f"{called} is wrong: ")


def test_plain_mode_warns_at_each_start():
    for seen in (PLAIN, replace(PLAIN, files=Files())):
        assert "NOT encrypted" in decide(seen).notices[0]


@pytest.mark.parametrize("seen", [NOTHING, replace(NOTHING, files=Files(prepared=True))])
def test_a_weak_passphrase_makes_no_cache(seen):
    refused = decide(replace(seen, weakness="it has fewer than 15 characters"))
    assert refused.verdict is Verdict.KEY_MISSING
    assert "fewer than 15 characters" in refused.message
    assert "generate-key" in refused.hint


def test_a_weak_passphrase_opens_the_cache_it_was_made_with():
    assert decide(replace(GOOD, weakness="it has fewer than 15 characters")) == Open()


REBUILDABLE = [
    "the plain database is empty",
    "the plain database is no database",
    "the key file is gone",
    "the key file and its copy are damaged",
    "the key file was tampered with",
    "the key is wrong and meant as a recovery key",
    "the key is wrong",
    "the database is gone",
    "the database is empty",
    "no page of the database is authentic",
    "the first page is damaged",
    "some pages are damaged",
    "the database cannot be read",
    "the plain database cannot be read",
    "the database belongs to another key file",
]


@pytest.mark.parametrize(("row", "seen", "outcome", "way_out"), CASES)
def test_rebuilding_is_a_way_out_of_exactly_the_unreadable_cases(row, seen, outcome, way_out):
    decision = decide(replace(seen, on_unreadable="rebuild"))
    if row in REBUILDABLE:
        refused = decide(seen)
        assert isinstance(refused, Locked)
        assert decision == Rebuild(refused.message)
    else:
        assert decision == decide(seen)


@pytest.mark.parametrize(
    ("obstacle", "said"),
    [
        ({"only_copy": True}, "in this database alone"),
        ({"rebuilt_recently": True}, "24 hours"),
        ({"weakness": "it repeats itself"}, "too weak for a new cache (it repeats itself)"),
    ],
)
@pytest.mark.parametrize("row", REBUILDABLE)
def test_nothing_is_rebuilt_where_something_could_be_lost(row, obstacle, said):
    seen = next(seen for name, seen, *_ in CASES if name == row)
    seen = replace(seen, on_unreadable="rebuild", **obstacle)
    decision = decide(seen)
    assert isinstance(decision, Locked)
    assert said in decision.hint


@pytest.mark.parametrize(("row", "seen", "outcome", "way_out"), CASES)
def test_where_the_notes_are_here_alone_no_hint_names_what_would_lose_them(
    row, seen, outcome, way_out
):
    for setting in ("refuse", "rebuild"):
        decision = decide(replace(seen, only_copy=True, on_unreadable=setting))
        if isinstance(decision, Locked):
            assert decision.hint
            offered = decision.hint.partition(" DB_ON_UNREADABLE=rebuild was not followed")[0]
            assert not re.search("reset-cache|rebuild|note store|fetch", offered), row


def test_the_rebuild_is_offered_only_where_it_would_be_done():
    wrong = replace(GOOD, unwrap=Unwrap.WRONG_KEY)
    assert "DB_ON_UNREADABLE=rebuild" in decide(wrong).hint
    assert "DB_ON_UNREADABLE=rebuild" not in decide(replace(wrong, rebuilt_recently=True)).hint


def test_looking_stops_at_driver_and_paths():
    assert replace(NOTHING, driver_problem="gone").is_blocked
    assert replace(NOTHING, path_problem=Problem("a", "b")).is_blocked
    assert not NOTHING.is_blocked


YES_NO = (False, True)
IDENTITIES = [
    None,
    *(Identity(*part) for part in itertools.product(("me", "you"), ("", "v"), ("", "g"), (2, 3))),
]
VALUES = {
    "plain": [False, True],
    "path_problem": [None, None, None, Problem("open", "Run `chmod`.")],
    "keychain": ["", "no keychain runs"],
    "keychain_slot": YES_NO,
    "key": [*KeySource, KeySource.FOUND, KeySource.FOUND],
    "main": list(FileState),
    "copy": list(FileState),
    "change_unfinished": YES_NO,
    "cipher_floor": [0, 4, 5],
    "schema_floor": [0, 1, 2],
    "unwrap": [*Unwrap, Unwrap.OPENED, Unwrap.OPENED],
    "owner_matches": YES_NO,
    "files": [Files(*part) for part in itertools.product(YES_NO, (0, 1), YES_NO, YES_NO, YES_NO)],
    "sample": [
        None,
        *(
            PageSample(size, salt_ok=salt, good=good, bad=bad, plaintext_magic=magic)
            for size, salt, good, bad, magic in itertools.product(
                (0, 1, 8192), YES_NO, (0, 1), (0, 1), YES_NO
            )
        ),
    ],
    "opening": list(Opening),
    "expected": IDENTITIES,
    "found": IDENTITIES,
    "schema": [None, *(SchemaSeen(v, 2, ours=o) for v in range(4) for o in YES_NO)],
    "on_unreadable": ["refuse", "rebuild"],
    "rebuilt_recently": YES_NO,
}
anything = st.fixed_dictionaries(
    {name: st.sampled_from(values) for name, values in VALUES.items()}
).map(lambda chosen: Observations(**chosen))


def near(base):
    """Everything that differs from ``base`` in at most two places."""
    for one, other in itertools.combinations(VALUES, 2):
        for values in itertools.product(VALUES[one], VALUES[other]):
            yield replace(base, **dict(zip((one, other), values, strict=True)))


def promise_of_the_table(seen):
    decision = decide(seen)
    match decision:
        case Create():
            # No cache was ever active, so none can be touched.
            assert not seen.files.current
            assert not seen.files.unknown
            assert not seen.files.plain
            assert seen.no_key_file
        case Rebuild():
            assert seen.on_unreadable == "rebuild"
            assert not seen.rebuilt_recently
        case Open():
            assert seen.plain or (seen.unwrap is Unwrap.OPENED and seen.owner_matches)
            assert seen.opening in {Opening.OPENED, Opening.NOT_TRIED}
            if seen.opening is Opening.OPENED:
                assert seen.found.owner_hash == seen.expected.owner_hash
                assert seen.found.vault_id == seen.expected.vault_id
                assert seen.found.generation == seen.expected.generation
                assert seen.found.sequence <= seen.expected.sequence
                assert seen.schema.version == seen.schema.program
        case Locked(verdict, message, hint):
            assert verdict in Verdict
            assert message
            assert hint
    if seen.on_unreadable == "refuse":
        assert not isinstance(decision, Rebuild)
    if not seen.plain and seen.unwrap is Unwrap.WRONG_KEY and seen.main is FileState.OK:
        assert isinstance(decision, Locked | Rebuild)


@settings(max_examples=300, deadline=None)
@given(anything)
def test_every_combination_gives_one_decision_and_only_a_safe_rebuild_moves_files(seen):
    promise_of_the_table(seen)


@pytest.mark.parametrize("base", [GOOD, PLAIN, NOTHING])
def test_the_same_holds_for_everything_two_changes_away(base):
    for seen in near(base):
        promise_of_the_table(seen)
