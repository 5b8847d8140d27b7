"""Report the seed of a run, and slow tests without a reason, at its end."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pytest
from hypothesis import settings

from mcp_notarium.crypto import kdf
from support import cheap_costs, durations
from support.long import LONG, SEED, is_left_out

SLOW_SECONDS = 2.0
_BEGAN = time.monotonic()


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, like the server."""
    return "asyncio"


@pytest.fixture
def production_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permit only what the program permits; all other tests also make keys of the lowest cost."""
    monkeypatch.setattr(kdf, "RANGES", cheap_costs.PRODUCTION)


@pytest.fixture(name="rules")
def _rules(request: pytest.FixtureRequest) -> Iterator[set[str]]:
    """Collect the rules that act. Each that the test is marked with must be among them."""
    fired: set[str] = set()
    yield fired
    marks = request.node.iter_markers("rule")
    missing = {name for mark in marks for name in mark.args} - fired
    assert not missing, f"the test does not rest on {missing}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the table of docs/testing.md."""
    parser.addoption(
        "--by-folder", action="store_true", help="print the seconds of the tests by folder"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let a test say why it is slow; draw fewer examples in the short form."""
    cheap_costs.permit_cheapest()
    gc.disable()  # until all tests are collected: it would search thousands of objects that stay
    # A machine that is busy, or measures branches, takes its time: an example has no deadline.
    examples = {} if LONG else {"max_examples": 30}
    settings.register_profile("ours", deadline=None, **examples)
    settings.load_profile("ours")
    config.addinivalue_line(
        "markers", f"slow(reason): takes more than {SLOW_SECONDS:g} s alone, for this reason"
    )
    config.addinivalue_line(
        "markers", "this_system: shows what only the system can, see scripts/try_system.py"
    )
    config.addinivalue_line(
        "markers", "attack(number, ...): carries out these attacks of docs/adversarial-tests.md"
    )
    config.addinivalue_line(
        "markers", "rule(name, ...): rests on these rules of docs/simulated-systems.md"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests to the other part of a run; refuse to call a test slow without a reason."""
    if others := [item for item in items if is_left_out(item.nodeid)]:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if not is_left_out(item.nodeid)]
    for item in items:
        if (mark := item.get_closest_marker("slow")) and not any(mark.args):
            raise pytest.UsageError(f"{item.nodeid}: slow, and no reason given")


def pytest_collection_finish() -> None:
    """Collect garbage of tests only, not what they were collected with."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report; nothing fails, for on a busy machine every test is slow."""
    if not LONG:
        terminalreporter.write_line(f"Samples were drawn with NOTARIUM_TEST_SEED={SEED}")
    passed = terminalreporter.stats.get("passed", [])
    unexplained = sorted(
        {
            report.nodeid.partition("[")[0]
            for report in passed
            if report.when == "call"
            and report.duration > SLOW_SECONDS
            and "slow" not in report.keywords
        }
    )
    if unexplained and not LONG:
        terminalreporter.write_line(
            f"Over {SLOW_SECONDS:g} s and without `@pytest.mark.slow(reason)`:"
        )
        for name in unexplained:
            terminalreporter.write_line(f"  {name}")
    _tell_durations(terminalreporter)


def _tell_durations(terminalreporter: pytest.TerminalReporter) -> None:
    took, config = time.monotonic() - _BEGAN, terminalreporter.config
    if config.getoption("--by-folder"):
        reports = [
            one
            for found in terminalreporter.stats.values()
            for one in found
            if isinstance(one, pytest.TestReport)
        ]
        for line in durations.as_table(durations.by_folder(reports)):
            terminalreporter.write_line(line)
        terminalreporter.write_line(durations.ratio(took, durations.seconds_of_loop()))
