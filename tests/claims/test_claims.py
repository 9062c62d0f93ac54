"""Every claim comes out as expected at its quick scale, and has teeth.

The ledger says what they came to on seeds 0 to 9. Run here are those that it does not vouch for (new, edited, or all of
them where there is no ledger), on seed 0; and some of the others, drawn anew for every version of the sources, on seeds
that the ledger does not have. `COROLLARY_SAMPLE` says how many of those.
"""

import os
import warnings

import pytest

from corollary.catalog import rows
from corollary.evidence import claims, from_json, to_json
from corollary.evidence._code import sources
from corollary.evidence._ledger import default_directory, drawn, outside, read, recorded, stale
from corollary.evidence._run import measure

CLAIMS = {c.id: c for c in recorded(claims().values())}
STALE = stale(CLAIMS.values(), read(default_directory()))
SAMPLE = drawn(CLAIMS.keys() - STALE.keys(), int(os.environ.get("COROLLARY_SAMPLE", "60")), sources().digest)
FURTHER = 4  # seeds on which a failure of the sample is repeated


def run(claim, seed, trace=False):
    """The evidence of one run, which can be written and read again."""
    found = measure(claim, seed, "quick", claim.values(), lambda item: None, trace=trace)
    assert from_json(to_json(found)) == found
    return found


def reason(found):
    return found.error or "; ".join(f"{c.name}: {c.sentence}" for c in found.checks if not c.passed) or found.verdict


@pytest.mark.parametrize("name", STALE)
def test_claim(name):
    claim = CLAIMS[name]
    found = run(claim, 0, trace=default_directory().is_dir())  # it takes twice the time; all were traced once
    assert outside(claim, found.calls or ()) == [], "The claim calls what its code version does not cover."
    assert found.verdict == claim.expected, reason(found)
    theorem = any(rows()[row].kind == "THEOREM" for row in claim.rows)
    if theorem and claim.erratum is None:
        assert found.controls or claim.no_control, "A theorem's claim has a control, or says why there is none."


@pytest.mark.parametrize(("name", "seed"), SAMPLE)
def test_claim_on_a_fresh_seed(name, seed):
    claim = CLAIMS[name]
    first = run(claim, seed)
    if first.as_expected:
        return
    look = f"corollary verify {name} --seed {seed} --seeds {1 + FURTHER}"
    off = [found for found in (run(claim, seed + i) for i in range(1, 1 + FURTHER)) if not found.as_expected]
    assert not off, f"{1 + len(off)} of {1 + FURTHER} seeds are not as expected ({reason(first)}). Look: {look}"
    warnings.warn(f"{name} is not as expected on seed {seed} ({reason(first)}). Look: {look}", stacklevel=1)


def test_an_erratum_is_a_sentence():
    assert [c.id for c in CLAIMS.values() if c.erratum is not None and not c.erratum.endswith(".")] == []


def test_names_are_words_that_every_font_has():
    odd = [c.id for c in CLAIMS.values() if any(ch in c.title for ch in "₀₁₂₊₋⁻⁺$\\")]
    assert not odd
