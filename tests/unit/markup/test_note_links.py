"""Links are found where Obsidian finds them, and mean what they mean there."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.markup.obsidian_links import MOST, find_targets, name_key, resolve, resolve_alias


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("see [[Plan]] and [[Work/Plan|the plan]]", ["Plan", "Work/Plan"]),
        ("![[Plan#Costs]] [[Plan#^block|x]] [[#here]]", ["Plan"]),
        ("| [[Plan\\|shown]] | b |", ["Plan"]),
        (
            "[a](b.md) [c](<d e.md>) [f](g%20h.md#i) ![j](k.png)",
            ["b.md", "d e.md", "g h.md", "k.png"],
        ),
        ('[a](b.md "title") [c](d_(e).md)', ["b.md", "d_(e).md"]),
        ("[a](https://x.org/b.md) [b](mailto:x@y) [c](#d) [d](//x/y) [e](obsidian://open)", []),
        ("`[[code]]` ``a ` [[code]]`` [[out]] `x", ["out"]),
        ("```\n[[code]]\n```\n[[out]]\n~~~~\n[[in]]\n~~~\n[[in]]\n~~~~\n[[too]]", ["out", "too"]),
        ("> ```\n> [[code]]\n> ```\n> [[out]]", ["out"]),
        ("---\nup: '[[Home]]'\n---\n[[Home]]", ["Home"]),
        ("[[a\nb]] [[ ]] []() [[[c]]]", ["c"]),
        ("[[../x]] [[ü%20]]", ["../x", "ü%20"]),
        ("[1]: a.md\n> [b c]: <d e.md> 'f'\r\n[x]: g%20h.md#i", ["a.md", "d e.md", "g h.md"]),
        ("[^1]: a.md\n[x]: two words\n[y]: https://x.org/b.md\n- [ ]: c\n\n    [d]: e.md", []),
        (r"\[[a]] \[b](c.md) [d\](e.md) \\[[f]] [[g]]", ["f", "g"]),
        (r"[a](b\_c.md) [d](e\(f\).md)", ["b_c.md", "e(f).md"]),
        ("no links", []),
    ],
)
def test_links_of_a_text(text, targets):
    assert list(find_targets(text)) == targets


VAULT = [
    "Plan.md",
    "Work/Plan.md",
    "Work/Old/Plan.md",
    "Home/Über.md",
    "a.b.md",
    "Work/Tea.markdown",
]


@pytest.mark.parametrize(
    ("target", "source", "path"),
    [
        ("Plan", "x.md", "Plan.md"),
        ("plan", "Home/x.md", "Plan.md"),
        ("Plan.md", "Work/x.md", "Plan.md"),
        ("Work/Plan", "x.md", "Work/Plan.md"),
        ("Old/Plan", "Home/x.md", "Work/Old/Plan.md"),
        ("ork/Plan", "x.md", None),
        ("./Plan", "Work/x.md", "Work/Plan.md"),
        ("../Plan", "Work/Old/x.md", "Work/Plan.md"),
        ("../../Plan", "Work/Old/x.md", "Plan.md"),
        ("../../../Plan", "Work/Old/x.md", None),
        ("/Plan", "Work/x.md", "Plan.md"),
        ("/Old/Plan", "Work/x.md", None),
        ("u\u0308ber", "x.md", "Home/Über.md"),
        ("a.b", "x.md", "a.b.md"),
        ("Tea", "x.md", "Work/Tea.markdown"),
        ("Tea.md", "x.md", "Work/Tea.markdown"),
        ("None", "x.md", None),
    ],
)
def test_what_a_link_means(target, source, path):
    named = [one for one in VAULT if name_key(one) == name_key(target)]
    assert resolve(target, source, named) == path


def test_a_name_of_several_notes_means_the_one_below_first_then_the_shortest_path():
    notes = ["b/n.md", "a/long/n.md", "a/n.md", "c/x/n.md"]
    assert resolve("n", "a/long/x.md", notes) == "a/long/n.md"
    assert resolve("n", "a/x.md", notes) == "a/n.md"
    assert resolve("n", "d/x.md", notes) == "a/n.md"
    assert resolve("x/n", "d/x.md", notes) == "c/x/n.md"
    assert resolve_alias("al", ["b/long.md", "a/s.md", "b/s.md"]) == "a/s.md"
    assert resolve_alias("x/al", ["a.md"]) is None


@given(st.text(alphabet="[]()<>|#`~!/. \\\nab%2", max_size=300))
def test_any_text_has_links_or_none(text):
    for target in find_targets(text):
        assert target.strip() == target != ""
        found = resolve(target, "a/b.md", [f"{target}.md", "b.md"])
        assert found in (None, f"{target}.md", "b.md")


@pytest.mark.parametrize(
    "part", ["[[", "](", "](<", "`", "[[a|", "](a(", "](a ", "` `` ", "[[a]]", "> ", "](a (", "%2"]
)
def test_no_text_takes_long(part):
    text = part * (400_000 // len(part))
    began = time.process_time()
    assert len(find_targets(text + " [[")) <= MOST
    assert time.process_time() - began < 20  # quadratic time would be minutes


def test_a_note_has_a_bounded_number_of_links():
    assert len(find_targets("\n".join(f"[[{number}]]" for number in range(MOST + 9)))) == MOST
