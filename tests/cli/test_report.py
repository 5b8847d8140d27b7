"""Test ``report``: the file that it writes, and the page as a real browser shows it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.audit.chain import OPEN, AuditEntry, Head
from mcp_notarium.audit.verification import Fault, FaultKind, Verification
from mcp_notarium.report.page import KeyRing
from mcp_notarium.report.words import Check
from notarium_devtools import report_example
from notarium_devtools.report_example import NOW
from notarium_devtools.simperium import Simulator
from support.browser import Browser
from support.whole import Server, environment, run

BREAD = "# How\n\n500 g of flour.\n"
HOSTILE = "<script>window.hacked=1</script>\u202eevil 1.0"
HOSTILE_TITLE = '"><img src=x onerror="window.hacked=2">\u202e {{ 7 * 191 }} `code`' + "w" * 500
LONG_NAME = "W" * 90 + " 3.0"
ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture(name="env", scope="module")
def _env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A notebook with one note, which an agent has written and read; nothing runs."""
    place = tmp_path_factory.mktemp("report")
    env = environment(Simulator(), place, NOTARIUM_STORE="local", NOTARIUM_DESTRUCTIVE="trust")
    with Server(env) as server:
        note = server.tool("save", title="Sourdough bread", text=BREAD)
        server.tool("get", id=note["id"])
        server.tool("list", query="flour")
        gone = server.tool(
            "manage", action="trash", id=note["id"], local_version=note["local_version"]
        )
        version = gone.get("local_version", note["local_version"] + 1)
        server.error("manage", action="delete_permanently", id=note["id"], local_version=version)
        assert server.leave() == 0
    return env


