"""Generate ``docs/tools.md`` from the tools themselves, so that it is always right.

Run ``python -m notarium_devtools.tools_page`` to print it; a test compares it with the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from mcp_notarium.tools import answers
from mcp_notarium.tools.catalog import INSTRUCTIONS, TOOLS, flat_schema
from mcp_notarium.tools.tool import Tool

_HEAD = """\
# Tools

<!-- Made by `python -m notarium_devtools.tools_page`; edit src/mcp_notarium/tools instead. -->

Four tools. An answer is the same JSON value twice: as `structuredContent` and as compact text,
because some clients show the model only one of them. Fields without a value are left out. Times are
Unix epoch seconds (UTC). Unknown arguments are refused; what is known is taken [as it is sent](#arguments-as-they-are-sent).
The schemas a client sees are shortened to what a model needs (no titles, no bounds, no hints that are the
protocol's defaults; answers have the names of all their fields): at most 1,500 tokens for the whole list. This page is complete.
`NOTARIUM_TOOL_PREFIX=notes_` turns `list` into `notes_list`, and so on, in everything that a client sees; the
policy and the audit log know the names of this page.

## How calls are served

* The server answers reads from the local index and does not wait for the network, with two exceptions:
  the first `list` on an empty index waits up to 8 seconds for the first page, and `get` asks the store
  for a note that the first sync has not reached. `list` is an error that names the way out while no note is
  here (no login, no network, or still loading).
* It serves the writes of one note one after another, in the order they came, and those of up to five notes
  beside each other; of a vault one at a time, because a new name may be another file's. Each is done only when the store
  has confirmed it. Reads continue meanwhile and see the last confirmed state.
* The user's [policy](policy.md) may remove tools, refuse actions, hide notes (they do not exist then)
  or parts of notes, and limit how much is read and written. What it refuses is a `policy` error.
* Three answers change while the policy hides notes. `list` waits until all notes are loaded. `get` answers
  an id that is not here yet with `loading`, whether there is such a note or not. `get_stats` omits numbers.
* A call that is cancelled before its request was sent has no effect. One whose request was sent is
  finished, and no other write of the same note (in a vault, of any) begins before that.
* The server begins no call and reads no request while more than 16 MiB of answers wait for the client to
  read them. It continues as the client reads.

## Arguments as they are sent

Models and the programs between them and a server do not send every value in its type. One place reads arguments, of these tools and of
[native ones](native-tools.md) (`tools/requests.py`); `tests/interaction/test_arguments_as_sent.py` has each row, and
`tests/property/test_call_arguments.py` shows that no object of arguments makes an unexplained error.

| sent | taken as | where |
|---|---|---|
| `"3"`, `3.0` for a whole number | 3 | every number |
| `"true"`, `"False"` for a flag | the flag; `1` and `"yes"` are refused | every flag, `confirm` too |
| a number for a text | its digits: an id of digits may have lost its quotes | ids, texts, titles, tags, queries |
| a list or an object as JSON text, one object for a list of them | the list, the object | `tags`, `add_tags`, `remove_tags`, `ids`, `text_patch`, `properties`, `labels`, `checkItems`, `images` |
| one tag as text, or several with commas between (`"work, home"`: no tag that is saved holds a comma) | the list of them | `tags`, `add_tags`, `remove_tags` |
| another letter case of a choice | the choice | `action`, `sort_by`, `sort_order`, `operation` |
| `id` under the name `uuid` | `id` | our tools |
| `null`, `""`, `[]`, `{}`, and `0` where numbers begin at 1 | not given | every argument that need not be given and whose emptiness means nothing, so also `append`, `prepend`, `find` and `id` |
| `text: ""` beside another change of the text; `title: ""`, `tags: []` of a new note; `replace: ""` without `find` | not given | `save` |
| `text: ""`, `title: ""`, `tags: []` beside another change | refused with "leave it out" if the note has what would go, else not given. In a call of its own it is meant | `save`; `title` and `content` of `update_note` |
| `null` or `[]` for `title`, `labels`, `checkItems`, `images` | empty, as the contract of the cards says | `update_note` |
| `title: ""`, `content: ""` | refused in the words of the contract | `AddNote`, `UpdateNote` |
| `#work` | the tag `work`, unless notes have the tag `#work` | `tags`, `add_tags`, `remove_tags`, `tag:#work`, `-tag:#work`, `tag`, `new_tag`, `labels` |
| a tag or an id with composed or decomposed letters (NFC, NFD) | the same tag, the same note | every tag; ids and paths |
| `[[Note]]`, `[[Folder/Note#Part]]`, `[[Note&#124;shown]]`, a path without `.md`, an alias, a title (or first line) in any letter case | the only note that is called so, of titles first the one in the same letter case; of several none, and the error says so | every `id`, `noteId` and `path`, and each of `ids`. A title only when all notes are loaded; in Trilium's own tools one bare word is always an id |
| `daily:today`, `daily:yesterday`, `daily:tomorrow`, `daily:2026-11-28`, in any letter case | the [note of that day](#notes-of-days) | every `id`, `noteId` and `path`, unless a note has just this id |
| one id as text, several with commas between | the list of them | `ids` |
| `find` with `\\n` | the lines, whatever their ends are, also mixed ones | `save` |
| `find` that is not there | an error that names the nearest line and the first character that differs, such as a no-break space or a curly quotation mark | `save` |

## Notes of days

`daily:today` is the note of today as the user's app would have it; `yesterday`, `tomorrow` and a day like `2026-11-28` go as well. Days are those of the
local time zone of the computer that the server runs on.

| where | the note of a day |
|---|---|
| [vault](vault.md#daily-notes-and-templates) | the file that the settings of Obsidian or Logseq name by folder and format |
| [Trilium](trilium.md#notes-of-days) | the one in its calendar that has the label `dateNote` with that day |
| elsewhere | the note whose title, or first line, is the date as `2026-11-28`: one outside the trash before one in it, of several the one that was changed last |

* `save` makes the note if there is none, and then needs no `local_version`. First the note is what the app's template makes of it, then comes the change: `append`
  goes below the template, `find` and `text_patch` find their place in it. `text` alone is the whole text, without the template. Elsewhere than in a vault or Trilium there
  is no template, and the note gets its title (where there are no titles, the date as the first line). `title` and `template` are refused.
* Every other call answers `NOT_FOUND` for a day without a note; no note is made by looking. Another word than these is an error (`day`) that names the forms.
* The answer and the audit log have the id of the note, never the day.
* Two calls at once make one note, and the second is put into it. So it is with two servers on one vault, where nothing overwrites a file, and on one
  Trilium, which answers both with the same note. On Simplenote, Memento and the local notebook each server looks again right before it writes; two that write within the
  same moment, or devices that have not synced yet, can make two notes with the title. Both stay, and the one that is changed last counts.
* While the index is still loading, such a call is answered with `loading` where the note could be among those that are not here yet.
* A note that the policy hides does not exist here either; [what `save` does then](policy.md#notes-that-are-hidden).

## Errors

An error that the agent can act on is a *tool error*: `isError` with this JSON as text (and no
`structuredContent`, which widespread clients check against the output schema even for errors).

| field | |
|---|---|
| `category` | `AUTH`, `VALIDATION`, `NOT_FOUND`, `BACKEND_API`, `TIMEOUT`, `DB_OPERATION`, `INTERNAL` |
| `subcategory` | finer: `arguments`, `query`, `patch`, `section`, `too_large`, `not_trashed`, \
`confirmation_required`, `declined`, `conflict`, `version_changed`, `login_required`, `other_account`, \
`unavailable`, `timeout`, `rate_limit`, `rejected`, `clock`, `in_doubt`, `not_recorded`, `locked`, `policy`, \
`loading`, `policy_changed`, `settings_missing`, ... |
| `http_status_code` | the nearest HTTP status |
| `message` | what happened |
| `resolution_hint` | what to do next: one way; with `message` fewer than 300 characters, unless `message` is a question to the user. `mcp-notarium doctor` has the long form |
| `retryable` | true: the same call may work later |
| `details` | values to act on: `current_local_version`, `total_lines`, `retry_after_seconds`, `verdict`, \
`trace_id`, ... |

An unknown tool is a protocol error (-32602) with the same fields in its `data`. An unexpected exception
is `INTERNAL` with a `trace_id` that the server's log has too; its text is never shown. Every tool answers
with the same `locked` error if the database may not be opened: what happened, and one way out, in less
than 300 characters together. That way out never deletes a file; `mcp-notarium doctor` tells the user all
of them. A server that lacks a required setting answers in the same way with `settings_missing`
(`details.missing`) or the verdict `key_missing`.

## Consent

Eleven actions need the user's consent: permanent deletion, `undo`, `restore_version`, a change of many notes, `rename_tag`, `move_folder`, `reset_cache`, dropping
more than nine tenths of a text of more than 500 characters, in Simplenote adding a tag that is an e-mail address or could be
read as one (Simplenote shares the note with that person; in no other store does a tag share), in Trilium whatever makes a note [public](trilium.md#public-notes), and whatever [nothing can bring back](#what-nothing-can-bring-back). So a note that tells an agent to do one of these changes nothing
that its user has not agreed to.

Four of these are **irreversible**: permanent deletion, sharing a note of Simplenote or making one of Trilium public (also by a change of many, an undo or a restored version), and what nothing
can bring back. The others are **recoverable**: the history has what was there. `NOTARIUM_DESTRUCTIVE` decides who agrees:

| value | client can ask its user (elicitation) | client cannot: recoverable | client cannot: irreversible |
|---|---|---|---|
| `ask` (default) | the user, in the client's dialogue | the model, by `confirm: true` | the user, [at a terminal](#approval-at-a-terminal) |
| `strict` | the user, in the client's dialogue | the user, at a terminal | the user, at a terminal |
| `trust` | the user, in the client's dialogue | the model, by `confirm: true` | the model, by `confirm: true` |
| `deny` | nobody | nobody | nobody |

**`confirm: true` is the model's word, not the user's.** The server cannot know whether the model has asked: a model that
obeys a note can set it. Then only the client's own approval of the call stands between the note and the action; the audit log
records it as `by_argument`. With `ask` such an action can be taken back. With `trust` a note can have an agent destroy notes, or share those of Simplenote and Trilium.
No value stops a client that answers its own dialogue.

### Approval at a terminal

The refusal tells the agent which command its user has to run: `mcp-notarium approve ID`. It shows the question, the client,
and what would change in each note, before and after: title, tags, properties and text, and what differs in the store's own form (a file of the vault, HTML, columns such as pictures). It takes yes or no; without an ID it asks about all that waits, one by one. After a yes the
agent repeats the same call.

An approval counts for the same client (its name and version) and profile, tool, arguments and question, while the notes are at the same
versions, what would be replaced is the same in the store's own form, and the same notes would become public: once, and for ten minutes from the question, also if the server is started again. `confirm` makes no difference. A no holds
for the rest of the ten minutes. Up to 16 questions wait in an account. Others are refused and counted; `approve` shows how many.
Both the decision and the action are in the audit log, as `approved` with the id of the approval.

`--list` only shows, with `--json` for programs; `--deny ID` says no. A yes is always typed at a terminal, with the key of the account
as for any command, and after the question: what was typed before it is dropped. No tool approves anything. **An agent that may run commands as you finds the key where servers find it: it can
open a terminal of its own and approve.** Let such an agent run as another user, or in a container without your files.

Each save is checked alone. Several that each drop less need no consent, even if together they drop
everything.

The question names the note by its first line (at most 60 visible characters) and its id. It names only the
id if the policy hides the text, or if the policy's reading limit is reached. `confirm` changes nothing if the user can
be asked, even if the client answers with an error (some clients report a refusal so); only "no such method"
counts as a client that cannot ask. The question is the result of the call with protocol versions that allow no
server requests. Its answer counts once, for ten minutes, and only for the same tool, arguments and question.

### What nothing can bring back

A change can be taken back if a version of the note before it is kept here. What has
no such way back is lost for good. It needs consent under every value of `NOTARIUM_DESTRUCTIVE`, with every tool, and is forbidden in the policy's
modes `read-only` and `write`. The question names what is lost, and why. One rule decides (`domain/loss.py`), before the change.

There is no version of a note

* with `NOTARIUM_VERSION_DAYS=0`, or
* if it has no room. A version counts 300 bytes, its text, and what is kept beside that, such as pictures. There is
  no room for more than `NOTARIUM_VERSION_MB`, nor for what does not fit beside the versions that stay.

A version stays for a day, whatever is written later, if the save that replaced it took something away (the first columns of the
table), as does a note of Memento that was deleted. So no later save pushes out what an earlier one took. Once such versions fill the
room, a save that would take something away needs consent, until the oldest of them is a day old. Other versions go when their place is needed, the
oldest first: what was only added to has all of its text in the next version. All go after `NOTARIUM_VERSION_DAYS`. If
the version before the last save of a note has no room, its name is left: `history` still says who saved, and `undo` that there is nothing to undo.

| what would be lost without a version | by | where |
|---|---|---|
| lines of a text (also one that is only changed or moved) | `save` with `text`, `text_patch`, `find` and `replace`, `heading`; `UpdateNote`, `update_note` | every store |
| a title, and with it the name of a file | `save` with `title`, `UpdateNote`, `update_note` | every store that has titles |
| links in other notes | `save` with `title` or `heading`, and `rewrite_links` | vault |
| tags | `save` with `tags` or `remove_tags`, `update_note` with `labels`, `rename_tag`, `change` | every store |
| pictures, colour, items of a checklist with what the app keeps in them, labels in an unknown form | `update_note` | Memento |
| formatting that Markdown does not show, of words that stay: colours, sizes, marks, comments | a text that is HTML in `save` or `update_note_content`; `restore_version` | Trilium |
| a note | `delete_note`, `delete_permanently` | Memento |
| a note, whatever is kept | `delete_permanently` | every other store |

What a server keeps itself is no such way back, for later saves push it out: Simplenote keeps some sixty revisions of a note, Trilium as many as its
options say, which it shows nobody. Two saves at the same moment cannot both count on the last room: one is refused, and asks if it is tried again. What only adds something takes nothing away: `append`, `prepend`, new lines, new tags, a new note, as do `pin`, `archived`, `markdown` and the trash, which go both ways. What an edit of a span leaves (comments of front matter, fields of a canvas) stays as it was; what is not
understood (labels or tags in another form) is refused. `undo` and
`restore_version` ask in any case; their question says so if what they replace would be lost. `tests/interaction/test_ways_back.py` has
each row, under every setting.

Some ways to a loss are the user's own and never an agent's: a policy that hides a note (its versions go), `purge`, a shorter
`NOTARIUM_VERSION_DAYS`, and what the store's own app removes.

## Note text is untrusted

Anybody may have written into a note. An answer with text, titles, tags or words of notes begins with
`begin_untrusted` and ends with `untrusted_end`; both hold one random word of 16 hex digits, drawn for each
answer and absent from its notes, so a note cannot forge the end. They cost about 40 tokens an answer, whatever its
size; a row of a listing costs none.

Ids and paths are as foreign as texts: in a vault others choose them. So every other answer and every refusal has the two
fields as well if it repeats an id, a tag, a version or another name that could say something. An id of hex digits cannot, and most
answers to `manage` need no marks for this reason. An id is always written as the next call needs it. A question to the user puts
each name between “ and ”, which no name in it can hold.

Text is returned byte for byte. The answer reports invisible characters of its text and tags beside it:
`findings` of a note (kind, count, `first_line` in the note, or `where`: `title`, `tags`), and `hidden` of a row or of
the suggestions (the kinds). Both are absent if there are none:

| kind | characters |
|---|---|
| `control` | control characters but tab and line ends (a `\\r` alone counts), line and paragraph separators, noncharacters |
| `bidi` | marks, embeddings, overrides and isolates that turn the order of the text |
| `zero_width` | zero-width spaces, joiners and marks, soft hyphens, fillers and other letters without a shape |
| `variation` | variation selectors |
| `tag` | the tag block U+E0000 to U+E007F |

Ordinary writing needs some of them, and they are not reported: joiners and a choice of colour inside an
emoji, and joiners between two letters of scripts that spell with them, such as Persian or Hindi.

## Sections and blocks

`section` of `get` and `save` names a part of a note, in every store:

| `section` | means |
|---|---|
| `Costs`, `## Costs`, `#Costs` | the section whose heading has these words: exactly, else in any letter case, else by letters and digits alone (`Costs 2026` for `Costs: *2026*`). Several `#` with a blank prefer that level |
| `Plan > Costs`, `Plan#Costs` | the section of this heading somewhere below that one |
| `3` | the third heading of the note, as `headings` count them |
| `line 12` | the heading in this line; for headings with the same words |
| `0` | what stands above the first heading, below front matter |
| `^id` | the block with this id: a paragraph, an item with its children, and a table, quote or list with the id in a line of its own below it. In a section of up to 100,000 characters |

A section begins with its heading and ends at the next heading of the same or a higher level, so its subsections belong to it. Headings
are those of CommonMark (`#` and underlined), outside lists and quotes, and the first line of an item in the form `- # words`, as in outlines of Logseq;
within an item of up to 100,000 characters. The section of such a heading is its item with the children. What is added there becomes items below it,
indented as the others are; a new text leaves the item's properties (`key:: value`). Front matter,
code, HTML, and comments (`<!-- -->`, lines between two that begin with `%%`) have none. `tests/property/test_section_properties.py`
compares that with another parser. If no section has the name, or several have it, the error `section` names up to five in
`details.sections`: heading, `line`, `number`, `path`.

| `save` with `section` and | does | `local_version` |
|---|---|---|
| `append` | adds lines at the end of the section, below its subsections; of a block, below that | not needed |
| `prepend` | adds lines right below the heading; of a block, above that | not needed |
| `text` | replaces all below the heading, subsections too. It may begin with the heading, as `get` shows it. Of a block: its words; the id stays, and so do the mark of an item, the box of a task, `>` | needed |
| `find` and `replace` | changes one place within the section | not needed |
| `heading`, also beside one of these | gives the heading other words; level, form and line stay | not needed |

A section that is named by number or `line` needs `local_version` in any case, because both are of a text that was read. Added lines are
kept apart from what stands beside them as everywhere ([`save`](#save)). No byte outside the section changes. In a vault, links such as
`[[Plan#Costs]]` would not find a heading with other words: the error `links_would_break` counts them, and `rewrite_links` decides, as
for another title. Cards of canvases that show a section are not changed.

## The first contract

The four tools were first written down as schemas. What those demand of an answer is there, under the same names, and what they permit
in a call is taken: `tests/interaction/test_first_contract.py` holds the answers of every store against them. What differs:

| tool | the first contract | here | because |
|---|---|---|---|
| all | an error is one of the protocol | a tool error | many clients show a model no protocol error, and it could not correct its call |
| all | the fields of the schema | more: `title`, `properties`, `match`, `findings`, `note`, `sync`, the marks of untrusted text, ... | stores have more than Simplenote; a model has to know what is foreign, hidden or missing |
| `list` | a preview has 80 characters | so has each line of it; only `preview_lines` gives more than one | an agent can ask for more at once |
| `list` | a `limit` above 100 is refused | it counts as 100, and `note` says so | the call is clear |
| `get` | the whole text | at most 30,000 bytes, then `text_is_partial` | clients cut longer answers without a word |
| `get` | a `local_version` without a meaning | `version_changed` if the note has another one | parts of two versions must not be mixed |
| `get` | `local_version` always | not of an old version (`version`) | nothing can be saved over it |
| `save` | `text` in the answer | `changed`; the text with `return_text` | the agent has just sent it |
| `get` | a note | or one of its `files` | people keep pictures and PDFs in notes |
| `get` | one `id` | or `ids`, answered as `notes` | each call costs a turn |
| `save` | `local_version` with every `id` | not with `append`, `prepend`, `find`, `heading`, `add_tags`, `remove_tags`, `properties` | they replace nothing unread |
| `manage` | `local_version` with every action on a note | not with `pin`, `unpin`, `undo`, `history` | they replace nothing unread |
| `manage` | three values of `status` | more, for the actions that came later | |

The contracts of native tools are in [native-tools.md](native-tools.md), with what differs there.

## Instructions

The client gets this with the handshake:

```
{instructions}
```
"""

_BEHAVIOUR = {
    "list": """\
* Search language: words (any of them, also inflected), `a AND b`, `"a phrase"`, `-word`,
  `-"phrase"`, `NOT word`, `a OR b`, `prefix*`, `tag:x` (also tags nested in it, `x/y`), `-tag:x`, `tag:"two words"`, `before:` and `after:` a day (both
  inclusive, UTC, by last change), `trash:yes|no|any`, `in:trash`, `is:trashed`, and `modified:` (`updated:`) or `created:` with a year, month or day,
  also `>day`, `<=day`, `day..day`. `tags:x` is `tag:x`. `has:tags` finds notes with any tag, `-has:tags` those without. Where notes lie in folders, `path:Work` and
  `-path:Work/Old` are the notes in a folder and below it, or one note by its path; letter case makes no difference. Elsewhere
  `path:` is an error. `*` alone finds every note. Malformed filters are errors that say what to write;
  everything else is words; `note` names what looks like a filter (`title:x`) if no note has all of them. A `trash:` in the text wins over `trash_status`; tags and dates of both apply.
* Properties filter where notes have them: `status:active` (a text in any letter case, one of a list is enough), `"a name":"two words"`,
  `rating:>=4`, `rating:3..5`, `due:<2026-12-01`, `due:2026-12`, `has:due`, each also with `-` and in `OR`. A sign or a range compares numbers with
  numbers and dates with dates; a date without a zone counts as UTC. What is in quotes in a note is compared as what it says: `rating:>=4`
  finds `rating: "5"`. A link is compared as the name that it has: `people:Ann` finds `"[[Ann]]"`. `done:yes` is `done:true`, and `done:no` is `done:false`, whichever the note says. Days have names, too: `today`, `tomorrow`,
  `yesterday`, and from today `+7d`, `-2w` (`due:<tomorrow`, `due:today..+7d`), on this machine's clock. A name that no note has is no filter but
  words, unless the user's app has a type for it. Rows show the properties that the query names, beside the marks.
* Where notes begin with properties that cannot be read (no YAML, TOML, a block that never ends), such a filter does not see them: `note` says how many
  notes these are, names five, and says what mends them. Hidden notes are not counted.
* Tasks filter, too: `task:open`, `task:done`, `task:any`, `task:doing`, `task:cancelled`, `task:due<2026-12-01`, `task:due<=today`, `task:due:2026-12`,
  `task:scheduled>=2026-12-01`. Several of them mean one task that is all of it, unless no task can be. `has:tasks` is `task:any`, unless notes have a
  property of this name. Rows then have these `tasks` (`line`, `text`,
  `state`, `due`, `scheduled`; ten at most, `more_tasks` if there are others). Tasks are items with a box (`- [ ]`, any character in it), with dates as
  Obsidian Tasks or Dataview write them, Logseq's `TODO`, `DOING`, `DONE` with `SCHEDULED` and `DEADLINE`, Trilium's to-do lists and Memento's checklists.
* Words, phrases and prefixes are looked for in titles, texts and tags; a phrase stands in one of them.
* A bare word is looked for as it is meant: `l'animation` finds `animation`; `snake_case`, `snakeCase` and `snake case` find each
  other, and so do `back up` and `backup`; of a long identifier or a compound that no note has, the words count. Of a run of Chinese,
  Japanese, Thai or Korean the pairs of characters count. A date in digits or with the name of a month (English, German, French, Spanish,
  Italian, Dutch, Portuguese) finds the ways to write it; `3/4/2020` is two days. What stands in quotes is looked for as typed.
* Bare words rank, operators filter. A note is found if it has at least one of the bare words (a prefix is one, too), and everything else that the
  query demands: phrases, `AND`, `OR`, exclusions, tags, folders, dates. First come notes whose title, or first line, is the query, then those whose
  title has all words, then by bm25: more and rarer words first, a word in the title more than in a tag, there more than in the text, long
  notes less; equals by `sort_by` and `sort_order`. Articles, pronouns and the like are not looked for beside other words, nor are words that more
  than half of the notes have. Without words, and if more than 1,000 notes have all that is looked for, the order is `sort_by` and
  `sort_order` (`modified_at`, `DESC`), behind the notes with that title.
* `total_items` counts the notes on all pages, whatever the size of a page. Of one word these are the notes that have it. Of several they are
  those with any; but of two or three words those with all, if five notes have all. In a query without filters words that are in more than about
  1,000 notes bring no note in: they add to the rank of those that have rarer ones. Notes that only their meaning finds count as well.
* `have_all` says how many of `total_items` lack no word; it is left out where all have them, and without bare words. A row `lacks` the words that no part
  of the note has, as they were typed.
* Where a [model](meaning.md) is named, `"by": "meaning"` marks a row that no word finds: at most ten of them. Such a row `lacks` nothing.
* A row's `text` is its first non-empty lines (`preview_lines`), trimmed, at most 80 characters each;
  `(empty note)` if there are none. `title`, where the store has titles, is cut in the same way. `hidden` names
  kinds of invisible characters in the row.
* A row costs about 60 tokens, 22 of them its id. So the id stands there once, as `uuid`, which every tool takes (as `id`
  as well: 29 more); times are epoch seconds (ISO 8601: 9 more); and `find_duplicates` compares texts, not a hash in
  every row (9 more). `type` and `trash` cost 8, and are in every row because the [first contract](#the-first-contract) has them.
* A page has 20 rows (`limit`, at most 100). Without `limit`, and if some notes lack a word, it ends behind at least three where others score less
  than two thirds of the best, and has at most five that lack a word; `next_page` has the rest. One beyond the end is empty and has the true totals. A `limit` or `preview_lines` above the maximum counts as the maximum, and `note` says so.
* `match` shows where a row has the query's words: the number of the line with the most and the rarest of them, as `get` counts lines, and that
  line or the part of it around the first (120 characters, `…` where it is cut). It is left out if title, `text` and tags
  of the row show them all, and beyond the first 262,144 characters of a text.
* If fewer than 10 notes have a bare word, it is also looked for in compounds (`schiff` in `Dampfschiff`); such hits rank lower, and the
  answer has `inside_words`. If none has it, any part of a word counts.
* A word that no note within the filters has, not even inside another word, is misspelt if another one is near: with one mistake
  from four letters on, two from eight; a letter is missing, wrong or too many, or two neighbours are swapped. The
  near word that most notes have is meant; one with a second mistake or another first letter counts for less. Beside other words it is
  searched as well, and so is the one that stands with them most often; alone it is searched if it is much likelier than any other.
  `corrected` says so (`{"grpah": "graph"}`). A row `lacks` no word that it has corrected.
  What stands in quotes, after `-` or before `*`, between `AND` and in numbers is never corrected.
* If nothing is found, `suggestions` are up to five words that would find something, the likeliest of each word first. If one note
  alone has a word and 50 times as many have a near one, that is suggested beside what was found.
* If no note is found, `note` names up to three tags and folders that no note has, and dates that leave no time between them;
  `suggestions` then hold what may be meant: `tag:food tag:real` for `tag:food,real`, `tag:food` for `tag:(food)` or `tag:foood`. If no
  note has all words, `note` names what was searched for as text: `author:ada`, an `AND` at an end, `last week`, for which it
  writes the date.
* `note` says if neither misspelt words nor parts of words can be looked for yet, because the words of all notes are still being read: that is
  so for seconds after the start, and at times during the first load of more than 2,000 notes.
* `sync` appears only if something may be missing or old: `state`, `loaded` (of `total`, where the store tells it), `complete`,
  and a sentence that says how old the notes are. It appears with the first sync cycle that fails and
  disappears with the next that succeeds. A server that is just starting omits it until its first cycle
  has ended.
""",
    "get": """\
* Lines end at `\\n`; a `\\r` before it belongs to the end. An empty note has 0 lines. Text is
  returned byte for byte.
* An answer has up to 30,000 bytes of text (as JSON) in whole lines, with a range as without one.
  `text_is_partial` and `next_range_line_start` say what is missing. A line that is longer comes in parts:
  `next_range_char_start` (1-based) is given beside its number, as the next call's `range_char_start`.
* `range_line_start` alone means to the end, `range_line_count` alone means from line 1, a count of 0
  means to the end. An end beyond the last line is clipped; a start beyond it is an error that names the
  number of lines.
* A note at another version than the given `local_version` is a `version_changed` error: parts of two
  versions are never mixed.
* `version` reads what the note was: a `version` of a row of `manage` `history`, or a `local_version` or
  `server_version` that it had. The answer has `old_version`, says in `note` that it is old, and has no
  `local_version`: nothing can be saved over it. Parts, bounds and hidden parts are those of any note.
* Where notes lie in folders and link to each other, `links` are those of the note: each target as written, once, with the `id` of the
  note that it means, as Obsidian resolves it (the whole path, else its end: below the note's folder first, then the shortest
  path; else an alias). A link without `id` leads to no note. `linked_from` are the notes that link to this one. Each names at
  most 50; `links_left_out` says how many more there are. What stands in code is no link.
* An answer with a part of the text has the `headings` of the note, with line and number: 50 at most, then the deepest are left
  out, and of a text with more than 10,000 lines that may begin a block, those of the first ones. They name a `section`.
* `section` reads [one section or block](#sections-and-blocks), heading included. `range_line_start` and `range_line_count` then choose lines of it;
  give `section` again to go on with a long one.
* `ids` reads up to 20 notes at once, each id as `id` is taken, without other arguments. `notes` has them in this order, each with the fields of a single
  answer. They share the 30,000 bytes: short notes are whole, long ones get equal parts and say how to go on. If there is no room for the links of
  the notes, `links_left_out` counts them; of files there are as many as fit, and `note` says so. A note that cannot be read has a row with `asked` and `error` instead. The policy's limits count
  each note, and so does the audit log.
* What else an app has beside its notes, `in_app` has by the app's own names. Of Memento's images it says
  only that there are some. What is not set is left out; if the policy hides text, all of it.
* `files` are those that the note shows or links to, at most 50 (`note` says of how many): `id`, `kind` (a media type, as the name says) and, where it is known, `size`
  in bytes. `lines` are the first five of the note's text that show it or link to it, none if it stands beside the text. `name` is what the note calls it, where the `id` does not end with its name. In a vault they are the files of its links and embeds, in Trilium its attachments, also those that no text shows, and notes that are pictures or files ([if the server answers](trilium.md#attachments)), in Memento its pictures,
  in the local notebook the files that `save` has kept; notes of Simplenote have none. What stands in code, or at another host, is never fetched.
* `get` with such an `id`, in a vault also with a link as the note writes it, answers what the file shows. A PNG, JPEG, WebP or GIF (its first frame)
  is an image block beside the answer: at most 1,568 pixels wide and high and 1 MB as base64, upright, without what the camera wrote into it. A PDF is text with a heading for each page, so `section: "Page 3"` reads one, and a link to one (`[[paper.pdf#page=3]]`) begins there; a file in UTF-8, or in UTF-16 with a byte order mark, is its text, SVG too. Both come in
  parts like a note. `files` has one row then, with `pixels` (width and height of the picture itself), `pages` and `modified_at`; of any other kind of file
  there is nothing else. Files up to 64 MiB are read; `note` says why something is not shown. What a picture shows or a file says
  is data, as the text of a note is. The answer, picture included, counts for the policy's limits, and the audit log has a keyed digest of the file.
* Files of hidden notes are hidden: each of a name that a hidden note or canvas shows or links to, wherever it lies, one in a closed folder, and, where rules hide notes, one to which no shown note links; all, while a
  note that may be hidden cannot be read. A name that begins with a dot, or that programs leave beside a note (`~$Plan.docx`, `Plan.md~`, `Plan.md.bak`), a symbolic
  link, a file with several names, and what lies in the trash or a hidden folder are no attachments.
* An unknown id is `NOT_FOUND`; `get` does not search. Simplenote, Trilium and Memento are asked for it first, for it may be that of a note
  made elsewhere a moment ago; not where rules hide notes.
""",
    "save": """\
* Create: `text` (it may be empty), optionally `tags` and `trash`. Change: `id` and one of `text`, `text_patch`, `append`,
  `prepend`, `find` with `replace`; or `tags`, `add_tags`, `remove_tags`, `trash`, `properties`, with one of these or alone. With `section`
  the change is one of [that section](#sections-and-blocks), and `heading` renames it.
* `append`, `prepend`, `find`, `heading`, `add_tags`, `remove_tags` and `properties` need no `local_version` and compare none: they change the newest text,
  whatever has come since. All else needs the `local_version` that was read.
* `append` puts lines at the end, `prepend` at the top: above the text where the store has titles, elsewhere below the
  first line that is not blank (the title) and the blank lines after it, and always below front matter. If somebody else has added the
  same lines there at the same moment, they are there once.
* Where a text is Markdown (a vault, Trilium's text notes, notes with the property `markdown`), lines of `append`, `prepend` and additions are
  blocks of their own: a blank line goes between them and a neighbour that Markdown would join them with, and none stands above front
  matter. Items go on a list of their kind, rows a table ([decision 41](decisions/0041-added-lines-are-blocks.md)). Elsewhere lines are lines.
* `find` is exact and must be in the text once; the error says how often it is there and from which lines. It is a
  `conflict` that shows the lines of now if it was there until lately. It may span lines, and `\\n` in it finds the note's own line ends. `replace`: "" removes it.
* `title` is an argument as well where the store has titles (at most 1,000 characters, one line), and alone reason enough for a change. Elsewhere the first line of the text is the title.
  An empty one removes it in the notebooks and Memento; Trilium makes one of the first line; a vault keeps the name of the file.
* In a vault another `title` renames the file, and one with a `/` moves it (`Work/Plan`: from the top). The answer has the new `id`; the
  old one goes on to work. A name that is taken is the error `name_taken`. If links of visible notes would then break ([which](vault.md#links)),
  or cards of canvases would no longer show the note, the error `links_would_break` counts them, and nothing is saved: repeat the call with `rewrite_links`, `true` to change
  exactly these links as well, `false` to leave them. Each rewritten note is a save of its own, with its own history, and counts as
  a write; `note` says in how many notes it was done, and where not.
* `text_patch`: all line numbers are those of the text at `local_version`. Deletions are applied from
  high to low, then modifications, then additions from low to high. An addition stands before its line,
  at last+1 it appends. A value may hold several lines. Line ends and a missing last line end stay as
  they are. Conflicting operations on one line, and lines outside the text, are errors.
* A change elsewhere is merged by lines (`merged`), one that was not known here and, as a rule, one that came since
  `local_version`: the last three texts of a note that other devices replaced, and those that saves replaced, are
  known. It is a `conflict` error with `current_local_version`, and nothing is written, if that text is not known any
  more, if both changed the same lines or the title, if the change needs consent, or if a given `server_version` is
  not the note's. `overlaps` then has the lines that both changed (`yours`, `theirs`, and `line`, their number now;
  at most five places and 4,000 characters), so the next save needs no `get`.
* Nothing is written, and the answer has `unchanged`, if nothing would change.
* The answer has the versions and, in `changed`, the lines of the new text that differ from the text that the change
  was made from, with two lines around them: at most 4,000 characters in all and 500 of a line, from shortly before its change on. `note` says if that
  is not all. `return_text` gives the whole text instead, from line 1 on, in parts as from `get`. A new note's text is not repeated.
* `properties` sets what it names and removes what is `null`; the others stay, and merge one by one. A value is a text, a number, `true`, `false`
  or a list of texts; a text in ISO form is a date. Marks are set (`true`) or not (`false`): Simplenote has `pinned` and `markdown`, the
  notebooks have `pinned`, Memento has both and `archived`. Others stand in the front matter of a vault's notes, are labels in Trilium, and are
  kept beside a note of the notebooks. Notes of the other stores have them if their text begins with a block of front matter, and a note that has or gets
  `markdown` gets such a block; at Simplenote its first line is then the title that the app shows, and `note` says so. Any other text of these stores, as
  Memento's rich text, is left as it is: a name that the store does not have is refused, and the refusal names those that it has.
  Memento's `color` (`default`, `red`, ...; `null` is `default`) is set, too. What only the app sets is shown, found and never changed: Memento's `reminder`,
  `isReminderDone`, `reminderRecurrence` and `reminderLocation`, Simplenote's `published`. A property is changed where it stands, also as `key:: value` in
  a text; nothing else of the text changes. A text that was in quotes, or in lines below `|`, is so again, and a list keeps its form. A key that
  stands twice in the front matter is not changed: apps do not agree which one counts, and the refusal names the lines. Tags are no property.
* Where the app has types for properties (`.obsidian/types.json`), a value is written in its type: `"yes"` for a checkbox is `true`, `"5"` for a number `5`, a
  text for a list its one item. What would lose something is refused with the form that is taken.
* Answers show the marks that are set, and of `get` and `save` all properties: at most 50, each value up to 500 characters. Those of labels from above are shown, too.
* `task` ticks the task of these words (in any letter case, also without `**`, `_` and the like; part of them is enough if no other task has it), or of this line (`3`, `line 3`), which needs
  `local_version`; `done`: `false` reopens it. Nothing else of the text changes. The day on which it was done is added in the form that the note uses (`✅ 2026-11-28`,
  `[completion:: 2026-11-28]`), and goes when it is reopened. A task that comes again (`🔁`) is ticked, and `note` says that no next one was added.
* `add_tags` and `remove_tags` name single tags, in any spelling of theirs; the others stay. They stand without `tags`. A new note takes `add_tags` for its `tags`.
* Tags are trimmed, and each is kept once in the spelling the note has. New tags hold no comma, white space
  only where the store has tags of several words, and at most 256 characters; a note has at most 100. Odd tags that exist already stay.
* A text has at most 1,048,576 bytes, or what the store allows. A note that is larger already may shrink.
* Do not repeat the write after an `in_doubt` error; the server finishes it. `conflict_copy_id` names a
  note that keeps the text if the store mixed it with a change made at the same moment.
* `note` begins with `stored differently:` if the stored text differs from what was sent. It names the
  first lines (of what was sent) that differ, and `tags`, `trash`, `title` or a property if they do. The answer is
  what the store holds. No copy is made. `get_stats`, `status` and `doctor` count such writes.
* `file` keeps a file and links it, as the app does, on a line at the end of the note, or of the `section`; beside it there may be tags and properties, and of a new note
  title and text. It is the whole path of a file in a folder that the user's policy permits ([`import_paths`](policy.md#files-from-folders); without, no path is taken), or up to 256 KiB
  as `data:image/png;name=plan.png;base64,…`. A [vault](vault.md#keeping-files) puts it where Obsidian or Logseq puts attachments (at most 64 MiB), the [local notebook](local-notebook.md#files) into its encrypted database, [Memento](memento.md#pictures) a picture into the note.
  `files` of the answer has its `id`, which `get` takes. The name is cleaned, gets an ending if it has none or its first bytes call for another, and a number if it is taken; where rules hide notes, eight digits
  instead. The same call again keeps no second file. `manage` with `undo` takes the link away, and the file too if nothing else shows it and it has not changed (in a vault into
  `.trash`); undoing that, or restoring a version that shows it, brings it back as long as it is kept. If the server is killed in between, the file goes when the next one is kept. Where rules hide notes, the answer does not tell whether a hidden note keeps it. The audit log has a keyed digest of the file.
* `template` begins a new note with a template, named by its id or its title. Templates are the notes with the tag `template` ([in Trilium](trilium.md#templates) with that label); any
  other note can be one too. `{{date}}`, `{{time}}`, `{{title}}`, `{{date:FORMAT}}` and `{{time:FORMAT}}` are filled (formats of moment.js). The note gets the template's other tags,
  and those of `tags`. Where notes have no title, the first line of `text` is the `{{title}}`.
  In a vault it is a [template of Obsidian](vault.md#daily-notes-and-templates): its path, its path below the folder of templates, or its name. `text`
  stands below it, and may be left out. The error for an unknown one names up to 50 that there are.
* Annotated destructive, because it can replace a text, and open-world, because a tag can share.
""",
    "manage": """\
* `trash`, `untrash`, `delete_permanently`: `id` and the current `local_version`. Trashing
  a note that is in the trash, at its current version, succeeds without a write. Only a note in the
  trash can be deleted permanently; one that is gone already is `NOT_FOUND`.
* `pin`, `unpin`: `id` (and `local_version`, if you like); they set or remove the property `pinned` and change nothing
  else, where the store has it. A pin that is there already is no write.
* `history`: `id`; ten rows, newest first, the present state too. Each has a `version` for `get` and
  `restore_version`, `at`, `by` (the client that saved it here, if that is known) and `changed`, one line (lines
  are counted; the first changed one is shown). `next_version`: give it as `version` for the rows before. The list
  has what saves made here have replaced (90 days by default) and what the note store keeps (Simplenote: some sixty
  versions, each of which costs a request; Trilium: its revisions, without their tags). What other programs have replaced
  elsewhere is in no list.
* `restore_version`: `id`, `local_version` and `version`. It saves title and text of the version (of a vault the text alone); tags, trash and
  properties stay, but for Memento's `color`. Where more of the version is kept (Memento: pictures, items of a checklist; Trilium: the formatting), that comes back, too. A note that is deleted for good has no versions and does not come back, except where the store can make it again (Memento): its
  last state then has the name that `history` gives, and comes back with its id.
* `undo`: `id` (and `local_version`, if you like). It saves all that the last change of this client to this note has
  replaced, if nothing came after that. If no save from here is kept, also because the note was deleted and made again since, the error is
  `nothing_to_undo`. Otherwise it is a `changed_since` or `conflict` error, and
  `details.came_after` says what came: `version`, `at`, `by`. A second `undo` takes back the first. What a save made is the
  revision that the note store acknowledged for it, whatever the store has made of its text.
* If the note is not all that it was, the `status` of either is `undone in part` or `restored in part`, and `note` says what is different still.
* Both ask the user, with the time of what comes back, how many lines change, and what else does (`color set`, `pictures`, `items of the
  checklist`, `labels`, `formatting`). The answer and `changed` of `history` name these, too. Neither is merged: a change elsewhere that was
  not known here is a `conflict`.
* Annotated not idempotent because of `undo`, and open-world, because it can bring a tag back that shares.
* `list_tags`: `tags` has each tag of notes outside the trash with their number, most used first, 300 a page (`page`).
  Spellings of one tag count as one.
* `list_properties`: `properties` has each property of notes outside the trash: its `name`, in how many `notes`, of which `kinds` (`text`, `number`,
  `date`, `yes/no`, `list`, `empty`), the `type` that the user's app has set for it, if any, and its three commonest `values`; most used first, 100 a
  page (`page`). A kind is what stands in notes: a number in quotes is `text`, and filters compare it as a number all the same.
* `rename_tag`: `tag` becomes `new_tag` in all notes, those in the trash too; a note that has both keeps its
  spelling of `new_tag`. It is a change of many notes, [as below](#manage), of any number. An error on
  the way says how many notes were `renamed`; `results` name each, those that the store refused first, and `left` counts these. The audit
  record has the ids of up to 200. An action that cannot only count refuses `dry_run`.
* `change` does one thing to many notes: `add_tags`, `remove_tags`, `properties` (as in `save`: null removes one), and where notes lie in folders, or below each other, `folder` (from the top; `/` is the
  top). The notes are `ids` (at most 500, of `list` or by [name](#arguments-as-they-are-sent)) or all that a `query` finds: the language of `list`, but a note must
  have all of the words, as they are spelled, and none is corrected. More than 500 are refused with their number. `trash` and `untrash` take
  `ids` or `query` in the place of `id`; the query of `untrash` looks in the trash.
* Such a change, and `rename_tag`, asks once: how many notes, what, with whom they would be shared (Simplenote), and how many and which of them lose
  [what nothing can bring back](#what-nothing-can-bring-back), the first of them by name. The answer holds for all of them; a note that would be shared with somebody else or lose something else by then is
  left. `dry_run` tells that question (of a loss in the `reason` of a row) and what would
  become of each note. Each note is changed as it is then, in a save of its own, with its history, and counts as one write. `results` say of each what
  became of it: a row for all `ids` of which the same is to be told (`refused` with the `reason`, `changed`, `unchanged`, `left`), the refused first. They name at
  most 500 notes and files, and `more` counts the others of a row; `notes`, `unchanged` and `refused` count all.
  `note` has what to do about refusals, and `status` is `unchanged` if no note was changed.
  A moved note keeps its name, and links and cards follow it as with `save` and `rewrite_links`. What hinders one note leaves that one; what ends a save for all
  (the store cannot be reached, a limit) ends the call, and the error says how many notes are `changed`.
* Repeat a call that was cut off: it does the rest, under the same `change_id` if the same client asks for the same within a day. If all is done
  already, the answer still has the `change_id`.
* `undo` with a `change_id` takes the whole change back, after one question: each note becomes what it was, unless something has followed in it (it is
  `refused` then); `dry_run` counts, and a repeated call does the rest. The answer has a `change_id` of its own, so that an undo can be undone. It works as
  long as the versions are kept, also after a restart. An id of another kind (a note in `change_id`, a `change_id` in `id` or `version`) is refused, and the
  hint says which argument of which action takes it.
* `list_folders`: `folders` in which notes outside the trash lie, by path, 200 a page, with the `notes` in each, and in it and `below`. `/` is the
  top. Folders without notes are not in it. [In Trilium](trilium.md#the-tree) they are the notes with others below them: `folder` is the id, `title` the titles that lead there.
  A store with neither refuses it.
* `move_folder`: `folder` becomes `new_folder`, both paths from the top, with all notes in it and below, each at its place, and all other files (at
  most 2,000). It asks once, and `dry_run` tells how many notes, files, links and canvases. Links within the folder stay as they are written, those that would break
  change, in other notes too, and cards of canvases follow. `results` name these as `links changed` (no canvas while a rule hides notes in open places). It is a change of many notes: each note and each file counts as a write, a repeated call goes on after a cut, and `undo` with
  the `change_id` brings notes, links, cards and files back. The files go last, when all notes are there: `results` name those that `moved along`, and each that stays, with the
  reason (its name is taken by then, it is no file that can be moved, or some notes are left). `status` is `moved in part` if a limit left some. Nothing moves if a note or file is in the way, or a note cannot move (`details.refused` has each, with the reason); folders may be merged. Notes in the trash stay, and so does
  what the policy hides: the folder then stays with it. While rules on tags, ids or `untagged` may hide notes in open places, digits are added to the new name
  ([why](policy.md#notes-that-are-renamed)), only those other files move that a visible note of the folder shows, and no `undo` brings notes back to a path;
  `move_folder` does. [In Trilium](trilium.md#the-tree) `folder` is a note, and `new_folder` the one that it comes to stand below.
* `find_problems`: `problems` of notes outside the trash, 25 of each `kind` a page, and `totals` of each. `broken_link`: a link that leads to no note and no
  file, as written, with the `line` where it first stands. In stores with canvases also what a canvas, `file`, shows or
  links to (only where no rule hides notes). `no_links`: no other note and no canvas links to the note, nor it to another. `unlinked_file`: a file that no note
  and no canvas shows or links to (canvases and bases need no link; links in HTML do not count). `no_tags`. Where notes do not link to each other by path, the last is all. What the policy
  hides does not exist for it, so a link to a hidden note or file is a broken one; while a rule on tags or ids hides notes, files are left out,
  for only a hidden note may show them.
* `find_duplicates`: `duplicates` has groups of notes outside the trash with the same text (notes without text: the same title), 20 a page: `title`,
  `count`, and id and `local_version` of the ten that were changed last. White space at the end of lines
  and of the text does not count, and neither do tags and dates; nothing else is normalised.
* `reset_cache` empties the local index and loads every note again in the running server. It keeps writes
  that are not confirmed yet. It empties nothing if the store cannot be reached.
* `get_stats` returns `stats`, the numbers below, and sends no request to the store.
""",
}


_TYPES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true, false",
    "string": "text",
}


def document() -> str:
    """Return the whole page."""
    tools = "\n".join("\n".join(_section(tool)) for tool in TOOLS)
    return f"{_HEAD.replace('{instructions}', INSTRUCTIONS)}\n{tools}"


def _section(tool: Tool) -> Iterator[str]:
    yield f"## `{tool.name}`\n"
    yield f"> {tool.description}\n"
    yield (
        f"Hints: read-only {_said(tool.read_only)}, destructive {_said(tool.destructive)}, "
        f"idempotent {_said(tool.read_only or tool.idempotent)}, open-world {_said(tool.open_world)}.\n"
    )
    yield _BEHAVIOUR[tool.name]
    yield from _table("argument", tool.request, demanded="required")
    yield from _table("answer", tool.answer, demanded="always")
    if tool.answer is answers.ManageOutput:
        yield from _table("`stats`", answers.Stats, demanded="always")


def _said(mark: bool) -> str:  # noqa: FBT001 - the one thing it is about
    return "yes" if mark else "no"


def _table(head: str, model: type[BaseModel], *, demanded: str) -> Iterator[str]:
    schema = flat_schema(model, quiet=True)
    yield f"| {head} | type | |"
    yield "|---|---|---|"
    for name, field in schema["properties"].items():
        always = [demanded] if name in schema.get("required", ()) else []
        yield f"| `{name}` | {_type(field)} | {'; '.join([*always, *_remarks(field)])} |"
    yield ""


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if field["type"] == "object":
        return f"{{ {', '.join(f'`{name}`' for name in field.get('properties', ['...']))} }}"
    return _TYPES[field["type"]]


def _remarks(field: dict[str, Any]) -> Iterator[str]:
    if "description" in field:
        yield field["description"].replace("|", "\\|")
    if "const" in field:
        yield f"always `{field['const']}`"
    elif "default" in field:
        yield f"default {field['default']}"
    if "minimum" in field:
        yield f"at least {field['minimum']}"
    if "maximum" in field:
        yield f"at most {field['maximum']}"


if __name__ == "__main__":
    sys.stdout.write(document())
