"""Test what a client sees when its request meets a fault."""

from __future__ import annotations

import json
import time

import httpx
import pytest

from support.whole import until


def test_a_forced_status_does_nothing_and_may_say_when_to_retry(wire, sim, note):
    rule = sim.faults.status(429, method="POST", retry_after="7")

    refused = wire.post("i/a", note())
    accepted = wire.post("i/a", note())

    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "7")
    assert accepted.headers["X-Simperium-Version"] == "1"
    assert rule.fired == 1


@pytest.mark.parametrize("status", [401, 403, 429, 440, 500, 502, 503, 504])
def test_a_forced_status_speaks_as_the_host_does(wire, sim, status):
    sim.faults.status(status)

    answer = wire.get("index")

    assert answer.status_code == status
    assert "<html>" in answer.text


def test_a_bad_gateway_is_html_even_at_the_login_host(wire, sim):
    sim.faults.bad_gateway()

    answer = wire.client.post(f"{sim.auth_url}/{sim.app_id}/authorize/", json={})

    assert answer.status_code == 502
    assert "502 Bad Gateway" in answer.text


def test_a_connection_cut_before_leaves_nothing_stored(wire, sim, note):
    sim.faults.cut_before(method="POST")

    with pytest.raises(httpx.TransportError):
        wire.post("i/a", note())

    assert sim.notes() == {}
    assert [entry.status for entry in sim.requests] == [0]


def test_a_lost_answer_leaves_the_note_stored(wire, sim, note):
    sim.faults.cut_after(method="POST")

    with pytest.raises(httpx.TransportError):
        wire.post("i/a?ccid=c", note("kept"))

    assert sim.note("a")["content"] == "kept"
    assert wire.post("i/a?ccid=c", note("kept")).status_code == 409


def test_an_answer_cut_in_the_middle_is_a_transport_error(wire, sim, note):
    sim.put("a", note("x" * 100_000))
    sim.faults.cut_answer(share=0.5)

    with pytest.raises(httpx.RemoteProtocolError):
        wire.get("i/a")

    assert wire.get("i/a").status_code == 200


def test_truncated_json_is_a_complete_answer_that_does_not_parse(wire, sim, note):
    sim.put("a", note())
    sim.faults.truncate(share=0.5, path="*/index")

    answer = wire.get("index?data=1")

    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_a_late_answer_can_come_after_the_write(wire, sim, note):
    sim.faults.delay(5, after=True, method="POST")

    with pytest.raises(httpx.ReadTimeout):
        wire.post("i/a", note("kept"), timeout=0.1)

    until(lambda: "a" in sim.notes())  # the service may get to it after the client has given up
    assert sim.note("a")["content"] == "kept"


def test_a_delay_before_lets_a_client_give_up_in_time(wire, sim, note):
    sim.faults.delay(5, method="POST")

    with pytest.raises(httpx.ReadTimeout):
        wire.post("i/a", note(), timeout=0.1)

    assert sim.notes() == {}


def test_a_forgotten_cv_is_404_once(wire, sim):
    cv = wire.cv()
    sim.faults.forget_cv()

    assert wire.get(f"changes?cv={cv}&wait=0").status_code == 404
    assert wire.get(f"changes?cv={cv}&wait=0").status_code == 200


def test_latency_passes_before_every_answer(wire, sim):
    sim.latency = 0.05
    started = time.monotonic()

    wire.get("index")

    assert time.monotonic() - started >= 0.05


def test_the_log_counts_requests_and_holds_no_secret(wire, sim, note):
    wire.client.post(
        f"{sim.auth_url}/{sim.app_id}/authorize/",
        headers={"X-Simperium-API-Key": sim.api_key},
        json={"username": sim.username, "password": sim.password},
    )
    wire.post("i/a?ccid=c", note())
    answer = wire.get("index")

    kinds = [(entry.method, entry.path, entry.status) for entry in sim.requests]

    assert kinds == [
        ("POST", f"/1/{sim.app_id}/authorize/", 200),
        ("POST", f"/1/{sim.app_id}/note/i/a", 200),
        ("GET", f"/1/{sim.app_id}/note/index", 200),
    ]
    assert sim.requests[1].query == {"ccid": "c"}
    assert sim.requests[2].sent == len(answer.content)
    for secret in (sim.token, sim.password, sim.api_key):
        assert secret not in repr(sim.requests)
    sim.reset_log()
    assert sim.requests == []
