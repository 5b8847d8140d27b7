"""Test what Simplenote declares: who is one account, what the sandbox must allow."""

import pytest

from mcp_notarium.stores.simplenote.kind import KIND, normalise_username
from support.simplenote_settings import simplenote_settings

NAME = "someone@example.com"


def identity(username=NAME, url="https://api.simperium.com/1"):
    return KIND.identity(simplenote_settings(username, SIMPERIUM_API_URL=url))


@pytest.mark.parametrize("written", [NAME, " Someone@Example.COM ", "SOMEONE@EXAMPLE.COM\n"])
def test_the_same_user_written_differently_is_one_account(written):
    assert identity(written) == identity()


def test_composed_and_decomposed_names_are_one_account():
    assert identity("ren\u00e9e@example.com") == identity("Rene\u0301e@example.com")


@pytest.mark.parametrize(
    "url",
    [
        "https://API.simperium.com",
        "https://api.simperium.com:443/1",
        "https://api.simperium.com/1/",
    ],
)
def test_the_same_service_written_differently_is_one_account(url):
    assert identity(url=url) == identity()


@pytest.mark.parametrize(
    "other",
    [
        {"username": "else@example.com"},
        {"url": "https://proxy.example/1"},
        {"url": "https://api.simperium.com:8443/1"},
        {"url": "http://localhost/1"},
        {"url": "https://api.simperium.com/2"},
    ],
)
def test_another_user_or_service_is_another_account(other):
    assert identity(**other) != identity()


def test_normalising_twice_changes_nothing():
    once = normalise_username("  \u0130stanbul@Example.com")
    assert normalise_username(once) == once


def test_the_ports_are_those_of_its_hosts_and_of_looking_them_up():
    assert {*KIND.access(simplenote_settings(NAME)).ports} == {53, 443}
    local = simplenote_settings(NAME, SIMPERIUM_API_URL="http://localhost:8123/1")
    assert {*KIND.access(local).ports} == {53, 443, 8123}
