from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.inspection import permutation_importance as scikit_importance

from corollary.attribution import agreement, permutation_importance, shuffle_feature

KEY = jax.random.key(0)
X = np.random.RandomState(0).randn(5, 3)
Y = np.array([0, 1, 1, 0, 2])


@pytest.fixture
def network():
    return eqx.nn.MLP(3, 3, 4, 1, activation=jnp.tanh, key=KEY, dtype=jnp.float64)


def by_hand(network, score, x, y):
    """All shuffles of each column, one after the other."""

    outputs_of = jax.jit(jax.vmap(network))

    def metric(x):
        outputs = np.asarray(outputs_of(jnp.asarray(x)))
        return np.mean([score(o, t) for o, t in zip(outputs, y, strict=True)])

    drops = []
    for column in range(x.shape[1]):
        shuffled = []
        for order in permutations(range(len(x))):
            other = x.copy()
            other[:, column] = x[list(order), column]
            shuffled.append(metric(other))
        drops.append(metric(x) - np.mean(shuffled))
    return drops


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        ("accuracy", lambda o, t: float(np.argmax(o) == t)),
        ("cross_entropy", lambda o, t: o[t] - np.log(np.exp(o).sum())),
        (lambda o, t: jnp.sum(o) * t, lambda o, t: o.sum() * t),
    ],
)
def test_exact_is_the_mean_over_all_shuffles(network, metric, score):
    found = permutation_importance(network, metric, (X, Y), batch_size=7)
    np.testing.assert_allclose(found.values, by_hand(network, score, X, Y), atol=1e-13)
    assert found.evaluations == 3 * 25


def test_groups_are_shuffled_together(network):
    found = permutation_importance(network, "accuracy", (X, Y), players=[[0, 1, 2]])
    shown = np.asarray(jax.vmap(network)(jnp.asarray(X))).argmax(1)
    np.testing.assert_allclose(found.values, [np.mean(shown == Y) - np.mean(shown[:, None] == Y)], atol=1e-14)


def test_samples_cover_the_exact_value(network):
    exact = permutation_importance(network, "cross_entropy", (X, Y)).values
    found = permutation_importance(
        network, "cross_entropy", (X, Y), how="sample", samples=400, key=KEY, confidence=0.9999
    )
    assert ((found.interval[0] < exact) & (exact < found.interval[1])).all()
    assert (found.interval[1] - found.interval[0] > 0).all()


def test_scikit_learn_agrees():
    from sklearn.linear_model import LinearRegression

    x = np.random.RandomState(1).randn(40, 3)
    y = x @ [1.0, 0.5, 0.0] + 0.1 * np.random.RandomState(2).randn(40)
    fitted = LinearRegression().fit(x, y)
    found = permutation_importance(
        lambda one: jnp.asarray(fitted.coef_) @ one + fitted.intercept_, lambda o, t: -((o - t) ** 2), (x, y)
    )
    theirs = scikit_importance(fitted, x, y, scoring="neg_mean_squared_error", n_repeats=500, random_state=0)
    # five standard errors of a mean of 500
    allowed = 5 * theirs.importances_std / 500**0.5 + 1e-12
    assert (np.abs(found.values - theirs.importances_mean) < allowed).all()


def test_a_feature_that_is_not_used_or_constant_has_none():
    x = np.column_stack([X[:, :2], np.ones(5)])
    found = permutation_importance(lambda one: one[1:] ** 2, "squared", (x, X[:, :2]))
    np.testing.assert_array_equal(found.values[jnp.array([0, 2])], 0.0)
    assert found.values[1] != 0


def test_one_shuffle():
    order = np.array([2, 0, 1, 4, 3])
    found = shuffle_feature(X, 1, order)
    np.testing.assert_array_equal(found[:, 1], X[order, 1])
    np.testing.assert_array_equal(found[:, [0, 2]], X[:, [0, 2]])


def test_agreement_and_accuracy():
    assert float(agreement(0.25, 0)) == 0.75
    found = permutation_importance(lambda one: one[:1], "accuracy", (X, np.where(X[:, 0] > 0, 1, -1)))
    share = np.mean(X[:, 0] > 0)
    np.testing.assert_allclose(found.values[0], 1 - share**2 - (1 - share) ** 2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metric": "no metric"}, "metric must be one of 'accuracy', 'agreement'"),
        ({"metric": 3}, "metric must be a name or a function"),
        ({"metric": lambda o, t: o}, "one real number per example"),
        ({"data": (X, Y + 9), "metric": "accuracy"}, "targets must hold labels from 0 to"),
        ({"data": (X, Y - 9), "metric": "cross_entropy"}, "targets must hold labels from 0 to"),
        ({"data": X}, "pair"),
        ({"data": (np.full((5, 3), np.nan), Y)}, "must be finite"),
        ({"how": "sample"}, "key must be given"),
        ({"how": "group"}, "how must be one of"),
        ({"players": [[0], [0]]}, "must not overlap"),
    ],
)
def test_sentences(network, change, sentence):
    given = {"metric": "accuracy", "data": (X, Y)} | change
    with pytest.raises((ValueError, TypeError), match=sentence):
        permutation_importance(network, given.pop("metric"), given.pop("data"), **given)


def test_a_shuffle_of_another_length():
    with pytest.raises(ValueError, match="order must have shape"):
        shuffle_feature(X, 0, [0, 1])
    with pytest.raises(ValueError, match="player must be from 0 to 2"):
        shuffle_feature(X, 3, np.arange(5))
