"""Test starting, stopping and going off the network."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest

from notarium_devtools.simperium import Simulator


def alive(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, verify=False, timeout=5).status_code == 404
    except httpx.ConnectError:
        return False


def test_it_serves_while_the_block_lasts_and_not_after():
    with Simulator().running() as sim:
        assert alive(sim.url)
    assert not alive(sim.url)


def test_it_serves_from_the_running_loop_too():
    async def ask() -> int:
        async with (
            Simulator().serving() as sim,
            httpx.AsyncClient(trust_env=False, verify=False) as client,
        ):
            sim.put("a", content="x")
            answer = await client.get(sim.url)
            sim.stop_listening()
            with pytest.raises(httpx.TransportError):
                await client.get(sim.url)
            sim.resume()
            assert (await client.get(sim.url)).status_code == 404
            return answer.status_code

    assert asyncio.run(ask()) == 404


def test_it_leaves_no_thread_behind():
    before = threading.active_count()
    with Simulator().running() as sim:
        alive(sim.url)
    assert threading.active_count() == before


def test_an_error_in_the_block_stops_it_as_well():
    with pytest.raises(LookupError), Simulator().running() as sim:
        raise LookupError
    assert not alive(sim.url)


def test_a_second_run_keeps_the_port_and_the_notes():
    sim = Simulator()
    with sim.running():
        sim.put("a", content="kept")
        first = sim.url
    with sim.running():
        assert sim.url == first
        assert sim.note("a")["content"] == "kept"


def test_a_port_that_is_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        sim = Simulator(port=taken.getsockname()[1])
        with pytest.raises(OSError, match=r"[Aa]ddress"), sim.running():
            pass


def test_off_the_network_connections_are_refused_and_nobody_takes_the_port():
    with Simulator().running() as sim:
        port = int(sim.url.rpartition(":")[2])
        for _ in range(3):
            sim.stop_listening()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5)
            with pytest.raises(OSError, match=r"[Aa]ddress"), socket.socket() as thief:
                thief.bind(("127.0.0.1", port))
            sim.resume()
            assert alive(sim.url)


def test_going_off_the_network_cuts_open_connections():
    with Simulator().running() as sim, httpx.Client(trust_env=False, verify=False) as client:
        assert client.get(sim.url).status_code == 404
        sim.stop_listening()
        with pytest.raises(httpx.TransportError):
            client.get(sim.url)
        sim.resume()
        assert client.get(sim.url).status_code == 404


def test_it_stops_cleanly_while_off_the_network():
    with Simulator().running() as sim:
        sim.stop_listening()
    assert not alive(sim.url)


def test_the_network_of_a_simulator_that_does_not_serve_cannot_go_down():
    with pytest.raises(RuntimeError):
        Simulator().stop_listening()


@pytest.mark.parametrize(
    "nonsense", [b"", b"\x16\x03\x01\x00", b"GET / HTTP/9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_nonsense_on_the_wire_harms_nobody(nonsense):
    with Simulator().running() as sim:
        port = int(sim.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(nonsense)
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                client.recv(100)
        assert alive(sim.url)


def test_requests_may_be_pipelined_and_come_in_pieces():
    request = b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"
    with Simulator().running() as sim:
        port = int(sim.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            client.sendall(request + request[:9])
            client.sendall(request[9:])
            client.shutdown(socket.SHUT_WR)
            answers = b"".join(iter(lambda: client.recv(65536), b""))

    assert answers.count(b"HTTP/1.1 404") == 2


def test_edits_from_many_threads_and_clients_are_all_kept():
    with Simulator().running() as sim:

        def edit(worker: int) -> None:
            url = f"{sim.api_url}/{sim.app_id}/note/i/http{worker}-"
            with httpx.Client(
                trust_env=False, verify=False, headers={"X-Simperium-Token": sim.token}
            ) as client:
                for number in range(20):
                    sim.put(f"direct{worker}-{number}", content="x")
                    answer = client.post(
                        f"{url}{number}", json=sim.note(f"direct{worker}-{number}")
                    )
                    assert answer.status_code == 200

        threads = [threading.Thread(target=edit, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert len(sim.notes()) == 160


def launched(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "notarium_devtools.simperium", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_program_says_where_it_is_and_ends_with_its_stdin():
    with launched("--notes", "7") as program:
        card = json.loads(program.stdout.readline())
        listed = httpx.get(
            f"{card['api_url']}/{card['app_id']}/note/index",
            headers={"X-Simperium-Token": card["token"]},
            trust_env=False,
            verify=False,
        ).json()
        out, err = program.communicate(timeout=20)

    assert len(listed["index"]) == 7
    assert (program.returncode, out, err) == (0, "", "")


def test_the_program_ends_with_a_signal():
    with launched("--notes", "0") as program:
        json.loads(program.stdout.readline())
        program.send_signal(signal.SIGTERM)
        assert program.wait(20) == 0
        program.communicate()
