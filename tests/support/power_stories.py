"""List every command that changes keys as a story."""

from support.cache_stories import CACHE_STORIES
from support.long import LONG
from support.slot_stories import SLOT_STORIES
from support.stories import Story

STORIES = (*SLOT_STORIES, *CACHE_STORIES)
DISTINCT = [one for one in STORIES if LONG or not one.alike]
"""In the short form without those that take the same steps as another one."""


def story_named(name: str) -> Story:
    """The story of this name."""
    (found,) = (one for one in STORIES if one.name == name)
    return found
