"""The ledger: written from evidence, read again, and what it vouches for."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from corollary.evidence import Evidence, at_most, claims, control
from corollary.evidence import _ledger as book
from corollary.evidence._code import code_version
from corollary.evidence._ledger import Entry, Line, drawn, read, stale, write

QUICK = "linear.regression_step_size.eigenvalues"
LINE = Line("linear.a", "0123456789ab", "hhhhhhhhhh", "0.0012", "0.98", "0.11.0", "cpu")


def evidence(claim, seed, verdict="holds", calls=None):
    checks = at_most("a", 1.0, 2.0), at_most("b", 1.9 + 0.01 * seed, 2.0), control("c", at_most("c", 9.0, 2.0))
    made = Evidence(claim.id, "", (), claim.expected, verdict, seed, "quick", {}, "abc", checks, calls=calls)
    return replace(made, versions={"jax": "0.11.0"}, device="cpu")


def test_what_is_written_is_read(tmp_path):
    lines = [LINE, replace(LINE, claim="nets.b.c", verdicts="hhhhhhhhhf"), replace(LINE, claim="linear.0", margin="-")]
    write(tmp_path / "ledger", lines)
    assert read(tmp_path / "ledger") == {line.claim: line for line in lines}
    files = sorted((tmp_path / "ledger").iterdir())
    assert [p.name for p in files] == ["linear.txt", "nets.txt"]
    assert [text.split()[0] for text in files[0].read_text().splitlines()] == ["#", "linear.0", "linear.a"]
    write(tmp_path / "ledger", lines[:1])
    assert [p.name for p in (tmp_path / "ledger").iterdir()] == ["linear.txt"]
    assert read(tmp_path / "nothing") == {}


def test_a_conflict_counts_for_nothing_where_the_sides_differ(tmp_path):
    write(tmp_path, [LINE, replace(LINE, claim="linear.b")])
    text = (tmp_path / "linear.txt").read_text()
    other = text.splitlines()[1].replace("0123456789ab", "fedcba987654")
    (tmp_path / "linear.txt").write_text(f"<<<<<<< HEAD\n{text}=======\n{other}\n>>>>>>> branch\n")
    assert set(read(tmp_path)) == {"linear.b"}


def test_an_entry_becomes_a_line_when_all_seeds_are_in():
    claim = claims()[QUICK]
    entry = Entry(claim)
    for seed in range(9):
        entry.add(evidence(claim, seed))
    assert entry.line() is None
    entry.add(evidence(claim, 9, "fails"))
    line = entry.line()
    assert line == Line(QUICK, "abc", "hhhhhhhhhf", "0.0025", "0.99", "0.11.0", "cpu")
    assert not line.as_expected(claim)
    assert replace(line, verdicts="h" * 10).as_expected(claim)


def test_a_call_outside_the_closure_is_named_and_nothing_is_written():
    claim = claims()[QUICK]
    entry = Entry(claim)
    for seed in range(10):
        own = f"{claim.module}:{claim.name}"
        calls = (own, "corollary.cli:main", "corollary._boundary:guarded") if seed == 0 else None
        entry.add(evidence(claim, seed, calls=calls))
    assert entry.line() is None
    (problem,) = entry.problems
    assert f"{QUICK} calls corollary.cli.main, which lies outside its closure" in problem


def test_sources_that_change_meanwhile_give_no_line():
    claim = claims()[QUICK]
    entry = Entry(claim)
    for seed in range(10):
        entry.add(replace(evidence(claim, seed), code="abc" if seed else "abd"))
    assert entry.line() is None
    assert "changed while it was measured" in entry.problems[0]


def test_what_is_stale():
    some = list(claims().values())[:4]
    lines = {
        c.id: replace(LINE, claim=c.id, code=code_version(c.module, c.name), verdicts=book.LETTERS[c.expected] * 10)
        for c in some
    }
    assert stale(some, lines) == {}
    lines[some[0].id] = replace(lines[some[0].id], code="000000000000")
    lines[some[1].id] = replace(lines[some[1].id], verdicts="hrhrhrhrhr")
    del lines[some[2].id]
    found = stale(some, lines)
    assert list(found) == [c.id for c in some[:3]]
    assert "code has changed" in found[some[0].id]
    assert "came to hrhrhrhrhr" in found[some[1].id]
    assert "not in the ledger" in found[some[2].id]


def test_the_sample_is_drawn_from_the_sources():
    ids = [f"c{i}" for i in range(500)]
    first = drawn(ids, 60, "abc")
    assert first == drawn(set(ids), 60, "abc")
    assert len({id for id, _ in first}) == 60
    assert all(1000 < seed < 2**31 for _, seed in first)
    assert first != drawn(ids, 60, "abd")
    assert [id for id, _ in drawn(ids[:5], 60, "abc")] == ids[:5]


@pytest.fixture
def call(tmp_path):
    def call(*words):
        environment = os.environ | {"COROLLARY_STORE": str(tmp_path / "e.db")}
        command = [sys.executable, "-m", "corollary", "ledger", *words, "--dir", str(tmp_path / "ledger")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)

    return call


def test_write_and_check_as_a_user_types_them(call, tmp_path):
    found = call("check", QUICK)
    assert found.returncode == 1
    assert "not in the ledger" in found.stdout
    found = call("write", QUICK, "--jobs", "2")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1 line written" in found.stdout
    assert "10 of 10 results" in found.stdout
    (line,) = read(tmp_path / "ledger").values()
    assert line.verdicts == "hhhhhhhhhh"
    assert call("check", QUICK).returncode == 0
    again = call("write", QUICK)
    assert "(10 from the store)" in again.stdout
    stale = json.loads(call("check", "linear.regression_step_size.*", "--json").stdout)
    assert QUICK not in {entry["claim"] for entry in stale}
    assert len(stale) > 3


def test_checking_needs_no_jax():
    code = "import sys\nfrom corollary.evidence._ledger import stale\nfrom corollary.evidence import claims\n"
    code += "stale(claims().values(), {})\nprint('jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.strip() == "False"


@pytest.fixture
def suite(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "claims"))
    monkeypatch.setenv("COROLLARY_SAMPLE", "1")
    yield importlib.import_module("test_claims")
    sys.modules.pop("test_claims")


@pytest.mark.parametrize(("bad", "red"), [(set(), False), ({1001}, False), ({1001, 1004}, True), ({1002, 1003}, False)])
def test_one_failure_of_the_sample_is_reported_and_two_are_red(suite, monkeypatch, bad, red, recwarn):
    claim = suite.CLAIMS[QUICK]
    seen = []

    def run(claim, seed):
        seen.append(seed)
        return evidence(claim, seed, "fails" if seed in bad else "holds")

    monkeypatch.setattr(suite, "run", run)
    if red:
        with pytest.raises(AssertionError, match=f"2 of 5 seeds .* corollary verify {QUICK} --seed 1001 --seeds 5"):
            suite.test_claim_on_a_fresh_seed(claim.id, 1001)
    else:
        suite.test_claim_on_a_fresh_seed(claim.id, 1001)
    assert seen == ([1001, 1002, 1003, 1004, 1005] if 1001 in bad else [1001])
    assert bool(recwarn) == (bad == {1001})
