"""Every claim comes out as expected at its quick scale, and has teeth."""

import pytest

from corollary.catalog import rows
from corollary.evidence import claims, from_json, run, to_json

CLAIMS = claims()


@pytest.mark.parametrize("name", CLAIMS)
def test_claim(name):
    claim = CLAIMS[name]
    found = run(claim, 0)
    failed = "; ".join(f"{c.name}: {c.sentence}" for c in found.checks if not c.passed)
    assert found.verdict == claim.expected, found.error or failed
    assert from_json(to_json(found)) == found
    theorem = any(rows()[row].kind == "THEOREM" for row in claim.rows)
    if theorem and claim.erratum is None:
        assert found.controls or claim.no_control, "A theorem's claim has a control, or says why there is none."
    if claim.erratum is not None:
        assert claim.erratum.endswith("."), "An erratum is a sentence."


def test_names_are_words_that_every_font_has():
    odd = [c.id for c in CLAIMS.values() if any(ch in c.title for ch in "₀₁₂₊₋⁻⁺$\\")]
    assert not odd
