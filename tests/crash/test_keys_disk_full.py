"""Fill the disk or a quota at any write: what a command reports is true.

If it says that it failed, the old key opens everything as before and nothing is left over; once
the new key counts, it does not say so. The retry works when there is room.
"""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.account import reencryption, user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.errors import CacheFull, LockedError
from mcp_notarium.keys import key_file_store
from mcp_notarium.storage import database
from support import disk_trace
from support.account import account, fingerprint, folder_of
from support.found import KEY, NEW, content
from support.long import LONG, sample
from support.needs import lacking
from support.power_stories import story_named
from support.small_disk import SmallDisk
from support.stories import lived_in

if sys.platform != "win32":
    import resource

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no limits on files"),
    pytest.mark.timeout(3600 if LONG else 120),
]
PAGE = 4096


@contextmanager
def no_file_beyond(size):
    """A quota of a kind: writing behind ``size`` fails with EFBIG, in every file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def cache(tmp_path):
    """Settings of a cache with notes, and its content."""
    lived_in(tmp_path)
    config = account(tmp_path, db_key=KEY)
    return config, content(config)


def persistent_files(config):
    """Return the files, without the index and the empty log of an attempt to open the database."""
    logs = [path for path in config.account_dir.glob("*-wal") if not path.stat().st_size]
    passing = {path.name for path in (*logs, *config.account_dir.glob("*-shm"))}
    found = fingerprint(config.account_dir)
    return {name: digest for name, digest in found.items() if name not in passing}


def opens(config, key):
    try:
        return content(replace(config, db_key=key))
    except LockedError:
        return None


@pytest.mark.attack(19)
def test_a_quota_at_every_page_leaves_the_old_cache_until_there_is_space_to_rewrite_it(cache):
    config, there = cache
    before = persistent_files(config)
    refused = 0
    for limit in range(0, 1 << 20, 512 if LONG else PAGE):
        try:
            with no_file_beyond(limit):
                reencryption.reencrypt(config, new=NEW)
            break
        except CacheFull:
            refused += 1
        assert persistent_files(config) == before, f"a limit of {limit} bytes"
    assert refused > 20
    assert (opens(config, NEW), opens(config, KEY)) == (there, None)


@pytest.mark.parametrize(
    "limit", sample("quota", [*range(0, 1500, 100), *range(PAGE, 12 * PAGE, PAGE)], 9)
)
def test_with_a_quota_a_rotation_says_whether_the_new_key_counts(cache, limit):
    config, there = cache
    before = persistent_files(config)
    try:
        with no_file_beyond(limit):
            user_key_rotation.rotate_passphrase(config, new=NEW)
    except CacheFull:
        assert persistent_files(config) == before
        user_key_rotation.rotate_passphrase(config, new=NEW)
    assert (opens(config, NEW), opens(config, KEY)) == (there, None)


@pytest.mark.parametrize("step", ["write_copy", "sync_copy", "verify_copy", "sync_folder_copy"])
def test_a_disk_that_is_full_behind_the_commit_point_is_no_failure(cache, step):
    config, there = cache

    def fail(name):
        if name == step:
            raise OSError(28, "No space left on device")

    done = user_key_rotation.rotate_passphrase(config, new=NEW, options=ChangeOptions(at=fail))
    assert key_file_store.NOT_COPIED in done.notices
    assert (opens(config, NEW), opens(config, KEY)) == (there, None)
    folder = folder_of(config)
    assert folder.key_copy.read_bytes() == folder.key_file.read_bytes(), "the next start writes it"


@pytest.fixture
def disk(tmp_path):
    made = SmallDisk(tmp_path / "disk", "512m")
    if not made.mounted:
        lacking("only root may mount a disk")
    yield made
    made.unmount()


@pytest.mark.slow("fills the disk once a page")
def test_a_disk_that_others_fill_meanwhile_leaves_the_old_cache(disk):
    lived_in(disk.folder)
    config = account(disk.folder, db_key=KEY)
    there = content(config)
    before, filler = persistent_files(config), disk.folder / "filler"
    refused = 0
    for left in range(0, 1 << 20, PAGE if LONG else 20 * PAGE):

        def fill(step, left=left):
            if step == "prepare":
                with filler.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk.folder).free - left)

        try:
            reencryption.reencrypt(config, new=NEW, options=ChangeOptions(at=fill))
            break
        except CacheFull:
            refused += 1
        finally:
            filler.unlink(missing_ok=True)
        assert persistent_files(config) == before, f"{left} bytes left"
    assert refused > 2
    assert (opens(config, NEW), opens(config, KEY)) == (there, None)


def test_a_disk_with_as_much_room_as_is_asked_for_is_large_enough(disk):
    lived_in(disk.folder, notes=12_000 if LONG else 1_500)
    config = account(disk.folder, db_key=KEY)
    there = content(config)
    disk.resize(f"{used(disk.folder) // 1024 + 1024}k")
    with pytest.raises(CacheFull) as error:
        reencryption.reencrypt(config, new=NEW)
    needed = error.value.details["needed"]
    assert f"{needed:,} bytes" in error.value.message
    disk.resize(f"{(used(disk.folder) + needed) // 1024 + 64}k")  # and the index of the old log
    reencryption.reencrypt(config, new=NEW)
    assert opens(config, NEW) == there


def test_the_new_log_does_not_grow_with_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "CHECKPOINT_PAGES", 100)
    lived_in(tmp_path, notes=1_500)
    config = account(tmp_path, db_key=KEY)
    content(config)  # and the old log is empty
    logs = []

    def measure_log(_done, _total):
        logs.append(max(path.stat().st_size for path in config.account_dir.glob("*-wal")))

    reencryption.reencrypt(config, on_progress=measure_log)
    (generation,) = folder_of(config).generations()
    assert max(logs) < folder_of(config).database(generation).stat().st_size / 2


def used(folder):
    return shutil.disk_usage(folder).used


@pytest.mark.parametrize("error", ["ENOSPC", "EDQUOT"])
@pytest.mark.parametrize("nth", sample("failing writes", range(1, 190), 1, long=40))
def test_the_real_command_says_that_the_disk_is_full_at_whatever_write(cache, tmp_path, error, nth):
    disk_trace.demand()
    config, there = cache
    before = persistent_files(config)
    story = story_named("rotate-key --reencrypt")
    (tmp_path / "new-key").write_text(NEW.reveal_text())
    done = subprocess.run(
        [
            *(disk_trace.STRACE, "-f", "-o", os.devnull, "-e", "trace=pwrite64"),
            *("-e", f"inject=pwrite64:error={error}:when={nth}+"),
            *(sys.executable, "-m", "mcp_notarium", *story.command),
        ],
        cwd=tmp_path,
        env=story.variables(Path(tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 0:
        assert (opens(config, NEW), opens(config, KEY)) == (there, None)
        return
    assert "Free some disk space, then try again" in done.stderr, done.stderr
    assert persistent_files(config) == before
    assert (opens(config, NEW), opens(config, KEY)) == (None, there)
