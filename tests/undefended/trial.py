"""A copy of the tree with an environment of its own, in which one defence at a time is missing.

What runs there, children included, imports the package of the copy: its interpreter has the copy's
``src`` in front of the packages that are installed here. Nothing outside the copy is changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from undefended.defence import PACKAGE, TOP, Custom, Marker

SECONDS = 600.0
"""Longer does no trial take."""
ALL_SECONDS = 3 * SECONDS
"""Longer does no run of all the tests take."""

_NO_PROOF = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "NameError")
"""Failures that say that the change made no program any more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which of the named tests failed, which passed, and what went wrong besides."""

    failed: frozenset[str]
    passed: frozenset[str]
    trouble: str = ""


class Copy:
    """The files that git knows of, as they lie here now, and an interpreter for them."""

    def __init__(self, folder: Path) -> None:
        self.top = folder
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=TOP, capture_output=True, check=True).stdout
        for name in filter(None, names.decode().split("\0")):
            if (TOP / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TOP / name, folder / name)
        self.python = _environment(folder)

    @contextmanager
    def without(self, place: Marker | Custom) -> Iterator[None]:
        """The copy without what stands at the place, while it is entered. Raises ``Unfit``."""
        file = self.top / PACKAGE / place.file
        whole = file.read_text(encoding="utf-8")
        file.write_text(place.taken_out(whole), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(whole, encoding="utf-8")
            for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
                cached.unlink()

    def run(self, tests: Iterable[str], *, seconds: float = SECONDS) -> Verdict:
        """Run these tests (``path::name`` below ``tests/``) and say which failed."""
        wanted = list(dict.fromkeys(tests))
        report = self.top / "report.xml"
        report.unlink(missing_ok=True)
        options = (f"--junitxml={report}", "-o", "junit_family=xunit1")
        code = self._pytest(*options, tests=wanted, seconds=seconds)
        if code not in {0, 1} or not report.is_file():
            return Verdict(frozenset(), frozenset(), f"pytest ended with {code}")
        return read_report(report, wanted)

    def passes(self, tests: Iterable[str], *, seconds: float = SECONDS) -> bool:
        """Return whether all these tests pass in time."""
        try:
            return self._pytest("-x", tests=tests, seconds=seconds) == 0
        except subprocess.TimeoutExpired:
            return False

    def _pytest(self, *options: str, tests: Iterable[str], seconds: float = SECONDS) -> int:
        """Return the exit code of pytest; what it has started ends with it."""
        running = subprocess.Popen(
            [
                *(str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *options),
                *(f"tests/{test}" for test in tests),
            ],
            cwd=self.top,
            env=_settings(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        try:
            return running.wait(seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def _environment(folder: Path) -> Path:
    """An environment that sees the copy and the installed packages, and not the tree here."""
    place = folder / ".venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, capture_output=True
    )
    scheme = sysconfig.get_preferred_scheme("prefix")
    packages = sysconfig.get_path("purelib", scheme, {"base": str(place), "platbase": str(place)})
    # A path file of its own is not read again in a folder that one names: the tree here stays out.
    installed = sysconfig.get_path("purelib")
    (Path(packages) / "copy.pth").write_text(f"{folder / 'src'}\n{installed}\n", encoding="utf-8")
    python = place / "bin" / "python"
    program = python.with_name("mcp-notarium")
    program.write_text(
        f"#!{python}\nimport sys\nfrom mcp_notarium.__main__ import main\nsys.exit(main())\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return python


def _settings(here: Mapping[str, str]) -> dict[str, str]:
    """The environment of a run, without what would lead it elsewhere or slow it down; whatever half is tested, all samples are those of one day."""
    dropped = {"PYTHONPATH", "PYTEST_ADDOPTS", "NOTARIUM_LONG_TESTS", "VIRTUAL_ENV"}
    dropped |= {"PYTHONDONTWRITEBYTECODE", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"}
    kept = {name: value for name, value in here.items() if name not in dropped}
    return kept | {"NOTARIUM_TEST_SEED": "undefended", "NOTARIUM_TEST_PART": "all"}


def read_report(report: Path, wanted: list[str]) -> Verdict:
    """What pytest's report says of the ``wanted`` tests."""
    failed, passed, trouble = set(), set(), set()
    for case in ET.parse(report).iter("testcase"):
        test = _named(case)
        if case.find("error") is not None:
            trouble.add(f"{case.get('name')} could not be run")
        elif (failure := case.find("failure")) is not None:
            said = failure.get("message") or ""
            if said.startswith(_NO_PROOF):
                trouble.add(f"{case.get('name')}: {said.splitlines()[0]}")
            else:
                failed.add(test)
        elif case.find("skipped") is None:
            passed.add(test)
    if not trouble:
        trouble = {f"{test} was not run" for test in set(wanted) - failed - passed}
    return Verdict(frozenset(failed), frozenset(passed - failed), "; ".join(sorted(trouble)))


def _named(case: ET.Element) -> str:
    """``path::name`` or ``path::Class::name`` below ``tests/``, without the parameters."""
    parts = (case.get("classname") or "").split(".")
    owners = [part for part in parts if part[:1].isupper()]
    path = "/".join(part for part in parts if part not in owners).removeprefix("tests/")
    return "::".join((f"{path}.py", *owners, (case.get("name") or "").partition("[")[0]))
