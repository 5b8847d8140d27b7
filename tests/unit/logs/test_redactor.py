import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mcp_notarium.errors import StoreUnavailable
from mcp_notarium.logs import redaction
from mcp_notarium.logs.redaction import REDACTED, Redactor
from mcp_notarium.secret import Secret

PLAIN = Redactor(email_key=b"k")
KNOWING = PLAIN.with_secret(Secret("correct horse"))


@dataclass
class Thing:
    text: str = "note text"

    def __repr__(self):
        return f"Thing({self.text})"


def test_numbers_and_truth_values_pass_under_any_ordinary_name():
    facts = {"notes": 12, "seconds": 0.5, "complete": True, "anything": None}
    assert PLAIN.redact_facts(facts) == facts


@pytest.mark.parametrize(
    "name", ["text", "title", "tag", "tags", "query", "content", "preview", "value", "made_up"]
)
def test_text_under_a_name_that_is_not_listed_becomes_its_length(name):
    assert PLAIN.redact_facts({name: "my diary"}) == {name: "[hidden: 8 characters]"}


def test_text_under_a_listed_name_passes():
    assert PLAIN.redact_facts({"message": "disk full"}) == {"message": "disk full"}


@pytest.mark.parametrize(
    "name",
    ["password", "SIMPLENOTE_PASSWORD", "accessToken", "x-simperium-token", "api_key", "apiKey",
     "key", "Authorization", "cookies", "db_key", "passphrase", "client.secret", "salt", "dek"],
)  # fmt: skip
@pytest.mark.parametrize("value", ["abc", 123456, ["abc"], {"a": "abc"}, b"abc"])
def test_any_value_under_a_name_of_a_secret_is_redacted(name, value):
    assert PLAIN.redact_facts({name: value}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["db_key_origin", "tokens_used", "keyslots", "monkey", "sequence"])
def test_names_that_only_sound_like_a_secrets_are_not_redacted(name):
    assert PLAIN.redact_facts({name: 3}) == {name: 3}


def test_a_secret_is_redacted_under_every_name():
    assert PLAIN.redact_facts({"message": Secret("abc"), "other": Secret("abc")}) == {
        "message": REDACTED,
        "other": REDACTED,
    }


def test_identifiers_are_cut_and_short_ones_kept():
    facts = PLAIN.redact_facts({"note_id": "0123456789abcdef0123456789abcdef", "id": "short"})
    assert facts == {"note_id": "0123456789ab…", "id": "short"}


def test_a_secret_logged_as_an_identifier_is_redacted_whole():
    for secret in ("5f" * 16, "fourteen-chars"):
        redactor = PLAIN.with_secret(Secret(secret))
        assert redactor.redact_facts({"note_id": secret}) == {"note_id": REDACTED}


class Named(str):
    __slots__ = ()


def loop():
    items = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Thing(), "[Thing]"),
        (Thing, "[type]"),
        (Path("note text"), "[PosixPath]"),
        (b"note text", "[bytes]"),
        (["note text"], "[list]"),
        ({"state": "note text"}, "[dict]"),
        (loop(), "[list]"),
        (Named("disk full"), "disk full"),
    ],
)
def test_what_is_neither_words_nor_a_number_shows_its_type_alone(value, shown):
    assert PLAIN.redact_facts({"message": value}) == {"message": shown}


def test_a_long_text_is_bounded():
    assert len(PLAIN.redact_facts({"hint": "x y " * 10_000})["hint"]) < 2100


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**30, -(10**18)])
def test_numbers_that_json_or_secrets_speak_against_are_redacted(number):
    assert PLAIN.redact_facts({"count": number}) == {"count": REDACTED}


def test_a_numeric_secret_is_redacted_where_it_is_logged_as_a_number():
    redactor = PLAIN.with_secret(Secret("31415926"))
    assert redactor.redact_facts({"count": 31415926}) == {"count": REDACTED}


def test_a_text_is_redacted_before_it_is_cut():
    text = "x " * 995 + "correct horse"
    shown = KNOWING.redact_facts({"hint": text})["hint"]
    assert "corr" not in shown


def test_our_errors_keep_their_message_and_others_only_their_length():
    ours = PLAIN.redact_facts({"exception": StoreUnavailable("no route to the service")})[
        "exception"
    ]
    theirs = PLAIN.redact_facts({"exception": KeyError("my tag")})["exception"]
    assert ours["message"] == "no route to the service"
    assert theirs == {"type": "KeyError", "message": "[hidden: 8 characters]"}


def test_a_secret_in_one_of_our_messages_is_redacted():
    shown = KNOWING.redact_facts({"exception": StoreUnavailable("pw correct horse refused")})
    assert shown["exception"]["message"] == f"pw {REDACTED} refused"


def test_what_the_system_says_about_a_file_is_kept_without_its_name():
    error = FileNotFoundError(2, "No such file or directory", "/home/ada/diary")
    assert (
        PLAIN.redact_facts({"error": error})["error"]["message"]
        == "[errno 2] No such file or directory"
    )


def raise_with_cause():
    note_text = "correct horse in a local"
    try:
        {}[note_text]
    except KeyError as cause:
        raise ValueError(note_text) from cause


@pytest.mark.attack(35)
def test_an_exception_shows_places_and_causes_and_no_locals():
    try:
        raise_with_cause()
    except ValueError as error:
        group = ExceptionGroup("both", [error, OSError(28, "No space left on device")])
    shown = PLAIN.redact_facts({"exception": group})["exception"]
    first, second = shown["members"]
    assert first["type"] == "ValueError"
    assert first["cause"]["type"] == "KeyError"
    assert any(frame.endswith("in raise_with_cause") for frame in first["frames"])
    assert all(frame.startswith("logs/test_redactor.py:") for frame in first["frames"])
    assert second["message"] == "[errno 28] No space left on device"
    assert "correct" not in json.dumps(shown)


def test_an_exception_whose_text_raises_is_still_described():
    class Hostile(Exception):
        def __str__(self):
            raise RuntimeError

    assert PLAIN.redact_facts({"exception": Hostile()})["exception"]["type"].endswith("Hostile")


def test_an_endless_chain_of_causes_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert json.dumps(PLAIN.redact_facts({"exception": first}))


def test_a_secret_that_is_too_short_to_search_for_redacts_no_ordinary_words():
    assert (
        PLAIN.with_secret(Secret("sync")).redact_text("sync.page_committed")
        == "sync.page_committed"
    )


def test_the_repr_of_a_redactor_counts_its_secrets():
    assert repr(KNOWING) == "Redactor(1 secrets)"


def test_learning_a_known_secret_again_changes_nothing():
    assert KNOWING.with_secret(Secret("correct horse")) is KNOWING


def test_no_listed_name_is_a_secrets_name_or_names_a_notes_content():
    listed = redaction.WORDS | redaction.IDS
    assert not [name for name in listed if redaction.is_secret(name)]
    assert not listed & {"text", "title", "tag", "tags", "query", "content", "preview", "body"}
