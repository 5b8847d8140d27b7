"""Run a story in the working directory, as its command would: ``python story_child.py NAME``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from support import power_stories

    story = power_stories.story_named(sys.argv[1])
    story.act(Path.cwd(), lambda _step: None)
    sys.stdout.write(story.says + "\n")
    sys.stdout.flush()
