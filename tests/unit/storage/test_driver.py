from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.storage import driver


def versions(**present):
    def version(name):
        try:
            return present[name.replace("-", "_")]
        except KeyError:
            raise PackageNotFoundError(name) from None

    return version


def test_the_installed_driver_is_sqlcipher_with_all_it_needs():
    found = driver.require_suitable(driver.facts())
    assert found.provider.startswith("OpenSSL 3.")
    assert found.cipher_version.startswith("4.")
    assert found.fts5
    assert found.temp_store in {2, 3}
    assert found.distribution.startswith("sqlcipher3")


def test_both_distributions_are_seen_when_both_are_installed():
    both = versions(sqlcipher3="0.6.4", sqlcipher3_binary="0.6.0")
    assert driver.installed_versions(both) == ("sqlcipher3-binary 0.6.0", "sqlcipher3 0.6.4")


@pytest.mark.attack(49)
def test_two_distributions_at_once_are_refused(monkeypatch):
    monkeypatch.setattr(
        driver, "installed_versions", lambda: ("sqlcipher3-binary 0.6.0", "sqlcipher3 0.6.4")
    )
    with pytest.raises(LockedError) as refusal:
        driver.module.__wrapped__()
    assert refusal.value.verdict is Verdict.CRYPTO_UNSUITABLE
    assert "sqlcipher3 0.6.4" in refusal.value.message


def test_a_missing_driver_is_a_verdict_and_not_an_import_error(monkeypatch):
    def fails(name):
        raise ImportError(name)

    monkeypatch.setattr(driver.importlib, "import_module", fails)
    with pytest.raises(LockedError) as refusal:
        driver.module.__wrapped__()
    assert refusal.value.verdict is Verdict.CRYPTO_UNSUITABLE


@pytest.mark.parametrize(
    "change",
    [
        {"cipher_version": ""},
        {"cipher_version": "4.11.0 community"},
        {"provider": ""},
        {"fts5": False},
        {"temp_store": 1},
        {"temp_store": 0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_driver_that_would_not_keep_notes_is_refused(change):
    with pytest.raises(LockedError) as refusal:
        driver.require_suitable(replace(driver.facts(), **change))
    assert refusal.value.verdict is Verdict.CRYPTO_UNSUITABLE
