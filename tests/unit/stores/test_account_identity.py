"""Test that two accounts never have one hash."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.stores.kind import AccountIdentity

_TEXT = st.text(st.sampled_from("ab\n\0/é\udcff"), max_size=4)
_IDENTITY = st.builds(AccountIdentity, _TEXT, _TEXT, _TEXT)


@given(_IDENTITY, _IDENTITY)
def test_two_accounts_have_two_hashes(one, other):
    assert (one.owner_hash == other.owner_hash) == (one == other)


def test_the_hash_is_frozen_and_bound_to_the_program():
    written = b"mcp-notarium/v1/owner-identity\n"
    for text in (b"kind", b"https://h:443/1", b"caf\xc3\xa9"):
        written += len(text).to_bytes(8, "big") + text
    made = AccountIdentity("kind", "https://h:443/1", "café")
    assert made.owner_hash == hashlib.sha256(written).hexdigest()
