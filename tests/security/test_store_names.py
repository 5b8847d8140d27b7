"""Test that no store is named outside its own package, and test the rule itself."""

import pytest

from mcp_notarium.stores import registry
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


def test_a_new_store_is_checked_from_its_line_in_the_registry_on(rule):
    registry = '_MODULES = {\n    "jotter": "mcp_notarium.stores.jotter.kind",\n}\n'
    for place, faults in [("app", 1), ("stores.jotter_like", 1), ("stores.jotter.files", 0)]:
        modules = iter([(f"mcp_notarium.{place}", "JOTTER_FOLDER")])
        named = [one for one in rule.find(modules, registry) if one.line]
        assert len(named) == faults, place


def test_the_stores_of_the_registry_are_checked_but_for_ordinary_words(rule):
    checked = rule.stores(rule._REGISTRY.read_text(encoding="utf-8"))
    assert {*registry.names()} - checked.keys() == {"local", "memory", "vault"}
    assert {registry.kind(name).open.__module__.rpartition(".")[0] for name in checked} == {
        *checked.values()
    }


def test_each_exception_is_for_one_line_and_must_be_needed(rule):
    assert found(rule) == []
    first = next(iter(rule.PERMITTED))
    assert len(found(rule, (first, "simplenote again"))) == 1
    assert len([*rule.find(iter([]))]) == len(rule.PERMITTED)
