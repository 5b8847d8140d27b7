import pytest

from mcp_notarium.crypto import canonical_json
from mcp_notarium.crypto.errors import KeyFileDamaged


def test_one_value_has_one_byte_form():
    assert canonical_json.encode({"b": [1, None], "a": "\u00e9"}) == b'{"a":"\\u00e9","b":[1,null]}'


def test_what_was_encoded_is_read_back():
    value = {"a": {"b": [1, "x", None, True]}}
    assert canonical_json.decode(canonical_json.encode(value)) == value


@pytest.mark.attack(4)
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"a":1,"a":1}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1.5}',
        b'{"a":1e3}',
        b'{"a":' + b"9" * 17 + b"}",
        b'{"a":' + b"9" * 60000 + b"}",
        b'{"a":' * 10000,
        b"[" * 65000,
        b'{"a":"' + b"x" * 65536 + b'"}',
        '{"a":"\u00e9"}'.encode(),
        b"\xff\xfe{}",
        b"\x00",
    ],
)
def test_hostile_bytes_are_refused_as_damage(raw):
    with pytest.raises(KeyFileDamaged):
        canonical_json.decode(raw)


def test_a_file_of_exactly_64_kib_is_still_read():
    filler = b"x" * (canonical_json.LARGEST - len(b'{"a":""}'))
    assert canonical_json.decode(b'{"a":"' + filler + b'"}')
