"""Test that the security documents name existing tests, places, verdicts and settings."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
HERE = "tests/docs/test_security_documents.py"
REAL = f"`{HERE}::test_everything_that_is_said_can_be_looked_up`"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("documents", TOP / "scripts" / "documents.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["documents"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["documents"]


def text_of(file):
    return (TOP / file).read_text(encoding="utf-8")


def test_everything_that_is_said_can_be_looked_up(check, capsys):
    assert check.main() == 0, capsys.readouterr().err


@pytest.mark.parametrize("letter", "STRIDEL")
def test_every_kind_of_threat_has_its_rows(check, letter):
    found = [row.cells["id"] for row in check.rows("", text_of(check.MODEL)) if "id" in row.cells]
    assert sum(name.startswith(letter) for name in found) >= 4


def threats(*rows, kinds=("STRIDE", "LINDDUN")):
    head = "| id | threat | where | answer | tests | risk | status | owner |\n|---|---|---|---|---|---|---|---|\n"
    good = f"| {{}} | a | TB1 | b | {REAL} | low / high | defended | keys |\n"
    parts = [f"## {kind}\n{head}{good.format(kind)}" for kind in kinds]
    return "| boundary | rule |\n|---|---|\n| TB1 | x |\n\n" + "\n".join(parts) + "".join(rows)


def test_a_sound_model_has_nothing_wrong(check):
    assert check.model(threats()) == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("| X1 | a | TB1 | b | by review | low / high | defended | keys |\n", "no test"),
        ("| X1 | a | TB1 | b | `tests/docs` | low / high | defended | keys |\n", "no test"),
        (
            "| X1 | a | TB1 | b | `tests/docs/test_none.py::test_x` | low / low | defended | keys |\n",
            "there is no",
        ),
        (
            f"| X1 | a | TB1 | b | `{HERE}::test_none` | low / low | defended | keys |\n",
            "there is no",
        ),
        (
            f"| X1 | a | TB1 | b | `{HERE}::threats` | low / low | defended | keys |\n",
            "there is no",
        ),
        (f"| STRIDE | a | TB1 | b | {REAL} | low / low | defended | keys |\n", "2 times"),
        (f"| X1 | a | TB9 | b | {REAL} | low / low | defended | keys |\n", "boundary"),
        (f"| X1 | a | somewhere | b | {REAL} | low / low | defended | keys |\n", "boundary"),
        (f"| X1 | a | TB1 | b | {REAL} | low / low | defended | somebody |\n", "nobody"),
        (f"| X1 | a | TB1 | b | {REAL} | unlikely | defended | keys |\n", "likelihood"),
        (f"| X1 | a | TB1 | b | {REAL} | low / low | defended | |\n", "nothing in owner"),
        (f"| X1 | a | TB1 | b | {REAL} | low / low | defended |\n", "nothing in"),
    ],
)
def test_a_row_that_is_not_borne_out_is_named(check, row, says):
    (first, *_) = wrong = check.model(threats(row))
    assert any(says in one for one in wrong), first


@pytest.mark.parametrize("kind", ["STRIDE", "LINDDUN"])
def test_a_model_without_one_of_the_methods_is_refused(check, kind):
    assert check.model(threats(kinds=[kind]))


def test_a_promise_without_a_test_is_named(check):
    page = (
        "| id | attacker who | protected | how far |\n|---|---|---|---|\n| P1 | x | yes | all |\n"
    )
    head = "| promise | attacker who | tests |\n|---|---|---|\n"
    sound = f"{head}| P1 | x | {REAL} |\n"
    assert not [one for one in check.promises(page, sound) if "verdict" not in one]
    for model, says in (
        (f"{head}| P1 | x | - |\n", "no test"),
        (head, "names no test of P1"),
        (f"{sound}| P2 | x | {REAL} |\n", "has no P2"),
    ):
        assert any(says in one for one in check.promises(page, model))
    assert check.promises("no table at all\n", sound)


@pytest.mark.parametrize(
    ("said", "instead"),
    [("| 11 | `wrong_key`", "| 12 | `wrong_key`"), ("`busy`", "`busily`"), ("| 23 |", "| 24 |")],
)
def test_a_verdict_that_is_not_the_programs_is_named(check, said, instead):
    text = text_of(check.POLICY)
    assert said in text
    assert any("verdict" in one for one in check.promises(text.replace(said, instead), ""))


@pytest.mark.parametrize(
    ("state", "evidence", "sound"),
    [
        ("met", REAL, True),
        ("met", "[a document](audit.md)", False),
        ("partly", "by review", False),
        ("document", "[a document](audit.md)", True),
        ("document", "somewhere", False),
        ("not", "the reason", True),
        ("not", "", False),
        ("nearly", REAL, False),
    ],
)
def test_a_requirement_needs_the_evidence_of_its_state(check, state, evidence, sound):
    head = "| requirement | asks for | state | evidence |\n|---|---|---|---|\n"
    wrong = check.compliance(f"{head}| A 1 | x | {state} | {evidence} |\n")
    assert (wrong == []) is sound, wrong


def test_a_repeated_requirement_is_named(check):
    head = "| requirement | asks for | state | evidence |\n|---|---|---|---|\n"
    assert check.compliance(head + f"| A 1 | x | met | {REAL} |\n" * 2)


@pytest.mark.parametrize(
    "text",
    [
        "[there](docs/nothing.md)",
        "[there](SECURITY.md#no-such-heading)",
        "[there](#no-such-heading)",
        "![a plot](docs/plots/nothing.svg)",
        "`tests/unit/nothing`",
        "`src/mcp_notarium/nothing.py`",
        "`scripts/nothing`",
        "`sync/nothing.py`",
    ],
)
def test_a_way_that_leads_nowhere_is_named(check, text):
    assert list(check.broken_links("README.md", text))


@pytest.mark.parametrize(
    "text",
    [
        "[a](docs/audit.md#exports)",
        "[b](https://example.org/x)",
        "`tests/crash`",
        "`scripts/*.py`",
        "`sync/pull_decisions.py`",
    ],
)
def test_a_way_that_leads_somewhere_is_not(check, text):
    assert not list(check.broken_links("README.md", text))


def test_a_package_that_the_architecture_does_not_name_is_named(check):
    text = text_of(check.ARCHITECTURE)
    assert check.missing_packages(text) == []
    assert check.missing_packages(text.replace('sync["sync', "")) == [
        f"{check.ARCHITECTURE}: no sync"
    ]


def test_a_setting_that_nobody_knows_is_named(check):
    known = check.variables()
    assert list(check.unknown_names("README.md", "Set `NOTARIUM_DATA_DIRECTORY`.", known))
    assert not list(check.unknown_names("README.md", "Set `NOTARIUM_DATA_DIR`.", known))
    assert list(check.unknown_names("README.md", "`key_missing`, exit code 11", known))
    assert not list(check.unknown_names("README.md", "`key_missing`, exit code 10", known))


def test_a_setting_that_is_not_documented_is_named(check):
    page = text_of("docs/configuration.md")
    assert check.undocumented(page.replace("`LOG_LEVEL`", ""), check.variables())


@pytest.fixture
def marked(check, tmp_path):
    for folder in ("docs/decisions", "tests/support"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs/decisions/0007-a.md").write_text("# 7. One form\n")
    (tmp_path / "docs/decisions/README.md").write_text(
        "# Decisions\n\nOne page for each decision that cost an argument.\n\n* [0007: One form](0007-a.md)\n"
    )
    (tmp_path / "tests/test_a.py").write_text("@pytest.mark.attack(3)\ndef test_b(): ...\n")
    (tmp_path / "docs/adversarial-tests.md").write_text(
        "| | attack | required result | tests |\n|---|---|---|---|\n"
        "| 3 | a bit | refused | `tests/test_a.py::test_b` |\n"
    )
    sync = "<!-- write table -->\n<!-- end -->\n"
    (tmp_path / "docs/sync.md").write_text(check.generated_pages.sync_page(sync))
    (tmp_path / "tests/support/system_rules.py").write_text('RULES = {"r": ("A", "is so", "p")}\n')
    (tmp_path / "tests/test_r.py").write_text('@pytest.mark.rule("r")\ndef test_r(): ...\n')
    (tmp_path / "docs/simulated-systems.md").write_text("<!-- rules -->\n<!-- end -->\n")
    (tmp_path / "docs/tools.md").write_text(
        "<!-- get -->\n<!-- end -->\n<!-- fields of get -->\n<!-- end -->\n<!-- instructions -->\n<!-- end -->\n"
    )
    for file, text in check.generated_pages.generated(tmp_path).items():
        (tmp_path / file).write_text(text)
    return tmp_path


def test_pages_as_generated_have_nothing_wrong(check, marked):
    assert check.generated_pages.faults(marked) == []


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("docs/decisions/0007-a.md", ("One", "Another"), "README.md: not as generated"),
        ("tests/test_a.py", ("test_b", "test_c"), "tests.md: not as generated"),
        ("tests/test_a.py", ("(3)", "(3, 4)"), "attack 4 has no row"),
        ("tests/test_a.py", ("(3)", "()"), "attack 3 has no test"),
        ("tests/test_r.py", ('"r"', ""), "no test rests on 'r'"),
        ("tests/test_r.py", ('"r"', '"r", "q"'), "there is no rule 'q'"),
        ("tests/support/system_rules.py", ("is so", "is not"), "systems.md: not as generated"),
        ("docs/sync.md", ("nobody else has written", "who knows"), "sync.md: not as generated"),
        ("docs/tools.md", ("destructive no", "destructive yes"), "tools.md: not as generated"),
        ("docs/tools.md", ("| `ids` |", "| `names` |"), "tools.md: not as generated"),
        ("docs/tools.md", ("Work in this order", "Work"), "tools.md: not as generated"),
    ],
)
def test_a_page_that_is_not_as_generated_is_named(check, marked, file, change, says):
    page = marked / file
    page.write_text(page.read_text().replace(*change))
    assert any(says in one for one in check.generated_pages.faults(marked))
