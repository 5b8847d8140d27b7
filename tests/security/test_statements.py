"""No SQL is put together from what comes from outside: the rule over all sources, and the rule itself."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "statements.py"


@pytest.fixture(scope="module")
def rule():
    spec = importlib.util.spec_from_file_location("statements", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["statements"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["statements"]


def found(rule, text, *, beside=""):
    modules = [rule.Module("sample", text), rule.Module("beside", beside)]
    return rule.Rule(modules).faults() + rule.hidden(modules[0])


def test_every_statement_of_the_program_is_fixed_in_its_sources(rule, capsys):
    assert rule.main() == 0, capsys.readouterr().err


def test_every_builder_that_is_let_through_says_why(rule):
    assert all(reason.strip() for reason in rule.BUILDERS.values())


@pytest.mark.parametrize(
    "text",
    [
        "def f(db, word): db.rows(f'SELECT * FROM notes WHERE id = {word}')",
        "def f(db, word): db.rows('SELECT ' + word)",
        "def f(db, word): db.rows('SELECT %s' % word)",
        "def f(db, word): db.rows('SELECT {}'.format(word))",
        "def f(db, word): db.rows(word)",
        "def f(db, word):\n    sql = 'SELECT 1'\n    sql += word\n    db.run(sql)",
        "def f(db, word):\n    sql = 'SELECT ' + word\n    db.run(sql)",
        "def f(db, word): db.run(', '.join(word))",
        "def f(db, word): db.run(word if word else 'SELECT 1')",
        "def f(db, words):\n    for word in words:\n        db.run(word)",
        "def f(db, words): return [db.row(word) for word in words]",
        "def f(db): return lambda word: db.number(word)",
        "def f(db, word): db.run_many(word, [])",
        "def f(db, word): db.run(sql=word)",
        "def f(db, words): db.run(*words)",
        "def f(db, words): db.run(**words)",
        "def f(connection, word): connection.execute(word)",
        "def f(connection, word): connection.executescript(f'{word}')",
        "import os\nSQL = os.environ['SQL']\ndef f(db): db.run(SQL)",
        "SQL = 'SELECT 1'\ndef f(db, SQL): db.run(SQL)",
        "SQL = 'SELECT 1'\nSQL = open('x').read()\ndef f(db): db.run(SQL)",
        "def f(db):\n    with open('x') as sql:\n        db.run(sql)",
        "def f(db, pairs):\n    for sql, _ in pairs:\n        db.run(sql)",
        "from beside import SQL\ndef f(db): db.run(SQL)",
        "from elsewhere import SQL\ndef f(db): db.run(SQL)",
        "def f(db, words): list(map(db.execute, words))",
        "def f(db, word): getattr(db, 'run')(word)",
    ],
)
def test_a_statement_with_anything_else_in_it_is_found(rule, text):
    assert found(rule, text, beside="def made(): return 1\nSQL = made()")


@pytest.mark.parametrize(
    "text",
    [
        "def f(db, word): db.rows('SELECT * FROM notes WHERE id = ?', (word,))",
        "A = 'pk, id'\nSQL = f'SELECT {A} FROM notes'\ndef f(db): db.rows(f'{SQL} ORDER BY pk')",
        "SQL = f\"INSERT INTO t VALUES ({', '.join('?' * 3)})\"\ndef f(db, rows): db.run_many(SQL, rows)",
        "def f(db, on): db.run(f\"PRAGMA {'integrity' if on else 'quick'}_check\")",
        "def f(db, n): db.run(f'PRAGMA user_version = {int(n)}')",
        "def f(db):\n    for sql in ('SELECT 1', 'SELECT 2'):\n        db.run(sql)",
        "ALL = {'a': 'SELECT 1', 'b': 'SELECT 2'}\ndef f(db, which): db.run(ALL[which])",
        "from beside import SQL\ndef f(db): db.run(SQL)",
        "import asyncio\ndef f(program): asyncio.run(program)",
    ],
)
def test_what_is_made_of_constants_is_not_called_a_fault(rule, text):
    assert not found(rule, text, beside="SQL = 'SELECT 1'")


def test_changing_a_key_in_place_is_found_in_any_spelling(rule, tmp_path):
    for text in ("db.run('PRAGMA rekey = 1')", "connection.ReKey(b'')", "# rekey"):
        (tmp_path / "sample.py").write_text(text)
        assert any("rekey" in str(fault) for fault in rule.look(tmp_path)), text


def test_a_builder_that_is_not_needed_any_more_is_named(rule):
    needed, gone = sorted(rule.BUILDERS)[1:], min(rule.BUILDERS)
    assert [fault.place for fault in rule.stale(set(needed))] == [gone]
