"""Copies, windows and moved images made before the data were split, and data that merely lie close together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made import made

from corollary import data
from corollary.audit._sample import exact_interval
from corollary.audit.action import by_hand
from corollary.audit.sections import _rows, _siblings

KEY = jax.random.key(0)
PIXELS = np.asarray(data.digits()[0], float).reshape(-1, 8, 8)[:500]
NOISE = 0.05 * PIXELS.std()


def split(x, seed=0):
    order = np.random.default_rng(seed).permutation(len(x))
    return jnp.asarray(x[order[: 2 * len(x) // 3]]), jnp.asarray(x[order[2 * len(x) // 3 :]])


def found(x, seed=0):
    train, test = split(x, seed)
    return _siblings.siblings(train, test, KEY)


def series(n=1200):
    return np.random.default_rng(0).normal(size=n).cumsum()


def windows(of, every, wide=16):
    return np.stack([of[i : i + wide] for i in range(0, len(of) - wide, every)])


LETTERS = np.random.default_rng(1).integers(0, 30, 3000)
RNG = np.random.default_rng(2)
SICK = {
    "copies with noise": lambda: np.concatenate([PIXELS + NOISE * RNG.normal(size=PIXELS.shape) for _ in range(3)]),
    "images moved by a column": lambda: np.concatenate([PIXELS, np.roll(PIXELS, 1, 2)]),
    "windows of a series": lambda: windows(series(), 1),
    "windows that overlap by half": lambda: windows(series(2400), 8),
    "windows of a text": lambda: windows(LETTERS[:800], 1),
}
HEALTHY = {
    "images": lambda: PIXELS,
    "windows side by side": lambda: windows(series(4000), 16),
    "pieces of a text side by side": lambda: windows(LETTERS, 15, 15),
    "a line": lambda: RNG.normal(size=(500, 1)),
    "heavy tails": lambda: RNG.standard_t(2, size=(500, 5)),
    "counts": lambda: RNG.poisson(2, size=(500, 6)).astype(float),
    "bits": lambda: RNG.integers(0, 2, (800, 20)),
    "texts that are mostly padding": lambda: np.where(np.arange(12) < RNG.integers(1, 12, (600, 1)), 7, 0),
    "tight clusters": lambda: 9 * RNG.normal(size=(9, 4))[RNG.integers(0, 9, 600)] + RNG.normal(size=(600, 4)),
}


@pytest.mark.parametrize("name", SICK)
def test_what_was_made_before_the_split_is_seen(name):
    related = found(SICK[name]())
    assert related is not None
    assert related.have.mean() > 0.2


@pytest.mark.parametrize("name", HEALTHY)
def test_what_merely_lies_close_is_not_accused(name):
    assert found(HEALTHY[name]()) is None


def test_an_even_density_gives_as_many_as_theory_says():
    counts = []
    for seed in range(5):
        x = np.random.default_rng(seed).random((1500, 2))
        train, test = (np.asarray(a, float) for a in split(x, seed))
        own = _rows.distances(train, train, np.arange(len(train)), _siblings.FARTHER)
        near = _rows.distances(test, train, k=_siblings.FARTHER)
        counts.append(_siblings.close(own, near, np.arange(len(test)), np.zeros(len(test), bool)).have)
    low, high = exact_interval(int(np.sum(counts)), np.size(counts))
    assert low / 1.5 < 1 - (1 - _siblings.UNLIKELY) ** (_siblings.NEIGHBOUR - 1) < 1.5 * high


def test_the_sentence_says_what_to_ask():
    rows = np.arange(100)
    related = _siblings.Siblings(rows, rows < 60, "all but 1 place in common with a training one")
    finding = _siblings.judge(related, 0.25)
    assert finding.mark == "look"
    assert "60 % of 100 test examples have all but 1 place in common" in finding.sentence
    assert "On the other 40 test examples the error is 25 %." in finding.sentence
    x, y = np.zeros((8, 2), np.float32), np.arange(8) % 2
    subject = made(lambda w, x: x @ w, jnp.ones((2, 2)), "cross_entropy", (x, y), (x[:4], y[:4]))
    action = _siblings.split_originals(subject, finding)
    assert action.apply is by_hand
    assert "split the originals first" in action.what
