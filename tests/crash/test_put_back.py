"""Put an older database in the place of the newest one, and cut its log: what was confirmed is never missing in silence."""

import json
import re
import shutil
import signal
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from notarium_devtools.trilium import TriliumSimulator
from support.long import LONG, dice, sample
from support.talker import call
from support.whole import Server, run, store_environment

pytestmark = [pytest.mark.slow("starts servers one after the other"), pytest.mark.timeout(1800)]
ROLLBACK = 19


@pytest.fixture(name="env")
def _env(tmp_path):
    return store_environment(tmp_path, "local", LOCAL_COPIES="0")


def database_of(env):
    (found,) = Path(env["NOTARIUM_DATA_DIR"]).glob("*/*.sqlite.encrypted")
    return found


def save(server, texts):
    """Confirmed saves of notes of their own."""
    for text in texts:
        server.tool("save", text=f"{text}\n" + "word " * 300)


def worked(env, *texts):
    with Server(env) as server:
        save(server, texts)
        assert server.leave() == 0


def names(*parts):
    return [f"{part}{number}" for part, count in parts for number in range(count)]


def copied(env, folder):
    """A copy of the database as a backup program makes it."""
    return shutil.copyfile(database_of(env), folder / "older")


def by_cp(older, database):
    shutil.copyfile(older, database)


def by_rename(older, database):
    new = database.with_name(f".{database.name}.x1")
    shutil.copyfile(older, new)
    new.chmod(0o600)
    new.replace(database)


def last_record(env):
    """Number and time of the newest audit record, as the anchor writes times."""
    (line,) = run(env, "audit", "tail", "-n", "1", "--json").stdout.splitlines()
    record = json.loads(line)
    return record["number"], told_time(record["at_ms"])


def told_time(at_ms):
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def anchored(env):
    return json.loads(database_of(env).with_name("audit_anchor.json").read_bytes())


def demand_true_answer(env, before):
    """``status`` counts what is missing after the last record of ``before``, and says since when; return its way out."""
    facts = json.loads(run(env, "status", "--json").stdout)
    said, (upto, since) = anchored(env), before
    assert (facts["exit_code"], facts["verdict"]) == (ROLLBACK, "rollback_seen"), facts
    missing = said["count"] - upto
    assert (
        f"{missing} audit records after number {upto} ({since}) are missing, up to {told_time(said['at'])}"
        in facts["message"]
    ), (facts["message"], before, said)
    return facts["resolution_hint"], missing


def demand_copy(env, hint, missing):
    """The way out names the copy with the most notes, and how many of the missing records it has."""
    named = re.search(r"restore (\S+)` puts back a copy that has (all|\d+) of them", hint)
    assert named, hint
    newest = max(int(path.name.split("-")[1].split(".")[0]) for path in copies_of(env))
    assert int(named[1].split("-")[1].split(".")[0]) == newest
    return missing if named[2] == "all" else int(named[2])


def copies_of(env):
    return list((database_of(env).parent / "copies").glob("*.sqlite.encrypted"))


def await_copy(env, change):
    """Wait for the copy with all notes up to this change."""
    until = time.monotonic() + 20
    while not any(f"-{change}." in path.name for path in copies_of(env)):
        assert time.monotonic() < until, copies_of(env)
        time.sleep(0.02)


def left_over(env):
    """Which of the confirmed notes are there, and whether a person and an agent are told that some may not be."""
    status = run(env, "status", "--json")
    verified = run(env, "audit", "verify")
    doctor = run(env, "doctor", "--offline")
    with Server(env) as server:
        answer = server.result("save", text="one more")
        said = json.loads(answer["content"][0]["text"])
        refused = bool(answer.get("isError"))
        if refused:
            verdict = said["details"].get("verdict")
            assert "rollback_seen" in (said["subcategory"], verdict), said
        listed = server.result("list", limit=100)
        server.leave()
    there = set()
    if not listed.get("isError"):
        there = {item["text"].split()[0] for item in listed["structuredContent"]["content"]}
    codes = (status.returncode, verified.returncode, doctor.returncode)
    return there, refused, codes


