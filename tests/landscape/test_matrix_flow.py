"""Deep matrix factorisation under gradient flow, against automatic differentiation and SciPy's integrators."""

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from corollary.landscape import (
    balanced_factors,
    balanced_velocity,
    deep_factorization_loss,
    factor_flow,
    factor_velocity,
    imbalance,
    singular_value_time,
)

RNG = np.random.default_rng(0)
START, TARGET = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))
FACTORS = RNG.normal(size=(4, 3, 3))


def product(factors):
    return reduce(lambda done, w: w @ done, factors)


def test_loss_and_velocity():
    expected = np.sum((product(FACTORS) - TARGET) ** 2) / 8
    assert deep_factorization_loss(FACTORS, TARGET) == pytest.approx(expected, rel=1e-12)
    slope = jax.grad(deep_factorization_loss)(jnp.asarray(FACTORS), TARGET)
    np.testing.assert_allclose(factor_velocity(FACTORS, TARGET), -slope, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("key", [None, 0])
def test_balanced_factors(depth, key):
    factors = balanced_factors(START, depth, key=None if key is None else jax.random.key(key))
    assert factors.shape == (depth, 3, 3)
    np.testing.assert_allclose(product(factors), START, atol=1e-13)
    np.testing.assert_allclose(imbalance(factors), 0, atol=1e-13)
    _, moved = jax.jvp(product, (factors,), (factor_velocity(factors, TARGET),))
    np.testing.assert_allclose(balanced_velocity(START, TARGET, depth), moved, atol=1e-12)


def test_imbalance_by_hand():
    found = imbalance(FACTORS)
    assert found.shape == (3, 3, 3)
    np.testing.assert_allclose(found[1], FACTORS[2].T @ FACTORS[2] - FACTORS[1] @ FACTORS[1].T, rtol=1e-12)


def test_flow_is_that_of_scipy():
    start, times = 0.3 * FACTORS[:3], np.array([0.5, 1.0, 3.0])
    velocity = jax.jit(lambda _, f: factor_velocity(f.reshape(3, 3, 3), TARGET).ravel())
    exact = integrate.solve_ivp(velocity, (0, 3), start.ravel(), t_eval=times, rtol=1e-10, atol=1e-12).y.T
    np.testing.assert_allclose(factor_flow(start, TARGET, times, substeps=60).reshape(3, -1), exact, atol=1e-6)


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize(("start", "end"), [(0.01, 1.9), (0.5, 0.1), (5.0, 2.1)])
def test_singular_value_time(depth, start, end):
    exact, _ = integrate.quad(lambda s: s ** (2 / depth - 2) / (2 - s), start, end, epsabs=1e-12, epsrel=1e-12)
    assert singular_value_time(start, end, 2.0, depth) == pytest.approx(exact, rel=1e-8)


def test_singular_value_time_in_closed_form():
    start, end = np.array([0.1, 0.2]), np.array([[0.9], [0.5]])
    np.testing.assert_allclose(singular_value_time(start, end, 1.0, 1), np.log((1 - start) / (1 - end)), rtol=1e-12)
    logistic = np.log(end / (1 - end)) - np.log(start / (1 - start))
    np.testing.assert_allclose(singular_value_time(start, end, 1.0, 2), logistic, rtol=1e-12)


def test_precision_and_compilation():
    factors, target = jnp.asarray(FACTORS, jnp.float32), jnp.asarray(TARGET, jnp.float32)
    assert factor_velocity(factors, target).dtype == jnp.float32
    assert factor_flow(factors, target, jnp.ones(1, jnp.float32)).dtype == jnp.float32
    assert balanced_factors(target, 3, key=jax.random.key(0)).dtype == jnp.float32
    assert balanced_velocity(target, target, 3).dtype == jnp.float32
    one = jnp.float32(1)
    assert singular_value_time(one / 4, one / 2, one, 3).dtype == jnp.float32
    batch = jax.jit(jax.vmap(lambda s: singular_value_time(s, 0.9, 1.0, 2)))(jnp.array([0.1, 0.2]))
    np.testing.assert_allclose(batch[1], singular_value_time(0.2, 0.9, 1.0, 2), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: deep_factorization_loss(FACTORS, TARGET[:2]), ValueError, "target must have shape"),
        (lambda: factor_velocity(FACTORS[:, :2], TARGET), ValueError, "factors must have shape"),
        (lambda: imbalance(TARGET), ValueError, "factors must have shape"),
        (lambda: balanced_factors(TARGET, 0), ValueError, "depth must be at least 1"),
        (lambda: balanced_velocity(START, TARGET[:2], 2), ValueError, "target must have shape"),
        (lambda: factor_flow(FACTORS, TARGET, [2.0, 1.0]), ValueError, "times must increase"),
        (lambda: singular_value_time(0.0, 0.5, 1.0, 2), ValueError, "start must be positive"),
        (
            lambda: singular_value_time(0.5, 1.5, 1.0, 2),
            ValueError,
            "start and end must lie on the same side of target",
        ),
        (lambda: singular_value_time(0.5, 0.6, 1.0, 0), ValueError, "depth must be at least 1"),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
