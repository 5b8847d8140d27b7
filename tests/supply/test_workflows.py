"""Test the workflows: their permissions, triggers, and pinned actions."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / ".github" / "workflows"
CI, LONG, RELEASE = "ci.yml", "long.yml", "release.yml"
READS = {"contents": "read"}


def text_of(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def load(name):
    """YAML 1.1 takes the key ``on`` for true."""
    found = yaml.safe_load(text_of(name))
    found["on"] = found.pop(True)
    return found


def steps(job):
    return job["steps"]


def runs(job):
    return [step["run"] for step in steps(job) if "run" in step]


def uses(job):
    return [step["uses"].split("@")[0] for step in steps(job) if "uses" in step]


def test_there_are_no_other_workflows():
    assert sorted(path.name for path in FOLDER.iterdir()) == [CI, LONG, RELEASE]


def test_ci_runs_on_changes_with_nothing_but_reading():
    found = load(CI)
    assert found["on"] == {"push": {"branches": ["main"]}, "pull_request": None}
    assert found["permissions"] == READS
    assert all("permissions" not in job for job in found["jobs"].values())


def test_ci_runs_the_scripts_on_linux_and_what_differs_on_the_other_systems():
    jobs = load(CI)["jobs"]
    assert runs(jobs["linux"]) == ["./scripts/check", "./scripts/demo", "./scripts/test"]
    assert runs(jobs["systems"]) == ["python scripts/try_system.py"]
    assert all("continue-on-error" not in job and "if" not in job for job in jobs.values())
    assert jobs["linux"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert load(CI)["env"] == {"PYTHON": "python3"}, "the one that was set up, and no newer one"
    machines = [one["machine"] for one in jobs["systems"]["strategy"]["matrix"]["include"]]
    assert machines == ["windows-2025", "windows-11-arm", "macos-15", "macos-15-intel"]
    assert load(RELEASE)["jobs"]["systems"] == jobs["systems"] | {"permissions": READS}


def test_what_takes_long_runs_every_week_with_nothing_but_reading():
    found = load(LONG)
    assert found["on"] == {"schedule": [{"cron": "17 3 * * 6"}], "workflow_dispatch": None}
    assert found["permissions"] == READS
    assert {name: runs(job) for name, job in found["jobs"].items()} == {
        "soak": ["./scripts/soak --minutes 60"],
        "all": ["./scripts/test --all"],
    }


def test_release_runs_for_version_tags_only_and_gives_each_job_what_it_needs():
    found = load(RELEASE)
    assert found["on"] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}
    assert found["permissions"] == {}
    assert {name: job["permissions"] for name, job in found["jobs"].items()} == {
        "check": READS,
        "systems": READS,
        "build": READS,
        "compare": {},
        "attest": {"id-token": "write", "attestations": "write"},
        "publish": {"id-token": "write"},
        "page": {"contents": "write"},
        "image": READS,
        "publish-image": {"id-token": "write", "attestations": "write", "packages": "write"},
    }


def test_nothing_is_published_before_it_is_checked_compared_and_attested():
    jobs = load(RELEASE)["jobs"]
    assert jobs["publish"]["needs"] == ["attest"]
    assert sorted(jobs["attest"]["needs"]) == ["check", "compare", "systems"]
    assert jobs["compare"]["needs"] == ["build"]
    assert jobs["publish"]["environment"]["name"] == "pypi"
    assert jobs["page"]["needs"] == ["publish"]
    assert sorted(jobs["publish-image"]["needs"]) == ["check", "compare", "image", "systems"]
    assert jobs["publish-image"]["environment"]["name"] == "image"
    assert runs(jobs["check"]) == ["./scripts/check", "./scripts/test"]
    for part in (one for job in jobs.values() for one in (job, *steps(job))):
        assert not {"if", "continue-on-error", "shell"} & part.keys()


def test_what_is_published_is_what_was_compared_and_nothing_else():
    jobs = load(RELEASE)["jobs"]
    machines = jobs["build"]["strategy"]["matrix"]["machine"]
    assert len(set(machines)) == 2
    assert jobs["build"]["runs-on"] == "${{ matrix.machine }}"
    (built,) = moved(jobs["build"])
    assert (built["name"], built["path"]) == ("built-on-${{ matrix.machine }}", "built/")
    assert runs(jobs["build"])[-2:] == [
        "./scripts/build built/dist", "./scripts/bundle built/bundle"
    ]  # fmt: skip
    came, went = moved(jobs["compare"])
    assert (came, went["name"]) == ({"path": "built"}, "release")
    assert went["path"] in {f"built/built-on-{machine}/" for machine in machines}
    for name in ("attest", "publish", "page"):
        assert moved(jobs[name]) == [{"name": "release", "path": "built"}]
    assert steps(jobs["attest"])[-1]["with"] == {"subject-path": "built/*/*"}
    assert steps(jobs["publish"])[-1]["with"]["packages-dir"] == "built/dist"
    (went,), (came,) = moved(jobs["image"]), moved(jobs["publish-image"])
    assert went["name"] == came["name"] == "image"


def moved(job):
    """What its steps hand on and take over, in order."""
    return [step["with"] for step in steps(job) if "-artifact@" in step.get("uses", "")]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"dist/a.whl": b"other bytes"},
        {"dist/a.whl": None},
        {"dist/more.whl": b"only on one machine"},
        {"bundle/a.mcpb": b"other bytes"},
        {"below/more": b"in a folder"},
    ],
    ids=str,
)
@pytest.mark.parametrize("changed", [0, 1])
def test_the_comparison_fails_if_one_machine_made_anything_else(tmp_path, change, changed):
    """What the workflow runs there, run here."""
    jobs = load(RELEASE)["jobs"]
    for number, machine in enumerate(jobs["build"]["strategy"]["matrix"]["machine"]):
        place = tmp_path / "built" / f"built-on-{machine}"
        made = {"dist/a.whl": b"wheel", "dist/a.tar.gz": b"sdist", "bundle/a.mcpb": b"bundle"}
        made |= change if number == changed else {}
        for name, content in made.items():
            if content is not None:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
    (script,) = runs(jobs["compare"])
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode == 0) is (not change), done.stdout


@pytest.mark.parametrize("owner", ["OWNER", "somebody"])
def test_nothing_is_built_before_the_project_has_an_address(tmp_path, owner):
    """What the workflow runs before it builds, run here."""
    for name in ("pyproject.toml", "server.json", "README.md"):
        text = (FOLDER.parents[1] / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("OWNER", owner))
    scripts = runs(load(RELEASE)["jobs"]["build"])
    (script,) = (one for one in scripts if "OWNER" in one)
    assert scripts.index(script) < scripts.index("./scripts/build built/dist")
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, check=False)
    assert (done.returncode == 0) is (owner == "somebody")


def test_jobs_that_can_sign_run_no_code_of_the_repository():
    jobs = load(RELEASE)["jobs"]
    signing = {name: job for name, job in jobs.items() if "id-token" in job["permissions"]}
    assert {name: uses(job) for name, job in signing.items()} == {
        "attest": ["actions/download-artifact", "actions/attest-build-provenance"],
        "publish": ["actions/download-artifact", "pypa/gh-action-pypi-publish"],
        "publish-image": ["actions/download-artifact", "actions/attest-build-provenance"],
    }
    (push,) = (run for job in signing.values() for run in runs(job))
    assert set(re.findall(r"docker (\w+)", push)) == {"login", "load", "tag", "push", "inspect"}
    assert "/scripts" not in push


@pytest.mark.parametrize("name", [CI, LONG, RELEASE])
def test_actions_are_named_by_commit_and_say_their_version(name):
    used = re.findall(r"^\s*- uses: (.*)$", text_of(name), re.MULTILINE)
    assert used
    assert text_of(name).count("uses:") == len(used)
    for line in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize("name", [CI, LONG, RELEASE])
def test_one_action_has_one_commit_everywhere(name):
    used = re.findall(r"uses: (\S+)@(\S+)", text_of(CI) + text_of(LONG) + text_of(RELEASE))
    assert len(dict(used)) == len(set(used)), name


@pytest.mark.parametrize("name", [CI, LONG, RELEASE])
def test_no_secret_is_used_and_no_outside_text_gets_into_a_shell(name):
    text = text_of(name)
    assert "secrets." not in text
    assert "pull_request_target" not in text
    assert "workflow_run" not in text
    for job in load(name)["jobs"].values():
        assert all("${{" not in line for line in runs(job))
        assert job["timeout-minutes"] <= (350 if name == LONG else 60)
        for step in steps(job):
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_a_missing_audit_fails_where_the_advisories_can_be_reached():
    for name, job in ((CI, "linux"), (RELEASE, "check")):
        (check,) = (s for s in steps(load(name)["jobs"][job]) if s.get("run") == "./scripts/check")
        assert check["env"] == {"NOTARIUM_AUDIT": "required"}
