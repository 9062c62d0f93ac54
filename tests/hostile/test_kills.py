"""Runs that are killed in every way at random moments: in the end the store is that of a run that nobody disturbed.

`COROLLARY_KILLS` says how many kills; 8 unless it is set.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import corollary
from corollary.evidence._store import Store

HERE = Path(__file__).parent
KILLS = int(os.environ.get("COROLLARY_KILLS", "8"))
SEEDS = 2 * KILLS
# of the whole test, and of a run that nobody disturbs: twenty kills take half a minute on a machine with nothing else
LIMIT, QUIET = max(300, 30 * KILLS), max(290, 15 * KILLS)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGHUP)


def command(folder, name):
    words = [
        sys.executable,
        "-m",
        "corollary",
        "verify",
        "slow_claims.*",
        "--seeds",
        str(SEEDS),
        "--jobs",
        "2",
        "--json",
    ]
    return [*words, "--time-limit", "20", "--store", str(folder / name)]


def environment(folder):
    source = Path(corollary.__file__).parent.parent
    return os.environ | {
        "COROLLARY_CLAIMS": "slow_claims",
        "PYTHONPATH": f"{HERE}{os.pathsep}{source}",
        "KILLS_RUN": folder.name,
    }


def rows(path):
    """What the store holds, but for when and how long."""
    with Store(path) as store:
        assert store.words == []
        return {(e.claim, e.seed): (e.verdict, e.parameters, e.code, e.checks, e.figures, e.error) for e in store}


def disturb(run, draw):
    """Send one signal to the run, to one or two of its workers, or to all of them."""
    below = psutil.Process(run.pid).children(recursive=True)
    # of the workers those that lead their group: one that is stopped before it could ask to end with its parent stays
    workers = [w for w in below if os.getpgid(w.pid) == w.pid]
    kind = draw.choice(("parent", "worker", "tree"))
    number = draw.choice(SIGNALS)
    targets = [run.pid] if kind == "parent" else [w.pid for w in workers]
    for pid in targets if kind != "worker" else targets[: 1 + draw.randrange(2)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    if kind == "parent" and number == signal.SIGSTOP:
        time.sleep(0.2)
        os.kill(run.pid, draw.choice((signal.SIGCONT, signal.SIGKILL)))


def of_the_run(name):
    """The processes that are left of all these runs; the tracker of multiprocessing ends when it is no more stopped."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("KILLS_RUN") == name and "resource_tracker" not in "".join(process.cmdline()):
                found.append(process.cmdline())
    return found


@pytest.mark.timeout(LIMIT)
def test_a_store_survives_every_kill(tmp_path):
    draw, setting = random.Random(0), environment(tmp_path)
    quiet = subprocess.run(command(tmp_path, "quiet.db"), env=setting, capture_output=True, text=True, timeout=QUIET)
    assert quiet.returncode == 0, quiet.stderr
    run, done = None, 0
    while done < KILLS:
        if run is None or run.poll() is not None:
            run = subprocess.Popen(
                command(tmp_path, "disturbed.db"), env=setting, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            if not run.stdout.readline():  # something was measured, or known already
                continue
        time.sleep(draw.uniform(0.0, 0.5))
        if run.poll() is None:
            disturb(run, draw)
            done += 1
    run.kill()
    run.wait()
    last = subprocess.run(command(tmp_path, "disturbed.db"), env=setting, capture_output=True, text=True, timeout=QUIET)
    assert last.returncode == 0, last.stderr
    assert len(last.stdout.splitlines()) == 3 * SEEDS
    assert {json.loads(line)["verdict"] for line in last.stdout.splitlines()} == {"holds"}
    assert rows(tmp_path / "disturbed.db") == rows(tmp_path / "quiet.db")
    end = time.monotonic() + 60.0  # workers whose parent was killed while they started notice when they have
    while (left := of_the_run(tmp_path.name)) and time.monotonic() < end:
        time.sleep(0.5)
    assert left == []
