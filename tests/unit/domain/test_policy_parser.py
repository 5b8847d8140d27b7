"""The policy file: read strictly, and every mistake named with its line."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_notarium.domain.policy import Field, Limits, Mode, Policy, Visibility
from mcp_notarium.domain.policy_parser import parse_policy
from mcp_notarium.errors import ConfigError

WHOLE = """\
mode = "write"            # a comment
import_paths = ["~/Pictures", "/srv/scans"]

[tools]
manage = false
list = true

[notes]
hidden_tags = ["private", " finance "]
hidden_ids = ["one"]
allowed_tags = ["work"]
allowed_ids = ["two"]
hidden_paths = ["Private/", "Work/old.md"]
allowed_paths = ["Work"]
untagged = "hide"
hidden_fields = ["tags"]

[limits]
notes_per_call = 20
bytes_per_call = 60_000
bytes_per_session = 1000000
writes_per_session = 0
writes_per_hour = 5
"""


def test_everything_a_file_can_say():
    read = parse_policy(WHOLE)
    assert read.policy == Policy(
        mode=Mode.WRITE,
        switched_off=frozenset({"manage"}),
        visibility=Visibility(
            hidden_tags=("private", "finance"),
            hidden_ids=("one",),
            allowed_tags=("work",),
            allowed_ids=("two",),
            hidden_paths=("Private", "Work/old.md"),
            allowed_paths=("Work",),
            untagged=False,
        ),
        hidden_fields=frozenset({Field.TAGS}),
        import_paths=(("~/Pictures", "/srv/scans"),),
        limits=Limits(
            notes_per_call=20,
            bytes_per_call=60_000,
            bytes_per_session=1_000_000,
            writes_per_session=0,
            writes_per_hour=5,
        ),
    )
    assert read.lines["mode"] == 1
    assert read.lines["tools.manage"] == 5
    assert read.lines["notes.hidden_tags"] == 9
    assert read.lines["limits.writes_per_hour"] == 23


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("mode = write", "not TOML (line 1"),
        ('mode = "full"\nmode = "full"\n[notes]', "not TOML (line 2"),
        ('mode = "rw"', "line 1, `mode`"),
        ("mode = 7", "line 1, `mode`"),
        ('import_paths = "/srv"', "line 1, `import_paths`"),
        ('\nmoed = "full"', "line 2, `moed`"),
        ("notes = 7", "line 1, `notes`"),
        ("[note]\nx = 1", "line 1, `note`"),
        ('[notes]\n\nhiden_tags = ["a"]', "line 3, `notes.hiden_tags`"),
        ('[notes]\nhidden_tags = "private"', "line 2, `notes.hidden_tags`"),
        ("[notes]\nhidden_tags = [1]", "line 2, `notes.hidden_tags`"),
        ('[notes]\nhidden_tags = [""]', "line 2, `notes.hidden_tags`"),
        ('[notes]\nhidden_tags = ["  "]', "line 2, `notes.hidden_tags`"),
        (f"[notes]\nhidden_ids = {['x'] * 10_001}", "line 2, `notes.hidden_ids`"),
        ('[notes]\nallowed_tags = []\nuntagged = "hide"', "line 2, `notes.allowed_tags`"),
        ('[notes]\nallowed_tags = ["a"]', "`untagged` must say"),
        ("[notes]\nallowed_ids = []", "line 2, `notes.allowed_ids`"),
        ('[notes]\nallowed_ids = ["a"]\nuntagged = "show"', "line 3, `notes.untagged`"),
        *(
            (f"[notes]\nhidden_paths = ['{path}']", "is no folder or note")
            for path in ("/", "/Work", "../x", "a/./b", "a//b", "a\\b", ".", "a/ /b")
        ),
        ("[notes]\nallowed_paths = []", "line 2, `notes.allowed_paths`"),
        ('[notes]\nallowed_paths = ["a"]\nuntagged = "show"', "line 3, `notes.untagged`"),
        ("[notes]\nuntagged = true", "line 2, `notes.untagged`"),
        ('[notes]\nhidden_fields = ["body"]', "line 2, `notes.hidden_fields`"),
        ("[tools]\nsearch = false", "line 2, `tools.search`"),
        ('[tools]\nget = "off"', "line 2, `tools.get`"),
        ("[tools]\nlist=false\nget=false\nsave=false\nmanage=false", "no tool is left"),
        ("[limits]\nnotes_per_call = 0", "line 2, `limits.notes_per_call`"),
        ("[limits]\nbytes_per_call = 10", "line 2, `limits.bytes_per_call`"),
        ("[limits]\nwrites_per_hour = -1", "line 2, `limits.writes_per_hour`"),
        ("[limits]\nwrites_per_hour = true", "line 2, `limits.writes_per_hour`"),
        ("[limits]\nwrites_per_hour = 1.5", "line 2, `limits.writes_per_hour`"),
        ("limits.writes_per_hour = -1", "line 1, `limits.writes_per_hour`"),
        ("[[limits]]\nwrites_per_hour = 1", "`limits`"),
    ],
)
def test_every_mistake_is_an_error_that_names_its_place_and_the_way_out(text, said):
    with pytest.raises(ConfigError) as refused:
        parse_policy(text)
    assert said in refused.value.message
    assert refused.value.resolution_hint


@given(st.text(max_size=200) | st.lists(st.sampled_from(WHOLE.split("\n"))).map("\n".join))
@example("a = " + "[" * 5000)
@example("x = 'secret-word")
def test_any_text_is_a_policy_or_a_config_error(text):
    said = ""
    try:
        parse_policy(text)
    except ConfigError as error:
        said = error.message
    assert "secret-word" not in said


def test_a_profile_imports_from_no_other_folder():
    text = """
import_paths = ["~/Pictures", "/srv"]
[profiles.a]
import_paths = ["~/Pictures/Scans", "/etc"]
[profiles.b]
mode = "write"
[profiles.c]
import_paths = []
"""
    read = parse_policy(text)
    found = {
        name: read.policy.narrowed(name, own).import_paths for name, own in read.profiles.items()
    }
    base = ("~/Pictures", "/srv")
    assert found == {"a": (base, ("~/Pictures/Scans", "/etc")), "b": (base,), "c": (base, ())}
    alone = parse_policy('[profiles.a]\nimport_paths = ["/etc"]')
    assert alone.policy.narrowed("a", alone.profiles["a"]).import_paths == ()


@pytest.mark.parametrize(
    "path",
    ["/", "~", "~/", "Pictures", "../x", "/srv/../etc", "C:\\\\", "", "/a\\u0000b", "~user/x"],
)
def test_a_folder_for_imports_is_a_whole_path_below_the_home_folder_or_a_disk(path):
    with pytest.raises(ConfigError) as caught:
        parse_policy(f'import_paths = ["{path}"]')
    assert caught.value.details == {"key": "import_paths", "line": 1}