@pytest.mark.slow("runs several commands")
def test_the_page_is_for_its_owner_and_names_titles_only_if_asked(
    env: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "mine.html"
    done = run(env, "report", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 program, 5 calls, 2 changes, 1 refused." in done.stdout
    assert path.stat().st_mode & 0o777 == 0o600
    first = path.read_text(encoding="utf-8")
    assert "talker" in first
    assert "Sourdough" not in first
    done = run(env, "report", str(path), "--titles", "--days", "1", "--json")
    facts = json.loads(done.stdout)
    assert facts["path"] == str(path)
    assert facts["since"] == facts["until"]
    assert facts["calls"] == {"read": 2, "changed": 2, "refused": 1, "failed": 0, "unsure": 0}
    assert facts["audit_log"]["whole"]
    assert facts["audit_log"]["head"] in first
    second = path.read_text(encoding="utf-8")
    assert "Sourdough bread" in second
    assert "flour" not in first + second


@pytest.mark.slow("runs several commands")
def test_nothing_but_an_older_report_is_replaced(env: dict[str, str], tmp_path: Path) -> None:
    letter, link = tmp_path / "letter.html", tmp_path / "link.html"
    letter.write_text("<!doctype html>\n<html lang=en>mine")
    link.symlink_to(letter)
    for path in (letter, link, tmp_path, tmp_path / "nowhere" / "report.html"):
        done = run(env, "report", str(path))
        assert done.returncode == 1, path
        assert "→" in done.stderr
    assert letter.read_text().endswith("mine")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["letter.html", "link.html"]
    for wrong in (
        ["--days", "0"],
        ["--days", "9999"],
        ["--since", "May"],
        ["--since", "2999-01-01"],
    ):
        assert run(env, "report", str(tmp_path / "new.html"), *wrong).returncode == 1
    assert run(env, "reprot").stderr.endswith("did you mean report?\n")


@pytest.mark.slow("runs several commands")
def test_a_broken_log_is_said_first_and_by_the_exit_code(
    env: dict[str, str], tmp_path: Path
) -> None:
    anchor = next(Path(env["NOTARIUM_DATA_DIR"]).rglob("audit_anchor.json"))
    path, kept = tmp_path / "report.html", tmp_path / "kept"
    anchor.rename(kept)
    try:
        done = run(env, "report", str(path), "--json")
    finally:
        kept.rename(anchor)
    assert done.returncode == 3
    assert json.loads(done.stdout)["concerns"][0]["level"] == "bad"
    words = re.sub(r"<[^>]+>|\s+", " ", path.read_text(encoding="utf-8"))
    assert "the log is not whole" in words
    assert words.index("The audit log is not whole") < words.index("Who did what")


@pytest.mark.slow("starts a server")
def test_an_account_that_nobody_has_used_has_a_friendly_page(tmp_path: Path) -> None:
    env = environment(Simulator(), tmp_path, NOTARIUM_STORE="local")
    path = tmp_path / "report.html"
    for _state in ("no database yet", "no call yet"):
        done = run(env, "report", str(path))
        assert done.returncode == 0, done.stderr
        assert "No assistant used your notes in these days." in done.stdout
        text = path.read_text(encoding="utf-8")
        assert "No assistant has used your notes yet." in text
        assert "mcp-notarium install" in text
        with Server(env) as server:
            assert server.leave() == 0


def write_page(path: Path, entries: Iterable[AuditEntry], **changes: Any) -> Path:
    path.write_bytes(report_example.page(entries, **changes))
    return path


def a_week() -> list[AuditEntry]:
    """Acts with every result, and a program with a long name."""
    long = {"at": NOW, "client": LONG_NAME, "notes": (ID,)}
    return [*report_example.a_week(), AuditEntry(act="tool.save", outcome=OPEN, **long)]


@pytest.fixture(name="browser", scope="module")
def _browser(tmp_path_factory: pytest.TempPathFactory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def complaints(browser: Browser) -> list[str]:
    return [
        one["params"]["entry"]["text"] for one in browser.seen if one["method"] == "Log.entryAdded"
    ]


def loaded(browser: Browser) -> list[str]:
    return [
        one["params"]["response"]["url"]
        for one in browser.seen
        if one["method"] == "Network.responseReceived"
    ]


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    entry = AuditEntry(at=NOW, act="tool.save", client="c", outcome=OPEN, notes=(ID,))
    activity, _chain = report_example.count([entry])
    program = activity.programs.pop("c")
    program.name = HOSTILE
    program.versions.add(HOSTILE)
    activity.programs[HOSTILE] = program
    path = write_page(
        tmp_path / "hostile.html",
        [],
        activity=activity,
        account=HOSTILE,
        titles={ID: HOSTILE_TITLE},
        checks=[Check(HOSTILE, "warn", HOSTILE, HOSTILE_TITLE)],
        chain=Verification(Head(1), 1, (Fault(FaultKind.EDITED, 1, HOSTILE),), (HOSTILE,)),
        keys=KeyRing(((HOSTILE, HOSTILE),), HOSTILE, HOSTILE),
    )
    browser.show(width=360)
    browser.open(path)
    assert browser.evaluate("window.hacked") is None
    assert (
        browser.evaluate(
            "document.querySelectorAll('script, img, iframe, [style], a[href^=http]').length"
        )
        == 0
    )
    shown = browser.evaluate("document.body.innerText")
    assert shown.count("<script>window.hacked=1</script>\\u202eevil") >= 8
    assert "{{ 7 * 191 }}" in shown
    assert "\u202e" not in path.read_text(encoding="utf-8")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert loaded(browser) == [path.as_uri()]
    assert complaints(browser) == []


def test_the_policy_of_the_page_stops_what_should_ever_get_in(
    browser: Browser, tmp_path: Path
) -> None:
    path = write_page(tmp_path / "page.html", a_week())
    smuggled = (
        "<script>window.hacked=1</script><img src=other.png onerror='window.hacked=2'>"
        "<p style='color: red' id=styled>x</p><iframe src=other.html></iframe></main>"
    )
    path.write_text(path.read_text(encoding="utf-8").replace("</main>", smuggled), encoding="utf-8")
    browser.open(path)
    assert browser.evaluate("window.hacked") is None
    assert browser.evaluate("getComputedStyle(styled).color") != "rgb(255, 0, 0)"
    assert loaded(browser) == [path.as_uri()]
    assert len(complaints(browser)) >= 3


_BROKEN_WORDS = """[...document.querySelectorAll('caption, thead th')].filter(one => {
  const box = one.getBoundingClientRect();
  if (!box.width || box.left < 0) return false;
  const range = document.createRange();
  range.selectNodeContents(one);
  const lines = new Set([...range.getClientRects()].map(line => Math.round(line.top)));
  return lines.size > one.textContent.trim().split(/\\s+/).length;
}).map(one => one.textContent)"""
"""Captions and headings with more lines than words."""


@pytest.mark.slow("a browser lays the page out six times")
def test_the_page_can_be_read_on_a_phone_and_in_the_dark(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path / "page.html", a_week()))
    for scheme in ("light", "dark"):
        grounds = set()
        for width in (360, 768, 1280):
            browser.show(width=width, scheme=scheme)
            assert browser.evaluate("document.documentElement.scrollWidth") <= width
            assert browser.evaluate(_SMALLEST) >= 11
            grounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
            browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert browser.evaluate(_BROKEN_WORDS) == []
            if width == 360:
                assert browser.evaluate(_CONTRASTS) == []
        assert grounds == {"rgb(245, 246, 248)" if scheme == "light" else "rgb(18, 21, 24)"}
    assert complaints(browser) == []


def test_the_page_is_read_aloud_and_walked_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    browser.show(width=1280)
    browser.open(write_page(tmp_path / "page.html", a_week()))
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = {
        (one["role"]["value"], one.get("name", {}).get("value"))
        for one in nodes
        if not one["ignored"]
    }
    assert ("image", "Calls by day, 17 to 23 November 2026") in named
    assert {("table", "Calls by day"), ("table", "Calls by program and tool")} <= named
    assert {role for role, _name in named} >= {
        "main",
        "banner",
        "contentinfo",
        "columnheader",
        "rowheader",
        "time",
    }
    levels = browser.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert browser.evaluate(
        "[...document.querySelectorAll('table')].every(t => t.caption && t.caption.textContent)"
    )
    for reached in ("Skip to the report", "The numbers", "2 checks in order"):
        for kind in ("rawKeyDown", "keyUp"):
            browser.call(
                "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9
            )
        assert browser.evaluate("document.activeElement.innerText") == reached
        assert browser.evaluate("document.activeElement.getBoundingClientRect().left") >= 0


def test_everything_is_printed_on_white(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path / "page.html", a_week()))
    browser.show(width=768, scheme="dark", media="print")
    assert (
        browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    shown = "[...document.querySelectorAll('table')].map(one => one.checkVisibility())"
    assert set(browser.evaluate(shown)) == {True}
    assert browser.evaluate(_CONTRASTS) == []


@pytest.mark.slow("a browser opens the page of a real account")
def test_the_page_of_a_real_account_opens(
    browser: Browser, env: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    assert run(env, "report", str(path), "--titles").returncode == 0
    browser.show(width=360)
    browser.open(path)
    shown = browser.evaluate("document.body.innerText")
    for words in (
        "Who did what",
        "talker",
        "save a note",
        "Sourdough bread",
        "it needs your consent",
        "a random key",
    ):
        assert words in shown
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert (loaded(browser), complaints(browser)) == ([path.as_uri()], [])


_SMALLEST = """
Math.min(...[...document.querySelectorAll('body *')]
  .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
  .map(e => parseFloat(getComputedStyle(e).fontSize)))
"""
# Ratios as WCAG 2.2 defines them: 4.5 for text, 3 for what a plot shows, against what is behind it.
_CONTRASTS = """
(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number)
  const light = colour => {
    const [r, g, b] = parts(colour).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p)
    return (x + 0.05) / (y + 0.05)
  }
  const ground = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor, p = parts(colour)
      if (p.length < 4 || p[3] > 0) return colour
    }
    return 'rgb(255, 255, 255)'
  }
  const low = []
  for (const e of document.querySelectorAll('body *')) {
    const style = getComputedStyle(e), drawn = e.matches('.plot > g > rect, .share rect, .legend rect')
    const text = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
    if (!(text || drawn) || !e.checkVisibility() || e.closest('title, desc')) continue
    const ink = e.closest('svg') ? style.fill : style.color
    if (!ink.startsWith('rgb')) continue  // stripes: two colours of their own
    const found = ratio(ink, ground(e))
    if (found < (drawn ? 3 : 4.5)) low.push([e.outerHTML.slice(0, 80), ink, ground(e), found])
  }
  return low
})()
"""
