"""Test that no store is named outside its own package, and test the rule itself."""

import pytest

from support.scripts import SCRIPTS, script


@pytest.fixture(scope="module")
def rule():
    with script("store_names") as module:
        yield module


def found(rule, *modules):
    listed = [(name, "a simplenote") for name in rule.PERMITTED]
    return [str(fault) for fault in rule.find(iter([*listed, *modules]))]


def test_no_store_is_named_outside_its_package(rule, capsys):
    assert rule.main() == 0, capsys.readouterr().err


def test_the_check_runs_the_rule():
    assert "scripts/store_names.py\n" in (SCRIPTS / "check").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["SIMPLENOTE_TOKEN", "api.simperium.com", "# Simplenote"])
def test_a_store_is_found_wherever_it_is_named(rule, text):
    assert found(rule, ("mcp_notarium.app", f"\n{text}")) == [
        f"mcp_notarium.app, line 2: names a store: {text.strip()}"
    ]
    assert found(rule, ("mcp_notarium.stores.simplenote.store", text)) == []


def test_each_exception_is_for_one_line_and_must_be_needed(rule):
    assert found(rule) == []
    first = next(iter(rule.PERMITTED))
    assert len(found(rule, (first, "simplenote again"))) == 1
    assert len([*rule.find(iter([]))]) == len(rule.PERMITTED)
