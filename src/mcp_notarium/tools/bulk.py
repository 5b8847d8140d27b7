"""Change many notes in one call: plan, ask once, save one note after another, and tell what became of each.

``bulk_changes`` says what is changed. Each note is saved through the journal as by any other save, from its newest state, so a call
that was cut off goes on if it is repeated: what is done is found to be so already. All writes of a change have one
``change_id``, by which one ``undo`` takes all of them back. A note that cannot be changed is left, with the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.note import Published, join_published
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteLeft,
    NoteNotFound,
    NoteReadOnly,
    NotPermitted,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.tools.answers import BulkRow, ManageAnswer
from mcp_notarium.tools.bulk_losses import BulkLoss, ask_about, describe, find_bulk_loss, name_notes
from mcp_notarium.tools.consent import (
    ask_before_publishing,
    describe_published,
    quote,
    relinked,
    require_consent,
)
from mcp_notarium.tools.question import Ask, NoteChange
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.save import Draft, count_others
from mcp_notarium.tools.save_checks import find_new_addresses
from mcp_notarium.tools.sync_notice import still_loading, wait_for_notes
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.sync.writer import Saved

MOST_SHOWN = 500
"""Notes and files that one answer names, the refused first; it counts the rest."""
_MOST_REPORTS = 100
_LATER = "It goes when all notes have gone: some are left."
_BACK = " `undo` with this `change_id` takes all of it back."
_PARTLY_BACK = " `undo` with this `change_id` takes back what versions are kept of."
_NOT_BACK = " No `undo` takes this back: no versions are kept of it."
_MOST_ADDRESSES = 20
_MOST_LEFT = 10
_MOST_HINTS = 3
_ATTEMPTS = 2
_OF_ONE_NOTE = (VersionConflict, StoreRejected, InvalidRequest, NoteNotFound)
"""Errors that leave one note as it is. Any other ends the change."""

Result = tuple[str, str | None, str, bool]
"""Hold what became of a note: status, reason, id, and whether the id names something else."""
Drafting = Callable[[str], Awaitable[Draft | None]]
"""Make what the note of an id becomes now; None: it is so already, or gone. Raises why it must not become so."""


@dataclass(frozen=True, slots=True)
class Words:
    """Hold how a kind of change is called."""

    doing: str = "Changing the notes"
    """While it goes on."""
    done: str = "changed"
    """The status of a note, also after a number of them."""


@dataclass(frozen=True, slots=True)
class After:
    """Hold what follows once all notes are changed."""

    files: Collection[str] = ()
    do: Callable[[str], Awaitable[Mapping[str, str]]] | None = None
    """Move them, given the id of the change; return those that stay, with why."""
    place_of: Callable[[str], str] = str
    """Return where a file is then."""
    never: str = ""
    """Name the reason for which a file stays however often the call is repeated."""


@dataclass(slots=True)
class Plan:
    """Hold what is to be done to which notes, by their ids."""

    todo: list[str] = field(default_factory=list)
    """Those to change."""
    unchanged: list[str] = field(default_factory=list)
    """Those that are so already."""
    refused: dict[str, str] = field(default_factory=dict)
    """Those that are not changed, with why."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Names that match no note, with why."""
    hints: dict[str, None] = field(default_factory=dict)
    """Steps that refusals advise."""
    addresses: dict[str, None] = field(default_factory=dict)
    """The people with whom notes become shared."""
    trashed: int = 0
    """Number of those to change that are in the trash."""
    links: dict[str, None] = field(default_factory=dict)
    """Other notes whose links change."""
    canvases: dict[str, None] = field(default_factory=dict)
    """Those whose cards or links change."""
    losses: dict[str, BulkLoss] = field(default_factory=dict)
    """Losses for good of the notes to change, if any."""
    published: dict[str, Published] = field(default_factory=dict)
    """Parts of the notes to change that become public."""

    def add_hint(self, error: NotariumError) -> None:
        """Keep what this refusal says to do, if its kind does not say it always."""
        if error.resolution_hint and error.resolution_hint != type(error).resolution_hint:
            self.hints[error.resolution_hint] = None

    @property
    def counted(self) -> str:
        """Return the number of notes to change, in words."""
        notes = f"{len(self.todo)} note{'' if len(self.todo) == 1 else 's'}"
        return f"{notes} ({self.trashed} in the trash)" if self.trashed else notes

    @property
    def followed(self) -> str:
        """Return where links change because notes move, in words; '' nowhere."""
        return _followed(len(self.links), len(self.canvases))

    def reasons(self, ids: Iterable[str]) -> dict[str, object]:
        """Return what an error says of the first of these notes, which are refused, each with why."""
        named = [{"id": one, "reason": self.refused[one]} for one in islice(ids, _MOST_LEFT)]
        return {"refused": named}


