"""An example is a sequence: intervals of shares and losses of its tokens are over sequences.

The tokens of one sequence share its difficulty, so that their number says little; every sequence has its own share of
right answers, drawn from a law with a known mean, and intervals at 95 % must cover that as often.
"""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit.sections import _gap, _paid_tokens, _regime_predictions
from corollary.network.losses import IGNORED

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
