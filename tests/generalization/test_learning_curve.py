"""The loss by the number of examples: parts of the data, trainings one by one, laws with a known curve."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generalization import LearningCurve, learning_curve

N, D = 90, 5


def problem(n=N, noise=0.5):
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (n, D))
    return x, x.sum(1) + noise * jax.random.normal(keys[1], (n,))


class Ridge(eqx.Module):
    penalty: jax.Array

    def __call__(self, data, key):
        x, y = data
        w = jnp.linalg.solve(x.T @ x / len(x) + self.penalty * jnp.eye(D), x.T @ y / len(x))
        return lambda one: one @ w


@pytest.fixture(scope="module")
def found():
    with jax.enable_x64(True):
        data, new = problem(), problem(200)
        yield data, new, learning_curve(Ridge(jnp.asarray(0.01)), data, new, draws=4, key=jax.random.key(1))


def test_parts_are_nested_and_halves_leave_each_other_out(found):
    (x, _), _, curve = found
    assert curve.sizes.tolist() == [22, 44, 88]
    seen = np.asarray(curve.seen)
    assert (seen.sum(-1) == curve.sizes).all()
    assert (seen[:, :-1] <= seen[:, 1:]).all()
    assert not (seen[0, 1] & seen[1, 1]).any()
    assert seen.shape == (4, 3, len(x))


def test_every_training_is_the_one_on_its_part_alone(found):
    (x, y), (x_new, y_new), curve = found
    for draw, size in ((0, 0), (1, 1), (3, 2)):
        rows = np.asarray(curve.seen)[draw, size]
        a, b = np.asarray(x)[rows], np.asarray(y)[rows]
        w = np.linalg.solve(a.T @ a / len(a) + 0.01 * np.eye(D), a.T @ b / len(a))
        np.testing.assert_allclose(curve.new[draw, size], (x_new @ w - y_new) ** 2 / 2, rtol=1e-8)
        np.testing.assert_allclose(curve.own[draw, size], (x @ w - y) ** 2 / 2, rtol=1e-8)


def test_an_example_left_out_is_judged_by_the_halves_without_it(found):
    curve = found[2]
    seen, own, left = np.asarray(curve.seen)[:, 1], np.asarray(curve.own)[:, 1], curve.left_out()
    for i in range(0, N, 7):
        without = [own[d, i] for d in range(4) if not seen[d, i]]
        assert left[i] == pytest.approx(np.mean(without))


def test_a_power_of_the_examples_goes_on():
    sizes = np.array([100, 200, 400])
    law = 0.1 + 3 / sizes
    curve = LearningCurve(sizes, np.tile(law[None, :, None], (4, 1, 5)), np.zeros((4, 3, 1)), np.zeros((4, 3, 1), bool))
    twice = curve.doubled()
    assert twice.value == pytest.approx(0.1 + 3 / 800)
    # between what the last doubling took off again, and nothing
    np.testing.assert_allclose(twice.interval, (law[2] - (law[1] - law[2]), law[2]))


def test_a_loss_that_rises_is_not_promised_to_fall():
    law = np.array([0.5, 0.3, 0.4])
    curve = LearningCurve(
        np.array([1, 2, 4]), np.tile(law[None, :, None], (2, 1, 1)), np.zeros((2, 3, 1)), np.zeros((2, 3, 1), bool)
    )
    twice = curve.doubled()
    assert twice.value == pytest.approx(0.4)
    np.testing.assert_allclose(twice.interval, (0.4, 0.5))


def test_twice_the_data_lie_in_the_interval():
    """Ridge regression on half of the data says what all of them will have: 95 % is asked for, more is promised."""
    inside = 0
    new = problem(2000)
    for i in range(20):
        keys = jax.random.split(jax.random.key(100 + i), 3)
        x = jax.random.normal(keys[0], (128, D))
        y = x.sum(1) + 0.5 * jax.random.normal(keys[1], (128,))
        fit = Ridge(jnp.asarray(0.01))
        low, high = learning_curve(fit, (x[:64], y[:64]), new, key=keys[2]).doubled().interval
        predictor = fit((x, y), keys[2])
        inside += low <= float(jnp.mean((jax.vmap(predictor)(new[0]) - new[1]) ** 2 / 2)) <= high
    assert inside >= 16  # of a binomial law with .95 and 20 fewer come once in 380


def test_trainings_side_by_side_or_one_after_the_other():
    data, new = problem(40), problem(10)
    several = [learning_curve(Ridge(jnp.asarray(0.1)), data, new, at_once=k, key=jax.random.key(0)) for k in (None, 5)]
    np.testing.assert_allclose(several[0].new, several[1].new, rtol=1e-5)


def test_the_picture_has_a_line_for_each_draw(found):
    assert len(found[2].plot().to_dict()["data"]["values"]) == 12


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dict(data=(jnp.zeros((3, D)), jnp.zeros(3))), "data must have 4 examples or more for 2 halvings, got 3"),
        (dict(halvings=1), "halvings must be at least 2, got 1"),
        (dict(draws=1), "draws must be at least 2, got 1"),
        (dict(fit=3), "fit must be a function of data and key that returns a predictor, got int"),
        (dict(new=jnp.zeros(3)), r"new must be a pair \(x, y\)"),
    ],
)
def test_one_sentence(change, sentence):
    given = dict(fit=Ridge(jnp.asarray(0.1)), data=problem(), new=problem(10)) | change
    options = {name: given.pop(name) for name in ("halvings", "draws") if name in given}
    with pytest.raises((TypeError, ValueError), match=sentence):
        learning_curve(*given.values(), key=jax.random.key(0), **options)
