"""Word the answers and the prompts of the plain notes tools, exactly as their contract does. Pure.

A title stands on one line, so no note can add a row to a listing. Times are UTC to the minute.

A prompt reads no note and changes none. It asks the agent to use the tools, so that policy, limits and audit
hold for whatever comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mcp_notarium.domain.lines import preview
from mcp_notarium.markup.front_block import shown_part
from mcp_notarium.tools.catalog import Named, Prompt
from mcp_notarium.tools.consent import quote_whole

if TYPE_CHECKING:
    from mcp_notarium.storage.note_rows import ScannedNote


NO_TITLE = "Title cannot be empty ❌"
NO_CONTENT = "Content cannot be empty ❌"
NO_ID = "Note ID cannot be empty ❌"
NOTHING_TO_UPDATE = "At least one of title or content must be provided ❌"
NO_NOTES = "No notes found. Create your first note! 📝"
HIDDEN = "(hidden by the user's policy)"

CONTEXT = 28
"""Characters shown before and after a hit, cut to whole words."""
_LONGEST_ID = 16
"""Ids have 8 characters; what is longer may be a sentence."""
LARGEST = 200_000
"""Bytes of a listing, some 1,500 notes: more is too much for an agent to read."""
_LATEST = 253_402_300_799  # the end of the year 9999
_ELLIPSIS = "..."
_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def added(title: str, note_id: str) -> str:
    """Write the success of ``AddNote``."""
    return f"Added note '{title}' with ID {note_id} ✅"


def updated(title: str, note_id: str) -> str:
    """Write the success of ``UpdateNote``."""
    return f"Updated note '{title}' (ID: {note_id}) ✅"


def deleted(title: str, note_id: str) -> str:
    """Write the success of ``DeleteNote``."""
    return f"Deleted note '{title}' (ID: {note_id}) ✅"


def not_found(note_id: str) -> str:
    """Write the error for an id that no note has; a long one is quoted as a name, unlike in the contract."""
    shown = f"'{note_id}'" if len(note_id) <= _LONGEST_ID else quote_whole(note_id)
    return f"Note with ID {shown} not found ❌"


def heading(title: str | None, text: str) -> str:
    """Return the title on one line; of a note without one the first line of its text."""
    return _one_line(title or "") or preview(shown_part(text))


def note(note_id: str, *, title: str, content: str, times: tuple[float, float]) -> str:
    """Write a note with all of its fields; ``times``: created and last changed, in epoch seconds."""
    created, changed = _times(*times)
    return (
        f"📝 Note {note_id}\n\nTitle: {title}\nContent: {content}\n\n"
        f"Created: {created}\nUpdated: {changed}"
    )


def list_row(number: int, one: ScannedNote, *, title: str | None = None) -> str:
    """Write a row of ``ListNotes``; ``title`` stands instead of the note's own."""
    created, changed = _times(one.created_at, one.modified_at)
    return f"{_first_line(number, one, title)}\n   Created: {created} | Updated: {changed}"


def listing(total: int) -> str:
    """Write the beginning of ``ListNotes``, which is all of it without a note."""
    return f"📝 All Notes ({total} total)" if total else NO_NOTES


def hits(query: str, total: int) -> str:
    """Write the beginning of ``SearchNotes``, which is all of it without a hit."""
    if not total:
        return f"No notes found matching '{query}' 🔍"
    return f"Found {total} note(s) matching '{query}' 🔍"


def join(head: str, rows: Sequence[str], *, more: int) -> str:
    """Write a whole listing; so many ``more`` notes are not in it."""
    end = [f"({more} more are not shown; search for them.)"] if more > 0 else []
    return "\n\n".join([head, *rows, *end])


def search_row(number: int, one: ScannedNote, matcher: Matcher) -> str:
    """Write a row of ``SearchNotes``: where the query stands, in bold between the words around it."""
    lines = [_first_line(number, one, None)]
    for name, text in (("Title", one.title or ""), ("Content", one.text)):
        if context := matcher.context(text):
            lines.append(f"   {name}: {context}")
    lines.append(f"   Created: {_minute(one.created_at)}")
    return "\n".join(lines)


class Matcher:
    """Look for one text literally, in any case."""

    def __init__(self, query: str) -> None:
        self._lowered = query.lower()
        self._pattern = re.compile(re.escape(query), re.IGNORECASE)

    def matches(self, title: str | None, content: str) -> bool:
        """Tell whether title or content contains it."""
        return self.is_in(title or "") or self.is_in(content)

    def is_in(self, text: str) -> bool:
        """Tell whether the text contains it."""
        return self._lowered in text.lower()

    def context(self, text: str) -> str:
        """Return the words around the first hit on one line, every hit among them in bold; '' without a hit."""
        found = self._pattern.search(text)
        if found is None and not self.is_in(text):
            return ""
        start, end = found.span() if found else (0, 0)  # some letters change their length
        low, high = _word_start(text, start), _word_end(text, end)
        shown = self._pattern.sub(lambda each: f"**{each[0]}**", text[low:high])
        left = _ELLIPSIS if text[:low].strip() else ""
        right = _ELLIPSIS if text[high:].strip() else ""
        return f"{left}{_one_line(shown)}{right}"