def check(env, confirmed):
    there, refused, codes = left_over(env)
    missing = set(confirmed) - there
    if missing:
        assert refused, f"silent: {sorted(missing)} are missing, {codes}"
    if refused:
        assert codes[0] == codes[2] == ROLLBACK, codes
        assert codes[1] in (3, ROLLBACK), codes  # the latter if it cannot be read
    return missing, refused


WAYS = {"cp": by_cp, "rename": by_rename}
ENDS = ("stop", "kill")


@pytest.mark.attack(16)
@pytest.mark.parametrize(("way", "end"), [(way, *sample(way, ENDS, 1)) for way in WAYS])
def test_an_older_database_under_a_running_server_is_told(env, tmp_path, way, end):
    env["LOCAL_COPIES"] = "5"
    for earlier, later in ((3, 6), (5, 5), (3, 40), (40, 10)) if LONG else ((3, 6), (5, 5)):
        shutil.rmtree(env["NOTARIUM_DATA_DIR"], ignore_errors=True)
        worked(env, *names(("a", earlier)))
        older, before = copied(env, tmp_path), last_record(env)
        worked(env, *names(("b", later)))
        with Server(env) as server:
            save(server, names(("c", 2)))
            WAYS[way](older, database_of(env))
            refused = server.error("save", text="after")
            assert "rollback_seen" in (
                refused["subcategory"],
                refused.get("details", {}).get("verdict"),
            )
            assert "again" not in refused["resolution_hint"]
            if way == "rename":
                await_copy(env, earlier + later + 2)
            if end == "stop":
                server.leave()
            else:
                server.signal(signal.SIGKILL)
        hint, missing = demand_true_answer(env, before)
        has = demand_copy(env, hint, missing)
        assert has == missing if way == "rename" else 0 < has < missing
        missing, alarmed = check(env, names(("a", earlier), ("b", later), ("c", 2)))
        assert alarmed
        assert missing
        demand_true_answer(env, before)


def test_a_server_whose_file_was_renamed_away_has_rescued_all_that_was_confirmed(env, tmp_path):
    env["LOCAL_COPIES"] = "2"
    worked(env, "a0")
    older = copied(env, tmp_path)
    worked(env, "b0")
    with Server(env) as server:
        save(server, names(("c", 12)))
        there = set(copies_of(env))
        by_rename(older, database_of(env))
        server.error("save", text="after")
        await_copy(env, 14)
        assert there < set(copies_of(env)), "an older copy was pushed out"
        server.leave()
    hint = json.loads(run(env, "status", "--json").stdout)["resolution_hint"]
    name = re.search(r"restore (\S+)`", hint)[1]
    assert run(env, "restore", name, "--yes").returncode == 0
    with Server(env) as server:
        server.tool("save", text="more")
        assert server.tool("list")["total_items"] == 15
        assert server.leave() == 0
    assert (run(env, "status").returncode, run(env, "audit", "verify").returncode) == (0, 0)


@pytest.mark.attack(16)
@pytest.mark.parametrize(
    ("way", "end"), [(way, *sample(f"{way} at the end", ENDS, 1)) for way in WAYS]
)
def test_a_server_that_does_nothing_more_tells_it_at_the_next_start(env, tmp_path, way, end):
    worked(env, *names(("a", 3)))
    older, before = copied(env, tmp_path), last_record(env)
    worked(env, *names(("b", 6)))
    with Server(env) as server:
        save(server, names(("c", 2)))
        WAYS[way](older, database_of(env))
        if end == "stop":
            server.leave()
        else:
            server.signal(signal.SIGKILL)
    demand_true_answer(env, before)
    missing, alarmed = check(env, names(("a", 3), ("b", 6), ("c", 2)))
    assert alarmed
    assert missing


