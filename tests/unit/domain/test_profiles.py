"""A profile permits what the policy and it permit, and nothing else; a mistake in one is named with its line."""

from __future__ import annotations

import pytest

from mcp_notarium.config.policy_file import read_policy
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import EVERYTHING, Field, Limits, Mode, Policy, Visibility
from mcp_notarium.domain.policy_parser import parse_policy
from mcp_notarium.domain.write_scope import WriteScope
from mcp_notarium.errors import ConfigError, NotPermitted

TEXT = """mode = "write"
[tools]
manage = false
[notes]
hidden_tags = ["private"]
allowed_tags = ["work", "home"]
untagged = "hide"
[limits]
writes_per_hour = 9
[profiles.guest]
mode = "full"
[profiles.guest.notes]
hidden_ids = ["n1"]
allowed_tags = ["work", "else"]
untagged = "show"
writable_tags = ["agent"]
[profiles.guest.limits]
writes_per_hour = 4
bytes_per_call = 5000
[profiles.bare]
"""


def test_a_profile_shows_what_both_show():
    parsed = parse_policy(TEXT)
    guest = parsed.policy.narrowed("guest", parsed.profiles["guest"])
    seen = guest.visibility
    assert seen.sees("n2", ("work",))
    for note_id, tags in (
        ("n1", ("work",)),
        ("n2", ("home",)),  # the profile does not allow it
        ("n2", ("else",)),  # the policy does not
        ("n2", ("work", "private")),
        ("n2", ()),
    ):
        assert not seen.sees(note_id, tags), (note_id, tags)
    assert (guest.mode, guest.tools) == (Mode.WRITE, ("list", "get", "save"))
    assert guest.limits == Limits(writes_per_hour=4, bytes_per_call=5000)
    assert guest.hourly == (("", 9), ("guest", 4))
    assert guest.meaning["profile"] == "guest"
    assert parsed.policy.visibility.followed_ids == ("n1",)
    bare = parsed.policy.narrowed("bare", parsed.profiles["bare"])
    assert bare.visibility.sees("n1", ("home",))
    assert not bare.visibility.sees("n1", ())


def test_no_profile_widens_any_rule():
    strict = Policy(
        mode=Mode.READ_ONLY,
        switched_off=frozenset({"get"}),
        hidden_fields=frozenset({Field.TAGS}),
        visibility=Visibility(hidden_paths=("Secret",)),
        limits=Limits(notes_per_call=1),
        writing=WriteScope(paths=("Inbox",)),
    )
    wide = strict.narrowed("wide", Policy())
    assert (wide.mode, wide.tools, wide.limits) == (strict.mode, strict.tools, strict.limits)
    assert wide.hidden_fields == strict.hidden_fields
    assert wide.visibility.closes("Secret/one.md")
    assert not wide.writing.permits("Work/one.md", ("any",))
    assert wide.visibility.digest != EVERYTHING.digest


def test_a_refusal_names_the_tags_of_whichever_rule_speaks_against_the_note():
    base = Policy(visibility=Visibility(allowed_tags=("work",), untagged=False))
    own = Policy(visibility=Visibility(allowed_tags=("mine",), untagged=False))
    guest = base.narrowed("guest", own)
    guest.require_write("", None, Content("new", ("work", "mine")))
    for given, needed in (("mine", "work"), ("work", "mine")):
        with pytest.raises(NotPermitted) as refused:
            guest.require_write("", None, Content("new", (given,)))
        assert f'"{needed}"' in (refused.value.resolution_hint or "")


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("profiles = 3\n", 1, "profiles"),
        ("[profiles]\nx = 1\n", 2, "profiles.x"),
        ("[profiles.x]\nmode = 'fast'\n", 2, "profiles.x.mode"),
        ("[profiles.x.notes]\nhidden_tag = []\n", 2, "profiles.x.notes.hidden_tag"),
        ("[profiles.x.notes]\n\nwritable_ids = []\n", 3, "profiles.x.notes.writable_ids"),
        ("[profiles.x]\nprofiles = {}\n", 2, "profiles.x.profiles"),
        ("[profiles.'a b']\n", 0, "profiles"),
        ("[tools]\nget = false\n[profiles.x.tools]\nlist = false\nsave = false\nmanage = false\n", 3, "profiles.x"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_profile_is_named_with_its_line(text, line, key):
    with pytest.raises(ConfigError) as wrong:
        parse_policy(text)
    assert wrong.value.details["key"] == key
    assert wrong.value.details.get("line", 0) == line
    assert "policy check" in (wrong.value.resolution_hint or "")


def test_the_profiles_of_a_file_are_named_if_one_is_missing(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(TEXT)
    path.chmod(0o600)
    found = read_policy(path, named=True)
    assert found.of_profile("guest").policy.profile == "guest"
    with pytest.raises(ConfigError, match="it has: guest, bare"):
        found.of_profile("Guest")
    path.unlink()
    with pytest.raises(ConfigError, match="because there is no policy file"):
        read_policy(path, named=False).of_profile("guest")
