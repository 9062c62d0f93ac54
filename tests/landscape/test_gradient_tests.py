import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.landscape import gradient_noise, gradient_tests, step_fit


def test_the_tests_are_their_definitions_and_along_and_across_add_up():
    rng = np.random.default_rng(0)
    g = rng.normal(size=(7, 5)) + 0.3
    mean, b = g.mean(0), 7
    square = mean @ mean
    found = gradient_tests(g)
    norm = sum((v - mean) @ (v - mean) for v in g) / (b * (b - 1) * square)
    inner = sum((v @ mean / square - 1) ** 2 for v in g) / (b * (b - 1))
    across = sum(np.sum((v / square**0.5 - (v @ mean) * mean / square**1.5) ** 2) for v in g) / (b * (b - 1))
    np.testing.assert_allclose([found.norm, found.inner_product], [norm, inner], rtol=1e-5)
    np.testing.assert_allclose(found.orthogonality, across, rtol=1e-5)
    ratio = mean**2 / g.var(0, ddof=1)
    np.testing.assert_allclose(
        [found.signal_to_noise, found.early_stopping], [ratio.mean(), 1 - 7 * ratio.mean()], 1e-5
    )


def test_pure_noise_has_the_early_stopping_number_of_its_law():
    # E[B mean^2/variance] of normal numbers is that of a squared Student t with B - 1 degrees of freedom
    b, p = 12, 20_000
    found = gradient_tests(jax.random.normal(jax.random.key(0), (b, p)))
    t = 1 - (b - 1) / (b - 3)
    spread = np.sqrt(2 * (b - 1) ** 2 * (b - 2) / ((b - 3) ** 2 * (b - 5)) / p)
    assert abs(float(found.early_stopping) - t) < 5 * spread


def test_they_agree_with_the_noise_of_a_network():
    x = jax.random.normal(jax.random.key(0), (20, 3))
    y = jax.random.normal(jax.random.key(1), (20, 1))
    w = jnp.ones((1, 3))

    network = Network(lambda p, x: p @ x, w)
    noise = gradient_noise(network, "squared", (x, y))
    rows = jax.vmap(lambda a, b: jax.grad(lambda w: 0.5 * jnp.sum((w @ a - b) ** 2))(w).ravel())(x, y)
    found = gradient_tests(rows)
    np.testing.assert_allclose(found.trace, noise.trace * 20 / 19, rtol=1e-4)
    np.testing.assert_allclose(found.gradient_norm, noise.gradient_norm, rtol=1e-4)


def test_gradients_come_as_a_tree_too():
    rows = jax.random.normal(jax.random.key(0), (5, 7))
    tree = {"a": rows[:, :6].reshape(5, 2, 3), "b": rows[:, 6]}
    for one, other in zip(gradient_tests(rows), gradient_tests(tree), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_gradient_of_zero_is_all_noise_and_equal_gradients_none():
    still = gradient_tests(jnp.array([[1.0, 2.0], [-1.0, -2.0]]))
    assert float(still.norm) == np.inf
    assert float(still.inner_product) == np.inf
    same = gradient_tests(jnp.ones((3, 2)))
    assert float(same.norm) == 0
    assert float(same.signal_to_noise) == 0


@pytest.mark.parametrize("end", [0.3, 1.0, 1.7])
def test_a_parabola_is_found_again_whatever_the_weights(end):
    # f(tau) = (end tau - 1)^2: the minimum lies at tau = 1/end
    values, slopes = [1.0, (end - 1) ** 2], [-2 * end, 2 * end * (end - 1)]
    found = step_fit(values, slopes, [0.1, 3.0], [1e-3, 2.0])
    np.testing.assert_allclose([found.overshoot, found.curvature], [end - 1, 2 * end**2], rtol=1e-3, atol=1e-5)


def test_the_weights_decide_between_observations_that_disagree():
    # the slopes say that nothing bends, the values that the loss fell by more
    straight = step_fit([1.0, -1.0], [-1.0, -1.0], [1e3, 1e3], [1e-3, 1e-3])
    np.testing.assert_allclose(straight.overshoot, -1, rtol=1e-3)
    assert float(step_fit([1.0, 0.9], [0.0, 0.0], [1.0, 1.0], [1e-3, 1e-3]).curvature) == pytest.approx(0, abs=1e-4)


def test_what_cannot_be_tested_is_one_sentence():
    with pytest.raises(ValueError, match="at least two examples"):
        gradient_tests(jnp.ones((1, 3)))
    with pytest.raises(ValueError, match="the same examples along their first axis"):
        gradient_tests({"a": jnp.ones((2, 3)), "b": jnp.ones((3, 3))})
    with pytest.raises(ValueError, match="value_errors must be"):
        step_fit([1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0])
