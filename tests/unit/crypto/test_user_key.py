import pytest

from mcp_notarium.crypto import user_key
from mcp_notarium.crypto.errors import MalformedKey
from mcp_notarium.errors import Verdict
from mcp_notarium.secret import Secret

ACCOUNT = "maria.kowalczyk@example.org"


def test_a_generated_key_is_read_as_a_raw_key():
    made = user_key.generate()
    read = user_key.read(made)
    assert read.kind == "raw"
    assert made.reveal_text() == "raw:" + read.material.reveal().hex()


def test_two_generated_keys_differ():
    assert user_key.generate() != user_key.generate()


def test_raw_digits_may_be_upper_case():
    upper = Secret("raw:" + "AB" * 32)
    assert user_key.read(upper) == user_key.read(Secret("raw:" + "ab" * 32))


@pytest.mark.parametrize(
    "text",
    [
        "raw:",
        "raw:abc",
        "raw:" + "a" * 63,
        "raw:" + "a" * 65,
        "raw:" + "g" * 64,
        "raw: " + "a" * 64,
    ],
)
def test_a_malformed_raw_key_is_refused_and_never_taken_as_a_passphrase(text):
    with pytest.raises(MalformedKey) as refused:
        user_key.read(Secret(text))
    assert refused.value.verdict is Verdict.KEY_MISSING
    assert text[4:] == "" or text[4:] not in str(refused.value)


@pytest.mark.parametrize("given", [b"", b"   \n", b"\xff\xfe", b"x" * 4097, b"a b\0"])
def test_what_cannot_be_a_key_is_refused(given):
    with pytest.raises(MalformedKey):
        user_key.read(Secret(given))


def test_anything_else_is_a_passphrase_kept_to_the_byte():
    assert user_key.read(Secret(" two  words ")).material == Secret(" two  words ")


@pytest.mark.parametrize(
    "weak",
    [
        "short but odd!",
        "passwordpassword",
        "abcabcabcabcabcabc",
        "aaaaaaaaaaaaaaaaaaaa",
        "123456789012345",
        "1234567890qwertyuiop",
        "abcdefghijklmnopqrst",
        "Password1234567890",
        "mysecretpassword",
        "changemechangemenow1"[:16],
        "simplenotepassphrase",
        "xk7Lq2xk7Lq2xk7Lq2",
        "xk7Lq2xk7Lq2xk7Lq",
        "hunter2 hunter2 hunter2",
        "  hunter2             ",
        "your passphrase here",
    ],
)
def test_guessable_passphrases_are_weak(weak):
    assert user_key.weakness(Secret(weak), account=ACCOUNT)


@pytest.mark.parametrize(
    "strong",
    [
        "violet kettle under seven maps",
        "correct horse battery staple",
        "p9#Lk2!vXq7@Zr4m",
        "Fünf laute Möwen am Kai",
        "五匹の静かな猫が橋の上で眠っている",
        "raw:" + "0" * 64,
    ],
)
def test_long_unusual_passphrases_and_raw_keys_are_not_weak(strong):
    assert user_key.weakness(Secret(strong), account=ACCOUNT) is None


def test_length_counts_composed_characters():
    assert user_key.weakness(Secret("e\u0301xyqwzkvbmtp"), account=ACCOUNT)
    assert "15" in (user_key.weakness(Secret("e\u0301" * 10), account=ACCOUNT) or "")


@pytest.mark.parametrize(
    "name",
    [
        ACCOUNT,
        "Maria.Kowalczyk@Example.org",
        f" {ACCOUNT} 2024",
        "maria.kowalczyk1234",
        "mymaria.kowalczykkey",
    ],
)
def test_the_name_of_the_account_is_weak_and_only_for_that_account(name):
    assert "the account's name" in (user_key.weakness(Secret(name), account=ACCOUNT) or "")
    assert user_key.weakness(Secret(name), account="somebody@example.net") is None


def test_a_short_name_takes_no_letters_out_of_a_passphrase():
    strong = Secret("violet kettle under seven maps")
    assert user_key.weakness(strong, account="e@t.io") is None
