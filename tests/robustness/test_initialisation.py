"""Laws of random networks against SciPy's quadrature, and the one step against linear algebra."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from corollary.robustness import (
    gradient_floor,
    gradient_mean_square,
    one_step_flip,
    output_law,
    random_two_layer,
    slope_mean_deviation,
    slope_moments,
)

KEY = jax.random.key(0)


def mean(function):
    return sum(
        integrate.quad(lambda z: function(z) * stats.norm.pdf(z), *ends, epsabs=1e-12)[0]
        for ends in ((-12, 0), (0, 12))
    )


def test_moments_of_the_output_and_of_the_gradient():
    law = output_law(jnp.tanh, 7)
    square, fourth = mean(lambda z: np.tanh(z) ** 2), mean(lambda z: np.tanh(z) ** 4)
    np.testing.assert_allclose(law.variance, square, rtol=1e-10)
    np.testing.assert_allclose(law.excess, (fourth / square**2 - 3) / 7, rtol=1e-9)
    slope = lambda z: 1 - np.tanh(z) ** 2  # noqa: E731
    want = (3 * mean(lambda z: slope(z) ** 2) + mean(lambda z: (z * slope(z)) ** 2)) / 4
    np.testing.assert_allclose(gradient_mean_square(jnp.tanh, 4), want, rtol=1e-10)
    np.testing.assert_allclose(output_law(jax.nn.relu, 1), (0.5, 3.0), rtol=1e-10)
    np.testing.assert_allclose(gradient_mean_square(jax.nn.relu, 9), 0.5, rtol=1e-10)
    np.testing.assert_allclose(slope_moments(jnp.tanh, 1.0), (mean(lambda z: slope(z) ** 4), 1.0), rtol=1e-10)


def test_random_networks_have_the_scales_of_the_text():
    network = random_two_layer(4000, 10, key=KEY)
    np.testing.assert_allclose(np.abs(network.outer), 4000**-0.5)
    assert float(jnp.var(network.inner)) == pytest.approx(0.1, rel=0.03)
    assert not network.bias.any()


def test_floor_and_deviation_in_closed_form():
    slopes = np.array([[1.0, 2.0], [0.0, 0.0]])
    want = (1 - 5 * np.sqrt(np.log(20) / 400)) * np.sqrt([2.5, 0])
    np.testing.assert_allclose(gradient_floor(slopes, 400, 0.1), want)
    moments = slope_moments(jax.nn.relu, 1.0)
    want = np.sqrt(8 * 0.5 * np.log(10) / 50) + 2 * np.log(10) / 50
    np.testing.assert_allclose(slope_mean_deviation(0.1, 50, moments), want, rtol=1e-9)


def test_the_step_turns_a_linear_function_round():
    w = np.array([3.0, -4.0])
    x = np.array([[1.0, 2.0], [2.0, 1.0], [4.0, 3.0]])
    found = one_step_flip(lambda z: jnp.asarray(w) @ z, x)
    np.testing.assert_allclose(found.after, -(x @ w), atol=1e-12)
    np.testing.assert_allclose(found.distance, 2 * np.abs(x @ w) / 5, atol=1e-12)
    assert found.success.tolist() == [True, True, False]  # the last one is on the boundary
    again = jax.vmap(lambda z: jnp.asarray(w) @ z)(found.inputs)
    np.testing.assert_allclose(again, found.after)


def test_without_a_gradient_nothing_moves():
    found = one_step_flip(lambda z: 1.0 + 0.0 * z.sum(), np.ones((2, 3)))
    assert not found.success.any()
    np.testing.assert_array_equal(found.inputs, np.ones((2, 3)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: one_step_flip(eqx.nn.Linear(3, 2, key=KEY), np.ones((2, 3))), "network must return one number"),
        (lambda: one_step_flip(3, np.ones((2, 3))), "network must be callable"),
        (lambda: one_step_flip(lambda z: z.sum(), 1.0), "x must hold examples"),
        (lambda: random_two_layer(0, 3, key=KEY), "units must be at least 1"),
        (lambda: random_two_layer(2, 3, 5, key=KEY), "activation must be a function"),
        (lambda: output_law(1, 3), "activation must be a function"),
        (lambda: gradient_mean_square(2, 3), "activation must be a function"),
        (lambda: gradient_floor([1.0], 3, 0.9), "delta must be in"),
        (lambda: slope_moments(jnp.tanh, 0.0), "slope must be positive"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()
