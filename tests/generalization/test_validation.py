"""Validation against scikit-learn and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, TimeSeriesSplit

from corollary.foundations import ridge
from corollary.generalization import (
    cross_validate,
    diagnose,
    leave_one_out,
    polynomial_fit,
    three_way_split,
    validation_curve,
)

RNG = np.random.default_rng(4)
X = RNG.normal(size=(23, 4))
Y = X @ [1.0, -1, 0.5, 0] + 0.3 * RNG.normal(size=23)
KEY = jax.random.key(0)
PENALTIES = np.logspace(-3, 1, 6)


def square(output, target):
    return (output - target) ** 2


def fit(data, penalty, key):
    w = ridge(*data, penalty)
    return lambda x: x @ w


@pytest.mark.parametrize("splitter", [KFold(5, shuffle=True, random_state=1), TimeSeriesSplit(4)])
def test_penalties_and_folds_against_scikit_learn(splitter):
    found = cross_validate(fit, (X, Y), splitter, values=PENALTIES, loss=square, key=KEY)
    scores = np.zeros((6, splitter.get_n_splits()))
    for j, (train, held) in enumerate(splitter.split(X)):
        for i, penalty in enumerate(PENALTIES):
            w = Ridge(alpha=penalty * len(train), fit_intercept=False).fit(X[train], Y[train])
            scores[i, j] = np.mean((w.predict(X[held]) - Y[held]) ** 2)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-9)
    np.testing.assert_allclose(found.mean, scores.mean(1), rtol=1e-9)
    assert int(found.best) == scores.mean(1).argmin()


def test_the_choice_of_scikit_learns_search():
    grid = GridSearchCV(
        Ridge(fit_intercept=False), {"alpha": PENALTIES}, cv=KFold(4), scoring="neg_mean_squared_error"
    ).fit(X[:20], Y[:20])
    # scikit-learn's penalty stands beside the sum over the 15 points of a fold's training part
    found = cross_validate(fit, (X[:20], Y[:20]), KFold(4), values=PENALTIES / 15, loss=square, key=KEY)
    np.testing.assert_allclose(found.mean, -grid.cv_results_["mean_test_score"], rtol=1e-9)
    assert int(found.best) == grid.best_index_


def test_values_in_a_list_may_be_shapes_and_no_values_give_one_score_per_fold():
    one = lambda data, degree, key: polynomial_fit(*data, degree, basis="legendre")  # noqa: E731
    data = X[:, 0], Y
    found = cross_validate(one, data, KFold(3), values=[1, 3], key=KEY)
    for row, degree in zip(found.scores, (1, 3), strict=True):
        alone = cross_validate(lambda d, key, n=degree: one(d, n, key), data, KFold(3), key=KEY)
        np.testing.assert_allclose(row, alone.scores)
        assert alone.best is None


def test_leaving_one_out_in_closed_form():
    for penalty in (0.0, 0.2):
        found = leave_one_out(X, Y, penalty=penalty)
        # the fits to one point less keep nλ
        brute = cross_validate(
            lambda data, key, c=penalty * 23 / 22: fit(data, c, key), (X, Y), LeaveOneOut(), loss=square, key=KEY
        )
        np.testing.assert_allclose(found.residuals**2, brute.scores, rtol=1e-9)
    assert float(leave_one_out(X, Y).leverages.sum()) == pytest.approx(4)


def test_validation_curve_is_the_loss_on_both_parts():
    train, validation = (X[:15], Y[:15]), (X[15:], Y[15:])
    found = validation_curve(fit, train, validation, PENALTIES, loss="absolute", key=KEY)
    w = np.array([ridge(*train, c) for c in PENALTIES])
    np.testing.assert_allclose(found.train, np.abs(Y[:15] - w @ X[:15].T).mean(1), rtol=1e-9)
    np.testing.assert_allclose(found.validation, np.abs(Y[15:] - w @ X[15:].T).mean(1), rtol=1e-9)
    assert int(found.best) == int(np.argmin(found.validation))


def test_three_parts_are_all_of_the_data():
    parts = three_way_split((jnp.arange(25), jnp.arange(25.0)), (0.6, 0.2, 0.2), key=KEY)
    assert [len(x) for x, _ in parts] == [15, 5, 5]
    np.testing.assert_array_equal(np.sort(np.concatenate([x for x, _ in parts])), np.arange(25))
    assert all((x == y).all() for x, y in parts)


def test_diagnosis():
    assert diagnose(0.8, 0.9, 0.8) == "ok"
    assert diagnose(5.0, 6.0, 0.8) == "bias"
    assert diagnose(0.0, 6.0, 0.8) == "variance"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cross_validate(fit, (X, Y), 5, key=KEY), "splitter must be one of scikit-learn's"),
        (lambda: cross_validate(fit, (X, Y), [([0, 1], [1, 2])], key=KEY), "got example 1 in both parts"),
        (lambda: cross_validate(fit, (X, Y), [([0, 1], [23])], key=KEY), "indices from 0 to 22"),
        (lambda: cross_validate(fit, (X, Y), [([0, 1], [])], key=KEY), "something to hold out in every fold"),
        (lambda: cross_validate(fit, (X, Y), [], key=KEY), "at least one fold"),
        (lambda: cross_validate(fit, (X, Y[:5]), KFold(2), key=KEY), "data must have one first axis"),
        (lambda: cross_validate(fit, X, KFold(2), key=KEY), r"data must be a pair \(x, y\)"),
        (lambda: cross_validate("ridge", (X, Y), KFold(2), key=KEY), "fit must be a function of data and key"),
        (lambda: cross_validate(fit, (X, Y), KFold(2), values=0.1, key=KEY), "values must have a first axis"),
        (lambda: validation_curve(fit, (X, Y), (X, Y), [], key=KEY), "values must not be empty"),
        (lambda: three_way_split((X, Y), (0.5, 0.5), key=KEY), "three positive numbers with sum 1"),
        (lambda: three_way_split((X[:3], Y[:3]), key=KEY), "data must be enough for three parts"),
        (lambda: diagnose(-1.0, 0.0, 1.0), "train must be zero or more"),
        (lambda: leave_one_out(X, Y, penalty=-1.0), "penalty must be zero or more"),
    ],
)
def test_sentences(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
