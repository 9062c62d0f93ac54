"""An example is a sequence: intervals of shares and losses of its tokens are over sequences.

The tokens of one sequence share its difficulty, so that their number says little; every sequence has its own share of
right answers, drawn from a law with a known mean, and intervals at 95 % must cover that as often.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit._budget import Budget
from corollary.audit._embedded import PREMISE
from corollary.audit.sections import _gap, _maps, _paid_tokens, _regime_predictions, robustness
from corollary.audit.sections._explained import explained
from corollary.network.losses import IGNORED

KEY = jax.random.key(0)
LESS = Budget("less", examples=32, kernel=8, products=8, work=1e12)
RUNS, N, T, K = 300, 60, 40, 3
RNG = np.random.default_rng(0)
# shares of right answers of 0.1 or 0.9, each in half of the sequences
RIGHT = RNG.random((RUNS, N, T)) < np.where(RNG.random((RUNS, N, 1)) < 0.5, 0.1, 0.9)


def covered(ends, truth=0.5) -> float:
    low, high = np.asarray(ends).T
    return float(np.mean((low <= truth) & (truth <= high)))


def test_shares_of_right_places():
    part = SimpleNamespace(labels=np.zeros((N, T), int))
    ends = [_regime_predictions._ends(_regime_predictions._right(np.where(r, 0, 1), part), part) for r in RIGHT]
    assert 0.9 <= covered(ends) <= 0.99
    # tokens taken for independent would be sure of far too much
    wide, narrow = np.diff(ends).mean(), 2 * 1.96 * 0.5 / (N * T) ** 0.5
    assert wide > 3 * narrow
    alone = SimpleNamespace(labels=np.zeros(N, int))
    assert _regime_predictions._ends(np.ones(N), alone)[0] == pytest.approx(1 / (1 + 1.96**2 / N), rel=1e-3)


def subject_of(right, known):
    """A network that looks its answers up: logits of its input, whole numbers, of which the largest is its class."""
    table = Network(lambda w, x: w[x], 5 * jnp.eye(K))
    y = np.zeros((N, T), int)
    x = np.where(right, 0, 1)
    return Subject(table, "cross_entropy", (x, y), (x, np.where(known, y, IGNORED)))


def test_the_gap_and_the_perplexity():
    known = np.arange(T) < np.where(np.arange(N) % 2, T, T // 2)[:, None]
    errors, losses = [], []
    for right in RIGHT[:100]:
        subject = subject_of(right, known)
        errors.append(_gap.errors_of(subject).interval)
        losses.append(
            np.log(_paid_tokens.judge_perplexity(_paid_tokens.measure_paid(subject, "test"), "test").interval)
        )
    assert 0.88 <= covered(errors) <= 1
    # the loss is one of two numbers, by whether the answer is right
    wrong, good = (float(np.log(np.exp(5) + 2) - 5 * hit) for hit in (0, 1))
    assert 0.88 <= covered(losses, (wrong + good) / 2) <= 1
    assert np.diff(errors).mean() > 3 * 2 * 1.96 * 0.5 / known.sum() ** 0.5


# --- texts with one class: attacks and attributions act on embeddings

WORDS, V, D = RNG.integers(0, 6, (40, 5)), 6, 4
TABLE, HEAD = (RNG.normal(size=s).astype(np.float32) for s in ((V, D), (D, K)))


def of_texts():
    """A classifier of texts that decides by one direction of the mean embedding."""
    network = Network(lambda p, x: jnp.tanh(p[0][x]).mean(0) @ p[1], [TABLE, HEAD])
    y = np.asarray(jnp.argmax(jnp.tanh(TABLE[WORDS]).mean(1) @ HEAD, 1))
    return Subject(network, "cross_entropy", (WORDS, y)), y


def test_attacks_move_embeddings():
    subject, y = of_texts()
    found = list(robustness.findings(subject, LESS, KEY))
    behind = Subject(Network(lambda v, e: jnp.tanh(e).mean(0) @ v, HEAD), "cross_entropy", (TABLE[WORDS], y))
    direct = {f.name: f for f in robustness.findings(behind, LESS, KEY)}
    assert found[0].value is not None
    assert "accuracy under attack" in [f.name for f in found]
    for finding in found:
        assert finding.premises[-1] is PREMISE
        if finding.value is not None:  # the same as by a network of embeddings, made by hand
            assert finding.value == pytest.approx(direct[finding.name].value, rel=1e-3, abs=1e-3)
            assert finding.mark == direct[finding.name].mark
    # changes that only measured inputs have are not made
    assert "noise, shift, scale and missing inputs" not in [f.name for f in found]
    assert list(robustness.actions(subject, found)) == []


def test_attributions_are_those_of_tokens():
    subject, _ = of_texts()
    chosen = explained(subject)
    maps = _maps.measure_maps(subject, LESS, chosen, KEY)
    assert maps.values.shape == (len(chosen.rows), WORDS.shape[1])
    finding = _maps.judge_maps(subject, maps, chosen)
    assert finding.mark == "fine"
    assert "place " in finding.sentence
    # they add up to what the output differs by from that of the mean embedding
    told = lambda e: jax.nn.log_softmax(jnp.tanh(e).mean(-2) @ HEAD)  # noqa: E731
    e = TABLE[WORDS]
    gap = told(e[chosen.rows]) - told(e.mean(0))
    expected = np.take_along_axis(np.asarray(gap), np.asarray(subject.predict())[chosen.rows][:, None], 1)[:, 0]
    np.testing.assert_allclose(maps.values.sum(1), expected, rtol=0.02, atol=1e-3)


def test_what_has_no_embeddings_says_what_to_give():
    masked = Network(lambda p, x: (p[x] * (x > 0)[:, None]).mean(0), jnp.asarray(TABLE[:, :K]))
    subject = Subject(masked, "cross_entropy", (WORDS, np.arange(40) % K))
    (refused,) = robustness.findings(subject, LESS, KEY)
    assert refused.mark == "not applicable"
    assert "used beside their embeddings too" in refused.sentence
    assert "Give the part behind them as a network of its own" in refused.sentence
    assert _maps.measure_maps(subject, LESS, explained(subject), KEY) == refused.sentence
