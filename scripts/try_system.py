r"""Try the program on this computer, and write report.txt, which can be sent: no secret, no note, no name and no path is in it.

``python scripts/try_system.py`` (Windows: ``py scripts\try_system.py``) with Python 3.11 to 3.14, from a checkout. It makes an
environment of its own in ``.try``, installs the locked packages there by their hashes, and runs the tests of what differs between
systems. Notes, accounts and settings of yours are not touched: the tests have folders of their own, and the keychain gets one
entry for a moment.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import subprocess
import sys
import time
import venv
from pathlib import Path
from xml.etree import ElementTree as ET

from locked import LOCKS, pins

TOP = Path(__file__).resolve().parent.parent
PLACE = TOP / ".try"
REPORT, LOG, RESULTS = TOP / "report.txt", PLACE / "log.txt", PLACE / "results.xml"
TESTS = (
    "tests/system",
    "tests/unit/system",
    "tests/unit/files",
    "tests/unit/keys",
    "tests/unit/stores/test_vault_*.py",
    "tests/contract/test_vault_contract.py",
    "tests/contract/test_local_contract.py",
    "tests/cli/test_client_files.py",
    "tests/cli/test_install_across.py",
)
"""What reaches the system: files, locks, keys, vault, notebook, setup, the clients' files."""
TOOLS = {
    *("pytest", "pluggy", "iniconfig", "packaging", "pygments", "pytest-timeout", "colorama"),
    *("hypothesis", "sortedcontainers", "h11", "watchdog"),
    *("hatchling", "pathspec", "trove-classifiers", "editables"),
}
SHOWN = ("sqlcipher3", "sqlcipher3-binary", "cryptography", "keyring", "watchdog")


def install(python: Path, log: Path) -> None:
    """Make the environment, with what is locked and nothing else. Raises ``CalledProcessError``."""
    venv.create(PLACE / "venv", with_pip=True, clear=True)
    wanted = {one.name for one in pins(TOP / LOCKS[0])} | TOOLS
    listed = PLACE / "packages.txt"
    lines = [
        f"{one.name}=={one.version}{f' ; {one.marker}' if one.marker else ''} "
        + " ".join(f"--hash=sha256:{digest}" for digest in one.sha256)
        for one in pins(TOP / LOCKS[1])
        if one.name in wanted
    ]
    listed.write_text("\n".join(lines) + "\n", encoding="utf-8")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
    run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(listed)], log)
    run([*pip, "--no-build-isolation", "--editable", str(TOP)], log)


def run(command: list[str], log: Path, *, check: bool = True) -> int:
    """Run a command; what it says goes to the log."""
    own = ("PYTHON", "NOTARIUM_", "VAULT_", "CI")
    environ = {name: text for name, text in os.environ.items() if not name.startswith(own)}
    with log.open("a", encoding="utf-8") as said:
        return subprocess.run(
            command, cwd=TOP, env=environ | {"NOTARIUM_TRY": "1", "PYTHONUTF8": "1"}, stdout=said,
            stderr=subprocess.STDOUT, check=check,
        ).returncode  # fmt: skip


def packages(python: Path) -> list[str]:
    """Return the versions that matter most."""
    code = "from importlib.metadata import distributions as d; [print(' ', o.name, o.version) for o in d()]"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return sorted(line for line in done.stdout.splitlines() if line.split()[0] in SHOWN)


def results(text: str) -> tuple[list[str], bool]:
    """Return the lines of the report about the tests, and whether all is well. Of a failure only its kind is told."""
    lines: list[str] = []
    failed: list[str] = []
    rows: dict[str, list[int]] = {}
    suite = ET.fromstring(text).find("testsuite")  # noqa: S314 - pytest has just written it
    if suite is None:
        return ["no tests ran"], False
    for case in suite.iter("testcase"):
        file = case.get("classname", "").replace("tests.", "", 1)
        row = rows.setdefault(file, [0, 0, 0])
        wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
        if wrong is not None:
            kind = re.match(r"[\w.]+", wrong.get("message", "")) or re.match("", "")
            failed.append(
                f"  {file}: {case.get('name', '').partition('[')[0]}: {kind[0] if kind else ''}"
            )
        row[1 if wrong is not None else 2 if case.find("skipped") is not None else 0] += 1
    lines += [
        f"  {name}: {good} passed, {bad} failed, {left} skipped"
        for name, (good, bad, left) in rows.items()
    ]
    times = [
        f"  {one.get('name')}: {one.get('value')}"
        for one in suite.iter("property")
        if not one.get("name", "").startswith("hypothesis")
    ]
    return [
        "tests",
        *lines,
        "failures",
        *(sorted(set(failed)) or ["  none"]),
        "times",
        *times,
    ], bool(rows) and not failed


def system() -> list[str]:
    """Return what the system is. Names of the computer and its user are no part of it."""
    bits = "64 bit" if sys.maxsize > 2**32 else "32 bit"
    translated = os.environ.get("PROCESSOR_ARCHITEW6432") or os.environ.get(
        "PROCESSOR_IDENTIFIER", ""
    )
    probe = PLACE / "Case"
    probe.write_text("", encoding="utf-8")
    spelt = "not told apart" if (PLACE / "cASE").exists() else "told apart"
    return [
        f"system: {platform.system()} {platform.release()} {platform.version()}",
        f"processor: {platform.machine()} {translated}".rstrip(),
        f"Python: {platform.python_version()}, {bits}",
        f"letter case of names: {spelt}",
    ]


def scrubbed(text: str) -> str:
    """Return the text without the names of the user, the computer and their folders, wherever they would be."""
    for hidden in {
        str(Path.home()),
        str(TOP),
        os.fspath(PLACE),
        getpass.getuser(),
        platform.node(),
    }:
        if len(hidden) > 2:  # noqa: PLR2004 - a name of two letters is in many words
            text = re.sub(re.escape(hidden), "...", text, flags=re.IGNORECASE)
    return text


def main() -> int:
    """Install, test, report; return 1 if something does not hold."""
    began = time.monotonic()
    PLACE.mkdir(exist_ok=True)
    LOG.write_text("", encoding="utf-8")
    RESULTS.unlink(missing_ok=True)
    python = PLACE / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    lines, well = ["MCP Notarium on a real system", *system()], False
    try:
        print("Installing the locked packages into .try ...")
        install(python, LOG)
        lines += [f"installed in {time.monotonic() - began:.0f} s", "packages", *packages(python)]
        print("Running the tests, some minutes ...")
        files = [str(path) for one in TESTS for path in sorted(TOP.glob(one))]
        words = [
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={RESULTS}",
            "--continue-on-collection-errors",
        ]
        run([str(python), *words, *files], LOG, check=False)
        found, well = results(RESULTS.read_text(encoding="utf-8"))
        lines += found
    except (OSError, subprocess.CalledProcessError, ET.ParseError) as error:
        lines.append(f"it ended early: {type(error).__name__}")
    lines.append(
        f"{'everything holds' if well else 'something does not hold'}; {time.monotonic() - began:.0f} s"
    )
    REPORT.write_text(scrubbed("\n".join(lines) + "\n"), encoding="utf-8")
    print(REPORT.read_text(encoding="utf-8"))
    print(
        "report.txt is what you can send. .try/log.txt stays here: it has paths and names. Remove .try when you are done."
    )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