@pytest.mark.attack(16)
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_one_older_state_stays_one_whatever_ends_the_server_that_met_it(env, tmp_path, end):
    env["LOCAL_COPIES"] = "5"
    worked(env, *names(("a", 3)))
    older, before = copied(env, tmp_path), last_record(env)
    worked(env, *names(("b", 6)))
    (newest,) = [path for path in copies_of(env) if "-9." in path.name]
    by_cp(older, database_of(env))
    for _ in range(2):
        with Server(env) as server, Server(env) as beside:
            for one in (server, beside):
                assert one.error("save", text="more")["subcategory"] == "rollback_seen"
                assert one.tool("list")["total_items"] == 3
                if end == "stop":
                    assert one.leave() == 0
            if end == "kill":
                server.signal(signal.SIGKILL)
                beside.signal(signal.SIGKILL)
        hint, _missing = demand_true_answer(env, before)
        assert f"restore {newest.name}` puts back a copy that has newer notes" in hint
        assert anchored(env)["replaced"] == 0
    exported = run(env, "export", str(tmp_path / "out.zip"))
    assert exported.returncode == 0, exported.stderr
    assert run(env, "backup", str(tmp_path / "backup")).returncode == 0
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "new.md").write_text("new")
    refused = run(env, "import", str(tmp_path / "in"), "--yes")
    assert refused.returncode == 1
    assert run(env, "audit", "accept", "--yes").returncode == 0
    assert run(env, "status").returncode == 0
    worked(env, "d0")


@pytest.mark.attack(16)
def test_a_still_older_file_beneath_the_log_of_an_older_state_is_a_mixture(env, tmp_path):
    worked(env, "o0")
    oldest, before = shutil.copyfile(database_of(env), tmp_path / "oldest"), last_record(env)
    worked(env, *names(("a", 3)))
    older = copied(env, tmp_path)
    worked(env, *names(("b", 6)))
    by_cp(older, database_of(env))
    with Server(env) as server:
        assert server.error("save", text="more")["subcategory"] == "rollback_seen"
        server.signal(signal.SIGKILL)
    by_cp(oldest, database_of(env))
    demand_true_answer(env, before)
    with Server(env) as server:
        assert server.error("list")["details"]["verdict"] == "rollback_seen"
        server.leave()
    demand_true_answer(env, before)


def damage(database):
    """Flip a bit in two pages of the middle."""
    content = bytearray(database.read_bytes())
    middle = len(content) // 8192 * 4096
    for page in (middle, middle + 3 * 4096):
        content[page + 100] ^= 1
    database.write_bytes(content)


@pytest.mark.parametrize("met", ["by nobody", "by a server", "by a killed server"])
def test_an_older_state_that_is_damaged_later_is_told_with_the_copy_that_has_more(
    env, tmp_path, met
):
    env["LOCAL_COPIES"] = "5"
    worked(env, *names(("a", 5)))
    older, before = copied(env, tmp_path), last_record(env)
    worked(env, *names(("b", 6)))
    by_cp(older, database_of(env))
    if met != "by nobody":
        with Server(env) as server:
            assert server.error("save", text="more")["subcategory"] == "rollback_seen"
            if met == "by a server":
                assert server.leave() == 0
            else:
                server.signal(signal.SIGKILL)
    damage(database_of(env))
    hint, missing = demand_true_answer(env, before)
    assert demand_copy(env, hint, missing) == missing
    assert run(env, "restore", re.search(r"restore (\S+)`", hint)[1], "--yes").returncode == 0
    assert run(env, "status").returncode == 0
    with Server(env) as server:
        assert server.tool("list")["total_items"] == 11
        server.leave()


