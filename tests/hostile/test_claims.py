"""Hostile claims as one run: each ends as one result, and the innocent ones between them notice nothing."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import psutil
import pytest

import corollary
from corollary._text import visible
from corollary.evidence._store import Store

HERE = Path(__file__).parent
SOURCE = Path(corollary.__file__).parent.parent


@cache
def hostile():
    """The hostile claims with what they must end with, read without importing them into this process."""
    code = "import json, hostile_claims; print(json.dumps(hostile_claims.HOSTILE))"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The run, by two workers, and the innocent claims once more by themselves."""
    folder = tmp_path_factory.mktemp("hostile")
    environment = os.environ | {
        "COROLLARY_CLAIMS": "hostile_claims",
        "PYTHONPATH": f"{HERE}{os.pathsep}{SOURCE}",
        "HOSTILE_RUN": folder.name,
    }
    command = [sys.executable, "-m", "corollary", "verify", "hostile_claims.*", "--json", "--jobs", "2"]
    limits = ["--time-limit", "20", "--memory-limit", "1", "--store", str(folder / "evidence.db")]
    done = subprocess.run([*command, *limits], env=environment, cwd=folder, capture_output=True, text=True, timeout=280)
    again = ["hostile_claims.*innocent", "--json", "--store", str(folder / "alone.db")]
    alone = subprocess.run(
        [*command[:4], *again], env=environment, cwd=folder, capture_output=True, text=True, timeout=280
    )
    return done, alone, folder


def results(done):
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {(r["claim"].removeprefix("hostile_claims."), r["seed"]): r for r in found}


def test_every_claim_ends_as_one_result_in_its_own_way(ended):
    done, _, folder = ended
    found, expected = results(done), hostile()
    assert done.returncode == 1, done.stderr
    assert len(done.stdout.splitlines()) == len(found) == len(expected) + 9
    wrong = {
        name: (found[name, 0]["verdict"], found[name, 0]["error"])
        for name, (verdict, words) in expected.items()
        if found[name, 0]["verdict"] != verdict or (verdict == "error" and words not in str(found[name, 0]["error"]))
    }
    assert not wrong
    with Store(folder / "evidence.db") as store:
        assert len(store) == len(found)


def test_what_leaks_is_named_and_stays_where_it_was(ended):
    done, alone, _ = ended
    for name, (verdict, words) in hostile().items():
        if verdict == "holds" and words:
            lines = [
                line for line in done.stderr.splitlines() if line.startswith(f"hostile_claims.{name} left changed")
            ]
            assert lines, name
            assert words in lines[0]
    together, by_themselves = results(done), results(alone)
    assert len(by_themselves) == 9
    for name, result in by_themselves.items():
        assert result["verdict"] == "holds"
        assert together[name]["checks"] == result["checks"], name


def test_nothing_is_left_behind(ended):
    folder = ended[2]
    left = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOSTILE_RUN") == folder.name:
                left.append(process.cmdline())
        except psutil.Error:
            pass
    assert left == []
    assert sorted(p.name for p in folder.iterdir() if not p.name.startswith("alone")) == ["evidence.db"]


def test_nothing_steers_the_terminal(ended):
    _, _, folder = ended
    environment = os.environ | {"COROLLARY_CLAIMS": "hostile_claims", "PYTHONPATH": f"{HERE}{os.pathsep}{SOURCE}"}
    command = [sys.executable, "-m", "corollary", "verify", "hostile_claims.raises_escapes"]
    done = subprocess.run(
        [*command, "--store", str(folder / "e.db")], env=environment, capture_output=True, text=True, timeout=280
    )
    assert "\\x1b]0;owned\\x07" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert (visible("a\x1b[31m\nb\u202e"), visible("ü ∑")) == ("a\\x1b[31m\nb\\u202e", "ü ∑")
