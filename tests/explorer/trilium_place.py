"""Keep the notes of a run in the simulated Trilium, which real Trilium stores reach.

The server overwrites whatever it is sent. What nothing could protect is forgiven, as docs/trilium.md says: an edit
that arrives between the last comparison and our write, and whatever a write that wanders replaces or brings back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from explorer.broken import Broken, words_of
from explorer.choices import HIDE, HIDING_PROPERTY, NOT_UNDERSTOOD, way_to_hide
from explorer.http_place import TIMEOUT_SECONDS, HttpPlace
from explorer.http_wire import Sent
from explorer.oracle import is_copy
from mcp_notarium.domain.note import Content
from mcp_notarium.keys.secret_places import StoredToken
from mcp_notarium.secret import Secret
from mcp_notarium.stores.http import HttpSession
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.kind import ALLOW_HTTP, KIND, URL
from mcp_notarium.stores.trilium.store import TriliumStore
from mcp_notarium.stores.trilium.urls import Urls
from notarium_devtools.http_server import Request, Response
from notarium_devtools.trilium import TriliumSimulator
from notarium_devtools.trilium.document import HIDDEN, ROOT

if TYPE_CHECKING:
    from explorer.machine import Process
    from explorer.world import World
    from mcp_notarium.storage.cache import Cache
    from notarium_devtools.trilium.records import Note

_TASK = (
    '<ul class="todo-list"><li><label class="todo-list__label"><input type="checkbox" disabled="disabled">'
    '<span class="todo-list__label__description">{}</span></label></li></ul>'
)
_TAG = re.compile(r"<[^<>]*>")


class TriliumPlace(HttpPlace):
    """One Trilium server of a version."""

    base = "http://127.0.0.1:1"

    def __init__(self, world: World, version: str) -> None:
        super().__init__(world)
        self.traits = TriliumStore.traits
        self.settings = {
            "store": KIND,
            "store_settings": StoreSettings({URL: self.base, ALLOW_HTTP: "off"}),
        }
        self.service = TriliumSimulator(version, clock=self.now)
        self.service.document.below_root = self._is_below_root  # type: ignore[method-assign]
        self._looked: dict[tuple[Process, str], tuple[str, bytes]] = {}
        """Process and note to title and content when it has compared it last, or asked for a revision since."""
        self._places: dict[tuple[Process, str], int] = {}
        """Process and note to the number of its places when it has looked last."""
        self._shown: tuple[tuple[int, int], dict[str, Content]] = ((0, 0), {})

    # What the way asks.

    async def respond(self, request: Request) -> Response:
        """See ``Service.respond``."""
        return await self.service.respond(request)

    def words(self, request: Request) -> str:
        """See ``Service.words``."""
        match (request.method, *request.segments):
            case ("GET", "etapi", "notes"):
                return "search" if "utcDateModified >=" in request.query["search"] else "list all"
            case ("GET", "api", *_):
                return "the count of changes"
            case ("GET", "etapi", "revisions", _, *rest):
                return " ".join(("GET a revision", *rest))
            case (method, "etapi", "attributes", *_):
                return f"{method} a label"
            case (method, "etapi", *rest):
                return " ".join((method, *rest[::-1]))
        return f"{request.method} {request.path}"

    def leaves(self, sent: Sent) -> None:
        """See ``Service.leaves``: one comparison is good for one request."""
        match (sent.request.method, *sent.request.segments):
            case ("PUT" | "DELETE", "etapi", "notes", note_id, *_):
                sent.knows = self._looked.pop((sent.process, note_id), None)

    def lands(self, sent: Sent) -> None:
        """See ``Service.lands``: forgive what no client of such a server can keep."""
        match (sent.request.method, *sent.request.segments):
            case ("GET", "etapi", "notes", note_id) if "fresh" in sent.request.query:
                self._look(sent, note_id)
            case ("POST", "etapi", "notes", note_id, "revision"):
                self._look(sent, note_id)
            case ("PUT", "etapi", "notes", note_id, "content"):
                self._overwrite(sent, note_id, sent.request.body)
            case ("POST", "etapi", "create-note"):
                made = json.loads(sent.request.body)
                self._overwrite(sent, made["noteId"], made["content"].encode())
            case ("POST", "etapi", "attributes") if sent.strays:
                self.world.forget_labels(json.loads(sent.request.body)["noteId"])
            case ("DELETE", "etapi", "notes", note_id) if sent.strays or sent.knows:
                self._forgive_tree(note_id)
            case ("DELETE", "etapi", "branches", branch_id):
                self._forgive_last_place(sent, branch_id)

    def _forgive_last_place(self, sent: Sent, branch_id: str) -> None:
        """Forgive that a note goes whose new place somebody took away since it was read back, one request before."""
        document = self.service.document
        branch = document.branches.get(branch_id)
        if branch is None or len(document.parents(branch.note_id)) > 1:
            return
        if sent.strays or self._places.get((sent.process, branch.note_id), 0) > 1:
            self._forgive_tree(branch.note_id)

    def _forgive_tree(self, note_id: str) -> None:
        note = self.service.document.notes.get(note_id)
        if note is not None:
            self.oracle.forgive(f"{_words_of(note.content)} {self._labels(note_id)}")
            for branch in self.service.document.children(note_id):
                self._forgive_tree(branch.note_id)

    def _labels(self, note_id: str) -> str:
        every = self.service.document.attributes.values()
        return " ".join(one.name for one in every if (one.note_id, one.type) == (note_id, "label"))

    def _look(self, sent: Sent, note_id: str) -> None:
        note = self.service.document.notes.get(note_id)
        if note is not None and not sent.strays:
            self._looked[sent.process, note_id] = (note.title, note.content)
            self._places[sent.process, note_id] = len(self.service.document.parents(note_id))

    def _overwrite(self, sent: Sent, note_id: str, body: bytes) -> None:
        note = self.service.document.notes.get(note_id)
        before = b"" if note is None else note.content
        if sent.strays:  # it may bring back what is elsewhere by now, too
            self.oracle.removed.discard(note_id)
            self.oracle.forgive(f"{_words_of(before)} {_words_of(body)}")
            return
        if note is not None and sent.knows not in (None, (note.title, before)):
            self.oracle.forgive(_words_of(before))

    def landed(self, sent: Sent) -> None:
        """See ``Service.landed``: another device acts on a note before its text is read back, perhaps."""
        match (sent.request.method, *sent.request.segments):
            case ("PUT", "etapi", "notes", note_id, "content"):
                if word := self.world.meddle(
                    f"right after {sent.process.name} sets a text", note_id
                ):
                    self.oracle.promise(word, "another device")
            case ("POST", "etapi", "branches"):
                note_id = json.loads(sent.request.body)["noteId"]
                if word := self.world.meddle(
                    f"right after {sent.process.name} makes a place", note_id
                ):
                    self.oracle.promise(word, "another device")

    def fails(self, sent: Sent) -> None:
        """See ``Service.fails``: another device acts on the note before it is sent again, perhaps."""
        match (sent.request.method, *sent.request.segments):
            case ("PUT" | "DELETE", "etapi", "notes", note_id, *_):
                pass
            case ("POST", "etapi", "create-note"):
                note_id = json.loads(sent.request.body)["noteId"]
            case _:
                return
        when = f"before {sent.process.name} sends again: {sent.words}"
        if word := self.world.meddle(when, note_id, rate=0.5):
            self.oracle.promise(word, "another device")

    def may_be_old(self, _request: Request) -> bool:
        """See ``Service.may_be_old``: in a network of one's own it may be reached without TLS."""
        return True

    def repeatable(self, request: Request) -> bool:
        """See ``Service.repeatable``: a POST is never sent again by itself."""
        return request.method != "POST"

    # What the world asks.

    def open_store(self, session: HttpSession, cache: Cache) -> Any:
        """Return a store with the token of the server."""
        return TriliumStore(
            urls=Urls(self.base),
            token=Secret(self.service.token),
            tokens=StoredToken(cache.sync_state, owner="owner", system=None),
            timeout=TIMEOUT_SECONDS,
            session=session,
        )

    def acts(self) -> dict[str, Callable[[str, str], None]]:  # noqa: C901, PLR0915 - one function an act
        """See ``Place.acts``."""
        service, document = self.service, self.service.document

        def edit(note_id: str, change: Callable[[str], str]) -> None:
            note = document.notes[note_id]
            service.write(note_id, note.title, change(note.content.decode()))

        def rewrite(note_id: str, word: str) -> None:
            self.oracle.forgive(_words_of(document.notes[note_id].content))
            edit(note_id, lambda _html: f"<p>{word} other</p>")

        def format_anew(note_id: str, word: str) -> None:
            """Change what no Markdown shows."""
            before = document.notes[note_id].content.decode()
            html = before.replace("<p>", f'<p class="{word}">', 1)
            if html != before:
                service.write(note_id, document.notes[note_id].title, html)
                self.oracle.saved_again[note_id] += 1

        def retitle(note_id: str, word: str) -> None:
            if is_copy(self.contents()[note_id]):  # it loses its mark by that
                self.oracle.perhaps_twice.update(_words_of(document.notes[note_id].content).split())
            service.write(note_id, f"called {word}", document.notes[note_id].content.decode())

        def remove(note_id: str, _word: str) -> None:
            if len(self.ids()) > 1:
                self._forgive_tree(note_id)
                document.delete(note_id)

        def bring_back(_note_id: str, _word: str) -> None:
            for note_id in list(document.deleted)[-1:]:
                back = document.undelete(note_id)
                self.oracle.removed.difference_update(back)
                self.oracle.brought_back |= dict.fromkeys(back, self.world.loop.time())
                self.oracle.tags.taken_back.update(back)  # a tag may have been renamed meanwhile

        def label(note_id: str, word: str) -> None:
            document.set_attribute(document.make_id(), note_id, "label", word, "")

        def strip(note_id: str, _word: str) -> None:
            if {*words_of(_words_of(document.notes[note_id].content))} & self.oracle.hidden:
                return  # it would be shown by that
            self.oracle.forgive(self._labels(note_id))
            self.oracle.tags.dropped.add(note_id)
            service.set_labels(note_id)
            document.changes += 1

        def put_below(note_id: str, word: str) -> None:
            self._put(f"below_{word}", f"{word}\nbelow\n", below=note_id)

        def move_below(note_id: str, _word: str) -> None:
            """Move it below the first note that does not stand below it, as a person drags it from its first place."""
            places = [branch.parent_id for branch in document.parents(note_id)]
            for one in (*self.ids(), ROOT):
                if one not in places[1:] and not self._stands_below(one, note_id):
                    for branch in document.parents(note_id)[:1]:
                        document.branches.pop(branch.id)
                    document.place(note_id, one)
                    return

        def take_place_away(note_id: str, _word: str) -> None:
            """Take away the place that it got last, if it has another one."""
            for branch in document.parents(note_id)[1:][-1:]:
                document.branches.pop(branch.id)
                document.changes += 1

        def stop_and_start(_note_id: str, _word: str) -> None:
            document.changes = 1  # a database that was put back counts anew
            self._shown = ((0, 0), {})

        def hide(note_id: str, word: str) -> None:
            if len(self.ids()) > 2:
                way = way_to_hide(self.world.chooser, note_id, NOT_UNDERSTOOD, HIDING_PROPERTY)
                name, value = ("pinned", "yes") if way == HIDING_PROPERTY else ("hidden", "")
                given = document.set_attribute(document.make_id(), note_id, "label", name, value)
                given.name = "no name" if way == NOT_UNDERSTOOD else name  # of an old database
                secret = self.world.secret(word)
                edit(note_id, lambda html: f"{html}<p>{secret}</p>")

        hides = {HIDE: hide} if self.world.plan.hides else {}
        return {
            "edit the top": lambda one, word: edit(one, lambda html: f"<p>{word}</p>{html}"),
            "edit the end": lambda one, word: edit(one, lambda html: f"{html}<p>{word}</p>"),
            "rewrite": rewrite,
            "retitle": retitle,
            "remove": remove,
            "bring back": bring_back,
            "label": label,
            "take labels away": strip,
            "put a note below": put_below,
            "count anew": stop_and_start,
            "move below": move_below,
            "save it as it is": format_anew,
            "take a place away": take_place_away,
            **hides,
        }

    def _stands_below(self, note_id: str, other: str) -> bool:
        """Tell whether a note is another one, or below it."""
        return other in self._above(note_id)

    def _is_below_root(self, note_id: str) -> bool:
        """See ``Document.below_root``; two notes may stand below each other for a moment, also in the end where moves are broken."""
        return ROOT in self._above(note_id)

    def _above(self, note_id: str) -> set[str]:
        """Return the ids of a note, and of all above it."""
        found, waiting = set[str](), [note_id]
        while waiting:
            one = waiting.pop()
            if one not in found and one != HIDDEN:
                found.add(one)
                waiting += [branch.parent_id for branch in self.service.document.parents(one)]
        return found

    def ids(self) -> list[str]:
        """See ``Place.ids``."""
        return sorted(note.id for note in self._seen())

    def contents(self) -> dict[str, Content]:
        """See ``Place.contents``."""
        document = self.service.document
        state = (document.changes, len(document.attributes))
        if self._shown[0] != state:
            self._shown = (state, {note.id: self._content(note) for note in self._seen()})
        return self._shown[1]

    def judge_more(self) -> None:
        """Demand that each note stands in one place, for nobody gives it two, and is reached from the root."""
        document = self.service.document
        for note in document.notes.values():
            above = [branch.parent_id for branch in document.parents(note.id)]
            if note_codec.is_possible_id(note.id) and len(set(above)) > 1:
                raise Broken(f"a note stands in two places: {note.id} below {above}")
            if note_codec.is_possible_id(note.id) and above and ROOT not in self._above(note.id):
                raise Broken(f"a note is reached from nowhere: {note.id} below {above}")

    def files(self) -> dict[str, bytes]:
        """See ``FilesPlace.files``."""
        document = self.service.document
        shown = {note.id for note in self._seen()}
        return {
            f"{one.owner_id}/{one.id}": one.content
            for one in document.attachments.values()
            if one.owner_id in shown and one.unused_since is None
        }

    def _content(self, note: Note) -> Content:
        shown = note_codec.note_object(self.service.document.note_object(note))
        return note_codec.revision(shown, note.content).content

    def _seen(self) -> list[Note]:
        seen = self.service.document.visible_notes()
        return [note for note in seen if note_codec.is_possible_id(note.id) and not note.protected]

    def is_clear(self, note_id: str) -> bool:
        """See ``Place.is_clear``."""
        note = self.service.document.notes.get(note_id)
        if note is None:
            return True
        found = self.service.document.note_object(note)
        return note_codec.note_object(found).tags_understood

    def put(self, name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
        """See ``Place.put``."""
        self._put(name.replace("-", "_"), text, tags=tags)

    def _put(
        self, note_id: str, text: str, *, tags: tuple[str, ...] = (), below: str = ROOT
    ) -> None:
        document = self.service.document
        html = "".join(map(_block_of, text.split("\n")))
        document.create(note_id, f"T {note_id}", "text", "text/html", html.encode())
        document.place(note_id, below)
        for tag in tags:
            document.set_attribute(document.make_id(), note_id, "label", tag, "")


def _block_of(line: str) -> str:
    """Return a line as the app's editor makes it: a heading, a task, or a paragraph; nothing of an empty one."""
    if line.startswith("# "):
        return f"<h1>{line[2:]}</h1>"
    if line.startswith("- [ ] "):
        return _TASK.format(line[6:])
    return f"<p>{line}</p>" if line else ""


def _words_of(html: bytes) -> str:
    return _TAG.sub(" ", html.decode())
