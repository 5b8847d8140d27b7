"""Ask the index which wheels there are for each system, and write docs/wheels.md; ``--check`` compares that page with the lock file.

Only pip's own resolver knows which wheel fits where, so it is asked: a dry run for each system and Python, by which nothing is
installed. ``--check`` needs no network.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from locked import Pin, pins
from packaging.markers import Marker

TOP = Path(__file__).resolve().parent.parent
LOCK, PAGE = TOP / "requirements.lock", TOP / "docs" / "wheels.md"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")
_ANY = "-none-any.whl"
_MISSING = re.compile(r"No matching distribution found for ([\w.-]+)==")
_PIN = re.compile(r"^([\w.-]+) ([\w.+!-]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Target:
    """Hold a system: the tags of its wheels, and what markers say of it."""

    title: str
    tags: tuple[str, ...]
    platform: str
    machine: str

    def fits(self, pin: Pin, python: str) -> bool:
        """Tell whether the lock file installs a package there."""
        about = {
            "sys_platform": self.platform,
            "platform_machine": self.machine,
            "platform_system": {"win32": "Windows", "darwin": "Darwin"}.get(self.platform, "Linux"),
            "os_name": "nt" if self.platform == "win32" else "posix",
            "python_version": python,
            "python_full_version": f"{python}.0",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }
        return not pin.marker or Marker(pin.marker).evaluate(about)


TARGETS = (
    Target("Windows, x86-64", ("win_amd64",), "win32", "AMD64"),
    Target("Windows, ARM64", ("win_arm64",), "win32", "ARM64"),
    Target("macOS 13, ARM64", ("macosx_13_0_arm64",), "darwin", "arm64"),
    Target("macOS 13, x86-64", ("macosx_13_0_x86_64",), "darwin", "x86_64"),
    Target("Linux, x86-64, glibc 2.28", tuple(f"{one}_x86_64" for one in _GLIBC), "linux", "x86_64"),
    Target("Linux, aarch64, glibc 2.28", tuple(f"{one}_aarch64" for one in _GLIBC), "linux", "aarch64"),
)  # fmt: skip

_EMULATED = "Install Python for x86-64, which Windows 11 on ARM runs, and the program with it: every wheel for Windows on x86-64 fits."
INSTEAD = {
    (
        "cryptography",
        "Windows, ARM64",
    ): f"{_EMULATED} A Python for ARM64 would have to build it, with Rust and OpenSSL.",
    ("pyyaml", "Windows, ARM64"): _EMULATED,
}
"""Package and system without a wheel -> what a user does."""
OLDER = """macOS on Intel: its packagers no longer build `cryptography` and `argon2-cffi-bindings` there. The program takes the last versions
with a wheel, which get no more corrections. `scripts/audit.py` fails when a weakness of theirs becomes known."""


def ask(target: Target, python: str, wanted: list[Pin]) -> tuple[dict[str, str], set[str]]:
    """Return the file of each package that has a wheel there, and the names of those without."""
    missing: set[str] = set()
    version = python.replace(".", "")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:"]
        command += ["--target", folder, "--report", str(report), "--python-version", python]
        command += ["--implementation", "cp"]
        command += [word for abi in (f"cp{version}", "abi3", "none") for word in ("--abi", abi)]
        command += [word for tag in target.tags for word in ("--platform", tag)]
        while left := [f"{one.name}=={one.version}" for one in wanted if one.name not in missing]:
            done = subprocess.run(command + left, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                installs = json.loads(report.read_text(encoding="utf-8"))["install"]
                files = {one["metadata"]["name"]: one["download_info"]["url"] for one in installs}
                return {_plain(name): url for name, url in files.items()}, missing
            if (name := _MISSING.search(done.stderr)) is None:
                raise SystemExit(f"wheels: pip gave no answer: {done.stderr.strip()[-300:]}")
            missing.add(name[1])
    return {}, missing


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def find() -> dict[tuple[str, str], tuple[int, set[str]]]:
    """Return how many packages each system and Python needs, and which have no wheel there."""
    everywhere: set[str] = set()
    found = {}
    locked = pins(LOCK)
    for target in TARGETS:
        for python in PYTHONS:
            needed = [one for one in locked if target.fits(one, python)]
            files, missing = ask(
                target, python, [one for one in needed if one.name not in everywhere]
            )
            everywhere |= {name for name, url in files.items() if url.endswith(_ANY)}
            found[target.title, python] = len(needed), missing
            print(
                f"wheels: {target.title}, Python {python}: {len(needed)}, missing {sorted(missing) or 'none'}"
            )
    return found


def page(found: dict[tuple[str, str], tuple[int, set[str]]], locked: list[Pin]) -> str:
    """Return docs/wheels.md."""
    rows = []
    for target in TARGETS:
        cells = []
        for python in PYTHONS:
            needed, missing = found[target.title, python]
            cells.append(
                f"{needed - len(missing)} of {needed}"
                + "".join(f", no `{one}`" for one in sorted(missing))
            )
        rows.append(f"| {target.title} | {' | '.join(cells)} |")
    lacking = sorted({(one, system) for (system, _), (_, names) in found.items() for one in names})
    instead = [f"* **{system}:** no `{name}`. {INSTEAD[name, system]}" for name, system in lacking]
    versions = sorted({f"{one.name} {one.version}" for one in locked})
    return "\n".join(
        [
            "# Wheels",
            "",
            "`scripts/wheels.py` writes this page: for each system it asks the package index which packages of `requirements.lock` have a wheel there, so that",
            "nobody needs a compiler. `./scripts/check` fails if the lock file has other versions than this page.",
            "",
            "| packages with a wheel | " + " | ".join(f"Python {one}" for one in PYTHONS) + " |",
            "|---" * (len(PYTHONS) + 1) + "|",
            *rows,
            "",
            *(["Without a wheel:", "", *instead, ""] if instead else []),
            OLDER,
            "",
            "The versions:",
            "",
            "```text",
            *versions,
            "```",
            "",
        ]
    )  # fmt: skip


def differences(text: str, locked: list[Pin]) -> list[str]:
    """Return the packages whose versions the page does not have, or has beyond the lock file."""
    said = {*_PIN.findall(text.partition("```text")[2])}
    return sorted(
        f"{name} {version}" for name, version in said ^ {(one.name, one.version) for one in locked}
    )


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    locked = pins(LOCK)
    if arguments == ["--check"]:
        wrong = differences(PAGE.read_text(encoding="utf-8"), locked)
        for one in wrong:
            print(f"docs/wheels.md and requirements.lock differ: {one}", file=sys.stderr)
        print(
            "Run scripts/wheels.py."
            if wrong
            else "wheels: the page has the versions of the lock file"
        )
        return 1 if wrong else 0
    found = find()
    unknown = {(one, system) for (system, _), (_, names) in found.items() for one in names} - {
        *INSTEAD
    }
    for name, system in sorted(unknown):
        print(
            f"no wheel of {name} for {system}, and INSTEAD does not say what to do", file=sys.stderr
        )
    if unknown:
        return 1
    PAGE.write_text(page(found, locked), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
