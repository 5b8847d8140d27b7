"""Run the bench in its smallest form and check its answers; no time is asserted."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from bench import __main__ as command
from bench import corpus, older, page, plots, report, search_page
from bench.__main__ import GROUPS
from bench.measure import Figure, exponent, in_turn
from bench.processes import WrongAnswer, surroundings
from bench.targets import GROWING, TARGETS, Target, growths
from quality.scoring import MEASURES
from support.long import LONG, sample

NOTES = 300
MEASURED = [
    *sample("bench", [group for group in GROUPS if group not in ("tasks", "everyday")], 1),
    "tasks",
]
_SECONDS = 300 if LONG else 110
"""Until the run has to be over: every group takes two minutes on two slow cores."""
pytestmark = pytest.mark.timeout(_SECONDS + 10)
whole = pytest.mark.skipif(not LONG, reason="only the long form measures every group")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[report.Run, str]:
    """One smallest run of every group: the figures of its file, and what it printed."""
    figures = tmp_path_factory.mktemp("bench") / "figures.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench", "--smoke", "--notes", str(NOTES)),
            *("--rows", ",".join(MEASURED), "--json", str(figures)),
        ],
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return report.load_json(figures)[0], done.stdout


@whole
def test_every_row_with_a_target_is_measured(run):
    figures = {(f.group, f.row) for f in run[0].figures}
    assert figures >= set(TARGETS)


@whole
def test_every_row_that_the_page_shows_is_measured(run):
    figures = {(f.group, f.row) for f in run[0].figures}
    shown = {(group, row) for group, rows in page.ROWS.items() for row in rows}
    shown |= {(lines.group, row) for lines in plots.LINES for row in lines.rows}
    assert figures >= shown


def test_every_figure_is_a_positive_number(run):
    shares = {
        "share of a core",
        "round trips before the first list",
        "first list, warm: beyond the SDK's import",
    }
    for figure in run[0].figures:
        assert figure.value > 0 or figure.row in shares or figure.group == "search", figure


def test_every_row_is_printed(run):
    assert run[0].figures
    for figure in run[0].figures:
        group, _, measure = figure.row.partition(": ")
        shown = f"| **{group}** (" if figure.group == "search" and measure else f"| {figure.row} |"
        assert shown in run[1] or " beyond " in figure.row, figure


def test_a_run_that_ends_early_writes_what_it_has_and_says_so(tmp_path, monkeypatch, capsys):
    def measured(*_):
        yield Figure("calls", "get", NOTES, "ms", 1.0)
        raise WrongAnswer("no more")

    monkeypatch.setattr(command, "_measured", measured)
    monkeypatch.setattr(command, "_compile", lambda: None)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    figures = tmp_path / "figures.json"
    with pytest.raises(WrongAnswer):
        command.main(["--json", str(figures)])
    found, machine = report.load_json(figures)
    assert (len(found.figures), found.whole) == (1, False)
    assert "ended early" in capsys.readouterr().out
    assert "ended early" in page.results(found, machine, [])


def test_what_was_written_is_read_back_with_four_digits(tmp_path):
    figure = Figure("calls", "get", NOTES, "ms", 1.23456, 2.0, {"abc1234": 2.46912})
    report.save_json(tmp_path / "f.json", report.Run("--full", 60, [figure]), {"system": "x"})
    found, machine = report.load_json(tmp_path / "f.json")
    assert found.figures == [Figure("calls", "get", NOTES, "ms", 1.235, 2.0, {"abc1234": 2.469})]
    assert machine == {"system": "x"}


def test_bounds_are_written_and_read_back(tmp_path):
    figure = Figure("search", "words: hit@5", 9, "of 4 queries", 0.5, interval=(0.123456, 1.0))
    report.save_json(tmp_path / "f.json", report.Run("", 1, [figure]), {})
    (found,) = report.load_json(tmp_path / "f.json")[0].figures
    assert found.interval == (0.1235, 1.0)
    assert report.load_json(tmp_path / "f.json")[0].figures[0].row == "words: hit@5"


def _found(row: str, value: float, **floors: float) -> Figure:
    bounds = (value - 0.25, value + 0.25)
    return Figure("search", row, 9, "of 4 queries", value, floors=floors, interval=bounds)


def test_search_is_shown_by_group_and_engine_and_in_pairs():
    figures = [_found(f"all: {name}", 0.5, other=0.25) for name in MEASURES]
    figures += [
        Figure("search", "all: tokens", 9, "o200k tokens", 144.4),
        Figure("search", "all: time", 9, "ms", 1.26, floors={"other": 31.7}),
    ]
    figures += [_found(f"{name} beyond other", 0.25) for name in MEASURES]
    lines = list(search_page.search_tables(figures))
    share = "0.50 [0.25, 0.75]"
    assert f"| **all** (4) | here | {' | '.join([share] * 4)} | 144 | 1.3 |" in lines
    assert "| | other | 0.25 | 0.25 | 0.25 | 0.25 |  | 32 |" in lines
    assert f"| other | {' | '.join(['+0.25 [+0.00, +0.50]'] * 4)} |" in lines
    shown = report.as_markdown(report.Run("--rows search", 1, figures), {})
    assert all(line in shown for line in lines)
    assert all(line in page.results(report.Run("", 1, figures), {}, []) for line in lines)
    assert list(search_page.search_tables([Figure("calls", "get", 9, "ms", 1.0)])) == []
    assert not growths([*figures, *(replace(one, notes=90, value=9.0) for one in figures)])


def test_a_part_that_is_measured_later_replaces_its_rows_and_says_so(tmp_path, monkeypatch):
    def measured(*_):
        yield Figure("local", "list", 100, "ms", 2.0)
        yield Figure("local", "list", 10_000, "ms", 4.0)

    monkeypatch.setattr(command, "_measured", measured)
    monkeypatch.setattr(command, "_compile", lambda: None)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command, "FIGURES", tmp_path / "f.json")
    old = [Figure("calls", "get", 100, "ms", 1.0), Figure("local", "list", 1, "ms", 9.0)]
    report.save_json(tmp_path / "f.json", report.Run("--full", 60, old), {"system": "x"})
    command.main(["--rows", "local", "--notes", "100,10000", "--page"])
    found, machine = report.load_json(tmp_path / "f.json")
    assert [one.value for one in found.figures] == [1.0, 2.0, 4.0]
    assert (found.arguments, machine) == ("--full", {"system": "x"})
    shown = page.results(found, machine, [])
    assert "| list, ms | 2 | 4 | n^0.15 |" in shown
    assert "Measured later, `local`: `scripts/bench --notes 100,10000 --rows local --page`" in shown


def test_a_part_leaves_the_other_rows_of_a_group_alone():
    whole = report.Run(
        "--full",
        60,
        [Figure("memory", "at rest", 1, "MB", 9.0), Figure("memory", "peak", 1, "MB", 8.0)],
    )
    part = report.Run("--rows sync", 6, [Figure("memory", "peak", 1, "MB", 7.0)])
    found = report.replace_rows(whole, part, {"load of others at the start": "1.0"})
    assert [(one.row, one.value) for one in found.figures] == [("at rest", 9.0), ("peak", 7.0)]
    assert list(found.parts) == ["memory: peak"]


def test_the_page_shows_the_figures_of_its_file():
    found, machine = report.load_json(command.FIGURES)
    text = (page.DOCS / "performance.md").read_text(encoding="utf-8")
    drawn = re.findall(r"!\[(.*)\]\(plots/(\w+)\.svg\)", text)
    made = [plots.Plot(name, title) for title, name in drawn]
    assert page.put_into(text, page.results(found, machine, made)) == text
    assert {path.stem for path in (page.DOCS / "plots").glob("*.svg")} == {
        name for _, name in drawn
    }


def test_a_page_without_a_marked_section_is_refused():
    assert page.put_into(f"a\n{page.BEGIN}\nold\n{page.END}\nb\n", "new\n") == (
        f"a\n{page.BEGIN}\n\nnew\n\n{page.END}\nb\n"
    )
    with pytest.raises(ValueError, match="no section"):
        page.put_into("a\n", "new\n")


def test_the_same_figures_give_the_same_plots(tmp_path):
    found = report.load_json(command.FIGURES)[0].figures
    drawn = [plots.draw(found, tmp_path / name) for name in ("one", "two")]
    assert drawn[0] == drawn[1]
    for plot in drawn[0]:
        one, two = ((tmp_path / name / f"{plot.name}.svg").read_text() for name in ("one", "two"))
        assert one == two
        assert "<dc:date>" not in one


def test_an_older_build_with_other_packages_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(older, "_git", lambda *_: b"another==1.0 \\\n")
    with pytest.raises(older.NotComparable, match=r"another==1\.0"):
        older.unpack("abc1234", tmp_path)


def test_the_groups_that_may_be_chosen_are_those_that_exist():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--rows", "calls,nothing"],
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "unknown: nothing" in done.stderr
    assert "calls" in GROUPS


def test_queries_find_exactly_what_the_texts_contain():
    texts = {
        key: note["content"]
        for key, note in corpus.notes(NOTES)
        if not corpus.trashed(int(key, 16))
    }
    assert len(texts) == corpus.active(NOTES)
    assert max(texts) == corpus.note_id(corpus.newest(NOTES))
    asked = corpus.questions(NOTES)
    words = Counter(word for text in texts.values() for word in set(text.split()))
    assert all(words[q.query] == q.total for q in asked["common word"] + asked["rare word"])
    for kind in ("phrase", "CJK"):
        for q in asked[kind]:
            assert sum(q.query.strip('"') in text for text in texts.values()) == q.total
    assert all(q.total for kind in asked.values() for q in kind)


def test_only_a_query_of_several_words_may_count_notes_with_any_of_them():
    one, two = corpus.Asked("a", 3), corpus.Asked("a b", 3, parts=True)

    def answer(total: int, **fields: int) -> dict[str, object]:
        return {"total_items": total, "content": [{}], **fields}

    assert one.answers(answer(3))
    assert two.answers(answer(3))
    assert not one.answers(answer(9, have_all=3))
    assert two.answers(answer(9, have_all=3))
    assert not two.answers(answer(9, have_all=2))
    assert not two.answers(answer(2))
    assert not two.answers(answer(3) | {"content": []})


def test_growth_is_the_power_that_was_put_in():
    assert exponent({1000: 3.0, 10_000: 30.0, 100_000: 300.0}) == pytest.approx(1.0)
    assert exponent({1000: 3.0, 100_000: 3.0}) == pytest.approx(0.0)
    assert exponent({1000: 3.0}) is None
    rows = [Figure("calls", "get", n, "ms", n / 1000) for n in (1000, 10_000)]
    rows += [Figure("size", "database", n, "MB", n / 1000) for n in (1000, 10_000)]
    assert [(g.row, g.met) for g in growths(rows)] == [("get", False), ("database", None)]
    assert "size" in GROWING


def test_a_target_is_met_up_to_its_limit_and_only_where_it_applies():
    def figure(value: float, notes: int) -> Figure:
        return Figure("g", "r", notes, "ms", value, p99=9 * value, floors={"one": 2.0, "two": 0.5})

    ratio = Target(1.5, "ratio", at=50)
    assert [ratio.met(figure(value, 50)) for value in (3.0, 3.1)] == [True, False]
    assert ratio.met(figure(3.0, 51)) is None
    assert Target(27, "p99").met(figure(3.0, 1)) is True
    assert Target(2.9).met(figure(3.0, 1)) is False


def test_subjects_take_turns_at_being_first():
    said: list[str] = []
    subjects = {name: (lambda n=name: said.append(n)) for name in "abc"}
    taken = in_turn([subjects] * 3)
    assert "".join(said) == "abcbcacab"
    assert all(len(times.times) == 3 for times in taken.values())
