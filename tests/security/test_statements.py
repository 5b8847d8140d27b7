"""Test that no SQL is built from input, in all sources, and test the rule itself."""

import pytest

from support.scripts import script


@pytest.fixture(scope="module")
def rule():
    with script("statements") as module:
        yield module


def found(rule, text, *, beside=""):
    modules = [rule.Module("sample", text), rule.Module("beside", beside)]
    return rule.Rule(modules).faults() + rule.Mentions().faults("sample", modules[0].tree)


def test_every_statement_of_the_program_is_fixed_in_its_sources(rule, capsys):
    assert rule.main() == 0, capsys.readouterr().err


def test_everything_that_is_let_through_says_why(rule):
    reasons = [*rule.BUILDERS.values(), *rule.MENTIONED.values(), *rule.BY_NAME.values()]
    assert all(reason.strip() for reason in reasons)


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
        "def f(db, word):\n    run = db.run\n    run('DELETE FROM ' + word)",
        "def f(db, word): partial(db.run, 'SELECT ' + word)()",
        "def f(db, word): (db.run if word else db.rows)('SELECT ' + word)",
        "def f(db, words): return map(db.number, words)",
        "def f(db, word):\n    match db:\n        case Database(run=act):\n            act(word)",
        "def f(db, word): getattr(db, 'exec' + 'ute')(word)",
        "def f(db, name, word): getattr(db, name)(word)",
        "def f(db, name, word): getattr(*[db, name])(word)",
        "def f(db, name, word): builtins.getattr(db, name)(word)",
        "def f(db, word):\n    look = getattr\n    look(db, 'run')(word)",
        "def f(db, name, word): attrgetter(name)(db)(word)",
        "def f(db, word): operator.attrgetter('held.run')(db)(word)",
        "def f(db, word): methodcaller('run', word)(db)",
        "from operator import methodcaller as call\ndef f(db, word): call('run', word)(db)",
        "def f(db, name, word): db.__getattribute__(name)(word)",
        "def f(db, name, word): vars(db)[name](word)",
        "from mcp_notarium.storage.table_copy import _try_rows\ndef f(db, word): _try_rows(db, word)",
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
        "import os\ndef f(): return getattr(os, 'O_NOFOLLOW', 0)",
        "from operator import attrgetter\norder = attrgetter('id', 'version')",
        "from operator import methodcaller\nlower = methodcaller('lower')",
    ],
)
def test_a_statement_of_constants_is_no_fault(rule, text):
    assert not found(rule, text, beside="SQL = 'SELECT 1'")


def test_changing_a_key_in_place_is_found_in_any_spelling(rule, tmp_path):
    for text in ("db.run('PRAGMA rekey = 1')", "connection.ReKey(b'')", "# rekey"):
        (tmp_path / "sample.py").write_text(text)
        assert any("rekey" in str(fault) for fault in rule.find_faults(tmp_path)), text


@pytest.mark.parametrize("which", ["BUILDERS", "MENTIONED", "BY_NAME"])
def test_an_unused_exception_is_named(rule, which):
    gone = min(getattr(rule, which))
    needed = {*rule.BUILDERS, *rule.MENTIONED, *rule.BY_NAME} - {gone}
    assert [fault.place for fault in rule.stale(needed)] == [gone]


def test_an_exception_for_one_module_does_not_apply_to_another(rule):
    text = "def f(record, signal, name): return record.number, getattr(signal, name, None)"
    verify, run, other = (
        rule.Module(name, text)
        for name in ("mcp_notarium.audit.verification", "mcp_notarium.protocol.server", "sample")
    )
    assert [len(rule.Mentions().faults(one.name, one.tree)) for one in (verify, run, other)] == [
        1,
        1,
        2,
    ]
