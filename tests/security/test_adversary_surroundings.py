"""Test a hostile working folder, environment and note service of the real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support.certificates import own_certificate, serving, trusted_folder
from support.whole import Server, environment, run, until

PROGRAM = [str(Path(sys.executable).with_name("mcp-notarium"))]
CANARY = "canary-5e1f-token-of-nobody"


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator()
    simulator.load(prose(5, seed=1))
    with simulator.running():
        yield simulator


class Evil(BaseHTTPRequestHandler):
    """Answers everything as ``status`` with ``sent_headers``, and remembers what it was asked."""

    status = 200
    sent_headers: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed
    asked: list[str] = []  # noqa: RUF012 - replaced, never shared

    def _answer(self):
        self.asked.append(self.path)
        self.send_response(self.status)
        for name, value in ({"Content-Length": "2"} | self.sent_headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_DELETE = do_CONNECT = _answer  # noqa: N815 - names of the library

    def log_message(self, *_said):
        """Nothing on standard error."""


class Quiet(HTTPServer):
    """Remembers how many connections there were; a failed handshake is no reason to speak."""

    def __init__(self, handler, context=None):
        super().__init__(("127.0.0.1", 0), handler)
        self.met = 0
        self._context = context

    def get_request(self):
        connection, address = super().get_request()
        self.met += 1
        if self._context is not None:
            connection = self._context.wrap_socket(connection, server_side=True)
        return connection, address

    def handle_error(self, *_given):
        """As above."""


@contextmanager
def answering(*, context=None, **options):
    """A service of that kind: its address, what it was asked, itself."""
    handler = type("Asked", (Evil,), {"asked": [], **options})
    server = Quiet(handler, context)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        scheme = "https" if context else "http"
        yield f"{scheme}://127.0.0.1:{server.server_port}", handler.asked, server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.attack(44)
def test_no_file_in_the_working_folder_is_run_or_obeyed(simulator, tmp_path):
    here, marker = tmp_path / "repository", tmp_path / "marker"
    here.mkdir()
    for module in (
        "sitecustomize",
        "usercustomize",
        "json",
        "httpx",
        "cryptography",
        "keyring",
        "mcp",
    ):
        (here / f"{module}.py").write_text(f"open({str(marker)!r}, 'a').write({module!r})\n")
    with answering() as (elsewhere, asked, _):
        (here / ".env").write_text(
            f"LOG_FILE_PATH={here / 'log'}\nNOTARIUM_POLICY_FILE={here / 'policy.json'}\n"
            f"HTTPS_PROXY={elsewhere}\nHTTP_PROXY={elsewhere}\nSSL_CERT_FILE={here / 'ca.pem'}\n"
        )
        env = environment(simulator, tmp_path, NOTARIUM_SANDBOX="off")
        with Server(env, command=PROGRAM, cwd=here) as server:
            server.loaded(sum(not note["deleted"] for note in simulator.notes().values()))
            assert server.said("LOG_FILE_PATH")  # that it was set there is warned of
            assert server.leave() == 0
    assert not marker.exists()
    assert not (here / "log").exists()
    assert asked == []


def test_a_module_in_the_working_folder_would_be_run_if_python_were_told_to(tmp_path):
    """The control: what lies there is fit to be imported."""
    (tmp_path / "cryptography.py").write_text("print('taken')\n")
    done = subprocess.run(
        [sys.executable, "-c", "import cryptography"], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stdout == b"taken\n"


@pytest.mark.attack(44)
def test_a_proxy_of_the_environment_is_not_asked_by_the_real_server(simulator, tmp_path):
    with answering(status=502) as (proxy, _, evil):
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        env = environment(simulator, tmp_path)
        env |= dict.fromkeys(names, proxy) | dict.fromkeys(map(str.lower, names), proxy)
        with Server(env) as server:
            until(lambda: evil.met > 0 or server.tool("list")["total_items"] > 0)
            assert server.leave() == 0
        assert evil.met == 0


@pytest.fixture(name="certificate", scope="module")
def _certificate(tmp_path_factory):
    return own_certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.attack(44)
def test_certificates_of_the_environment_are_not_trusted(simulator, tmp_path, certificate):
    with answering(context=serving(certificate)) as (evil, asked, server):
        env = environment(
            simulator,
            tmp_path,
            NOTARIUM_SANDBOX="off",
            SIMPERIUM_API_URL=f"{evil}/1",
            SIMPERIUM_AUTH_URL=f"{evil}/1",
            SSL_CERT_FILE=str(certificate),
            SSL_CERT_DIR=str(trusted_folder(certificate)),
            SSLKEYLOGFILE=str(tmp_path / "session-keys"),
        )
        with Server(env) as talker:
            until(lambda: server.met > 0)
            until(
                lambda: (
                    asked or "sync_last_error" in talker.tool("manage", action="get_stats")["stats"]
                )
            )
            talker.leave()
        met, there = server.met, {"SIMPLENOTE_APP_URL": evil}
        done = run(env | there, "login", "--code-stdin", stdin="ABC123\n")
        assert (done.returncode, server.met > met) == (1, True), done.stderr
    assert asked == []
    assert not (tmp_path / "session-keys").exists()


def test_a_program_that_follows_the_environment_would_trust_them(certificate):
    """The control: the certificate is good, and it is the environment alone that vouches for it."""
    code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).status)"
    with answering(context=serving(certificate)) as (evil, asked, _):
        done = subprocess.run(
            [sys.executable, "-c", code, evil],
            env={"PATH": os.environ["PATH"], "SSL_CERT_FILE": str(certificate)},
            capture_output=True,
            check=True,
        )
    assert (done.stdout, asked) == (b"200\n", ["/"])


@pytest.mark.attack(33)
@pytest.mark.parametrize("status", [302, 401])
def test_secrets_in_a_services_headers_and_redirects_reach_no_log(simulator, tmp_path, status):
    log_file = tmp_path / "notarium.log"
    with answering() as (target, followed, _):
        sent_headers = {
            "Location": f"{target}/1/{CANARY}/note/i/{CANARY}?token={CANARY}",
            "WWW-Authenticate": f'Basic realm="{CANARY}"',
            "Set-Cookie": f"session={CANARY}",
            "X-Reason": CANARY,
        }
        with answering(status=status, sent_headers=sent_headers) as (evil, asked, _):
            env = environment(
                simulator,
                tmp_path,
                SIMPERIUM_API_URL=f"{evil}/1",
                SIMPERIUM_AUTH_URL=f"{evil}/1",
                LOG_LEVEL="trace",
                LOG_FILE_PATH=str(log_file),
                API_TIMEOUT_SECONDS="5",
            )
            with Server(env) as server:
                until(lambda: asked)
                answers = [server.result("list"), server.result("save", text="text")]
                server.leave()
                said = server.errors()
    assert followed == []
    assert "httpcore" in log_file.read_text(), "the requests were not traced"
    for text in (said, log_file.read_text(), json.dumps(answers)):
        assert CANARY not in text
