"""Test the lock files: versions and hashes, installation by hash, and the audit."""

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import threading
import tomllib
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
SCRIPTS = TOP / "scripts"


@pytest.fixture
def scripts(monkeypatch):
    """A script as a module; they import each other by their plain names."""
    monkeypatch.syspath_prepend(str(SCRIPTS))

    def load(name):
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def plain(requirement):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def test_every_line_of_every_lock_has_a_version_and_hashes(scripts):
    locked = scripts("locked")
    named = {lock: {pin.name for pin in locked.pins(TOP / lock)} for lock in locked.LOCKS}
    assert sorted(path.name for path in TOP.glob("requirements*")) == sorted(locked.LOCKS)
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    assert {plain(one) for one in project["project"]["dependencies"]} <= named["requirements.lock"]
    assert {plain(one) for one in project["build-system"]["requires"]} <= named[
        "requirements-build.lock"
    ]
    assert named["requirements.lock"] <= named["requirements-dev.lock"]
    assert named["requirements-build.lock"] <= named["requirements-dev.lock"]


@pytest.mark.parametrize(
    "line",
    [
        "h11==0.16.0",
        "h11>=0.16.0 --hash=sha256:" + "0" * 64,
        "h11 @ https://example.com/h11.whl --hash=sha256:" + "0" * 64,
        "--index-url https://example.com",
        "h11==0.16.0 --hash=md5:" + "0" * 32,
    ],
)
def test_line_without_version_and_hash_is_refused(scripts, tmp_path, line):
    path = tmp_path / "some.lock"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match="not pinned"):
        scripts("locked").pins(path)


def installs():
    """Every line of scripts and workflows that installs with pip."""
    for path in [*SCRIPTS.iterdir(), *(TOP / ".github/workflows").iterdir(), TOP / ".ci/run"]:
        if not path.is_file():
            continue
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            if re.search(r"\bpip\b.* install |\$pip install ", line):
                yield path.name, line.strip()


def test_nothing_is_installed_without_hashes():
    found = list(installs())
    assert len(found) >= 4
    for name, line in found:
        ourselves = "--no-deps" in line and "--no-build-isolation" in line
        assert "--require-hashes" in line or ourselves, (name, line)


def wheel(folder, text):
    """A wheel of one module; its digest."""
    path, info = folder / "thing-1.0-py3-none-any.whl", "thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("thing.py", text)
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_that_was_exchanged_at_the_index_is_not_installed(tmp_path):
    (line,) = (one for _, one in installs() if one.endswith('-r "$lock"'))
    lock, target = tmp_path / "some.lock", tmp_path / "target"
    lock.write_text(f"thing==1.0 --hash=sha256:{wheel(tmp_path, 'good = True')}\n")
    wheel(tmp_path, "good = False")
    options = line.removeprefix("$pip install ").removesuffix(' -r "$lock"').split()
    places = ["--no-index", "--find-links", str(tmp_path), "--target", str(target)]
    pip = [sys.executable, "-m", "pip", "install", *options, "-r", str(lock), *places]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert (done.returncode, target.exists()) == (1, False)
    assert "DO NOT MATCH THE HASHES" in done.stderr


def pin(scripts, name, version="1.0"):
    return scripts("locked").Pin(name, version, "", ("0" * 64,))


def test_packages_without_an_answer_are_counted_and_said(scripts, capsys):
    audit = scripts("audit")
    wanted = [pin(scripts, name) for name in ("one", "two", "three")]
    report = {
        "dependencies": [
            {"name": "one", "version": "1.0", "vulns": []},
            {"name": "two", "skip_reason": "Dependency not found on PyPI"},
        ]
    }
    outcome = audit.read_report(report, wanted)
    assert outcome.unanswered == {"two", "three"}
    assert audit.conclude(outcome, required=False) == 0
    assert "NOT AUDITED: no answer about 2 of 3 packages" in capsys.readouterr().out
    assert audit.conclude(outcome, required=True) == 1


def test_no_report_at_all_is_no_audit(scripts, capsys):
    audit = scripts("audit")
    outcome = audit.read_report(None, [pin(scripts, "one")])
    assert audit.conclude(outcome, required=False) == 0
    said = capsys.readouterr().out
    assert "NOT AUDITED: no answer about 1 of 1 packages" in said
    assert "nothing known" not in said


def test_one_name_in_two_versions_is_asked_for_twice(scripts):
    both = [pin(scripts, "one", "1"), pin(scripts, "two"), pin(scripts, "one", "2")]
    assert [[one.version for one in asked] for asked in scripts("audit").rounds(both)] == [
        ["1", "1.0"],
        ["2"],
    ]


class Advisories(BaseHTTPRequestHandler):
    """A service of advisories that knows of one weakness."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        weak = asked["package"]["name"] == "h11" and self.server.knows
        weakness = {
            "id": "TEST-2026-1",
            "modified": "2026-01-01T00:00:00Z",
            "affected": [
                {
                    "package": {"name": "h11", "ecosystem": "PyPI"},
                    "ranges": [
                        {
                            "type": "ECOSYSTEM",
                            "events": [{"introduced": "0"}, {"fixed": "99.0"}],
                        }
                    ],
                }
            ],
        }
        body = json.dumps({"vulns": [weakness]} if weak else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def advisories():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    server.knows = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def audited(server):
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "audit.py"), "-s", "osv", "--osv-url", url],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_a_known_weakness_fails_and_a_clean_answer_passes(advisories):
    weak = audited(advisories)
    assert weak.returncode == 1, weak.stderr
    assert "KNOWN VULNERABILITY in h11 0.16.0: TEST-2026-1, fixed in 99.0" in weak.stdout
    advisories.knows = False
    clean = audited(advisories)
    assert clean.returncode == 0, clean.stderr
    assert "nothing known against" in clean.stdout
    assert "NOT AUDITED" not in clean.stdout


def test_the_page_of_wheels_has_the_versions_of_the_lock_file(scripts):
    wheels = scripts("wheels")
    locked = wheels.pins(wheels.LOCK)
    text = wheels.PAGE.read_text(encoding="utf-8")
    assert wheels.differences(text, locked) == []
    first, *others = locked
    assert wheels.differences(text, others) == [f"{first.name} {first.version}"]
    newer = wheels.Pin(first.name, "9999", "", first.sha256)
    assert f"{first.name} 9999" in wheels.differences(text, [newer, *others])
    assert "wheels.py --check\n" in (SCRIPTS / "check").read_text(encoding="utf-8")
    for (name, system), advice in wheels.INSTEAD.items():
        assert f"* **{system}:** no `{name}`. {advice}" in text


@pytest.mark.parametrize(
    ("name", "systems"),
    [
        ("sqlcipher3-binary", {"Linux, x86-64, glibc 2.28"}),
        ("pywin32", {"Windows, x86-64", "Windows, ARM64"}),
        ("watchdog", {"Windows, x86-64", "Windows, ARM64", "macOS 13, ARM64", "macOS 13, x86-64"}),
    ],
)
def test_wheels_are_asked_for_where_the_lock_file_installs_them(scripts, name, systems):
    wheels = scripts("wheels")
    (pin,) = [one for one in wheels.pins(wheels.LOCK) if one.name == name]
    assert {one.title for one in wheels.TARGETS if one.fits(pin, "3.13")} == systems
