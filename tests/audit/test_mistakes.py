"""Mistakes that people make with tables and regressions, each beside the same done right; no audit is run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made import made

from corollary.audit._budget import BUDGETS
from corollary.audit.sections import (
    _blind,
    _copies,
    _dealt,
    _expected,
    _fixed,
    _inputs,
    _labelled,
    _outlying,
    _reach,
    _slope,
    _tags,
    _test_units,
    regime,
)
from corollary.audit.sections._start import Start

D, N, TESTS, KEY = 6, 240, 120, jax.random.key(0)
WEIGHTS = np.random.default_rng(7).normal(size=(D, 3)).astype(np.float32)


def linear(params, x):
    return x @ params["w"] + params["b"]


def table(seed, n=N):
    return np.random.default_rng((seed, n)).normal(size=(n, D)).astype(np.float32)


def classifier(train, test=None, scale=2.0, bias=(0.0, 0.0, 0.0)):
    params = {"w": scale * jnp.asarray(WEIGHTS), "b": jnp.asarray(bias)}
    return made(linear, params, "cross_entropy", train, test)


def labelled(seed, n=N, noise=0.0):
    x, rng = table(seed, n), np.random.default_rng(seed)
    return x, np.where(rng.random(n) < noise, rng.integers(0, 3, n), (x @ WEIGHTS).argmax(1))


def regression(train, test=None, loss="squared", end=lambda out: out):
    params = {"w": jnp.asarray(WEIGHTS[:, :1]), "b": jnp.zeros(1)}
    return made(lambda p, x: end(linear(p, x)), params, loss, train, test)


def measured(seed, n=N, noise=0.3):
    x = table(seed, n)
    return x, x @ WEIGHTS[:, :1] + noise * np.random.default_rng(seed).normal(size=(n, 1)).astype(np.float32)


# --- copies made before the split


def dealt(seed, jitter, times=3):
    """Rows that stand several times, dealt out to both parts, and a network right on those that it has seen."""
    rng = np.random.default_rng(seed)
    x, y = labelled(seed, (N + TESTS) // times)
    order = rng.permutation(np.repeat(np.arange(len(x)), times))
    x, y = x[order] + jitter * rng.normal(size=(len(order), D)).astype(np.float32), y[order]
    return (x[:N], y[:N]), (x[N:], y[N:])


@pytest.mark.parametrize("jitter", [0.0, 1e-3])
def test_copies_that_were_made_before_the_split(jitter):
    train, test = dealt(0, jitter)
    seen = np.isin(np.round(test[0], 1) @ np.ones(D), np.round(train[0], 1) @ np.ones(D))
    sick = classifier(train, test)
    assert not _copies.leaked(_copies.measure(sick, KEY))
    found = _dealt.measure(sick)
    assert found.exact == (jitter == 0)
    assert found.copied.mean() > 0.8
    assert found.copied.mean() == pytest.approx(seen.mean(), abs=0.1)
    # right on all, so that copies do not flatter it, or too few are new to tell
    assert _dealt.judge(found).mark in ("fine", "look")
    wrong = np.where(found.copied, test[1], (test[1] + 1) % 3)
    flattered = _dealt.judge(_dealt.measure(classifier(train, (test[0], wrong))))
    assert flattered.mark == "problem"
    assert "dealt out to both parts" in flattered.sentence
    left = _dealt._without(sick)
    assert _dealt.measure(left) is None
    assert left.count() == N - len(found.owned)


def test_copies_whose_labels_differ_are_measured_again():
    train, test = dealt(1, 0.0)
    rng = np.random.default_rng(0)
    noisy = [(x, np.where(rng.random(len(y)) < 0.3, rng.integers(0, 3, len(y)), y)) for x, y in (train, test)]
    assert _dealt.measure(classifier(*noisy)) is None


def test_rows_that_repeat_by_themselves_were_not_copied():
    rng = np.random.default_rng(0)
    for answers in (2, 4):
        x = [rng.integers(0, answers, (n, D)).astype(np.float32) * (np.arange(D) < 4) for n in (N, TESTS)]
        y = [(a @ WEIGHTS).argmax(1) for a in x]
        assert _dealt.measure(classifier((x[0], y[0]), (x[1], y[1]))) is None


def test_plain_rows_and_those_of_a_curve_are_in_no_groups():
    assert _dealt.measure(classifier(labelled(0), labelled(1, TESTS))) is None
    rng = np.random.default_rng(0)
    for law in (rng.uniform, rng.standard_cauchy):
        t = [np.sort(law(size=n))[:, None] for n in (N, TESTS)]
        x = [np.tanh(a * np.arange(1, D + 1) / D).astype(np.float32) for a in t]
        y = [np.zeros(len(a), int) for a in x]
        assert _dealt.measure(classifier((x[0], y[0]), (x[1], y[1]))) is None


# --- targets and labels of the test data


@pytest.mark.parametrize(("factor", "shift"), [(1000.0, 0.0), (1.0, 5.0), (-1.0, 0.0)])
def test_test_targets_in_another_unit(factor, shift):
    (x, y), train = measured(1, TESTS), measured(0)
    sick = regression(train, (x, factor * y + shift))
    found = _test_units.measure(sick)
    finding = _test_units.judge(found)
    assert finding.mark == "problem"
    assert found.factor[0] == pytest.approx(factor, rel=0.1)
    action = _test_units.bring_back(sick, finding)
    low, high = action.effect.interval
    assert low <= action.effect.measured(action.apply(sick, key=KEY)) <= high < action.effect.now
    assert _test_units.judge(_test_units.measure(regression(train, (x, y)))).mark == "fine"


def test_a_network_that_knows_nothing_has_no_unit():
    rng = np.random.default_rng(0)
    parts = [(table(i, n), 10 * rng.normal(size=(n, 1)).astype(np.float32)) for i, n in enumerate((N, TESTS))]
    assert _test_units.judge(_test_units.measure(regression(*parts))).mark == "fine"
    beyond = regression(parts[0], (parts[1][0], np.float32(1e30) * parts[1][1]))
    assert _test_units.measure(beyond) is None


@pytest.mark.parametrize("change", ["opposite", "places"])
def test_labels_that_mean_something_else(change):
    def tags(seed, n):
        x = table(seed, n)
        return x, (x @ WEIGHTS > 0).astype(np.float32)

    train, (x, y) = tags(0, N), tags(1, TESTS)
    params = {"w": 3.0 * jnp.asarray(WEIGHTS), "b": jnp.zeros(3)}
    other = np.stack([y[:, 0], 1 - y[:, 1], y[:, 2]], 1) if change == "opposite" else y[:, [1, 0, 2]]
    sick = made(linear, params, "binary_cross_entropy", train, (x, other))
    finding = _tags.judge(_tags.measure(sick))
    assert finding.mark == "problem"
    assert ("the opposite of" in finding.sentence) == (change == "opposite")
    action = _tags.read_so(sick, finding)
    low, high = action.effect.interval
    assert low <= action.effect.measured(action.apply(sick, key=KEY)) <= high < action.effect.now
    assert _tags.judge(_tags.measure(made(linear, params, "binary_cross_entropy", train, (x, y)))).mark == "fine"


def test_a_column_that_training_holds_fixed():
    (x, y), (x_test, y_test) = labelled(0), labelled(1, TESTS)
    x[:, 0], y = 0.0, (np.where(np.arange(D) == 0, 0, x) @ WEIGHTS).argmax(1)
    y_test = (np.where(np.arange(D) == 0, 0, x_test) @ WEIGHTS).argmax(1)
    sick = classifier((x, y), (5 * x_test * (np.arange(D) == 0) + x_test, y_test))
    found = _fixed.measure(sick)
    finding = _fixed.judge(found)
    assert (finding.mark, found.places) == ("problem", (0,))
    action = _fixed.put_back_action(sick, finding)
    low, high = action.effect.interval
    assert low <= action.effect.measured(action.apply(sick, key=KEY)) <= high < action.effect.now
    # what costs nothing is fine, and what is never fixed is not spoken of
    hardly = x_test * np.where(np.arange(D) == 0, 1e-3, 1)
    assert _fixed.judge(_fixed.measure(classifier((x, y), (hardly.astype(np.float32), y_test)))).mark == "fine"
    assert _fixed.measure(classifier(labelled(0), labelled(1, TESTS))) is None


# --- targets of the training data


def test_a_few_enormous_targets():
    x, y = measured(0)
    far = y.copy()
    far[[3, 77]] = 5000.0
    found = _outlying.measure(regression((x, far)))
    assert _outlying.judge(found).mark == "problem"
    assert set(found.rows) == {3, 77}
    assert _outlying.judge(_outlying.measure(regression((x, y)))).mark == "fine"
    # heavy tails that the network has learned are no mistake, and losses that bear them are not asked
    tails = (np.random.default_rng(0).standard_cauchy(size=(N, 1)) ** 3).astype(np.float32)
    learned = made(lambda p, x: p * x, jnp.ones(()), "squared", (tails, tails + 0.1))
    assert _outlying.judge(_outlying.measure(learned)).mark == "fine"
    assert _outlying.measure(regression((x, far), loss="huber")) is None


@pytest.mark.parametrize("end", [jax.nn.relu, jax.nn.sigmoid, lambda out: jnp.clip(out, -1, 1)])
def test_outputs_that_stop_where_targets_go_on(end):
    x, y = measured(0)
    sick = regression((x, 3 * y), end=lambda out: end(4 * out))
    finding = _reach.judge(_reach.measure(sick))
    assert finding.mark == "problem"
    effect = _reach.set_free(sick, finding).effect
    assert effect.now == pytest.approx(sick.error("train"))
    assert effect.then < 0.75 * effect.now
    assert _reach.judge(_reach.measure(regression((x, y)))).mark == "fine"
    # targets that stop there as well
    assert _reach.judge(_reach.measure(regression((x, np.maximum(y, 0)), end=jax.nn.relu))).mark == "fine"


# --- classes


def test_a_network_that_saw_the_classes_in_another_proportion():
    train = labelled(0, noise=0.2)
    assert _expected.judge(_expected.measure(classifier(train, scale=1.0))).mark == "fine"
    leaning = (0.0, 0.1, 1.0)
    found = _expected.measure(classifier(train, scale=1.0, bias=leaning))
    assert found.learned
    finding = _expected.judge(found)
    assert finding.mark == "look"
    assert "class 2" in finding.sentence
    # a network that knows nothing has other troubles
    assert _expected.judge(_expected.measure(classifier(train, scale=0.0, bias=leaning))).mark == "fine"


def test_a_class_that_training_labels_in_another_way():
    """Half of class 2 is called 1 in training: a network that learned this is half and half about it."""
    rng = np.random.default_rng(0)
    centres = 6.0 * np.eye(3, D)
    y, y_test = rng.integers(0, 3, 900), rng.integers(0, 3, 300)
    x, x_test = ((centres[a] + rng.normal(size=(len(a), D))).astype(np.float32) for a in (y, y_test))
    given = np.where((y == 2) & (rng.random(900) < 0.5), 1, y)

    def subject(params, labels, of_test):
        return made(linear, params, "cross_entropy", (x, labels), of_test)

    right = {"w": jnp.asarray(centres.T, jnp.float32), "b": jnp.zeros(3)}
    # along the axis of class 2 both are as likely
    torn = {"w": right["w"].at[2, 1].set(right["w"][2, 2]), "b": jnp.zeros(3)}
    found = _labelled.measure(subject(torn, given, (x_test, y_test)))
    finding = _labelled.judge(found)
    assert finding.mark == "look"
    assert "class 2" in finding.sentence
    assert _labelled.judge(_labelled.measure(subject(right, y, (x_test, y_test)))).mark == "fine"
    # a class that test data have more seldom, and a network that sees it
    few = (y_test != 2) | (rng.random(300) < 0.1)
    assert _labelled.judge(_labelled.measure(subject(right, y, (x_test[few], y_test[few])))).mark == "fine"


def test_a_rare_class_need_not_be_the_likeliest_anywhere():
    """One in thirty: the probabilities of a good network stay below one half, and tell its inputs apart."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, D)).astype(np.float32)
    params = {"w": jnp.zeros((D, 1)).at[0, 0].set(4.0), "b": jnp.full(1, -9.5)}
    out = np.asarray(linear(params, x))[:, 0]
    y = (rng.random(3000) < 1 / (1 + np.exp(-out))).astype(int)
    good = made(linear, params, "cross_entropy", (x, y))
    assert good.mean_loss() < 0.5 * _blind.blind_guess(good)
    assert regime._constant_outputs(good).mark == "fine"
    odds = float(np.log(y.mean() / (1 - y.mean())))
    flat = made(linear, {"w": jnp.zeros((D, 1)), "b": jnp.full(1, odds)}, "cross_entropy", (x, y))
    assert flat.mean_loss() == pytest.approx(_blind.blind_guess(flat), rel=1e-4)
    assert regime._constant_outputs(flat).mark == "look"


