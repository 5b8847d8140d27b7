from pathlib import Path

import pytest

from mcp_notarium.files import location_warnings

MOUNTS = """\
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home rw,relatime shared:2 - nfs4 server:/home rw
31 30 253:1 / /home/me/local\\040disk rw,relatime - ext4 /dev/vdb rw
32 22 0:26 / /mnt/peer rw - fuse.sshfs peer:/ rw
33 22 0:27 / /mnt/Büro\\0403 rw - cifs //server/notes rw
"""


@pytest.fixture
def mounts(tmp_path):
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/notes", "ext4"),
        ("/home/me/notes", "nfs4"),
        ("/home/me/local disk/notes", "ext4"),
        ("/home/me/local disks", "nfs4"),
        ("/mnt/peer", "fuse.sshfs"),
        ("/mnt/Büro 3/notes", "cifs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(mounts, path, kind):
    assert location_warnings.file_system(Path(path), mounts=mounts) == kind


def test_a_network_drive_is_warned_about_and_a_local_one_is_not(mounts):
    assert "network drive" in location_warnings.warnings(Path("/home/me/notes"), mounts=mounts)[0]
    assert location_warnings.warnings(Path("/var/notes"), mounts=mounts) == ()


@pytest.mark.parametrize(
    "folder", ["Dropbox", "OneDrive - Work", "Google Drive", "Mobile Documents", "Nextcloud"]
)
def test_a_synchronised_folder_is_warned_about(mounts, folder):
    path = Path("/var") / folder / "notes"
    assert "synchronised" in location_warnings.warnings(path, mounts=mounts)[0]


def test_where_mounts_cannot_be_read_nothing_is_claimed(tmp_path):
    assert location_warnings.file_system(Path("/"), mounts=tmp_path / "none") == ""
    assert location_warnings.warnings(Path("/var/notes"), mounts=tmp_path / "none") == ()


def test_the_real_mounts_of_this_machine_can_be_read(tmp_path):
    assert location_warnings.file_system(tmp_path)
