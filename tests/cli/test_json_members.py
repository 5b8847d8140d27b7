"""Test that a member is added to JSON with comments, and taken out again, without another byte changed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.clients import json_members
from mcp_notarium.clients.json_members import Unreadable

ENTRY = {"command": "/bin/server", "args": ["--account", "a"]}
REVERSIBLE = [
    "{}",
    "{}\n",
    '{\n  "a": 1\n}\n',
    '{\n    // over it\n    "a": 1, // behind it\n    "b": [1, 2,], /* and here */\n}\n',
    '{\n\t"servers": {}\n}',
    '{\n\t"servers": {\n\t\t"x": {"command": "y"} // behind\n\t}\n}',
    '{\r\n  "servers": {\r\n    "x": {}\r\n  },\r\n  "z": "a // b, {"\r\n}\r\n',
    '// top\n{\n  "servers": {\n    // put them here\n  }\n}\n',
    '{\n  "servers": {\n    "x": {},\n  },\n}\n',
    '\ufeff{\n  "a": "\\"}"\n}\n',
]


def add(text):
    return json_members.add(text, "servers", "ours", ENTRY)


def remove(text, *, with_object):
    return json_members.remove(text, "servers", "ours", with_object=with_object)


@pytest.mark.parametrize("text", REVERSIBLE)
def test_what_is_added_is_taken_out_to_the_byte(text):
    added = add(text)
    assert json_members.read(added)["servers"]["ours"] == ENTRY
    assert remove(added, with_object='"servers"' not in text) == text


def test_comments_commas_and_indentation_stay():
    text = '{\n    "servers": {\n        "x": {}, // mine\n    },\n    "b": 1\n}\n'
    assert add(text) == (
        '{\n    "servers": {\n        "x": {}, // mine\n        "ours": {\n            "command": "/bin/server",\n'
        '            "args": [\n                "--account",\n                "a"\n            ]\n        },\n    },\n'
        '    "b": 1\n}\n'
    )


def test_lines_end_as_they_do_in_the_file():
    added = add('{\r\n  "a": 1\r\n}\r\n')
    assert added.count("\n") == added.count("\r\n") == 12
    behind_a_comment = add('{\r\n  "servers": {\r\n    "x": {} // last\r\n  }\r\n}\r\n')
    assert "\r\r" not in behind_a_comment


def test_a_name_that_stands_there_twice_is_left_to_a_person():
    with pytest.raises(Unreadable):
        remove('{"servers": {"ours": 1, "ours": 2}}', with_object=False)


@pytest.mark.parametrize("text", ["", "\n", "// only a comment\n"])
def test_a_text_without_an_object_gets_one(text):
    assert json_members.read(add(text)) == {"servers": {"ours": ENTRY}}
    assert add(text).startswith(text.strip())


def test_a_member_between_others_is_taken_out_alone():
    text = '{\n  "servers": {\n    "x": 1, // x\n    "ours": 2,\n    "y": 3\n  }\n}'
    assert (
        remove(text, with_object=False) == '{\n  "servers": {\n    "x": 1, // x\n    "y": 3\n  }\n}'
    )


@pytest.mark.parametrize(
    "text", ["[]", '"x"', "{", '{"a": 1 2}', '{"servers": []}', "{'a': 1}", '{"a": 1}}', "\x00"]
)
def test_what_is_no_object_of_objects_is_refused(text):
    with pytest.raises(Unreadable):
        add(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=25)
@given(
    st.dictionaries(st.text(max_size=4), values, max_size=4),
    st.none() | st.dictionaries(st.text(max_size=4), values, max_size=3),
    st.sampled_from([None, 2, 4, "\t"]),
    st.booleans(),
)
def test_any_object_keeps_all_it_had(whole, servers, indent, ascii_only):
    if servers is not None:
        whole["servers"] = servers
    else:
        whole.pop("servers", None)
    (servers or {}).pop("ours", None)
    text = json.dumps(whole, indent=indent, ensure_ascii=ascii_only)
    added = add(text)
    assert json.loads(added) == whole | {"servers": (servers or {}) | {"ours": ENTRY}}
    assert json.loads(remove(added, with_object=servers is None)) == whole