def test_a_blind_guess_knows_the_weights():
    x, y = labelled(0)
    weights = np.array([0.01, 1.0, 3.0])[y]
    shares = np.bincount(y, weights=weights) / weights.sum()
    blank = made(linear, {"w": jnp.zeros((D, 3)), "b": jnp.log(jnp.asarray(shares))}, "cross_entropy", (x, y, weights))
    assert _blind.blind_guess(blank) == pytest.approx(blank.mean_loss(), rel=1e-5)


def test_what_is_left_is_noise_where_training_has_come_to_rest():
    x, y = labelled(0, noise=0.6)
    subject = classifier((x, y), scale=0.0)
    assert not _slope.rested(subject, BUDGETS["quick"], KEY)
    slope = jax.jit(jax.grad(lambda p: subject.objective(p, subject.train)))
    for steps, want in ((2, False), (300, True)):
        p = subject.params
        for _ in range(steps):
            p = jax.tree.map(lambda a, g: a - 0.3 * g, p, slope(p))
        assert _slope.rested(subject.with_params(p), BUDGETS["quick"], KEY) == want


def test_a_network_whose_first_layer_is_large_does_not_scale_its_columns_itself():
    found = _inputs.Scale(1300.0, np.full(N, 1300.0), 115.0, 3)
    start = Start(None, (), "given")
    assert _inputs.judge_scale(found, 400.0, start, N, felt=8.0).mark == "look"
    assert _inputs.judge_scale(found, 1.0, start, N, felt=8.0).mark == "fine"
