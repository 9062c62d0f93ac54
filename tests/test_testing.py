"""The audit as a test of pytest's: what fails it, and what is ignored."""

import pytest
from reported import reported

from corollary import testing

FINE = {"dead units": "known", "Is it?": "known"}


@pytest.fixture
def audited(monkeypatch):
    """What was asked of the audit, which gives a report that was made by hand."""
    asked = []
    monkeypatch.setattr(testing, "audit", lambda subject, **options: asked.append((subject, options)) or reported())
    return asked


def test_what_is_wrong_fails_with_what_to_do(audited):
    with pytest.raises(AssertionError) as failed:
        testing.assert_healthy("a subject", budget="full")
    lines = str(failed.value).splitlines()
    assert lines[0] == "mine.onnx: 2 findings are marked problem."
    assert lines[1].startswith("problem: All units* died (dead units; Did it?) 12,300. They are dead")
    assert lines[-1] == "to do: divide the step by 2: training loss 1 → 0.5 [0.4, ∞]"
    assert audited == [("a subject", {"budget": "full"})]


def test_what_is_ignored_does_not_fail(audited):
    assert testing.assert_healthy(None, ignore=FINE).seconds == 1.0
    assert testing.assert_healthy(None, ignore=list(FINE)).seconds == 1.0
    with pytest.raises(AssertionError, match="1 finding is marked look or problem"):
        testing.assert_healthy(None, ignore=FINE, fail_on="look")
    assert testing.assert_healthy(None, ignore={**FINE, "noise | scale": ""}, fail_on="look")


def test_what_is_no_name_of_a_finding(audited):
    with pytest.raises(ValueError, match="ignore names 'dead unit', which is no finding of this audit; did you mean"):
        testing.assert_healthy(None, ignore=["dead unit"])
    audited.clear()
    for wrong in ("dead units", 3, [3]):
        with pytest.raises(TypeError, match="ignore must hold names of findings"):
            testing.assert_healthy(None, ignore=wrong)
    with pytest.raises(ValueError, match="fail_on must be one of"):
        testing.assert_healthy(None, fail_on="worse")
    assert not audited  # before anything is spent
