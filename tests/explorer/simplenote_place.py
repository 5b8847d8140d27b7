"""Keep the notes of a run in the embedded Simperium, which real Simplenote stores reach."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from explorer.broken import all_words
from explorer.choices import HIDE, HIDING_PROPERTY, way_to_hide
from explorer.http_place import TIMEOUT_SECONDS, HttpPlace
from explorer.http_wire import Sent
from explorer.more_acts import FIRST_TAG
from mcp_notarium.domain.note import Content
from mcp_notarium.keys.secret_places import StoredToken
from mcp_notarium.secret import Secret
from mcp_notarium.storage.sync_state import AccountRecord
from mcp_notarium.stores.http import HttpSession
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote.kind import Urls
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from notarium_devtools.http_server import Request, Response
from notarium_devtools.simperium import Simulator
from support.simplenote_settings import simplenote

if TYPE_CHECKING:
    from explorer.world import World
    from mcp_notarium.storage.cache import Cache

POLL_SECONDS = 55.0
_DISTORTIONS: tuple[dict[str, bool], ...] = (
    {"aggregate": True},
    {"duplicate": True},
    {"reorder": True},
    {},
)


class SimplenotePlace(HttpPlace):
    """One account of Simplenote. The service drops a write that it has seen before, so every write may wander."""

    base = "http://127.0.0.1:1"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.traits = SimplenoteStore.traits
        self.settings = simplenote("user@example.org")
        self.service = Simulator(clock=self.now, poll_seconds=POLL_SECONDS, publish_delay=None)
        self.oracle.tags.last_list_stays = True
        self._shown: tuple[str, dict[str, Content]] = ("", {})
        self._listed = self._made_anew = False
        """Whether servers have to list all notes again; whether a note has a number that an older one under its id had."""

    # What the way asks.

    async def respond(self, request: Request) -> Response:
        """See ``Service.respond``."""
        return await self.service.respond(request)

    def words(self, request: Request) -> str:
        """See ``Service.words``."""
        match (request.method, *request.segments):
            case (_, "1", _, "authorize", *_):
                return "log in"
            case ("GET", "1", _, bucket, what):
                return f"the {what} of {bucket}s"
            case (method, "1", _, _, "i", note_id, *rest):
                version = f" at {rest[1]}" if rest else ""
                return f"{method} {note_id}{version}"
        return f"{request.method} {request.path}"

    def lands(self, sent: Sent) -> None:
        """See ``Service.lands``: a note that was made again under its id has the old one's version numbers."""
        match (sent.request.method, *sent.request.segments):
            case ("POST", "1", _, "note", "i", note_id, "v", _) if note_id in self.ids():
                held = self.service.note(note_id)
                if json.loads(sent.request.body)["creationDate"] != held["creationDate"]:
                    self.oracle.forgive(held["content"])

    def may_be_old(self, request: Request) -> bool:
        """See ``Service.may_be_old``: no cache keeps news that is asked for in this way.

        Nothing tells a note from an older one under its number, if the feed does and the note's own answer does not.
        """
        fresh = request.headers.get("cache-control") == "no-cache"
        what = request.segments[-1]
        return (what != "changes" or not fresh) and what not in self.oracle.renumbered

    def is_old(self, request: Request) -> None:
        """See ``Service.is_old``: who has written a note nobody can tell by an answer of before."""
        self.oracle.outdated = True
        if "i" in request.segments:
            self.oracle.unmade.add(request.segments[request.segments.index("i") + 1])

    def repeatable(self, request: Request) -> bool:
        """See ``Service.repeatable``: each write has an id of its own."""
        return "ccid" in request.query

    # What the world asks.

    def open_store(self, session: HttpSession, cache: Cache) -> Any:
        """Return a store that logs in with the password, as often as it is asked to."""
        return SimplenoteStore(
            urls=Urls(api=f"{self.base}/1", auth=f"{self.base}/1", app=self.base),
            username=self.service.username,
            password=Secret(self.service.password),
            token=None,
            tokens=StoredToken(cache.sync_state, owner="owner", system=None),
            record=AccountRecord(cache.database),
            api_key=Secret(self.service.api_key),
            client_id="mcp-notarium-explorer",
            timeout=TIMEOUT_SECONDS,
            clock=self.world.clock.monotonic,
            session=session,
        )

    def acts(self) -> dict[str, Callable[[str, str], None]]:  # noqa: C901, PLR0915 - one function an act
        """See ``Place.acts``."""
        service, bucket = self.service, self.service.bucket()

        def text(note_id: str) -> str:
            found: str = service.note(note_id)["content"]
            return found

        def edit(note_id: str, change: Callable[[str], str]) -> None:
            service.edit(note_id, content=change(text(note_id)))

        def edit_old(note_id: str, word: str) -> None:
            base = sorted(bucket._entities[note_id].versions)[-2:][0]
            before: str = bucket.read(note_id, base).value["content"]
            service.edit(note_id, content=f"{before}{word}\n", base=base)

        def save_again(note_id: str, _word: str) -> None:
            service.edit(note_id)
            self.oracle.saved_again[note_id] += 1

        def rewrite(note_id: str, word: str) -> None:
            self.oracle.forgive(text(note_id))
            edit(note_id, lambda _text: f"{word} other\n")

        def remove(note_id: str, _word: str) -> None:
            if len(bucket) > 1:
                self.oracle.forgive(all_words(self.contents()[note_id]))
                service.delete(note_id)

        def take_away(note_id: str) -> int:
            """Remove a note that is made again; return the number that it had."""
            tags = (tag for tag in service.note(note_id)["tags"] if tag != FIRST_TAG)
            self.oracle.forgive(" ".join((text(note_id), *tags)))
            self.oracle.tags.taken_back.add(note_id)  # the new one has the first tag
            before: int = service.version(note_id)
            service.delete(note_id)
            self.oracle.removed.discard(note_id)
            return before

        def put_again(note_id: str, word: str) -> int:
            number: int = service.put(note_id, content=f"{word}\nagain\n", tags=["t"])
            return number

        def make_again(note_id: str, word: str) -> None:
            before = take_away(note_id)
            while put_again(note_id, word) <= before:
                pass

        def make_anew(note_id: str, word: str) -> None:
            if self._listed:
                make_again(note_id, word)
                return
            before, self._made_anew = take_away(note_id), True
            self.oracle.lose_numbers(note_id)
            while put_again(note_id, word) == before:
                pass

        # No listing tells a note from an older one under the same number: the feed has to.
        def forget_cursors(_note_id: str, _word: str) -> None:
            if not self._made_anew:
                self._listed = True
                bucket.forget_changes()

        def forget_versions(note_id: str, _word: str) -> None:
            self.oracle.lose_versions(note_id)
            entity = bucket._entities[note_id]
            entity.versions = {entity.version: entity.head}

        def distort(_note_id: str, _word: str) -> None:
            said = [" and ".join(one) or "is as it was" for one in _DISTORTIONS]
            at = self.world.chooser.choose("what the feed does", len(said), rate=0.7, said=said)
            service.faults.distort_feed(**_DISTORTIONS[at])

        def hide(note_id: str, word: str) -> None:
            if len(bucket) > 2:
                held = service.note(note_id)
                way = way_to_hide(self.world.chooser, note_id, HIDING_PROPERTY)
                hidden = {"tags": [*held["tags"], "hidden"]}
                if way == HIDING_PROPERTY:
                    hidden = {"systemTags": [*held.get("systemTags", ()), HIDING_PROPERTY]}
                said = f"{held['content']}{self.world.secret(word)}\n"
                service.edit(note_id, content=said, **hidden)

        hides = {HIDE: hide} if self.world.plan.hides else {}
        return {
            "edit the top": lambda one, word: edit(one, lambda text: f"{word}\n{text}"),
            "edit the end": lambda one, word: edit(one, lambda text: f"{text}{word}\n"),
            "edit an old version": edit_old,
            "rewrite": rewrite,
            "remove": remove,
            "remove and make again": make_again,
            "trash": lambda one, _word: _trash(service, one),
            "tag": lambda one, word: _tag(service, one, word),
            "forget cursors": forget_cursors,
            "forget versions": forget_versions,
            "distort the feed": distort,
            "remove and make anew": make_anew,
            "save it as it is": save_again,
            **hides,
        }

    def ids(self) -> list[str]:
        """See ``Place.ids``."""
        return sorted(self.service.bucket().all())

    def contents(self) -> dict[str, Content]:
        """See ``Place.contents``."""
        bucket = self.service.bucket()
        if self._shown[0] != bucket.current:
            shown = {
                note_id: note_codec.revision_from(
                    note_id, dict(stored.value), version=stored.version
                ).content
                for note_id, stored in bucket.all().items()
            }
            self._shown = (bucket.current, shown)
        return self._shown[1]

    def is_clear(self, _note_id: str) -> bool:
        """See ``Place.is_clear``: the service takes no tag that is no text."""
        return True

    def put(self, name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
        """See ``Place.put``."""
        self.service.put(name, content=text, tags=list(tags))


def _trash(service: Simulator, note_id: str) -> None:
    if not service.note(note_id)["deleted"]:
        service.trash(note_id)


def _tag(service: Simulator, note_id: str, word: str) -> None:
    service.edit(note_id, tags=[*service.note(note_id)["tags"], word])
