import importlib
import itertools
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from corollary.evidence import ParameterError, UserError, run
from corollary.evidence import _claim as registry
from corollary.evidence._code import sources
from corollary.evidence._lines import Lines
from corollary.evidence._process import BATCH, Worker, cores
from corollary.evidence._runner import Outcome, tasks, verify
from corollary.evidence._staleness._cache import directory
from corollary.evidence._store import Store
from corollary.evidence._task import Task

HERE = Path(__file__).parent
PATIENCE = 280.0  # seconds, just below the limit of pytest: only a test that hangs waits so long


@pytest.fixture(scope="module")
def claims():
    """The fixture's claims by name, known while this file is tested and forgotten afterwards."""
    before = dict(registry._REGISTRY)
    importlib.import_module("fixture_claims")
    mine = {k: c for k, c in registry._REGISTRY.items() if k.startswith("fixture_claims.")}
    yield {k.removeprefix("fixture_claims."): c for k, c in mine.items()}
    registry._REGISTRY.clear()
    registry._REGISTRY.update(before)
    del sys.modules["fixture_claims"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The tests leave nothing in the user's own cache. What it knows of the sources, which takes seconds, is there."""
    place = tmp_path_factory.mktemp("cache")
    sources().versions  # noqa: B018 - enters them, if nobody has yet
    for file in directory().glob("*.json"):
        shutil.copy(file, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COROLLARY_CACHE", str(place))
        patch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
        yield


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """What was executed so far: (name, process id, detail)."""
    path = tmp_path / "trace"
    monkeypatch.setenv("FIXTURE_TRACE", str(path))
    return lambda: [tuple(x.split(" ")) for x in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "evidence.db") as opened:
        yield opened


def until(condition):
    """Wait for a condition to become true, and give its value."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def verdicts(outcomes):
    return {(o.evidence.claim.split(".")[1], o.evidence.seed): (o.evidence.verdict, o.cached) for o in outcomes}


def script(tmp_path, *names, seeds=1, jobs=1):
    """A run as a program of its own, as the command line does it: it prints a line for each outcome."""
    path = tmp_path / "program.py"
    path.write_text(
        "import sys\n"
        "from corollary.evidence import select\n"
        "from corollary.evidence._runner import tasks, verify\n"
        "from corollary.evidence._store import Store\n"
        "if __name__ == '__main__':\n"
        "    chosen = select(['fixture_claims.' + n for n in sys.argv[4:]])\n"
        "    with Store(sys.argv[1]) as store:\n"
        "        for o in verify(tasks(chosen, range(int(sys.argv[2]))), store, jobs=int(sys.argv[3])):\n"
        "            print(o.evidence.claim.split('.')[1], o.evidence.seed, o.evidence.verdict, o.cached, flush=True)\n"
    )
    command = [sys.executable, path, tmp_path / "evidence.db", str(seeds), str(jobs), *names]
    environment = os.environ | {"COROLLARY_CLAIMS": "fixture_claims", "PYTHONPATH": str(HERE)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_every_way_to_end_is_one_outcome_and_the_rest_goes_on(claims, trace, store, capfd):
    names = ["true", "false", "raises", "unwritable", "dies", "leaves", "true"]
    todo = tasks([claims[n] for n in names[:6]]) + tasks([claims["true"]], [5])
    events, began = [], time.monotonic()
    outcomes = list(verify(todo, store, on_event=lambda task, kind: events.append((task.claim_id[15:], kind))))
    assert [o.evidence.claim for o in outcomes] == [f"fixture_claims.{n}" for n in names]
    found = [o.evidence for o in outcomes]
    # one after the other: together they took no longer than the run
    assert 0 < sum(e.seconds for e in found) <= time.monotonic() - began
    assert [e.verdict for e in found] == ["holds", "fails", "error", "error", "error", "error", "holds"]
    assert [len(e.checks) for e in found] == [1, 1, 1, 1, 1, 0, 1]
    assert found[2].error.startswith("ZeroDivisionError: ")
    assert "(raises, line " in found[2].error
    assert "not JSON serializable" in found[3].error
    assert found[4].error == "The worker died (signal 9) after 1 check."
    assert found[5].error == "The worker died (exit status 3) before its first check."
    assert [e.seed for e in found] == [0, 0, 0, 0, 0, 0, 5]
    assert [k for n, k in events if n == "dies"] == ["start", "check"]
    assert [k for n, k in events if n == "leaves"] == ["start"]
    assert sorted(e.claim for e in store) == sorted(e.claim for e in found)
    # one process for the tasks until the first death, and one new one after each
    assert len({pid for _, pid, _ in trace()}) == 3
    assert not any(alive(pid) for _, pid, _ in trace())
    said = capfd.readouterr()
    assert said.out == ""  # a claim's own print goes to stderr, and nothing else does
    assert set(said.err.splitlines()) == {"a claim that prints"}

    # again: verdicts are known, errors are tried again
    again = list(verify(todo[:3], store))
    assert verdicts(again) == {
        ("true", 0): ("holds", True),
        ("false", 0): ("fails", True),
        ("raises", 0): ("error", False),
    }
    assert again[0].evidence == found[0]
    assert len(store) == 7


def test_the_worker_measures_what_run_measures(claims, trace, store):
    (outcome,) = verify(tasks([claims["true"]], [3], overrides={"size": "7"}), store)
    here = run(claims["true"], 3, size=7)
    assert outcome.evidence.parameters == {"size": 7}
    assert (outcome.evidence.checks, outcome.evidence.code) == (here.checks, here.code)
    assert outcome.evidence.versions == here.versions
    assert [detail for _, _, detail in trace()] == ["7", "7"]


def test_the_limit_of_time(claims, trace, store, monkeypatch):
    """By a clock that the test sets: it stands still, and jumps past the limit once the checks are there."""
    clock = SimpleNamespace(now=0.0, checks=0)
    for module in ("_process", "_child"):
        monkeypatch.setattr(f"corollary.evidence.{module}.time", SimpleNamespace(monotonic=lambda: clock.now))

    def on_event(task, kind):
        clock.checks = clock.checks + 1 if kind == "check" else 0
        if clock.checks == {"fixture_claims.sleeps": 1, "fixture_claims.chatters": 11}.get(task.claim_id):
            clock.now += 1.5

    todo = [*tasks([claims["sleeps"], claims["chatters"]]), *tasks([claims["true"]])]
    slept, chattered, fine = [o.evidence for o in verify(todo, store, time_limit=1.0, on_event=on_event)]
    assert slept.error == chattered.error == "It took longer than the limit of 1 s."
    assert (len(slept.checks), slept.seconds, chattered.seconds) == (1, 1.5, 1.5)
    assert len(chattered.checks) > 10
    assert fine.verdict == "holds"
    assert not any(alive(pid) for _, pid, _ in trace())


def test_the_limit_of_memory(claims, trace, store):
    (grown,) = [o.evidence for o in verify(tasks([claims["grows"]]), store, memory_limit=1.0e9)]
    assert grown.verdict == "error"
    assert grown.error.startswith("It used 1.")
    assert grown.error.endswith(" GB of memory, more than the limit of 1.00 GB.")
    assert len(grown.checks) == 1
    assert not any(alive(pid) for _, pid, _ in trace())


def test_a_worker_killed_from_outside(claims, trace, store):
    todo = tasks([claims["sleeps"]]) + tasks([claims["true"]], range(3))
    outcomes = verify(todo, store, on_event=kill_at_first_check(trace))
    assert verdicts(outcomes) == {("sleeps", 0): ("error", False)} | {("true", s): ("holds", False) for s in range(3)}
    (killed,) = [e for e in store if e.claim == "fixture_claims.sleeps"]
    assert killed.error == "The worker died (signal 9) after 1 check."


def test_a_worker_that_talks_without_end_is_still_looked_at():
    class Talkative:
        def setblocking(self, flag):
            pass

        def recv(self, size):
            return b'["deal","start",""]\n'

    worker = object.__new__(Worker)
    worker.process, worker.lines = multiprocessing.current_process(), Lines(Talkative())
    worker.task, worker.name, worker.dead, worker.foul = None, "deal", False, None
    heard = []
    assert worker.listen(lambda task, kind: heard.append(kind)) is None
    assert heard == ["start"] * BATCH
    assert worker.foul is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell a process its cores")
def test_workers_share_the_cores(claims, store, trace):
    ours = os.sched_getaffinity(0)
    for jobs in (1, 2, 3, len(ours), 2 * len(ours) + 1):
        shares = [cores(i, jobs) for i in range(jobs)]
        assert all(shares)
        assert set().union(*shares) == ours
        assert sum(map(len, shares)) == max(jobs, len(ours))  # disjoint while there are enough
    list(verify(tasks([claims["placed"]], seeds=range(4)), store, jobs=2))
    seen = {detail for name, _, detail in trace()}
    assert seen <= {"-".join(map(str, sorted(cores(i, 2)))) for i in range(2)}


def kill_at_first_check(trace):
    def on_event(task, kind):
        if (task.claim_id, kind) == ("fixture_claims.sleeps", "check"):
            os.kill(int(trace()[-1][1]), signal.SIGKILL)

    return on_event


@pytest.fixture
def issue_tickets(tmp_path, monkeypatch):
    """Let that many more runs of `ticketed` end."""
    folder = tmp_path / "tickets"
    folder.mkdir()
    monkeypatch.setenv("FIXTURE_TICKETS", str(folder))
    numbers = itertools.count()
    return lambda count: [(folder / str(n)).touch() for n in itertools.islice(numbers, count)]


def test_a_run_killed_in_the_middle_goes_on_where_it_was(trace, tmp_path, issue_tickets):
    issue_tickets(3)
    killed = script(tmp_path, "ticketed", seeds=6, jobs=2)
    done = [killed.stdout.readline() for _ in range(3)]  # printed, therefore in the store
    assert all(line.endswith("holds False\n") for line in done)
    until(lambda: len(trace()) == 5)  # the next two have begun, and cannot end
    killed.kill()
    assert killed.stdout.readlines() == []
    workers = {pid for _, pid, _ in trace()}
    assert len(workers) == 2
    until(lambda: not any(alive(pid) for pid in workers))
    with Store(tmp_path / "evidence.db") as store:
        kept = {e.seed for e in store}
        assert kept == {int(line.split()[1]) for line in done}
    issue_tickets(3)
    again = script(tmp_path, "ticketed", seeds=6, jobs=2)
    out, err = again.communicate(timeout=PATIENCE)
    assert (again.returncode, err) == (0, "")
    assert sorted(out.splitlines()) == [f"ticketed {s} holds {s in kept}" for s in range(6)]
    assert len(trace()) == 5 + 3
    with Store(tmp_path / "evidence.db") as store:
        assert [e.seed for e in store] == list(range(6))


def test_a_killed_run_leaves_no_worker_behind(trace, tmp_path):
    killed = script(tmp_path, "sleeps")  # a claim that would keep its process for ever
    ((_, pid, _),) = until(trace)
    killed.kill()
    killed.communicate(timeout=PATIENCE)
    until(lambda: not alive(pid))


def test_two_runs_on_one_store(trace, tmp_path, issue_tickets):
    runs = [script(tmp_path, "ticketed", "true", "false", seeds=2) for _ in range(2)]
    until(lambda: len({pid for _, pid, _ in trace()}) == 2)  # both have begun, and neither has ended
    issue_tickets(4)
    for each in runs:
        out, err = each.communicate(timeout=PATIENCE)
        assert each.returncode == 0, err
        assert sorted(line.rsplit(" ", 1)[0] for line in out.splitlines()) == [
            *("false 0 fails", "false 1 fails", "ticketed 0 holds", "ticketed 1 holds", "true 0 holds", "true 1 holds")
        ]
    with Store(tmp_path / "evidence.db") as store:
        assert sorted((e.claim[15:], e.seed) for e in store) == [
            (n, s) for n in ("false", "ticketed", "true") for s in (0, 1)
        ]


def test_a_run_sees_what_another_finishes_meanwhile(claims, trace, store, tmp_path):
    todo = tasks([claims["false"], claims["true"]])
    with Store(tmp_path / "evidence.db") as other:
        outcomes = verify(todo, store)
        assert not next(outcomes).cached
        assert not next(verify(todo[1:], other)).cached
        assert next(outcomes).cached


def test_an_interrupt_ends_the_workers_and_then_the_run(trace, tmp_path):
    interrupted = script(tmp_path, "sleeps", "true", seeds=2, jobs=2)
    pids = until(lambda: {pid for _, pid, _ in trace()} if len(trace()) == 2 else None)
    assert [name for name, _, _ in trace()] == ["sleeps", "sleeps"]  # they would never end
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    _, err = interrupted.communicate(timeout=PATIENCE)
    assert not any(alive(pid) for pid in pids)
    assert len(trace()) == 2  # nothing was begun after the interrupt
    assert interrupted.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1  # the parent's own
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_closing_the_iterator_ends_the_workers(claims, trace, store):
    outcomes = verify(tasks([claims["true"], claims["sleeps"]]), store, jobs=2)
    assert isinstance(next(outcomes), Outcome)
    (pid,) = until(lambda: {pid for name, pid, _ in trace() if name == "sleeps"})
    outcomes.close()
    assert not alive(pid)
    assert len(store) == 1


def test_a_script_without_a_guard_gets_a_sentence(tmp_path):
    path = tmp_path / "unguarded.py"
    path.write_text(
        "from corollary.evidence import select\n"
        "from corollary.evidence._runner import tasks, verify\n"
        "from corollary.evidence._store import Store\n"
        "print(list(verify(tasks(select(['fixture_claims.true'])), Store('e.db'))))\n"
    )
    environment = os.environ | {"COROLLARY_CLAIMS": "fixture_claims", "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, path], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "UserError: The worker processes do not start." in done.stderr.splitlines()[-1]


def test_known_evidence_needs_no_worker_and_fresh_measures_again(claims, trace, store, monkeypatch):
    todo = tasks([claims["true"]], range(2))
    assert not any(o.cached for o in verify(todo, store))
    assert [o.cached for o in verify(todo, store, fresh=True)] == [False, False]
    assert len(trace()) == 4
    monkeypatch.setattr("corollary.evidence._runner.Worker", None)
    assert all(o.cached for o in verify(todo, store))
    assert len(store) == 2
    # another parameter, seed or version of the code is another measurement
    monkeypatch.setattr("corollary.evidence._runner.code_version", lambda module, name: "other")
    with pytest.raises(TypeError):
        next(verify(todo, store))


def test_compilations_are_kept(claims, trace, store, monkeypatch, tmp_path):
    shutil.copytree(directory(), tmp_path / "cache", ignore=shutil.ignore_patterns("xla"))
    for name, keeps in (("cache", True), ("evidence.db", False)):  # the second is a file: nothing can be kept there
        monkeypatch.setenv("COROLLARY_CACHE", str(tmp_path / name))
        assert [o.evidence.verdict for o in verify(tasks([claims["true"]]), store, fresh=True)] == ["holds"]
        assert bool(list(tmp_path.glob(f"{name}/xla/*/*-cache"))) == keeps


def test_tasks(claims):
    made = tasks([claims["true"], claims["true"]], [1, 1, 0], overrides={"size": 5})
    assert (
        made[:2] == made[2:] == [Task("fixture_claims.true", "fixture_claims", s, "quick", {"size": 5}) for s in (1, 0)]
    )
    assert len(set(made)) == 2
    with pytest.raises(ParameterError, match=r"^fixture_claims.false: There is no parameter size"):
        tasks([claims["true"], claims["false"]], overrides={"size": 5})
    for seed in (-1, 2**63, True, 0.0, "0"):
        with pytest.raises(ParameterError, match="A seed is a whole number"):
            tasks([claims["true"]], [seed])
    with pytest.raises(UserError, match="scale"):
        tasks([claims["true"]], scale="huge")


@pytest.mark.parametrize(
    "wrong",
    [{"jobs": 0}, {"jobs": 1.0}, {"jobs": True}, {"time_limit": 0}, {"memory_limit": -1}, {"time_limit": float("nan")}],
)
def test_bad_arguments_are_refused_before_anything_runs(wrong, store):
    with pytest.raises(UserError, match=next(iter(wrong))):
        verify([], store, **wrong)
