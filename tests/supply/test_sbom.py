"""Test the bill of materials: complete, reproducible, and inside the wheel."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from support.long import sample

TOP = Path(__file__).parents[2]


def bill(path, *, seed):
    subprocess.run(
        [TOP / "scripts" / "sbom", path],
        env=dict(os.environ) | {"PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": "1767225600"},
        check=True,
    )
    return path.read_text(encoding="utf-8")


@pytest.mark.slow("runs cyclonedx")
def test_bill_of_the_lock_is_the_same_each_time_and_complete(tmp_path):
    seeds = sample("bill of materials", "12", 1)
    (same,) = {bill(tmp_path / seed / "bill.json", seed=seed) for seed in seeds}
    document = json.loads(same)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert document["metadata"]["component"]["name"] == "mcp-notarium"
    lock = (TOP / "requirements.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    assert {part["name"]: part["version"] for part in document["components"]} == pinned
    digests = {
        digest["content"]
        for part in document["components"]
        for reference in part["externalReferences"]
        for digest in reference["hashes"]
    }
    assert digests == set(re.findall(r"sha256:([0-9a-f]{64})", lock))