def digest_of(request: ManageRequest, call: CallContext) -> str:
    """Return what tells that the same client asks for the same again."""
    sent = request.model_dump(exclude_none=True, exclude={"confirm", "dry_run"})
    said = json.dumps([call.client, sent], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(said.encode()).hexdigest()


async def make_plan(app: App, ids: Sequence[str], draft: Drafting) -> Plan:
    """Draft each note, and keep only what a question and an answer need of that."""
    plan, read_only = Plan(), await app.library.find_read_only(ids)
    room = 0
    for note_id in ids:
        loss = published = None
        try:
            made = await draft(note_id)
            if made is not None:
                if note_id in read_only:
                    raise NoteReadOnly
                await app.library.require_open(made.note, made.content)
                loss, needed = await find_bulk_loss(app, made, after=room)
                room += needed
                if not made.changes_nothing:
                    published = await app.library.find_published(made.note, made.content)
        except (*_OF_ONE_NOTE, NotPermitted) as error:
            plan.refused[note_id] = error.message
            plan.add_hint(error)
        else:
            if made is None or made.note is None or made.changes_nothing:
                plan.unchanged.append(note_id)
            else:
                plan.todo.append(note_id)
                plan.losses |= {} if loss is None else {note_id: loss}
                plan.published |= {} if published is None else {note_id: published}
                plan.trashed += made.note.trash
                plan.addresses |= dict.fromkeys(_new_addresses(app, made))
                plan.links |= dict.fromkeys(made.elsewhere.links)
                plan.canvases |= dict.fromkeys(made.elsewhere.canvases)
        await asyncio.sleep(0)
    changed = {*plan.todo}
    plan.links = {one: None for one in plan.links if one not in changed}
    return plan


def _new_addresses(app: App, made: Draft) -> tuple[str, ...]:
    if made.note is None or not app.library.traits.shares_by_tag:
        return ()
    return find_new_addresses(made.content.tags, present=made.note.tags)


async def require_all_notes(app: App, why: str) -> None:
    """Raise ``StillLoading`` before all notes are here."""
    if not (await wait_for_notes(app)).complete:
        raise still_loading(app, why)


async def carry_out(
    app: App,
    request: ManageRequest,
    call: CallContext,
    plan: Plan,
    draft: Drafting,
    *,
    asks: str,
    more: str = "",
    words: Words = Words(),
    said: str = "",
    change_id: str = "",
    exact: bool = False,
    after: After = After(),
    undoable: bool = True,
) -> ManageAnswer:
    """Do what is planned after one question, or only tell it.

    A repeated request goes on with the same change, unless that has a ``change_id`` already.

    * ``asks``: the question without its mark; ``more``: what else it says of this change;
    * ``said``: the note of an answer that changes nothing;
    * ``exact``: see :meth:`Writer.save`;
    * ``undoable`` False: no ``undo`` takes it back (``bulk_undo``).

    Raises ``NotPermitted``, ``ConfirmationRequired``, and any error that is not about a single note, with how many are done.
    """
    dry_run, digest = bool(request.dry_run), "" if change_id else digest_of(request, call)
    if dry_run or not (plan.todo or after.files):
        asked_again = digest and undoable and not dry_run
        earlier = app.library.find_change(digest) if asked_again else None
        back = _describe_earlier(app, earlier, plan.unchanged) if earlier else ""
        return _answer(
            plan,
            dict.fromkeys([*plan.losses, *plan.todo], "would change") if dry_run else {},
            _file_results(map(after.place_of, after.files), "would move along") if dry_run else (),
            status="dry_run" if dry_run else "unchanged",
            notes=len(plan.todo),
            change_id=None if back in ("", _NOT_BACK) else earlier,
            note=_unwritten(app, plan, after, asks, more=more, said=said) + back,
        )
    app.usage_limits.require_write()
    now = plan.todo[: app.usage_limits.writes_left]
    losses = {one: plan.losses[one] for one in now if one in plan.losses}
    public = {one: plan.published[one] for one in now if one in plan.published}
    published = join_published(public.values())
    question = f"{asks}?{_only_now(len(now), plan)}{more}{_describe_shares(plan)}"
    # defence: bulk-asks
    await require_consent(
        call,
        [
            Ask(question, irreversible=bool(plan.addresses)),
            *ask_about(app, losses, of=len(now)),
            *(
                ask
                for one in published
                for ask in ask_before_publishing(app, *_name_published(app, public, one), one)
            ),
        ],
        changes=partial(_changes, app, now, draft),
    )
    name = change_id or app.library.begin_change(digest)
    places = {one.place: one for one in published}
    run = _Run(app, call, plan, draft, name, losses, places, exact)
    done = await run.save_all(now, words, of=len(plan.todo))
    untried = waiting = len(plan.todo) - len(now)
    stay: Mapping[str, str] | None = None
    try:
        if after.do is not None:
            complete = not untried and not run.refused
            stay = await after.do(name) if complete else dict.fromkeys(after.files, _LATER)
            plan.unknown |= stay
            untried += sum(why != after.never for why in stay.values())
        if digest and not untried:
            app.library.end_change(digest)
    except NotariumError as error:
        files = after.files if stay is None else stay
        of = len(plan.todo)
        raise _interrupted(error, words, done=len(done), of=of, files=len(files)) from None
    left = untried + len(run.refused)
    told = ["Repeat the call for the notes that are left."] if left else []
    limited = bool(waiting) or run.limited or bool(stay and app.usage_limits.writes_left == 0)
    told += ["A limit on changes leaves them as they are until it permits more."] if limited else []
    followed, names = _describe_followed(app, run, done, _places(after, stay))
    told += [*followed, *[*run.links_left][:_MOST_LEFT]]
    gone = () if stay is None else [one for one in after.files if one not in stay]
    names += _file_results(map(after.place_of, gone), "moved along")
    names += [("left", None, one, False) for one in plan.todo[len(now) :]]
    changed = bool(done or gone)
    back = _describe_back(app, name, done) if changed and undoable else ""
    answer = _answer(
        replace(
            plan,
            refused=plan.refused | run.refused,
            unchanged=[*plan.unchanged, *run.unchanged],
        ),
        done,
        names,
        status=f"{words.done} in part" if limited else words.done if changed else "unchanged",
        notes=len(done),
        left=left or None,
        change_id=None if back in ("", _NOT_BACK) else name,
        note=(" ".join(told) + back).strip() or None,
    )
    answer.record_changed(done)
    return answer


def _describe_back(app: App, change_id: str, done: Collection[str]) -> str:
    """Return what to say of an undo of these notes, and of files that went with them."""
    restorable = app.library.history.find_restorable(change_id)
    if restorable.issuperset(done):
        return _BACK
    return _PARTLY_BACK if restorable else _NOT_BACK


def _describe_earlier(app: App, change_id: str, unchanged: Collection[str]) -> str:
    """Return what to say of an undo of the same change, made before; its notes may not be found by what was asked any more."""
    if unchanged:
        return _describe_back(app, change_id, unchanged)
    return _PARTLY_BACK if app.library.history.find_restorable(change_id) else ""


def _unwritten(app: App, plan: Plan, after: After, asks: str, *, more: str, said: str) -> str:
    """Return what to say of a call that wrote nothing: what would be asked, or why there is nothing to ask."""
    if plan.todo or after.files:
        told = f"{more}{_describe_shares(plan)}{_lost(plan)}{_public(app, plan)}"
        return f"Nothing was written. The question would be: {asks}?{told}"
    return f"Nothing was written{f': {said}' if said else ''}."


def _places(after: After, stay: Mapping[str, str] | None) -> Callable[[str], str]:
    """Return what tells where a file is now; ``stay``: those that did not move, None: none has moved."""
    return lambda path: path if stay is None or path in stay else after.place_of(path)


def _describe_followed(
    app: App, run: _Run, done: Mapping[str, str], place_of: Callable[[str], str]
) -> tuple[list[str], list[Result]]:
    """Return what to say of notes and canvases whose links have followed the moved notes, and their names."""
    notes = [one for one in run.relinked if one not in done and app.library.get(one) is not None]
    canvases = [place_of(one) for one in run.canvases]
    said = _followed(len(notes), len(canvases))
    hides = app.config.policy.visibility.hides_beside_seen
    results: list[Result] = [("links changed", None, one, False) for one in notes]
    results += _file_results(() if hides else canvases, "links changed")
    told = [f"Links were changed in {said}."] if said else []
    return told, results


def _followed(notes: int, canvases: int) -> str:
    said = [f"{notes} other note{'' if notes == 1 else 's'}"] if notes else []
    said += [f"{canvases} canvas{'' if canvases == 1 else 'es'}"] if canvases else []
    return " and ".join(said)


def _answer(
    plan: Plan, done: Mapping[str, str], followed: Sequence[Result] = (), **fields: Any
) -> ManageAnswer:
    """Make the answer: the refused notes first, then the others; of a dry run, those that lose something first."""
    losses = plan.losses if fields["status"] == "dry_run" else {}
    results: list[Result] = [("refused", why, one, False) for one, why in plan.refused.items()]
    results += [("refused", why, one, True) for one, why in plan.unknown.items()]
    results += [(status, describe(losses.get(one)), one, False) for one, status in done.items()]
    results += [("unchanged", None, one, False) for one in plan.unchanged]
    rows = _group([*results, *followed])
    note = " ".join(filter(None, (fields.get("note"), *islice(plan.hints, _MOST_HINTS))))
    return ManageAnswer.model_validate(
        fields
        | {
            "note": note or None,
            "results": rows or None,
            "unchanged": len(plan.unchanged) or None,
            "refused": len(plan.refused) + len(plan.unknown) or None,
        }
    )


def _group(results: Iterable[Result]) -> list[BulkRow]:
    """Return a row for all notes, or files, of which the same is to be told."""
    rows: dict[tuple[str, str | None, bool], list[str]] = defaultdict(list)
    for status, why, one, is_name in results:
        rows[status, why, is_name].append(one)
    room, made = MOST_SHOWN, list[BulkRow]()
    for (status, why, is_name), said in rows.items():
        shown, room = said[:room], max(0, room - len(said))
        made.append(
            BulkRow(
                status=status,
                reason=why,
                ids=None if is_name else shown or None,
                names=(shown or None) if is_name else None,
                more=len(said) - len(shown) or None,
            )
        )
    return made


def _file_results(files: Iterable[str], status: str) -> list[Result]:
    """Return what became of files that are no notes."""
    return [(status, None, one, True) for one in files]


async def _changes(app: App, ids: Sequence[str], draft: Drafting) -> AsyncIterator[NoteChange]:
    """Yield what becomes of each note, and of the notes that link to it."""
    for note_id in ids:
        try:
            made = await draft(note_id)
        except _OF_ONE_NOTE:
            continue
        if made is not None and made.note is not None:
            yield NoteChange(made.note, made.content)
            for other, content in relinked(app, made.elsewhere.links):
                yield NoteChange(other, content)


def _lost(plan: Plan) -> str:
    """Return what a dry run says of notes that lose something for good; the rows of these say what."""
    if not plan.losses:
        return ""
    some = "1 note" if len(plan.losses) == 1 else f"{len(plan.losses)} notes"
    return (
        f" {some} would lose for good what this replaces (`reason`); the user is asked about that."
    )


def _public(app: App, plan: Plan) -> str:
    """Return what a dry run says of notes that everybody may read then."""
    told = []
    for one in join_published(plan.published.values()):
        notes, why = describe_published(app, *_name_published(app, plan.published, one), one)
        said = "be public" if one.place else "have other readers"
        told.append(f" {notes} would {said} on the web; the user is asked about that. {why}")
    return "".join(told)


def _name_published(
    app: App, public: Mapping[str, Published], joined: Published
) -> tuple[str, int]:
    """Return the names of the changed notes that everybody may read then, and how many they are."""
    ids = [note_id for note_id, one in public.items() if one.place == joined.place]
    return name_notes(app, ids), len(ids)


def _only_now(now: int, plan: Plan) -> str:
    """Return the part of a question about notes that must wait; '' if none must."""
    return (
        "" if now >= len(plan.todo) else f" Only {now} of them now: no more writes are permitted."
    )


def _describe_shares(plan: Plan) -> str:
    """Return the part of a question about people with whom notes become shared; '' of none."""
    named = [*plan.addresses][:_MOST_ADDRESSES]
    if not named:
        return ""
    return f" This shares them with {', '.join(map(quote, named))} (an e-mail address as a tag)."


@dataclass(slots=True)
class _Run:
    """Save the notes of one change, and hold what has become of them."""

    app: App
    call: CallContext
    plan: Plan
    draft: Drafting
    change_id: str
    losses: Mapping[str, BulkLoss]
    published: Mapping[str, Published]
    """By their places."""
    exact: bool
    refused: dict[str, str] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    links_left: dict[str, None] = field(default_factory=dict)
    """Messages about links that could not follow."""
    limited: bool = False
    relinked: dict[str, None] = field(default_factory=dict)
    canvases: dict[str, None] = field(default_factory=dict)

    async def save_all(self, ids: Sequence[str], words: Words, *, of: int) -> dict[str, str]:
        """Save each, those last that are not under their name; return the ids that the changed notes have now.

        Raises with how many were done.
        """
        done: dict[str, str] = {}
        step = max(1, len(ids) // _MOST_REPORTS)
        waiting = [*ids]
        for number, note_id in enumerate(waiting):
            is_again = number >= len(ids)
            if number % step == 0 and not is_again:
                await self.call.progress(number, len(ids), words.doing)
            try:
                saved = await self._save(note_id)
            except NoteNotFound as error:
                if is_again:
                    self.refused[note_id] = error.message
                else:
                    waiting.append(
                        note_id
                    )  # a listing that is older than its move may be in the index
            except _OF_ONE_NOTE as error:
                self.refused[note_id] = error.message
                self.plan.add_hint(error)
                self.limited |= self.app.usage_limits.writes_left == 0
            except NotariumError as error:
                raise _interrupted(error, words, done=len(done), of=of) from None
            else:
                if saved is None:
                    self.unchanged.append(note_id)
                else:
                    done[saved] = "changed"
            await asyncio.sleep(0)  # the local store never waits, and others want to read
        return done

    async def _save(self, note_id: str) -> str | None:
        """Change one note as it is now; return its id then, None if it was so already or is gone."""
        app = self.app
        async with app.library.writing(note_id):
            for attempt in range(1, _ATTEMPTS + 1):
                made = await self._draft_now(note_id)
                if made is None:
                    return None
                try:
                    saved = await self._store(made)
                except (NoteNotFound, VersionConflict) as error:
                    if isinstance(error, NoteNotFound) and app.library.get(note_id) is None:
                        return None
                    if (
                        attempt == _ATTEMPTS
                    ):  # else it has changed, or got another id, at this moment
                        raise
                else:
                    count_others(app, saved)
                    said = made.elsewhere.describe(saved)
                    self.links_left |= dict.fromkeys(one for one in said if "left in:" in one)
                    self.relinked |= dict.fromkeys(saved.relinked)
                    self.canvases |= dict.fromkeys(saved.canvases)
                    return saved.note.id
        raise AssertionError("the last attempt returns or raises")

    async def _draft_now(self, note_id: str) -> Draft | None:
        """Draft the note again. Raises if the user has not been told of what it would do."""
        try:
            made = await self.draft(note_id)
            if made is None or made.note is None or made.changes_nothing:
                return None
            loss, _ = await find_bulk_loss(self.app, made)
        except NotPermitted as error:
            raise NoteLeft(error.message) from None  # of this note alone
        told = {*[*self.plan.addresses][:_MOST_ADDRESSES]}
        # defence: bulk-consent-covers-shares
        if not told.issuperset(_new_addresses(self.app, made)):
            raise NoteLeft("It would be shared with somebody whom the question did not name.")
        agreed = self.losses.get(note_id)
        if loss is not None and not loss.is_within(agreed):  # defence: bulk-consent-covers-losses
            raise NoteLeft(
                "It would lose for good what the question did not name; it was not changed."
            )
        published = await self.app.library.find_published(made.note, made.content)
        # defence: bulk-consent-covers-publishing
        if published and not published.is_within(self.published.get(published.place)):
            raise NoteLeft(
                "It would be public, which the question did not name; it was not changed."
            )
        return replace(made, loses=loss is not None)

    async def _store(self, made: Draft) -> Saved:
        if made.is_stale(self.app):
            raise VersionConflict("The note has changed at this moment.")
        elsewhere = made.elsewhere
        left = self.app.usage_limits.writes_left
        needed = 1 + len(elsewhere.links) + len(elsewhere.canvases)
        if left is not None and 1 < needed > left > 0:
            self.limited = True
            raise NoteLeft(f"It takes {needed} changes, and {left} more are permitted now.")
        with self.app.usage_limits.write():
            try:
                return await self.app.library.save(
                    note=made.note,
                    content=made.content,
                    act=self.call.act,
                    exact=self.exact or made.loses,
                    keeps=not made.loses,
                    links=elsewhere.links,
                    canvases=elsewhere.canvases,
                    change_id=self.change_id,
                )
            except NotPermitted as error:
                raise NoteLeft(error.message) from None  # of this note alone


def _interrupted(
    error: NotariumError, words: Words, *, done: int, of: int, files: int = 0
) -> NotariumError:
    """Return the error with how far the change came: what is done is not to be taken back. ``files``: how many are left, perhaps."""
    error.message = f"{done} of {of} notes were {words.done}, then: {error.message}"
    error.details = error.details | {words.done: done, "left": of - done + files}
    hint = "Repeat the call for the rest."
    error.resolution_hint = " ".join(filter(None, (error.resolution_hint, hint)))
    return error
