"""What the first steps say of the rest: their numbers against plain loops, the prediction against its trees."""

import json
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made import made

from corollary.audit._budget import BUDGETS
from corollary.audit.sections import _early, _prospects
from corollary.audit.sections._start import start_of
from zoo import ETA, X, Y, apply, he, trained

KEY = jax.random.key(0)
START = he(jax.random.key(1))


def subject(eta=ETA, end=None, **known):
    known = dict(learning_rate=eta, batch_size=len(Y), steps=300) | known
    return made(apply, START if end is None else end, "cross_entropy", (X, Y), initial=START, **known)


def prospects(subject):
    return _prospects.measure(subject, start_of(subject, KEY), BUDGETS["quick"], KEY)


def loss(params):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(apply(params, X)), Y[:, None], 1))


def test_numbers_are_those_of_a_plain_loop():
    known = subject()
    found = _prospects._first_steps(known, start_of(known, KEY), BUDGETS["quick"], float(np.log(3)), KEY)
    params, slope, losses, slopes, middle = START, jax.jit(jax.value_and_grad(loss)), [], [], None
    square = lambda tree: sum(float(jnp.sum(a**2)) for a in jax.tree.leaves(tree))  # noqa: E731
    for i in range(_early.STEPS):
        value, direction = slope(params)
        losses.append(float(value))
        slopes.append(square(direction))
        if i == _early.STEPS // 2:
            middle = float(value)
        params = jax.tree.map(lambda p, g: p - ETA * g, params, direction)
    value, direction = slope(params)
    # all 240 examples are in the probe and in every batch
    moved = (square(jax.tree.map(jnp.subtract, params, START)) / square(START)) ** 0.5
    half = np.array(losses[_early.STEPS // 2 :])
    exact = [losses[0], middle, float(value), slopes[0], square(direction)]
    np.testing.assert_allclose(found[:5], exact, rtol=1e-4)
    behind = [moved, half.mean(), half.std(), np.mean(slopes[_early.STEPS // 2 :])]
    np.testing.assert_allclose(found[7:11], behind, rtol=1e-3)
    wrong = float(jnp.mean(jnp.argmax(apply(params, X), 1) != Y))
    assert found.error == pytest.approx(wrong / (2 / 3), rel=1e-5)


def test_curvature_is_that_of_the_dense_matrix():
    matrix = np.diag([3.0, -1.0, 0.5]) + 0.1
    top = _early.curvature(lambda p: p["a"] @ jnp.asarray(matrix) @ p["a"] / 2, {"a": jnp.ones(3)}, KEY)
    assert float(top) == pytest.approx(np.abs(np.linalg.eigvalsh(matrix)).max(), rel=1e-3)


def test_probability_is_that_of_the_trees_walked_one_by_one():
    kept = json.loads(_prospects.MODEL.read_text(encoding="utf-8"))
    rows = np.random.default_rng(0).normal(size=(50, len(_early.FEATURES))) * 3

    def walked(tree, row):
        at = 0
        while tree["left"][at] != at:
            at = tree["left" if np.float32(row[tree["feature"][at]]) <= tree["threshold"][at] else "right"][at]
        return tree["value"][at]

    odds = [kept["start"] + sum(walked(tree, row) for tree in kept["trees"]) for row in rows]
    np.testing.assert_allclose(_prospects.probability(rows), 1 / (1 + np.exp(-np.array(odds))), rtol=1e-6)
    assert tuple(kept["features"]) == _early.FEATURES


def test_features_are_finite_whatever_the_numbers():
    worst = _early.Early(*np.array([[np.nan, np.inf, 0.0, -1.0, 1e30]] * len(_early.Early._fields)))
    rows = _early.features(worst, 0.1, 1.0, 300)
    assert rows.shape == (5, len(_early.FEATURES))
    assert np.isfinite(rows).all()


def test_steps_that_suit_get_there_and_others_do_not():
    good, short, long = (prospects(subject(eta)) for eta in (ETA, ETA / 4096, 4096 * ETA))
    assert good.probability > 0.9
    assert max(short.probability, long.probability) < 0.1
    start = start_of(subject(), KEY)
    assert _prospects.judge(good, start).mark == "fine"
    assert _prospects.judge(short, start).mark == _prospects.judge(long, start).mark == "problem"
    # what has got somewhere is not told that it will not
    assert prospects(subject(ETA / 4096, trained(START, X, Y, ETA))).somewhere
    assert _prospects.judge(short._replace(somewhere=True), start).mark == "fine"
    assert _prospects.judge(short._replace(probability=0.2), start).mark == "look"
    even = _prospects.judge(short._replace(probability=0.4), start)
    assert even.mark == "fine"
    assert even.sentence.endswith("It may train or not.")
    assert "with a probability of" in _prospects.judge(good, start).sentence


def test_a_network_that_is_not_where_its_training_leads():
    """Trained with a step that is too short, and described with the right one."""
    start = start_of(subject(), KEY)
    sure = prospects(subject(end=trained(START, X, Y, ETA / 4096)))._replace(probability=0.99)
    assert sure.loss > sure.goal
    finding = _prospects.judge(sure, start)
    assert finding.mark == "problem"
    assert "not the end of the training that was described" in finding.sentence
    # nothing is said of what is there, was not trained, or could have failed
    assert _prospects.judge(sure._replace(loss=0.1), start).mark == "fine"
    assert prospects(subject()).loss is None
    assert _prospects.judge(prospects(subject()), start).mark == "fine"
    assert _prospects.judge(sure._replace(probability=0.9), start).mark == "fine"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"learning_rate": None}, "pass learning_rate="),
        ({"steps": None}, "pass steps="),
        ({"learning_rate": None, "steps": None}, "pass learning_rate= and steps="),
        ({"optimiser": optax.adam(1e-3)}, "plain gradient descent"),
        ({"steps": 20}, "no more than the 20 steps"),
    ],
)
def test_what_is_missing_is_named(known, said):
    found = prospects(subject(**known))
    assert said in found
    judged = _prospects.judge(found, SimpleNamespace(where="At the start"))
    assert (judged.mark, judged.value) == ("not applicable", None)