def test_the_newest_state_is_only_damaged_and_the_newest_copy_is_named(env, tmp_path):
    """So is an older one that was accepted."""
    env["LOCAL_COPIES"] = "5"
    worked(env, *names(("a", 5)))
    older = copied(env, tmp_path)
    worked(env, *names(("b", 6)))
    (newest,) = [path for path in copies_of(env) if "-11." in path.name]
    kept = shutil.copyfile(database_of(env), tmp_path / "newest")
    for accepts in (False, True):
        by_cp(older if accepts else kept, database_of(env))
        if accepts:
            assert run(env, "audit", "accept", "--yes").returncode == 0
        damage(database_of(env))
        facts = json.loads(run(env, "status", "--json").stdout)
        assert facts["verdict"] == "database_damaged"
        assert f"The newest is {newest.name}." in facts["resolution_hint"]


@pytest.mark.attack(16)
@pytest.mark.parametrize("killed", sample("between", [False, True], 1))
def test_an_older_database_between_two_runs_is_told_by_number_and_time(env, tmp_path, killed):
    worked(env, *names(("a", 3)))
    older, before = copied(env, tmp_path), last_record(env)
    worked(env, *names(("b", 6)))
    if killed:
        with Server(env) as server:
            save(server, ["c0"])
            server.signal(signal.SIGKILL)
    by_cp(older, database_of(env))
    demand_true_answer(env, before)
    if not killed:
        assert json.loads(run(env, "status", "--json").stdout)["notes"] == 3
    missing, alarmed = check(env, names(("a", 3), ("b", 6)))
    assert alarmed
    assert missing


def spoilt(log, at, how):
    content = bytearray(log.read_bytes())
    if how == "flip":
        content[at] ^= 0x40
    elif how == "cut":
        del content[at:]
    log.write_bytes(bytes(content))
    if how == "gone":
        log.unlink()


@pytest.mark.attack(15)
def test_a_log_that_lost_its_end_is_told_and_a_whole_one_is_not(env, tmp_path):
    confirmed = names(("n", 12))
    worked(env)
    with Server(env) as server:
        save(server, confirmed)
        server.signal(signal.SIGKILL)
    data, kept = Path(env["NOTARIUM_DATA_DIR"]), tmp_path / "kept"
    shutil.copytree(data, kept)
    size = database_of(env).with_name(f"{database_of(env).name}-wal").stat().st_size
    chance = dice("logs")
    places = sorted(chance.randrange(size) for _ in range(40 if LONG else 4))
    cases = [("flip", at) for at in [0, 20, size - 1, *places]]
    cases += [("cut", at) for at in [0, size - 5000, *places[::5]]]
    cases += [("gone", 0), ("whole", 0)]
    lost = 0
    for how, at in cases:
        shutil.rmtree(data)
        shutil.copytree(kept, data)
        log = database_of(env).with_name(f"{database_of(env).name}-wal")
        spoilt(log, at, how)
        there, refused, codes = left_over(env)
        missing = set(confirmed) - there
        lost += bool(missing)
        assert bool(missing) == refused, (how, at, size, sorted(missing), codes)
        if refused:
            assert codes == (ROLLBACK, 3, ROLLBACK), (how, at, codes)
        else:
            assert codes[0] == codes[2] == 0, (how, at, codes)
    assert lost > 3


def test_the_copy_with_the_newer_notes_is_named_and_ends_it(env, tmp_path):
    env["LOCAL_COPIES"] = "5"
    worked(env, "a0")
    older = copied(env, tmp_path)
    worked(env, "b0", "b1")
    by_cp(older, database_of(env))
    with Server(env) as server:
        refused = server.error("save", text="more")
        assert refused["subcategory"] == "rollback_seen"
        assert not refused["retryable"]
        assert server.tool("list")["total_items"] == 1
        assert server.leave() == 0
    hint = json.loads(run(env, "status", "--json").stdout)["resolution_hint"]
    newest = max((database_of(env).parent / "copies").iterdir(), key=lambda path: path.name)
    assert f"mcp-notarium restore {newest.name}`" in hint
    assert run(env, "restore", newest.name, "--yes").returncode == 0
    assert run(env, "status").returncode == 0
    with Server(env) as server:
        server.tool("save", text="more")
        assert server.tool("list")["total_items"] == 4
        assert server.leave() == 0
    assert run(env, "audit", "verify").returncode == 0


