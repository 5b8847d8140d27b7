"""List every command that changes keys as a story; ``python power_stories.py NAME`` runs one in the working directory."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_notarium.files.private_files import ignore_step
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


if __name__ == "__main__":
    story = story_named(sys.argv[1])
    story.act(Path.cwd(), ignore_step)
    sys.stdout.write(story.says + "\n")
    sys.stdout.flush()
