"""Who may log in, and at which address."""

from __future__ import annotations

import pytest

from notarium_devtools.simperium import LoginRules, Refused
from notarium_devtools.simperium.accounts import Accounts


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def accounts(clock):
    accounts = Accounts(login_rules=LoginRules(code_seconds=60, max_bad_codes=3), clock=clock)
    accounts.add("User@Example.com", "secret")
    return accounts


def reason(action, *args) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        action(*args)
    return caught.value.status, caught.value.reason


def test_every_login_of_one_account_gives_the_same_token(accounts):
    by_password = accounts.log_in(" user@example.COM ", "secret").token
    accounts.send_code("user@example.com", "test")
    by_code = accounts.redeem_code("user@example.com", accounts.sent_codes[-1].code.lower()).token

    assert by_password == by_code
    assert len(by_password) == 32


def test_wrong_logins_are_refused_in_the_services_words(accounts):
    assert reason(accounts.log_in, "user@example.com", "wrong") == (401, "invalid login")
    assert reason(accounts.log_in, "nobody@x", "secret") == (401, "unknown username: nobody@x")


def test_weak_and_unverified_accounts_are_refused_after_the_right_password(accounts):
    accounts.get("user@example.com").compromised = True
    assert reason(accounts.log_in, "user@example.com", "secret") == (401, "compromised password")

    accounts.get("user@example.com").compromised = False
    accounts.get("user@example.com").unverified = True
    assert reason(accounts.log_in, "user@example.com", "secret") == (403, "verification required")


def test_a_taken_name_is_409(accounts):
    assert reason(accounts.add, "USER@example.com", "x")[0] == 409


def test_a_new_password_kills_the_old_token(accounts):
    old = accounts.log_in("user@example.com", "secret").token

    new = accounts.change_password("user@example.com", "other")

    assert accounts.by_token(old) is None
    assert accounts.by_token(new) is accounts.get("user@example.com")
    assert reason(accounts.log_in, "user@example.com", "secret")[0] == 401


def test_a_code_works_once(accounts):
    accounts.send_code("user@example.com", "test")
    code = accounts.sent_codes[-1].code
    accounts.redeem_code("user@example.com", code)

    assert reason(accounts.redeem_code, "user@example.com", code) == (400, "request-not-found")


def test_a_code_dies_of_age(accounts, clock):
    accounts.send_code("user@example.com", "test")
    clock.now += 61

    code = accounts.sent_codes[-1].code
    assert reason(accounts.redeem_code, "user@example.com", code) == (400, "request-not-found")


def test_only_the_latest_code_counts(accounts):
    accounts.send_code("user@example.com", "test")
    accounts.send_code("user@example.com", "test")
    first, second = (sent.code for sent in accounts.sent_codes)

    assert reason(accounts.redeem_code, "user@example.com", first) == (400, "invalid-code")
    assert accounts.redeem_code("user@example.com", second).username == "user@example.com"


def test_guessing_codes_is_stopped(accounts):
    accounts.send_code("user@example.com", "test")
    answers = [reason(accounts.redeem_code, "user@example.com", "000000")[0] for _ in range(4)]

    assert answers == [400, 400, 400, 429]


def test_an_unknown_address_gets_no_code_and_no_hint(accounts):
    accounts.send_code("nobody@example.com", "test")

    assert accounts.sent_codes == []


def test_accounts_do_not_share_buckets_and_case_does_not_count(accounts):
    mine, other = accounts.get("user@example.com"), accounts.add("other@example.com", "x")

    assert accounts.bucket(mine, "Note") is accounts.bucket(mine, "note")
    assert accounts.bucket(mine, "note") is not accounts.bucket(other, "note")
