import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from corollary.foundations import (
    cauchy_schwarz_gap,
    function_norm,
    inner,
    lagrange_gap,
    norm_axioms,
    operator_norm,
    power_iteration,
    sequence_norms,
    vector_norm,
)

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, 17.0, np.inf])
def test_vector_norm_against_numpy(p):
    x = RNG.normal(size=(5, 7))
    np.testing.assert_allclose(vector_norm(x, p), np.linalg.norm(x, ord=p, axis=-1), rtol=1e-13)


def test_vector_norm_neither_overflows_nor_underflows():
    assert vector_norm(np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert vector_norm(np.array([3e-200, 4e-200])) == pytest.approx(5e-200)
    assert vector_norm(np.zeros(3), 3.0) == 0
    assert vector_norm(np.zeros(3), np.inf) == 0


def test_vector_norm_transforms_and_keeps_the_dtype():
    x = RNG.normal(size=6)
    exponents = jnp.array([1.0, 2.0, jnp.inf])
    batch = jax.jit(jax.vmap(vector_norm, (None, 0)))(x, exponents)
    np.testing.assert_allclose(batch, [np.linalg.norm(x, ord=p) for p in (1, 2, np.inf)], rtol=1e-13)
    np.testing.assert_allclose(jax.grad(vector_norm)(x), x / np.linalg.norm(x), rtol=1e-12)
    assert vector_norm(x.astype(np.float32), 3.0).dtype == jnp.float32


def test_vector_norm_refuses():
    with pytest.raises(ValueError, match="p must be positive, got 0"):
        vector_norm(np.ones(2), 0)
    with pytest.raises(ValueError, match="x must have shape"):
        vector_norm(1.0)


@pytest.mark.parametrize("p", [1, 2, 3.5, np.inf])
def test_sequence_norms_are_norms_of_the_beginnings(p):
    a = RNG.normal(size=20)
    expected = [np.linalg.norm(a[: k + 1], ord=p) for k in range(20)]
    np.testing.assert_allclose(sequence_norms(a, p), expected, rtol=1e-13)


@pytest.mark.parametrize("p", [1, 2, 2.5])
def test_function_norm_against_scipy(p):
    value = function_norm(lambda x: jnp.exp(-x) * jnp.sin(5 * x), p, 0.0, 2.0, panels=200)
    exact, _ = integrate.quad(lambda x: abs(np.exp(-x) * np.sin(5 * x)) ** p, 0, 2, limit=200, epsabs=1e-13)
    # the absolute value has kinks inside panels: second order in the panel of width 1/100
    assert value == pytest.approx(exact ** (1 / p), rel=1e-5)


def test_function_norm_on_a_box_and_of_a_bound():
    value = function_norm(lambda x: x[0] * x[1], 2, jnp.zeros(2), jnp.array([1.0, 2.0]), panels=4)
    assert value == pytest.approx((1 / 3 * 8 / 3) ** 0.5)
    assert function_norm(jnp.sin, np.inf, 0.0, np.pi) == pytest.approx(1, abs=1e-3)


def test_function_norm_refuses():
    with pytest.raises(TypeError, match="f must be a function of a point, got int"):
        function_norm(3, 2, 0.0, 1.0)
    with pytest.raises(ValueError, match="low must be below high"):
        function_norm(jnp.sin, 2, 1.0, 0.0)
    with pytest.raises(ValueError, match="both be numbers or both be vectors"):
        function_norm(jnp.sin, 2, 1.0, jnp.ones(2))
    with pytest.raises(ValueError, match="at most 10 million points"):
        function_norm(jnp.sum, 2, jnp.zeros(4), jnp.ones(4))


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_operator_norm_against_numpy(p):
    a = RNG.normal(size=(6, 4))
    assert operator_norm(a, p) == pytest.approx(np.linalg.norm(a, ord=p))


def test_operator_norm_refuses():
    with pytest.raises(ValueError, match="p must be one of"):
        operator_norm(np.eye(2), 3)


def test_power_iteration_finds_the_top_triple():
    a = RNG.normal(size=(6, 4))
    _, s, vh = np.linalg.svd(a)
    found = power_iteration(a, np.ones(4), 400)
    assert found.sigma[-1] == pytest.approx(s[0], rel=1e-12)
    np.testing.assert_allclose(abs(found.right @ vh[0]), 1, rtol=1e-12)
    np.testing.assert_allclose(a @ found.right, s[0] * found.left, atol=1e-10)
    assert not np.isnan(power_iteration(np.zeros((2, 2)), np.ones(2), 3).sigma).any()


def test_power_iteration_refuses():
    with pytest.raises(ValueError, match="start must not be the zero vector"):
        power_iteration(np.eye(2), np.zeros(2), 3)
    with pytest.raises(ValueError, match="start must have shape"):
        power_iteration(np.eye(2), np.ones(3), 3)


def test_norm_axioms_tell_norms_from_others():
    u, v, a = RNG.normal(size=(50, 3)), RNG.normal(size=(50, 3)), RNG.normal(size=50)
    good = norm_axioms(vector_norm, u, v, a)
    assert max(good.negativity, good.zero, good.homogeneity, good.triangle) < 1e-14
    assert good.least >= 1
    assert norm_axioms(lambda x: vector_norm(x, 0.5), u, v, a).triangle >= 1
    assert norm_axioms(lambda x: vector_norm(x) ** 2, u, v, a).homogeneity > 0.1
    assert norm_axioms(lambda x: jnp.abs(x[0]), u, v, a).least == 0
    assert norm_axioms(lambda x: x[0], u, v, a).negativity > 0
    assert norm_axioms(lambda x: 1 + vector_norm(x), u, v, a).zero == 1


def test_norm_axioms_refuse():
    with pytest.raises(TypeError, match="norm must be a function"):
        norm_axioms(2, np.ones((1, 2)), np.ones((1, 2)), np.ones(1))
    with pytest.raises(ValueError, match="u and v must hold 2 vectors each"):
        norm_axioms(vector_norm, np.ones((1, 2)), np.ones((1, 2)), np.ones(2))


def test_cauchy_schwarz_gap_is_lagranges_sum():
    x, y = RNG.normal(size=(2, 9))
    brute = sum((x[i] * y[j] - x[j] * y[i]) ** 2 for i in range(9) for j in range(i))
    assert lagrange_gap(x, y) == pytest.approx(brute)
    assert cauchy_schwarz_gap(x, y) == pytest.approx(brute)
    m = np.diag(np.arange(1.0, 10))
    assert inner(x, y, m) == pytest.approx(np.sum(np.arange(1, 10) * x * y))
    assert cauchy_schwarz_gap(x, y, m) >= 0
    with pytest.raises(ValueError, match="y must have shape"):
        inner(x, y[:3])