def _word_start(text: str, start: int) -> int:
    """Return where the words begin that are shown before ``start``."""
    low = max(0, start - CONTEXT)
    if low == 0 or text[low - 1].isspace():
        return low
    space = re.search(r"\s", text[low:start])
    return low + space.end() if space else low


def _word_end(text: str, end: int) -> int:
    """Return where the words end that are shown after ``end``, without a comma before the ellipsis."""
    high = min(len(text), end + CONTEXT)
    if high == len(text):
        return high
    whole = text[end:high]
    if not text[high].isspace():
        whole = re.sub(r"\s\S*\Z", "", whole)
    return end + len(whole.rstrip(" \t\r\n,;:.-"))


def _first_line(number: int, one: ScannedNote, title: str | None) -> str:
    return f"{number}. [{one.id}] {title or _one_line(one.title or '') or one.head}"


def _times(created: float, changed: float) -> tuple[str, str]:
    return _minute(created), "Never" if changed == created else _minute(changed)


def _minute(at: float) -> str:
    moment = datetime.fromtimestamp(min(max(at, 0.0), _LATEST), UTC)
    return f"{moment.isoformat(' ')[:16]} UTC"


def _one_line(text: str) -> str:
    return " ".join(text.split()) if _BREAK.search(text) else text.strip()


_FEW_WORDS, _FIRST_WORDS, _LONGEST = 10, 5, 50
_CUT = "..."
_SENTENCE = re.compile(r".+?[.!?](?=\s|\Z)", re.DOTALL)


def make_title(content: str) -> str:
    """Return a title for a content: its first words if it is short, else its first sentence, cut."""
    words = content.split()
    if len(words) <= _FEW_WORDS:
        title = " ".join(words[:_FIRST_WORDS])
    else:
        sentence = _SENTENCE.match(content.strip())
        title = " ".join((sentence[0] if sentence else content).split())
    return title if len(title) <= _LONGEST else title[: _LONGEST - len(_CUT)] + _CUT


def make_prompts(add: str, get: str, list_: str, search: str) -> tuple[Prompt, ...]:
    """Return the prompts, with these plain names of tools."""

    def quick_note(given: dict[str, str], named: Named) -> str:
        content = given["content"].strip()
        return (
            f"💡 Save this as a new note with `{named(add)}`.\n\nTitle: {make_title(content)}\n"
            f"Content: {content}\n\nThen tell me the id of the note."
        )

    def summarize_notes(given: dict[str, str], named: Named) -> str:
        del given
        return (
            f"📊 Summarize my notes. List them with `{named(list_)}`, read those you need with `{named(get)}`, and "
            "write:\n\n1. how many notes there are and from which time\n2. their main topics, each with "
            "its notes and their ids\n3. ⭐ what is open or urgent\n\nUse only what the notes say."
        )

    def find_topic_notes(given: dict[str, str], named: Named) -> str:
        return (
            f"🔍 Find my notes about this topic: {given['topic'].strip()}\n\nSearch with `{named(search)}`, also "
            f"for other words that mean the same; read the best hits with `{named(get)}`. For each note give "
            "its id, its title and what it says about the topic."
        )

    def meeting_notes(given: dict[str, str], named: Named) -> str:
        name = given.get("meetingName", "").strip() or "Meeting"
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        return (
            f"📅 Prepare the notes of a meeting: {name}, {today}.\n\nAsk me for what you do not know, "
            f"then save the result with `{named(add)}` under the title “{name} {today}” in this form:\n\n"
            "👥 Participants:\n📋 Agenda:\n💬 Discussion:\n✅ Decisions:\n📌 Action items (👤 who, 🎯 until when):"
        )

    def code_review_note(given: dict[str, str], named: Named) -> str:
        subject = given["fileOrComponent"].strip()
        return (
            f"🔍 Review the code of {subject} and save the result with `{named(add)}` under the title "
            f"“Code Review: {subject}” in this form:\n\n📋 Summary:\n✅ What is good:\n"
            "❌ Problems (where, how severe, what to do):\n💡 Suggestions:\n📌 Next steps:"
        )

    return (
        Prompt(
            name="quick_note",
            title="Quick note",
            description="Save a thought as a note; the title is made from it.",
            arguments=(("content", "What to note", True),),
            write=quick_note,
            tools=(add,),
        ),
        Prompt(
            name="summarize_notes",
            title="Summarize notes",
            description="Summarize all notes by topic.",
            arguments=(),
            write=summarize_notes,
            tools=(list_, get),
        ),
        Prompt(
            name="find_topic_notes",
            title="Find notes on a topic",
            description="Find the notes on a topic, and what they say about it.",
            arguments=(("topic", "What to look for", True),),
            write=find_topic_notes,
            tools=(search, get),
        ),
        Prompt(
            name="meeting_notes",
            title="Meeting notes",
            description="Write the notes of a meeting in a fixed form.",
            arguments=(("meetingName", "Name of the meeting", False),),
            write=meeting_notes,
            tools=(add,),
        ),
        Prompt(
            name="code_review_note",
            title="Code review",
            description="Review a file or component and save the result as a note.",
            arguments=(("fileOrComponent", "What to review", True),),
            write=code_review_note,
            tools=(add,),
        ),
    )
