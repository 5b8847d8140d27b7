"""Test the login host (plain text) and the account host (JSON) over real HTTP."""

from __future__ import annotations

import pytest


@pytest.fixture
def log_in(wire, sim):
    def post(body, *, key=sim.api_key, action="authorize/", app=sim.app_id, **options):
        headers = {} if key is None else {"X-Simperium-API-Key": key}
        url = f"{sim.auth_url}/{app}/{action}"
        return wire.client.post(url, headers=headers | options.pop("headers", {}), json=body)

    return post


@pytest.fixture
def account_host(wire, sim):
    return lambda action, body: wire.client.post(f"{sim.app_url}/account/{action}", json=body)


def test_the_password_gives_the_token(log_in, sim):
    body = log_in({"username": sim.username, "password": sim.password}).json()

    assert body["access_token"] == sim.token
    assert (body["username"], len(body["userid"])) == (sim.username, 32)


def test_json_is_understood_whatever_the_content_type_says(log_in, sim):
    answer = log_in(
        {"username": sim.username, "password": sim.password},
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )

    assert answer.status_code == 200


@pytest.mark.parametrize("action", ["authorize", "authorize/"])
def test_refusals_are_plain_text(log_in, sim, action):
    good = {"username": sim.username, "password": sim.password}
    wrong = {"username": sim.username, "password": "wrong"}
    unknown_user = {"username": "nobody@example.com", "password": "x"}
    answers = [
        log_in(good, key=None, action=action),
        log_in(good, key="wrong", action=action),
        log_in(good, app="other-app", action=action),
        log_in(wrong, action=action),
        log_in(unknown_user, action=action),
    ]

    assert [(a.status_code, a.text) for a in answers] == [
        (400, "missing api key"),
        (401, "invalid app credentials"),
        (401, "invalid app credentials"),
        (401, "invalid login"),
        (401, "unknown username: nobody@example.com"),
    ]
    assert all(a.headers["Content-Type"].startswith("text/plain") for a in answers)


def test_signing_up_opens_an_account_once(log_in, sim):
    body = {"username": "new@example.com", "password": "a long enough one"}

    first = log_in(body, action="create/")
    second = log_in(body, action="create/")

    assert first.json()["access_token"] == sim.account("new@example.com").token
    assert second.status_code == 409


def test_a_changed_password_makes_the_old_token_401(wire, sim, log_in):
    old = sim.token
    sim.change_password("a new long password")

    assert wire.get("index", headers={"X-Simperium-Token": old}).status_code == 401
    assert wire.get("index").status_code == 200
    assert log_in({"username": sim.username, "password": "a new long password"}).is_success


def test_a_mailed_code_gives_the_same_token(account_host, sim):
    asked = account_host("request-login", {"username": sim.username, "request_source": "notarium"})
    [sent] = sim.sent_codes
    done = account_host("complete-login", {"username": sim.username, "auth_code": sent.code})

    assert asked.status_code == 200
    assert sent.request_source == "notarium"
    assert done.json() == {"username": sim.username, "sync_token": sim.token}


def test_bad_codes_are_refused_in_json(account_host, sim):
    early = account_host("complete-login", {"username": sim.username, "auth_code": "AAAAAA"})
    account_host("request-login", {"username": sim.username, "request_source": "x"})
    wrong = account_host("complete-login", {"username": sim.username, "auth_code": "000000"})

    assert (early.status_code, early.json()) == (400, {"error": "request-not-found"})
    assert (wrong.status_code, wrong.json()) == (400, {"error": "invalid-code"})


def test_other_account_pages_are_json_errors(account_host, wire, sim):
    assert account_host("no-such-thing", {}).json() == {"error": "not-found"}
    assert account_host("request-login", {"username": 5}).status_code == 400
    assert wire.client.get(f"{sim.app_url}/account/request-login").status_code == 405
