"""Create, change, rename, trash and delete notes of a vault. Each compares the file with the note it was made from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from mcp_notarium.domain.note import PendingWrite, Revision
from mcp_notarium.errors import (
    SHORTEN,
    TRASH_FIRST,
    IdTaken,
    NotariumError,
    NoteNotFound,
    NoteReadOnly,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import Acknowledgement, PushStatus, check_not_withdrawn
from mcp_notarium.stores.vault import file_writer, note_codec
from mcp_notarium.stores.vault.file_writer import NoteFile
from mcp_notarium.stores.vault.folder import (
    LONGEST_WAIT,
    SETTLED,
    Evicted,
    NotANote,
    OtherSpelling,
    VaultFolder,
    find_placeholder,
    is_same,
    open_parent,
)
from mcp_notarium.stores.vault.listing import Listing
from mcp_notarium.stores.vault.note_codec import Body
from mcp_notarium.stores.vault.paths import TRASH, Place, split_path
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.common import closing_descriptor


class NoteWriter:
    """Write the notes of one folder. For any thread."""

    def __init__(self, folder: VaultFolder, listing: Listing) -> None:
        self._folder = folder
        self._listing = listing

    def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. A new note never overwrites a file, also none in the trash."""
        body = Body.from_bytes(write.body)
        if len(body.text.encode()) > file_writer.LARGEST:
            raise StoreRejected(
                "the note is too large for a file of this vault", resolution_hint=SHORTEN
            )
        with self._folder.opened() as root:
            if write.base_etag is None:
                return self._create(root, write.note_id, body)
            return self._change(root, write, body)

    def delete(self, path: str, etag: str) -> None:
        """Remove a note of the trash. The file is set aside, compared, and only then removed.

        Its file stays, under another name if need be, if another program has put a file there meanwhile, or has taken the
        note away to put it elsewhere: then the note is not deleted.
        """
        with self._folder.opened() as root:
            try:
                self._remove(root, path, etag)
            except NoteNotFound:
                _wait_for_remover(root, path, etag)  # defence: set-aside-may-come-back
                # It may be on its way from one to the other.
                if self._has_file(root, path) or self._has_file(root, path):
                    raise _changed_error(path) from None

    def _has_file(self, root: int, path: str) -> bool:
        """Tell whether there is a file at the path, outside the trash or in it."""
        for trash in (False, True):
            with suppress(NoteNotFound):
                with suppress(NotANote):
                    self._listing.read(root, (path, trash))
                return True
        return False

    def _remove(self, root: int, path: str, etag: str) -> None:
        try:
            place, held = self._listing.find(root, path)
        except NotANote as error:
            raise _refusal(path, error) from None
        if not place[1]:
            raise StoreRejected(
                "the note is not in the trash; nothing was deleted", resolution_hint=TRASH_FIRST
            )
        if note_codec.revision_of(place, held).etag != etag:
            raise _changed_error(path)
        with open_parent(root, path, trash=True) as (parent, name):
            _require_writable(parent, name)
            if not file_writer.remove_file(
                parent,
                name,
                digest=held.digest,
                before=check_not_withdrawn,
                is_replaced=lambda: self._has_file(root, path),
            ):
                raise _changed_error(path)
            file_writer.flush(parent)

    def find_read_only(self, paths: Iterable[str]) -> set[str]:
        """See ``FolderStore.find_read_only``."""
        with self._folder.opened() as root:
            return {one for one in paths if _is_read_only(root, one)}

    def _create(self, root: int, path: str, body: Body) -> Acknowledgement:
        parts = split_path(path)
        if parts is None:
            raise _name_error()
        _require_names(parts)
        with suppress(NoteNotFound, NotANote):
            self._listing.find(root, path)
            raise IdTaken("a note of this name exists", details={"id": path})
        *folders, name = (TRASH, *parts) if body.trash else parts
        try:
            parent = file_writer.make_folders(root, folders)
        except OtherSpelling:
            raise _spelling_error() from None
        except (FileExistsError, NotADirectoryError):
            raise IdTaken("a file has the name of the folder", details={"id": path}) from None
        try:
            _require_open_folder(parent)
            file_writer.require_free_name(parent, name)
            data = body.text.encode()
            file = file_writer.create_file(parent, name, data, before=check_not_withdrawn)
            file_writer.flush(parent)
        except FileExistsError:
            raise IdTaken("a file of this name exists", details={"id": path}) from None
        finally:
            os.close(parent)
        revision = note_codec.revision_of(
            (path, body.trash), self._listing.remember_written((path, body.trash), file)
        )
        return Acknowledgement(revision, PushStatus.STORED, alone=True)

    def _change(self, root: int, write: PendingWrite, body: Body) -> Acknowledgement:
        """Write the text, then move the file. A repeated write goes on where it has stopped."""
        try:
            place, held = self._listing.find(root, write.note_id)
        except NotANote as error:
            raise _refusal(write.note_id, error) from None
        renames = body.path not in (None, write.note_id)
        if renames or place[1] != body.trash or held.data != body.text.encode():
            with open_parent(root, place[0], trash=place[1]) as (parent, name):
                _require_writable(parent, name)
        if renames:
            return self._rename(root, write, body, place, held)
        data, stays = body.text.encode(), place[1] == body.trash
        answer = Acknowledgement(note_codec.revision_of(place, held), PushStatus.UNCHANGED)
        changed = held.data != data
        if changed:
            if answer.revision.etag != write.base_etag:
                raise _changed_error(write.note_id)
            answer, held = self._replace(root, place, data, held=held, base=held)
        elif stays:
            self._flush(root, place)  # an earlier push of it may have failed there
        if stays:
            return answer
        return self._move_on(root, place, answer, held=held, changed=changed)

    def _rename(
        self, root: int, write: PendingWrite, body: Body, place: Place, held: NoteFile
    ) -> Acknowledgement:
        """Give a file its new name, and then its new text. Raises ``IdTaken``, with nothing changed.

        From the moment when it has the name nothing takes that back.
        """
        if note_codec.revision_of(place, held).etag != write.base_etag:
            raise _changed_error(write.note_id)
        target, data = (body.path or place[0], body.trash), body.text.encode()
        self._move_to(root, place, target)
        try:
            moved = self._listing.read(root, target)
            same = moved.found.st_ino == held.found.st_ino or moved.digest == held.digest
            # defence: renaming-takes-no-other
            if not same:  # another file had the old name by then
                self._move_to(root, target, place)
        except (OSError, NotariumError) as error:
            raise OutcomeUnknown("the note was renamed, and cannot be read") from error
        if not same:
            raise _changed_error(write.note_id)
        if data in (held.data, moved.data):
            alone = moved.digest == held.digest
            return Acknowledgement(
                note_codec.revision_of(target, moved), PushStatus.STORED, alone=alone
            )
        try:
            return self._replace(root, target, data, held=moved, base=held, begun=True)[0]
        except (OSError, NotariumError) as error:
            raise OutcomeUnknown("the note was renamed, and lacks its new text") from error

    def _move_to(self, root: int, place: Place, target: Place) -> None:
        """Move a file to another name. Raises ``IdTaken``, ``VersionConflict``, with nothing moved."""
        (path, trash), (new, to_trash) = place, target
        *folders, name = split_path(new) or ()
        _require_names((*folders, name))
        taken = IdTaken("a file of this name exists", details={"id": new})
        with suppress(NoteNotFound, NotANote):
            self._listing.find(root, new)
            raise taken
        try:
            folder = file_writer.make_folders(root, (TRASH, *folders) if to_trash else folders)
        except OtherSpelling:
            raise _spelling_error() from None
        except (FileExistsError, NotADirectoryError):
            raise taken from None
        try:
            _require_open_folder(folder)
            with open_parent(root, path, trash=trash) as (parent, old):
                own = old if is_same(*map(SYSTEM.look_at_open, (parent, folder))) else ""
                file_writer.require_free_name(folder, name, own=own)
                check_not_withdrawn()
                file_writer.rename_file(parent, old, folder, name)
                self._listing.follow(place, target)
                file_writer.flush(folder)
                file_writer.flush(parent)
        except FileExistsError:
            raise taken from None
        except (FileNotFoundError, NoteNotFound):
            raise _changed_error(path) from None
        finally:
            os.close(folder)

    def _replace(
        self,
        root: int,
        place: Place,
        data: bytes,
        *,
        held: NoteFile,
        base: NoteFile,
        begun: bool = False,
    ) -> tuple[Acknowledgement, NoteFile]:
        """Write a text over a file that was read as ``held``, and return what was written, too.

        ``base``: the file as the text was made from it. ``begun``: the write has changed something, and cannot be withdrawn any more.
        """
        path, trash = place
        with open_parent(root, path, trash=trash) as (parent, name):
            try:
                written, displaced, certain = file_writer.replace_file(
                    parent,
                    name,
                    data,
                    held=held,
                    before=_go_on if begun else check_not_withdrawn,
                    made_from=base.digest,
                )
            except NotANote as error:
                raise _refusal(path, error) from None
            except FileExistsError:  # somebody has put a file there meanwhile
                raise _changed_error(path) from None
        other: Revision | None = note_codec.revision_of(place, displaced)
        if displaced.digest == base.digest:  # defence: save-tells-displaced =True
            other = None
        stored = note_codec.revision_of(place, self._listing.remember_written(place, written))
        alone = certain and other is None
        return Acknowledgement(stored, PushStatus.STORED, alone=alone, displaced=other), written

    def _move_on(
        self, root: int, place: Place, answer: Acknowledgement, *, held: NoteFile, changed: bool
    ) -> Acknowledgement:
        """Move a file as :meth:`_move`; one that has its new text and cannot be moved is answered as it is.

        Then the caller moves the note, wherever it is by now, and has what the text displaced.
        """
        try:
            return self._move(root, place, answer, held=held, changed=changed)
        except OutcomeUnknown:
            if answer.displaced is None:
                raise
        except (OSError, NotariumError):
            if not changed:
                raise
        return replace(answer, alone=False)

    def _move(
        self, root: int, place: Place, answer: Acknowledgement, *, held: NoteFile, changed: bool
    ) -> Acknowledgement:
        """Move the file that was read or written as ``held`` to the trash or back. ``changed``: its text was written just before.

        Raises ``VersionConflict`` if another file had got its name, which has it again; ``OutcomeUnknown`` for whatever
        comes after the file has moved.
        """
        path, trash = place
        *folders, name = split_path(path) or ()
        if not changed:
            check_not_withdrawn()
        begun = False
        try:
            with (
                closing_descriptor(
                    file_writer.make_folders(root, folders if trash else (TRASH, *folders))
                ) as target,
                open_parent(root, path, trash=trash) as (parent, _),
            ):
                if find_placeholder(target, name) is not None:
                    raise StoreRejected(
                        "a file at iCloud has this name at the place to which the note would go; it was not moved",
                        resolution_hint=Evicted.resolution_hint,
                    )
                file_writer.move_file(parent, name, target, name, free=not trash)
                begun = True
                # defence: move-takes-no-other =True
                same = held.is_moved_as(target, name)
                if not same:
                    file_writer.put_back(target, name, parent, name)
                file_writer.flush(parent)
                file_writer.flush(target)
            if not same:
                raise _changed_error(path)
            moved = (path, not trash)
            stored = note_codec.revision_of(moved, self._listing.read(root, moved))
        except (OSError, NoteNotFound, NotANote) as error:
            if begun:
                raise OutcomeUnknown("the note was moved, and cannot be read") from error
            if isinstance(error, FileExistsError | NoteNotFound):
                raise _changed_error(path) from None
            raise
        same = stored.content.text == answer.revision.content.text
        return replace(
            answer, revision=stored, status=PushStatus.STORED, alone=same and answer.alone
        )

    def _flush(self, root: int, place: Place) -> None:
        """Flush the folder of a file that has its text already. Raises ``OutcomeUnknown``."""
        try:
            with open_parent(root, place[0], trash=place[1]) as (parent, _):
                file_writer.flush(parent)
        except (OSError, NoteNotFound) as error:
            raise OutcomeUnknown("the folder of the note could not be flushed") from error


