"""The setting of learning against sums written out, scikit-learn's ridge and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import Ridge

from corollary.foundations import (
    Dataset,
    FiniteLaw,
    erm,
    erm_threshold,
    expected_loss,
    generalisation_gap,
    point_loss,
    regularised,
    ridge,
    training_loss,
)
from corollary.linear import fit_least_squares, squared_error


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def square(theta, x, y):
    return (y - theta * x) ** 2


def test_a_multiset_counts_repetitions():
    numbers = Dataset([1, 1, 2, 4, 5, 5, 5], np.zeros(7))  # the multiset of the book, with 7 elements
    assert len(numbers) == 7
    assert numbers.expectation(lambda x, y: x) == pytest.approx(23 / 7)
    assert numbers.expectation(lambda x, y: x == 5) == pytest.approx(3 / 7)


def test_expectations_are_written_out_sums():
    rng = np.random.default_rng(0)
    x, y, p = rng.normal(size=(5, 2)), rng.normal(size=5), rng.dirichlet(np.ones(5))
    g = lambda x, y: {"a": x * y, "b": x @ x}  # noqa: E731
    law = FiniteLaw(x, y, p).expectation(g)
    np.testing.assert_allclose(law["a"], sum(p[k] * x[k] * y[k] for k in range(5)))
    np.testing.assert_allclose(law["b"], sum(p[k] * x[k] @ x[k] for k in range(5)))
    np.testing.assert_allclose(Dataset(x, y).expectation(g)["a"], (x * y[:, None]).mean(0))
    assert FiniteLaw(x, y, p).expectation(lambda x, y: y > 0) == pytest.approx(p[y > 0].sum())


def test_losses_and_gap():
    law = FiniteLaw([1.0, 2.0], [1.0, 0.0], [0.25, 0.75])
    train, test = Dataset([1.0, 1.0, 2.0], [1.0, 1.0, 0.0]), Dataset([2.0], [0.0])
    assert training_loss(square, 0.5, train) == pytest.approx((0.25 + 0.25 + 1) / 3)
    assert expected_loss(square, 0.5, law) == pytest.approx(0.25 * 0.25 + 0.75)
    assert generalisation_gap(square, 0.5, train, law) == pytest.approx(0.8125 - 0.5)
    assert generalisation_gap(square, 0.5, train, test) == pytest.approx(0.5)


def test_samples_enumerate_the_product_law():
    law = FiniteLaw([0.0, 1.0, 2.0], [0, 0, 0], [0.5, 0.3, 0.2])
    rows, probability = law.samples(3)
    assert {tuple(r) for r in np.asarray(rows).tolist()} == {
        (a, b, c) for a in range(3) for b in range(3) for c in range(3)
    }
    assert probability.sum() == pytest.approx(1)
    at = np.asarray(rows).tolist().index([0, 2, 1])
    assert probability[at] == pytest.approx(0.5 * 0.2 * 0.3)


def test_sampling_follows_the_law():
    law = FiniteLaw([0.0, 1.0], [0, 0], [0.9, 0.1])
    drawn = law.sample(10_000, key=jax.random.key(0))
    assert drawn.x.mean() == pytest.approx(0.1, abs=5 * (0.09 / 1e4) ** 0.5)
    once = Dataset(np.arange(9), np.arange(9)).sample(9, key=jax.random.key(1), replace=False)
    assert sorted(once.x.tolist()) == list(range(9))
    assert (once.x == once.y).all()


def test_point_loss_is_the_error_of_the_prediction():
    loss = point_loss(lambda theta, x: theta @ x, squared_error)
    assert loss(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]), 10.0) == pytest.approx(1.0)
    assert jax.grad(loss)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]), 10.0).tolist() == [6.0, 8.0]


def test_regularised_adds():
    assert regularised(lambda t: t**2, jnp.abs, 3.0)(-2.0) == pytest.approx(10.0)


def test_erm_takes_the_first_of_several_minimisers_and_marks_all():
    data = Dataset([1.0, 1.0], [1.0, -1.0])
    found = erm(square, jnp.array([2.0, 0.5, -0.5, 0.5]), data)
    np.testing.assert_allclose(found.losses, [5, 1.25, 1.25, 1.25])
    assert found.index == 1
    assert found.loss == pytest.approx(1.25)
    assert found.attained.tolist() == [False, True, True, True]


@settings(deadline=None)
@given(hnp.arrays(np.int64, st.sampled_from([1, 2, 3, 6, 12]), elements=st.integers(-4, 4)), st.randoms())
def test_threshold_is_the_best_of_all_cuts(x, random):
    y = np.array([random.randint(0, 1) for _ in x])
    with jax.enable_x64(True):
        found = erm_threshold(x.astype(float), y)
    cuts = [-np.inf, *x]
    wrong = [np.mean((x > c) != y) for c in cuts]
    assert found.loss == pytest.approx(min(wrong))
    assert np.mean((x > float(found.at)) != y) == pytest.approx(min(wrong))


def test_ridge_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    for strength in (1e-3, 0.1, 10.0):
        peer = Ridge(alpha=20 * strength, fit_intercept=False).fit(x, y).coef_
        np.testing.assert_allclose(ridge(x, y, strength), peer, rtol=1e-9)


def test_ridge_without_strength_is_least_squares_of_least_norm():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 5)), rng.normal(size=20)
    np.testing.assert_allclose(ridge(x, y), np.linalg.lstsq(x, y)[0], rtol=1e-10)
    np.testing.assert_allclose(ridge(x[:3], y[:3]), np.linalg.pinv(x[:3]) @ y[:3], rtol=1e-10)
    np.testing.assert_allclose(ridge(np.zeros((4, 2)), y[:4]), 0)
    np.testing.assert_allclose(ridge(np.zeros((4, 2)), y[:4], 0.1), 0)
    fit = fit_least_squares(x, y)
    extended = np.column_stack([x, np.ones(20)])
    np.testing.assert_allclose(ridge(extended, y), np.append(fit.weight[0], fit.bias), rtol=1e-9)


def test_datasets_pass_through_transformations():
    x, y = jnp.arange(12.0).reshape(3, 4), jnp.ones((3, 4))
    losses = jax.jit(jax.vmap(lambda a, b: training_loss(square, 0.1, Dataset(a, b))))(x, y)
    assert losses.shape == (3,)
    assert losses[2] == pytest.approx(np.mean((1 - 0.1 * np.arange(8, 12)) ** 2))
    # each run of a claim or a page may pass the data set itself
    assert jax.jit(lambda d: d.expectation(lambda x, y: x))(Dataset(x[0], y[0])) == pytest.approx(1.5)


DATA = Dataset([1.0], [1.0])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: Dataset([1, 2], [1]), ValueError, "x and y must have the same number of rows"),
        (lambda: Dataset(1.0, [1]), ValueError, "x must hold at least one datapoint"),
        (lambda: Dataset([1], []), ValueError, "y must hold at least one datapoint"),
        (lambda: Dataset(["one"], [1]), TypeError, "x must be an array of numbers"),
        (lambda: DATA.expectation(3), TypeError, "g must be a function, got int"),
        (lambda: DATA.sample(2, key=jax.random.key(0), replace=False), ValueError, "size must be from 1 to 1, got 2"),
        (lambda: FiniteLaw([1, 2], [1, 2], [0.5, 0.4]), ValueError, "probability must sum to 1, got 0.9"),
        (
            lambda: FiniteLaw(range(9), range(9), np.full(9, 1 / 9)).samples(9),
            ValueError,
            "size must give at most 2.22",
        ),
        (lambda: point_loss(1, squared_error), TypeError, "model must be a function"),
        (lambda: training_loss(square, 1.0, [1]), TypeError, "data must be a Dataset, got list"),
        (lambda: expected_loss(square, 1.0, DATA), TypeError, "law must be a FiniteLaw, got Dataset"),
        (lambda: generalisation_gap(square, 1.0, DATA, 3), TypeError, "test must be a Dataset or FiniteLaw, got int"),
        (lambda: regularised(jnp.abs, jnp.abs, -1.0), ValueError, "penalty must be zero or more"),
        (lambda: erm(square, 1.0, DATA), ValueError, "hypotheses must hold one hypothesis per row"),
        (lambda: erm_threshold([1.0, 2.0], [0, 2]), ValueError, "y must hold labels from 0 to 1, got 2"),
        (lambda: ridge(np.ones((2, 2)), np.ones(3)), ValueError, r"y must have shape \(n,\) with n = 2"),
    ],
)
def test_bad_input_gets_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
