import json

import pytest

from mcp_notarium.crypto import key_file_codec
from mcp_notarium.crypto.errors import KeyFileDamaged, KeyFileNewer
from mcp_notarium.errors import Verdict
from support.keyfiles import b64, cheap, forged, with_sum

RAW = key_file_codec.serialise(cheap())


def parse(raw):
    return key_file_codec.parse(raw)


def test_what_is_written_is_read_back_as_the_same_value():
    assert parse(RAW) == cheap()
    assert key_file_codec.serialise(parse(RAW)) == RAW


def test_the_fields_are_those_of_the_format():
    assert sorted(json.loads(RAW)) == [
        *("cipher_floor", "created", "database_salt", "format", "generation", "mac", "owner_tag"),
        *("page_size", "rotated", "schema_floor", "sequence", "slots", "sum", "vault", "version"),
    ]


def test_it_is_small_and_free_of_names_and_secrets():
    assert len(RAW) < 2048
    assert b"example" not in RAW.lower()
    assert bytes(range(32)).hex().encode() not in RAW


def test_a_newer_version_is_refused_by_its_number_and_asks_for_an_update():
    with pytest.raises(KeyFileNewer) as refused:
        parse(forged(RAW, lambda f: f.update(version=7, anything="else")))
    assert refused.value.version == 7
    assert refused.value.verdict is Verdict.SCHEMA_NEWER
    assert "7" in refused.value.message


def test_a_version_changed_without_the_checksum_is_damage_not_a_newer_release():
    with pytest.raises(KeyFileDamaged):
        parse(RAW.replace(b'"version":1', b'"version":3'))


def _slot(**changes):
    return lambda f: f["slots"][0].update(changes)


def _kdf(**changes):
    return lambda f: f["slots"][0]["kdf"].update(changes)


def _second_slot(f):
    f["slots"].append(dict(f["slots"][0]))


HOSTILE = {
    "an extra field": lambda f: f.update(extra=1),
    "a missing field": lambda f: f.pop("owner_tag"),
    "another format": lambda f: f.update(format="other"),
    "version 0": lambda f: f.update(version=0),
    "a version that is true": lambda f: f.update(version=True),
    "a version in words": lambda f: f.update(version="1"),
    "another page size": lambda f: f.update(page_size=8192),
    "sequence 0": lambda f: f.update(sequence=0),
    "a negative sequence": lambda f: f.update(sequence=-1),
    "a huge sequence": lambda f: f.update(sequence=2**53),
    "a time beyond calendars": lambda f: f.update(created=253_402_300_800),
    "a rotation time in words": lambda f: f.update(rotated="yesterday"),
    "an upper-case vault": lambda f: f.update(vault="A" * 32),
    "a short vault": lambda f: f.update(vault="a" * 31),
    "a generation that leaves the folder": lambda f: f.update(generation="../../../../etc/"),
    "a short salt": lambda f: f.update(database_salt=b64(bytes(15))),
    "a salt that is a number": lambda f: f.update(database_salt=7),
    "base64 with rubbish": lambda f: f.update(database_salt="!" + b64(bytes(16))),
    "base64 with loose bits": lambda f: f.update(database_salt=b64(bytes(16))[:-3] + "B=="),
    "no slots": lambda f: f.update(slots=[]),
    "slots that are no list": lambda f: f.update(slots={}),
    "a slot that is no object": lambda f: f.update(slots=[1]),
    "too many slots": lambda f: f.update(slots=f["slots"] * 9),
    "the same slot twice": _second_slot,
    "slot id 0": _slot(id=0),
    "an extra field in a slot": _slot(extra=1),
    "an unknown slot type": _slot(type="password"),
    "a slot type that is a list": _slot(type=[]),
    "an unknown state": _slot(state="lost"),
    "a label with a control character": _slot(label="a\u001b"),
    "a label that is too long": _slot(label="x" * 65),
    "a label that is a number": _slot(label=5),
    "a short nonce": _slot(nonce=b64(bytes(11))),
    "a long wrapped key": _slot(wrapped=b64(bytes(49))),
    "a passphrase without stretching": _slot(kdf={"algorithm": "hkdf-sha256"}),
    "a raw key with stretching": _slot(type="raw"),
    "an unknown key derivation": _slot(kdf={"algorithm": "md5"}),
    "key derivation as text": _slot(kdf="argon2id"),
    "an extra parameter": _kdf(extra=1),
    "memory as text": _kdf(memory_kib="8"),
    "memory that is true": _kdf(memory_kib=True),
    "no memory": _kdf(memory_kib=0),
    "a memory bomb": _kdf(memory_kib=2**31),
    "a time bomb": _kdf(time_cost=2**40),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_forged_with_a_right_checksum_is_refused(case):
    with pytest.raises(KeyFileDamaged):
        parse(forged(RAW, HOSTILE[case]))


@pytest.mark.usefixtures("production_costs")
def test_production_bounds_refuse_the_cheap_files_of_tests():
    with pytest.raises(KeyFileDamaged):
        key_file_codec.parse(RAW)


def test_another_order_of_names_is_refused_though_it_means_the_same():
    fields = json.loads(RAW)
    turned = json.dumps(dict(reversed(fields.items())), separators=(",", ":")).encode()
    with pytest.raises(KeyFileDamaged, match="canonical"):
        parse(turned)


@pytest.mark.parametrize("change", [b" ", b"\n"])
def test_white_space_is_refused(change):
    with pytest.raises(KeyFileDamaged):
        parse(RAW + change)
    with pytest.raises(KeyFileDamaged):
        parse(RAW.replace(b",", b"," + change, 1))


def test_slots_out_of_order_are_refused():
    def turn(fields):
        fields["slots"] = [dict(fields["slots"][0], id=2), dict(fields["slots"][0], id=1)]

    with pytest.raises(KeyFileDamaged, match="order"):
        parse(forged(RAW, turn))


def test_every_slot_type_of_the_format_can_be_read():
    def add(fields):
        plain = dict(fields["slots"][0], kdf={"algorithm": "hkdf-sha256"})
        for number, kind in enumerate(("raw", "keychain", "recovery"), start=2):
            fields["slots"].append(dict(plain, id=number, type=kind))

    kinds = [slot.type.value for slot in parse(forged(RAW, add)).slots]
    assert kinds == ["passphrase", "raw", "keychain", "recovery"]


def test_nothing_but_a_refusal_comes_from_a_file_that_is_no_key_file():
    for raw in (b"{}", b'{"sum":null}', with_sum({}), with_sum({"format": key_file_codec.FORMAT})):
        with pytest.raises(KeyFileDamaged):
            parse(raw)
