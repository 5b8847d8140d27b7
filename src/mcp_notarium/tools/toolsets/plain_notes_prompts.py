"""Write the five prompts beside the plain notes tools: requests that the user may choose.

A prompt reads no note and changes none. It asks the agent to use the tools, so that policy, limits and audit
hold for whatever comes of it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from mcp_notarium.tools.prompts import Named, Prompt

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
