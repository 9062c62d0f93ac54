"""Linear probes against scikit-learn's logistic regression on the same labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from corollary.generative import Probe, linear_probe

KEY = jax.random.key(0)
RNG = np.random.default_rng(4)
X = RNG.normal(size=(300, 6))
Y = np.argmax(X @ RNG.normal(size=(6, 3)) + 0.5 * RNG.normal(size=(300, 3)), 1)
TRAIN, TEST = (X[:100], Y[:100]), (X[100:], Y[100:])


def peer(features, count, penalty, key):
    seen, held = (np.stack([np.asarray(features(x)) for x in a]) for a in (TRAIN[0], TEST[0]))
    mean = seen.mean(0)
    scale = np.sqrt(((seen - mean) ** 2).sum(1).mean())
    chosen = np.asarray(jax.random.choice(jax.random.split(key, 1)[0], 100, (count,), replace=False))
    extended = lambda a: np.append((a - mean) / scale, np.ones((len(a), 1)), 1)  # noqa: E731
    # their objective is C times the sum of the losses and half the squares; the bias counts too
    fitted = LogisticRegression(C=1 / (2 * penalty * count), fit_intercept=False, tol=1e-10, max_iter=5000)
    return fitted.fit(extended(seen)[chosen], TRAIN[1][chosen]).score(extended(held), TEST[1])


@pytest.mark.parametrize("count", [5, 40])  # below and above the number of features
def test_accuracy_is_that_of_scikit_learn(count):
    found = linear_probe(lambda x: x[:6], TRAIN, TEST, count, key=KEY, penalty=0.01)
    assert float(found.accuracy) == pytest.approx(peer(lambda x: x, count, 0.01, KEY), abs=0.0051)


def test_draws_and_their_interval():
    found = linear_probe(lambda x: jnp.outer(x[:2], x), TRAIN, TEST, 10, key=KEY, draws=6)
    values = np.asarray(found.accuracies)
    assert np.unique(values).size > 1
    low, high = stats.t.interval(0.9, 5, values.mean(), stats.sem(values))
    np.testing.assert_allclose(found.interval(0.9), [low, high], rtol=1e-9)


def test_constant_features_choose_one_class():
    found = linear_probe(lambda x: jnp.ones(2), TRAIN, TEST, 50, key=KEY)
    assert np.isclose(float(found.accuracy), [np.mean(TEST[1] == c) for c in range(3)]).any()


def test_sentences():
    with pytest.raises(ValueError, match="labels must be from 1 to 100"):
        linear_probe(lambda x: x, TRAIN, TEST, 101, key=KEY)
    with pytest.raises(TypeError, match="features must be a function of one example, got int"):
        linear_probe(3, TRAIN, TEST, 5, key=KEY)
    with pytest.raises(TypeError, match=r"train must be a pair \(x, y\)"):
        linear_probe(lambda x: x, None, TEST, 5, key=KEY)
    with pytest.raises(ValueError, match=r"test\[1\] must have shape \(n,\) with n = 200"):
        linear_probe(lambda x: x, TRAIN, (X[100:], Y), 5, key=KEY)
    with pytest.raises(TypeError, match="labels that can be looked at"):
        jax.jit(lambda y: linear_probe(lambda x: x, (X, y), TEST, 5, key=KEY).accuracies)(Y)
    with pytest.raises(ValueError, match="first axis, got a number"):
        linear_probe(lambda x: x, (1.0, Y), TEST, 5, key=KEY)
    with pytest.raises(ValueError, match="interval takes two draws or more"):
        Probe(jnp.ones(1)).interval()