def _wait_for_remover(root: int, path: str, etag: str) -> None:
    """Wait while another process has set the note aside: it removes the note, or puts it back if that has changed."""
    deadline = time.monotonic() + LONGEST_WAIT
    with suppress(OSError, NoteNotFound), open_parent(root, path, trash=True) as (parent, _):
        while time.monotonic() < deadline:
            aside = file_writer.find_set_aside(parent)
            if etag not in {note_codec.etag_of(one, path, trash=True) for one in aside}:
                return
            time.sleep(SETTLED)


def _is_read_only(root: int, path: str) -> bool:
    for trash in (False, True):
        with (
            suppress(OSError, NoteNotFound, NotANote),
            open_parent(root, path, trash=trash) as (parent, name),
        ):
            return SYSTEM.is_read_only(parent, name)
    return False


def _require_writable(parent: int, name: str) -> None:
    if SYSTEM.is_read_only(parent, name):  # defence: read-only-file-stays =False
        raise NoteReadOnly


def _require_open_folder(folder: int) -> None:
    if SYSTEM.is_read_only(folder, ""):
        raise NoteReadOnly


def _go_on() -> None: ...


def _require_names(parts: Iterable[str]) -> None:
    """Refuse what other programs of the system would take for a device, a stream or another name."""
    if not all(map(SYSTEM.takes_name, parts)):
        raise _name_error()


def _name_error() -> StoreRejected:
    return StoreRejected(
        "no note of this vault can have this name or folder",
        subcategory="title",
        resolution_hint="Give the note another first line.",
    )


def _spelling_error() -> StoreRejected:
    return StoreRejected(
        "a folder of this name exists in another spelling, which this drive takes for the same; nothing was saved",
        subcategory="title",
        resolution_hint="Write the folder as the ids of its notes do, with the same capital letters.",
    )


def _changed_error(path: str) -> VersionConflict:
    return VersionConflict("the file has changed", details={"id": path})


def _refusal(path: str, error: NotANote) -> NotariumError:
    """Return why a file that cannot be read now is not changed either; one that became something else has changed."""
    if isinstance(error, Evicted):  # defence: file-in-use-is-no-change =False
        said = f"{error.message}; nothing was changed"
        return StoreUnavailable(said, resolution_hint=error.resolution_hint)
    return _changed_error(path)
