"""Recovery keys: written, mistyped, read back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.crypto import user_key
from mcp_notarium.crypto.errors import MalformedKey
from mcp_notarium.secret import Secret

KNOWN = bytes(range(20))
LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def test_the_form_is_fixed():
    shown = user_key.write_recovery_key(KNOWN).reveal_text()
    assert re.fullmatch(r"([0-9A-HJKMNP-TV-Z]{4}-){8}[0-9A-HJKMNP-TV-Z]{4}", shown)
    assert shown.startswith("000G-40R4-0M30-E209-185G-R38E-1W81-24GK-")


@given(st.binary(min_size=20, max_size=20))
def test_what_is_written_is_read_back(material):
    shown = user_key.write_recovery_key(material).reveal_text()
    assert user_key.is_recovery_key(shown)
    assert user_key.read_recovery_key(shown).reveal() == material


@pytest.mark.parametrize(
    "change",
    [str.lower, lambda text: text.replace("-", " "), lambda text: f"  {text}\n"],
)
def test_small_letters_and_spaces_are_no_typo(change):
    assert (
        user_key.read_recovery_key(
            change(user_key.write_recovery_key(KNOWN).reveal_text())
        ).reveal()
        == KNOWN
    )


def test_look_alikes_are_read_as_what_was_meant():
    shown = user_key.write_recovery_key(KNOWN).reveal_text()
    for meant, written in (("0", "O"), ("0", "o"), ("1", "I"), ("1", "l")):
        assert user_key.read_recovery_key(shown.replace(meant, written)).reveal() == KNOWN


@pytest.mark.parametrize("at", range(36))
def test_a_typo_is_distinguished_from_a_wrong_key(at):
    shown = user_key.write_recovery_key(KNOWN).reveal_text().replace("-", "")
    for letter in LETTERS.replace(shown[at], ""):
        with pytest.raises(MalformedKey, match="typo") as refused:
            user_key.read_recovery_key(shown[:at] + letter + shown[at + 1 :])
        assert shown[:4] not in str(refused.value)


@pytest.mark.parametrize("text", ["", "ABCD", "U" * 36, "0" * 35, "-".join(["AAAA"] * 10)])
def test_what_is_no_recovery_key_is_refused(text):
    with pytest.raises(MalformedKey):
        user_key.read_recovery_key(text)


def test_given_as_a_key_it_is_recognised_by_its_form():
    made = user_key.generate_recovery_key()
    assert user_key.read(made).kind == "recovery"
    assert user_key.weakness(made, account="somebody@example.org") is None
    assert user_key.generate_recovery_key() != made
    slipped = Secret(made.reveal_text()[:-1] + ("0" if made.reveal_text()[-1] != "0" else "1"))
    with pytest.raises(MalformedKey, match="typo"):
        user_key.read(slipped)


FORMS = {
    "hyphens": str,
    "spaces": lambda text: text.replace("-", " "),
    "dashes": lambda text: text.replace("-", "\u2013"),
    "nothing": lambda text: text.replace("-", ""),
    "small letters": lambda text: text.replace("-", "").lower(),
    "look-alikes": lambda text: text.replace("-", "").replace("0", "O").replace("1", "l"),
    "two lines": lambda text: text.replace("-", "")[:20] + "\n" + text.replace("-", "")[20:],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_in_the_place_of_a_key_it_is_taken_in_every_form(form):
    assert user_key.read(
        Secret(form(user_key.write_recovery_key(KNOWN).reveal_text()))
    ) == user_key.UserKey("recovery", Secret(KNOWN))


def test_letters_whose_checksum_does_not_fit_are_a_passphrase():
    bare = user_key.write_recovery_key(KNOWN).reveal_text().replace("-", "")
    for words in (bare[:-1] + "0", bare[:-1], bare + "0", "A" * 36):
        assert user_key.read(Secret(words)) == user_key.UserKey("passphrase", Secret(words))


SHOWN = user_key.write_recovery_key(KNOWN).reveal_text()


@pytest.mark.parametrize(
    "text",
    [
        SHOWN[:-5],
        SHOWN[:-1],
        SHOWN + "-0000",
        SHOWN[:7] + SHOWN[8:],
        SHOWN[:-5].lower().replace("-", " "),
        SHOWN[:-1].replace("-", "") + "0",
    ],
)
def test_a_mistyped_recovery_key_is_recognised(text):
    assert re.search("nine groups of four|last group does not match", user_key.explain_typo(text))


@pytest.mark.parametrize(
    "text",
    [
        SHOWN,
        "violet kettle under seven maps",
        "blue door lamp moon rain wind",
        "abcd-efgh-ijkl-mn0p",
        "raw:" + "0" * 64,
        "correcthorse9batterystaple",
    ],
)
def test_other_keys_are_not_called_recovery_keys(text):
    assert user_key.explain_typo(text) == ""
