"""Test what a vault's note links to, and the names that its front matter gives it."""

import pytest

from mcp_notarium.markup.front_matter import read_aliases
from mcp_notarium.stores.vault.note_codec import find_links


@pytest.mark.parametrize(
    ("block", "aliases"),
    [
        ("aliases: [Tea, 'Green tea']", ["Tea", "Green tea"]),
        ('aliases:\n  - Tea\n  - "a, b"', ["Tea", "a, b"]),
        ("alias: Tea, Chai", ["Tea", "Chai"]),
        ("Aliases: Tea", ["Tea"]),
        ("aliases:", []),
        ("aliases: [[x]]", []),
        ("aliases: {a: b}", []),
        ("tags: [alias]", []),
        ("aliases: [", []),
        ("'aliases': 2024-01-02", ["2024-01-02"]),
    ],
)
def test_aliases_are_read_as_people_write_them(block, aliases):
    assert list(read_aliases(f"---\n{block}\n---\ntext\n")) == aliases
    assert list(read_aliases(f"---\n{block}\n---\n".replace("\n", "\r\n"))) == aliases


def test_links_of_front_matter_and_text_count():
    links = find_links('---\nup: "[[Home]]"\naliases: [Tea]\n---\n[[Milk|m]] `[[code]]`\n')
    assert (links.targets, links.aliases) == (("Home", "Milk"), ("Tea",))


def test_a_page_of_logseq_has_the_names_of_its_properties():
    page = "title:: The Plan\r\nalias:: [[Budget]], costs,\ntags:: x\n\nalias:: no property of the page\n"
    assert find_links(page).aliases == ("The Plan", "Budget", "costs")
    assert find_links("---\naliases: [Tea]\n---\nalias:: Chai\n").aliases == ("Tea", "Chai")
    assert find_links("text\nalias:: Chai\n").aliases == ()
