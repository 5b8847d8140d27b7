"""Tags: normalised where harmless, refused with a hint where not, odd old ones left alone."""

import pytest

from mcp_notarium.errors import InvalidRequest
from mcp_notarium.tools.save_checks import check_tags, find_new_addresses


def test_white_space_around_a_tag_goes_and_order_stays():
    assert check_tags([" b ", "a\n"]) == ("b", "a")


def test_one_tag_in_two_spellings_is_one_tag():
    assert check_tags(["Work", "work", "WORK"]) == ("Work",)
    assert check_tags(["caf\u00e9", "cafe\u0301"]) == ("caf\u00e9",)


def test_spelling_on_the_note_wins():
    assert check_tags(["work", "new"], present=["Work"]) == ("Work", "new")


@pytest.mark.parametrize("bad", ["", "  ", "a,b", "two words", "tab\tbed", "x" * 257, "nul\x00"])
def test_new_tag_that_cannot_be_is_refused(bad):
    with pytest.raises(InvalidRequest):
        check_tags([bad])


def test_refusal_of_two_words_shows_how_to_write_them():
    with pytest.raises(InvalidRequest) as caught:
        check_tags(["two, words"])
    assert "“two-words”" in (caught.value.resolution_hint or "")


def test_a_store_may_have_tags_of_several_words():
    assert check_tags([" two words "], spaced=True) == ("two words",)
    for bad in ("a,b", "a\nb", "a\u2028b", "a\x85b"):
        with pytest.raises(InvalidRequest, match="line break or a comma"):
            check_tags([bad], spaced=True)


def test_odd_tags_that_are_there_already_stay():
    odd = ["two words", "a,b", "Dup", "dup"]
    assert check_tags([*odd, "new"], present=odd) == ("two words", "a,b", "Dup", "new")
    assert check_tags(odd, present=odd) == tuple(odd)


def test_hundred_tags_fit_and_one_more_does_not():
    tags = [f"t{n}" for n in range(101)]
    assert len(check_tags(tags[:100])) == 100
    with pytest.raises(InvalidRequest):
        check_tags(tags)


def test_note_with_more_tags_than_allowed_can_still_be_changed():
    tags = [f"t{n}" for n in range(150)]
    assert len(check_tags(tags[1:], present=tags)) == 149


def test_new_address_shares_and_an_old_one_does_not():
    wanted = ["a@example.org", "B@Example.org", "not-an-address", "@home", "home@"]
    assert find_new_addresses(wanted, present=["b@example.org"]) == ("a@example.org",)


@pytest.mark.parametrize(
    "tag",
    ["x@host", '"a@b"@example.org', "a@@b", "a\uff20example.org", "a\ufe6bexample.org", "@a@b"],
)
def test_whatever_a_service_could_take_for_an_address_counts_as_one(tag):
    assert find_new_addresses([tag], present=()) == (tag,)
