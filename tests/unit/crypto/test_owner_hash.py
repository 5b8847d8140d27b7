import hashlib

import pytest

from mcp_notarium.crypto.owner_hash import normalise_username, owner_hash


@pytest.mark.parametrize(
    "written", ["someone@example.com", " Someone@Example.COM ", "SOMEONE@EXAMPLE.COM\n"]
)
def test_the_same_account_written_differently_has_one_hash(written):
    assert owner_hash(written) == owner_hash("someone@example.com")


def test_composed_and_decomposed_names_are_one_owner():
    assert owner_hash("ren\u00e9e@example.com") == owner_hash("Rene\u0301e@example.com")


def test_other_accounts_have_other_hashes():
    assert owner_hash("a@example.com") != owner_hash("b@example.com")


def test_the_hash_is_frozen_and_bound_to_the_program():
    assert (
        owner_hash("someone@example.com")
        == hashlib.sha256(b"mcp-notarium/v1/owner-identity\nsomeone@example.com").hexdigest()
    )


def test_normalising_twice_changes_nothing():
    once = normalise_username("  \u0130stanbul@Example.com")
    assert normalise_username(once) == once