def test_a_person_may_accept_the_older_state_while_a_server_runs(env, tmp_path):
    worked(env, "a0")
    older = copied(env, tmp_path)
    worked(env, "b0", "b1")
    by_cp(older, database_of(env))
    with Server(env) as server:
        assert server.error("save", text="more")["subcategory"] == "rollback_seen"
        done = run(env, "audit", "accept", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        server.tool("save", text="more")
        server.signal(signal.SIGKILL)
    assert run(env, "status").returncode == 0
    records = [json.loads(line) for line in run(env, "audit", "tail", "--json").stdout.splitlines()]
    (cut,) = [record for record in records if record["act"] == "chain.cut"]
    assert cut["facts"]["missing"] > 3
    (accepted,) = [record for record in records if record["act"] == "cli.audit.accept"]
    assert accepted["number"] > cut["number"]
    assert run(env, "audit", "verify").returncode == 0


def test_several_servers_that_move_the_log_and_are_killed_raise_no_alarm(env):
    """The leader moves the log many times; each kill is at another place."""
    chance, confirmed = dice("kills"), []
    text = "many words " * 6000
    for round_ in range(25 if LONG else 3):
        with Server(env) as one, Server(env) as two:
            servers = [one, two]
            for number in range(chance.randrange(8, 40)):
                server = chance.choice(servers)
                saved = server.tool("save", text=f"r{round_}n{number}\n{text}")
                confirmed.append(saved["id"])
            if chance.random() < 0.3:
                assert one.leave() == 0
                two.tool("save", text="alone")
            for server in servers:
                if server.process.poll() is None:
                    server.signal(signal.SIGKILL)
        assert run(env, "status").returncode == 0
        assert run(env, "audit", "verify").returncode == 0
    anchor = json.loads(database_of(env).with_name("audit_anchor.json").read_bytes())
    assert anchor["checkpoint"] > 3, "the log was never moved"
    with Server(env) as server:
        there = all(server.tool("get", id=note_id) for note_id in confirmed[-20:])
        assert there
        assert server.leave() == 0
    facts = json.loads(run(env, "status", "--json").stdout)
    assert facts["notices"] == []


@contextmanager
def trilium(hanging):
    """A simulated server in a thread of its own; once ``hanging`` is set it answers no request that writes."""
    sim, ready, ended = TriliumSimulator(), threading.Event(), threading.Event()
    respond, met = sim.respond, threading.Event()

    async def hang(request):
        if hanging.is_set() and request.method != "GET":
            met.set()
            await anyio.sleep(60)
        return await respond(request)

    sim.respond = hang

    async def serve():
        async with sim.serving():
            ready.set()
            while not ended.is_set():  # noqa: ASYNC110 - set by another thread
                await anyio.sleep(0.02)

    thread = threading.Thread(target=anyio.run, args=(serve,), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield sim, met
    finally:
        ended.set()
        hanging.clear()
        thread.join(10)


@pytest.mark.attack(15)
@pytest.mark.parametrize("spoils", [True, False])
def test_a_pending_write_that_a_cut_log_loses_is_told(tmp_path, spoils):
    hanging = threading.Event()
    with trilium(hanging) as (sim, met):
        env = store_environment(tmp_path, "trilium", TRILIUM_URL=sim.url, TRILIUM_TOKEN=sim.token)
        with Server(env) as server:
            server.loaded(0)
            for number in range(3):
                server.tool("save", title=f"t{number}", text="text")
            log = database_of(env).with_name(f"{database_of(env).name}-wal")
            size = log.stat().st_size
            hanging.set()
            server.send(call(99, "save", title="pending", text="never answered"))
            assert met.wait(20)
            server.signal(signal.SIGKILL)
        hanging.clear()
        if spoils:
            spoilt(log, size + 1000, "flip")
        status = run(env, "status", "--json")
        facts = json.loads(status.stdout)
        assert facts["pending_writes"] == (0 if spoils else 1)
        assert (status.returncode, run(env, "audit", "verify").returncode) == (
            (ROLLBACK, 3) if spoils else (0, 0)
        )
        with Server(env) as server:
            if spoils:
                refused = server.error("save", title="more", text="text")
                assert refused["subcategory"] == "rollback_seen"
                assert server.tool("list")["total_items"] == 3
            else:
                server.tool("save", title="more", text="text")
            server.leave()
        if spoils:
            assert run(env, "audit", "accept", "--yes").returncode == 0
            assert run(env, "status").returncode == 0
            with Server(env) as server:
                server.tool("save", title="more", text="text")
                server.leave()
            assert run(env, "audit", "verify").returncode == 0


@pytest.mark.parametrize("way", sample("ways of the newest", list(WAYS), 1))
def test_the_newest_file_put_back_is_said_to_lack_nothing_and_may_be_accepted(env, tmp_path, way):
    worked(env, *names(("a", 3)))
    older, before = copied(env, tmp_path), last_record(env)
    worked(env, *names(("b", 6)))
    newest = shutil.copyfile(database_of(env), tmp_path / "newest")
    with Server(env) as server:
        server.tool("list")
        WAYS[way](older, database_of(env))
        server.error("save", text="after")
        server.leave()
    missing = anchored(env)["count"] - before[0]
    demand_true_answer(env, before)
    for ending in ("-wal", "-shm"):
        database_of(env).with_name(f"{database_of(env).name}{ending}").unlink(missing_ok=True)
    WAYS[way](newest, database_of(env))
    verified = run(env, "audit", "verify")
    facts = json.loads(run(env, "status", "--json").stdout)
    said = f"The file met then lacked {missing} audit records after number {before[0]} ({before[1]}), up to "
    assert (verified.returncode, facts["exit_code"]) == (3, ROLLBACK)
    for told in (verified.stdout, facts["message"]):
        assert said in told, told
        assert "lacks nothing of it" in told
        assert "missing" not in told
    assert "if you put the newest file back, `mcp-notarium audit accept`" in verified.stdout
    assert "missing_records" not in facts.get("details", {})
    accepted = run(env, "audit", "accept", "--yes")
    assert accepted.returncode == 0, accepted.stderr
    assert run(env, "status").returncode == 0
    with Server(env) as server:
        server.tool("save", text="more")
        assert server.tool("list")["total_items"] == 10
        assert server.leave() == 0


@pytest.mark.parametrize("copies", ["0", "5"])
def test_a_mixture_that_cannot_be_read_is_not_said_to_be_acceptable(env, tmp_path, copies):
    """Each of its pages is authentic, and they do not fit together."""
    env["LOCAL_COPIES"] = copies
    worked(env, *names(("a", 40)))
    older = copied(env, tmp_path).read_bytes()
    worked(env, *names(("b", 40)))
    newest = database_of(env).read_bytes()
    with Server(env) as server:
        server.tool("list")
        by_cp(tmp_path / "older", database_of(env))
        server.error("save", text="after")
        server.leave()
    page = len(older) // 16384 * 4096  # up to the half
    database_of(env).write_bytes(newest[:page] + older[page : 2 * page] + newest[2 * page :])
    verified = run(env, "audit", "verify")
    assert verified.returncode == 3, verified.stderr
    assert "audit accept" not in verified.stdout, verified.stdout
    assert "mcp-notarium restore" in verified.stdout
    assert run(env, "audit", "accept", "--yes").returncode == ROLLBACK
