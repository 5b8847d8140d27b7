"""Only links that a new name breaks are changed, and nothing else of a text."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.markup.obsidian_links import (
    count_links,
    file_places,
    find_broken,
    find_links,
    find_targets,
    name_key,
    resolve,
    rewrite_links,
)


def renamed(texts, old, new, files=()):
    """The texts after a rename, by their paths then, and how many links there were to change."""
    links = [(path, target) for path, text in texts.items() for target in find_targets(text)]

    def named(key):
        return [path for path in texts if name_key(path) == key]

    there = file_places((target for path, target in links if path == old), old) & {*files}
    broken = find_broken(links, old=old, new=new, named=named, files=there)
    after = {
        new if path == old else path: rewrite_links(text, broken.get(path, {}))
        for path, text in texts.items()
    }
    return after, sum(count_links(texts[path], changes) for path, changes in broken.items())


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("[[Plan]] [[plan|x]] ![[Plan#Costs|y]]", "[[Road]] [[Road|x]] ![[Road#Costs|y]]"),
        ("[[Plan.md]] [[Work/Plan]] [[ Plan ]]", "[[Road.md]] [[Work/Road]] [[ Road ]]"),
        ("| [[Plan\\|a]] |", "| [[Road\\|a]] |"),
        ("[a](Work/Plan.md#x) [b](<Work/Plan.md>)", "[a](Work/Road.md#x) [b](<Work/Road.md>)"),
        (
            '[a](./Work/Plan.md "Plan") [b](/Work/Plan)',
            '[a](./Work/Road.md "Plan") [b](/Work/Road)',
        ),
        ("`[[Plan]]` ``[[Plan]]`` [[Plan]]", "`[[Plan]]` ``[[Plan]]`` [[Road]]"),
        ("```\n[[Plan]]\n```\n\n    [[Plan]]\n\n- a\n\n    [[Plan]]", None),
        (
            "[a][1]\n\n[1]: Work/Plan.md#x 'Plan'\r\n[2]: <./Work/Plan.md>\n",
            "[a][1]\n\n[1]: Work/Road.md#x 'Plan'\r\n[2]: <./Work/Road.md>\n",
        ),
        (r"\[[Plan]] \[a](Work/Plan.md) [[Plan]]", r"\[[Plan]] \[a](Work/Plan.md) [[Road]]"),
        ("[[Plans]] [[Other]] Plan [Plan](https://x.org/Plan.md)", None),
        ("---\nup: '[[Plan]]'\n---\r\n\ttext\r\n", "---\nup: '[[Road]]'\n---\r\n\ttext\r\n"),
    ],
)
def test_links_to_a_renamed_note(text, after):
    if after is None:
        after = text.replace("- a\n\n    [[Plan]]", "- a\n\n    [[Road]]")
    texts, _ = renamed(
        {"x.md": text, "Work/Plan.md": "", "Other.md": ""}, "Work/Plan.md", "Work/Road.md"
    )
    assert texts["x.md"] == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("[a](Work/My%20Plan.md)", "[a](Work/A%20%28b%29.md)"),
        ("[a](<Work/My Plan.md>)", "[a](<Work/A (b).md>)"),
        ("[[My Plan]]", "[[A (b)]]"),
    ],
)
def test_a_target_is_written_as_the_one_before(text, after):
    texts, count = renamed(
        {"x.md": text, "Work/My Plan.md": ""}, "Work/My Plan.md", "Work/A (b).md"
    )
    assert (texts["x.md"], count) == (after, 1)


def test_letters_stay_encoded_if_they_were():
    texts, _ = renamed({"x.md": "[a](%C3%BC.md) [b](ü.md)", "ü.md": ""}, "ü.md", "ö.md")
    assert texts["x.md"] == "[a](%C3%B6.md) [b](ö.md)"


def test_a_moved_note_keeps_what_its_own_links_mean():
    own = "[[Tea]] [[./Tea]] [c](../Home/Cup.md) ![i](./img/a%20b.png) ![](img/c.png) [[Work/Tea]]"
    texts = {
        "Work/Plan.md": own,
        "Work/Tea.md": "[[Plan]] [p](Plan.md)",
        "Home/Cup.md": "[[Work/Plan]]",
    }
    after, count = renamed(texts, "Work/Plan.md", "Home/Old/Plan.md")
    assert after == {
        "Home/Old/Plan.md": "[[Tea]] [[../../Work/Tea]] [c](../Cup.md) "
        "![i](../../Work/img/a%20b.png) ![](img/c.png) [[Work/Tea]]",
        "Work/Tea.md": "[[Plan]] [p](../Home/Old/Plan.md)",
        "Home/Cup.md": "[[Home/Old/Plan]]",
    }
    assert count == 5


@pytest.mark.parametrize(
    ("new", "after"),
    [
        (
            "Home/Plan.md",
            "![](../Work/img/c.png) [d](<../Work/d e.pdf>) ![](none.png) [[img/c.png]]",
        ),
        ("Plan.md", "![](Work/img/c.png) [d](<Work/d e.pdf>) ![](none.png) [[img/c.png]]"),
        ("Work/New.md", "![](img/c.png) [d](<d e.pdf>) ![](none.png) [[img/c.png]]"),
    ],
)
def test_a_moved_note_keeps_the_relative_paths_of_files_that_are_there(new, after):
    own = "![](img/c.png) [d](<d e.pdf>) ![](none.png) [[img/c.png]]"
    files = ["Work/img/c.png", "Work/d e.pdf", "none.png"]
    texts, _ = renamed({"Work/Plan.md": own}, "Work/Plan.md", new, files)
    assert texts == {new: after}


def test_links_that_a_new_name_would_turn_to_another_note_are_kept_where_they_are():
    texts = {
        "x.md": "[[Tea]] [[Plan]] [[None]]",
        "Long/Folder/Tea.md": "",
        "Plan.md": "",
        "Work/Plan.md": "",
        "Work/y.md": "[[Work/Plan]]",
    }
    after, _ = renamed(texts, "Work/Plan.md", "Tea.md")
    assert after["x.md"] == "[[Folder/Tea]] [[Plan]] [[None]]"
    assert after["Work/y.md"] == "[[Tea]]"
    after, _ = renamed(texts, "Plan.md", "None.md")
    assert after["x.md"] == "[[Tea]] [[None]] [[None]]"


def test_a_link_that_can_have_no_form_is_left():
    texts = {"x.md": "[[a]] [b](a.md)", "a.md": "", "W/c#d.md": ""}
    changes = {("a", False): "c#d", ("a.md", True): "c#d.md"}
    assert rewrite_links(texts["x.md"], changes) == "[[a]] [b](c%23d.md)"
    assert rewrite_links("[[a]]", {("a", False): None}) == "[[a]]"


def test_a_name_with_a_colon_is_not_written_as_an_address():
    texts = {"x.md": "[a](a.md) [b](<a.md>) [c](./a.md)", "a.md": ""}
    after, _ = renamed(texts, "a.md", "to: b.md")
    assert after["x.md"] == "[a](to%3A%20b.md) [b](<to%3A b.md>) [c](./to:%20b.md)"


NAMES = st.sampled_from(["a", "b", "ä (1)", "c d", "to: b"])
FOLDERS = st.sampled_from(["", "W/", "W/X/", "H/"])
PATHS = st.builds("{}{}.md".format, FOLDERS, NAMES)
FILES = st.builds("{}{}".format, FOLDERS, st.sampled_from(["a.png", "c d.pdf"]))


def link(target, form, style):
    target = target if style else target.removesuffix(".md")
    return {
        "wiki": f"[[{target}|[not]]",
        "shown": f"![[{target}#h|x]]",
        "angled": f"[a](<{target}>)",
        "encoded": f"[a]({target.replace(' ', '%20').replace('(', '%28').replace(')', '%29')})",
        "code": f"`[[{target}]]`",
    }[form]


LINKS = st.builds(
    link,
    st.one_of(
        PATHS,
        NAMES,
        FILES,
        st.builds(
            "{}{}".format, st.sampled_from(["./", "../", "/", "W/../"]), st.one_of(PATHS, FILES)
        ),
    ),
    st.sampled_from(["wiki", "shown", "angled", "encoded", "code"]),
    st.booleans(),
)
TEXTS = st.lists(st.one_of(LINKS, st.sampled_from(["words", "`", "\r\n", "```\n", "    "]))).map(
    " ".join
)


def lies_at(target, source, paths):
    """The file to which a viewer without any idea of a vault follows a Markdown link; None: to no file."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return place if place in paths else None


@given(
    texts=st.dictionaries(PATHS, TEXTS, min_size=1, max_size=6),
    files=st.sets(FILES, max_size=4),
    new=PATHS,
    data=st.data(),
)
def test_after_any_rename_every_link_means_what_it_meant_by_the_same_rule(texts, files, new, data):
    old = data.draw(st.sampled_from(sorted(texts)))
    if new in texts:
        return
    after, count = renamed(texts, old, new, files)
    where = {path: new if path == old else path for path in (*texts, *files)}
    changed = 0
    for path, text in texts.items():
        here = where[path]
        for was, now in zip(find_links(text), find_links(after[here]), strict=True):
            near = lies_at(was.target, path, where) if was.form != "wiki" else None
            found = resolve(was.target, path, texts)

            def holds(target, here=here, near=near, found=found):
                as_path = near is None or lies_at(target, here, {*after, *files}) == where[near]
                as_name = found is None or resolve(target, here, after) == where[found]
                return as_path and (as_name or near not in (None, found))

            assert holds(now.target)
            assert now.target == was.target or not holds(was.target) or was.target[0] == "."
            assert now.form == was.form
            changed += now.target != was.target
    assert count == changed
