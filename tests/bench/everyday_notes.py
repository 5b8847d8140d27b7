"""Hold the notes that everyday tasks are about, and judge what became of them, by the files or the service alone.

A note is its text with front matter, also where the service has tags of its own. Blank lines between blocks do not count; all
other bytes do that a task is not about.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.everyday_basics import AGES, TRASHED, basic_notes
from bench.everyday_scripts import FRUITS, TODAY

Notes = dict[str, str]
Judge = Callable[[Notes, Notes, str], str]
"""Takes the notes before and after, and all answers; returns what is wrong, '' if nothing is."""
NOT_DONE, DAMAGED = "not done", "damaged"
_WEEK = "Rain on most days, the beans grow slowly.\n" * 20
_PLAN = "# Plan\n\n## Steps\n\n- [ ] order timber 📅 2026-11-30\n- [ ] dig a hole\n\n## Notes\n\nThe ground is wet.\n"
_PLAN_FRONT = (
    '# where it stands\nphase: 2  # of three\nwhen: 2026-12-01\naliases: [shed, "the hut"]\n'
)
_ROOT = re.compile(r"^(?=[^\s-])", re.MULTILINE)


def notes(*, files: bool) -> Notes:
    """Return the notes by name; ``files``: of a vault, with properties, links, a template and the notes of days."""
    found = {
        "Plan": _with_front(_PLAN_FRONT if files else "", _PLAN),
        "Diary": "# Diary\n\n"
        + "".join(f"## Week {week}\n\nDay {week * 7}.\n{_WEEK}" for week in range(90)),
        "Chores": "# Chores\n\n- [x] sweep the yard ✅ 2026-11-20\n- [ ] oil the gate\n",
    }
    for number, fruit in enumerate(FRUITS):
        values = f"status: fresh  # as of October\nprice: {number + 8}\n" if files else ""
        text = f"# {fruit}\n\nThe harvest of {fruit.lower()} was good.\n"
        found[fruit] = _with_front(f"{values}tags:\n  - stored\n", text)
    found |= basic_notes()
    if not files:
        return found
    found["Quinces"] = "---\nstatus: sold\nprice: 20\n---\n# Quinces\n\nHard, but fragrant.\n"
    found["Figs"] = "---\nstatus: sold\nprice: 4\n---\n# Figs\n\nSoft.\n"
    found["Days/2026-11-01"] = "Raked leaves.\n"
    found["Templates/Visit"] = "# {{title}}\n\nOn {{date}}.\n"
    found["Fruit/Cider"] = "# Cider\n\nPress them.\n"
    found["Linking"] = "# Linking\n\n[cider](Fruit/Cider.md) and [[Nowhere]]\n"
    return found


def write_files(folder: Path) -> None:
    """Write the notes as files, with the settings of the app."""
    for name, text in notes(files=True).items():
        path = folder / f"{'.trash/' if name == TRASHED else ''}{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        changed = _changed_at(name)
        os.utime(path, (changed, changed))
    (folder / ".obsidian").mkdir()
    (folder / ".obsidian/daily-notes.json").write_text('{"folder": "Days"}')
    (folder / ".obsidian/templates.json").write_text('{"folder": "Templates"}')


def read_files(folder: Path) -> Notes:
    """Return the notes that the files hold."""
    paths = [path for path in folder.rglob("*.md") if not path.is_relative_to(folder / ".trash")]
    return {str(path.relative_to(folder))[:-3]: path.read_text(encoding="utf-8") for path in paths}


def _changed_at(name: str) -> float:
    return time.time() - AGES.get(name, 90) * 86_400


def as_object(name: str, text: str) -> dict[str, Any]:
    """Return the note as the service holds it."""
    front, body = _split(text)
    tags = re.findall(r"^  - (.*)$", front, re.MULTILINE)
    dates = dict.fromkeys(("modificationDate", "creationDate"), _changed_at(name))
    return {"content": body, "tags": tags, "deleted": name == TRASHED, **dates}


def as_text(held: Mapping[str, Any]) -> str:
    """Return what the service holds as a note with front matter."""
    front = "tags:\n" + "".join(f"  - {tag}\n" for tag in held["tags"]) if held["tags"] else ""
    flags = held.get("systemTags")
    front += f"flags: [{', '.join(flags)}]\n" if flags else ""
    return _with_front(front, held["content"])


def _with_front(front: str, body: str) -> str:
    return f"---\n{front}---\n{body}" if front else body


def _split(text: str) -> tuple[str, str]:
    found = re.match(r"---\n(.*?)^---\n", text, re.DOTALL | re.MULTILINE)
    return (found[1], text[found.end() :]) if found else ("", text)


def _body(text: str) -> str:
    return re.sub(r"\n{2,}", "\n", _split(text)[1]).strip("\n")


def values(text: str) -> dict[str, Any]:
    """Return the front matter as YAML means it."""
    import yaml  # noqa: PLC0415 - slow to import, and only needed here

    return dict(yaml.safe_load(_split(text)[0]) or {})


def _keys(front: str, about: tuple[str, ...]) -> list[str]:
    """Return the front matter by its keys and comments, without the keys that a task is about."""
    parts = [part for part in _ROOT.split(front) if part]
    return [part for part in parts if part.partition(":")[0] not in about]


def same(before: Notes, after: Notes, *but: str) -> str:
    """Tell what is wrong with the notes that a task is not about."""
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    others = [name for name in changed if name not in but]
    return f"{DAMAGED}: changes {others[0]}" if others else ""


def rewritten(
    before: Notes,
    after: Notes,
    name: str,
    text: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> str:
    """Tell what is wrong with one note that should have this text, and these properties; None: it has not."""
    about = about or {}
    if name not in after:
        return f"{NOT_DONE}: {name} is gone"
    held = values(after[name])
    if any(value is None and key in held for key, value in about.items()):
        return f"{NOT_DONE}: the property is still there"
    if any(held.get(key) != value for key, value in about.items()):
        return f"{NOT_DONE}: a property is wrong"
    if text is not None and _body(after[name]) != _body(text):
        return f"{NOT_DONE if after[name] == before.get(name) else DAMAGED}: another text"
    if text is None and _body(before[name]) != _body(after[name]):
        return f"{DAMAGED}: the text has changed"
    return _other_lines(before.get(name, ""), after[name], tuple(about))


def _other_lines(before: str, after: str, about: tuple[str, ...]) -> str:
    """Tell what is wrong with the front matter that a task is not about."""
    was, now = (_keys(_split(each)[0], about) for each in (before, after))
    if was == now:
        return ""
    blanks = "".join("".join(was).split()) == "".join("".join(now).split())
    return f"{DAMAGED}: {'the blanks of ' if blanks else ''}other lines of front matter"


def edit(name: str, old: str, *new: str) -> Judge:
    """Judge a note in which ``old`` became one of these texts, and nothing else changed."""

    def judge(before: Notes, after: Notes, said: str) -> str:
        del said
        texts = [before[name].replace(old, each, 1) for each in new]
        found = [rewritten(before, after, name, text) for text in texts]
        return same(before, after, name) or min(found, key=len)

    return judge


def tell(*words: str, never: str = "") -> Judge:
    """Judge answers that have all these words, of notes that stayed as they were."""

    def judge(before: Notes, after: Notes, said: str) -> str:
        missing = not all(word in said for word in words) or (never and never in said)
        return same(before, after) or (f"{NOT_DONE}: not in the answers" if missing else "")

    return judge


def set_values(*names: str, **about: Any) -> Judge:
    """Judge notes that got these properties; None: lost it."""

    def judge(before: Notes, after: Notes, said: str) -> str:
        del said
        found = [rewritten(before, after, name, None, about) for name in names]
        return same(before, after, *names) or max(found, key=len)

    return judge


def unchanged(before: Notes, after: Notes, said: str) -> str:
    """Judge that all is as it was before."""
    del said
    return same(before, after)


def day(before: Notes, after: Notes, said: str) -> str:
    """Judge today's note: one new note with both lines, where the vault has its days."""
    del said
    new = [name for name in after if name not in before]
    if len(new) != 1 or ("Linking" in before and new != [f"Days/{TODAY}"]):
        return f"{NOT_DONE}: {', '.join(new) or 'no note'} is new"
    whole = all(line in after[new[0]] for line in ("Planted garlic.", "Watered it."))
    return same(before, after, *new) or ("" if whole else f"{NOT_DONE}: a line is missing")


def visit(before: Notes, after: Notes, said: str) -> str:
    """Judge the note that was made from the template."""
    del said
    name = next((name for name in after if name.endswith("Visit to the mill")), "")
    if not name:
        return f"{NOT_DONE}: no note"
    text = f"# Visit to the mill\n\nOn {TODAY}.\n\nAll fine.\n"
    right = _body(after[name]) == _body(text)
    return same(before, after, name) or ("" if right else f"{DAMAGED}: another text")


def moved(before: Notes, after: Notes, said: str) -> str:
    """Judge the moved folder: its note is there, and the link leads to it."""
    del said
    if "Fruit/Cider" in after or "Old/Fruit/Cider" not in after:
        return f"{NOT_DONE}: not moved"
    at = {**before, "Old/Fruit/Cider": before["Fruit/Cider"]}
    del at["Fruit/Cider"]
    link = before["Linking"].replace("(Fruit/", "(Old/Fruit/")
    return (
        same(at, after, "Linking", "Old/Fruit/Cider")
        or rewritten(at, after, "Linking", link)
        or rewritten(at, after, "Old/Fruit/Cider", at["Old/Fruit/Cider"])
    )
