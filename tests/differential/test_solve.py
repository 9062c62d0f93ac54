import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from corollary.differential import solve

TIMES = np.array([0.5, 0.8, 1.7, 3.0])


def pendulum(u):
    return jnp.stack([u[1], -jnp.sin(u[0])])


def test_against_scipy():
    reference = solve_ivp(
        lambda _, u: np.array([u[1], -np.sin(u[0])]), (0.5, 3.0), [1.0, 0.3], t_eval=TIMES, rtol=1e-12, atol=1e-12
    )
    found = solve(pendulum, [1.0, 0.3], TIMES, substeps=200)
    np.testing.assert_allclose(found, reference.y.T, atol=1e-9)


def test_euler_is_the_recursion():
    u, states = np.array([1.0, 0.3]), [np.array([1.0, 0.3])]
    for length in np.diff(TIMES):
        for _ in range(2):
            u = u + length / 2 * np.array([u[1], -np.sin(u[0])])
        states.append(u)
    np.testing.assert_allclose(solve(pendulum, [1.0, 0.3], TIMES, method="euler", substeps=2), states, rtol=1e-12)


def test_derivatives_and_batches():
    end = jax.jit(jax.vmap(lambda a: jax.grad(lambda a: solve(lambda u: a * u, 1.0, [0.0, 1.0], substeps=50)[-1])(a)))
    a = jnp.array([-1.0, 0.5])
    np.testing.assert_allclose(end(a), np.exp(a), rtol=1e-7)


@jax.custom_vjp
def half_square(u):
    return u**2 / 2


half_square.defvjp(lambda u: (u**2 / 2, u), lambda u, g: (g * u,))


def by_scan(field, start, times):
    """Euler's method, differentiated as the loop that it is."""

    def onward(u, h):
        u = u + h * field(u)
        return u, u

    return jnp.concatenate([start[None], jax.lax.scan(onward, start, jnp.diff(times))[1]])


def by_solve(field, start, times):
    return solve(field, start, times, method="euler")


@pytest.mark.parametrize("square", [lambda u: u**2 / 2, half_square], ids=["plain", "rule for the reverse mode alone"])
def test_derivatives_of_one_number(square):
    """By weights that are used transposed, by the start and by the times; more steps than are taken at once."""
    key = jax.random.key(0)
    weights = jax.random.normal(key, (5, 1)), jax.random.normal(key, (1, 5)), jnp.arange(5)
    times = jnp.linspace(0.0, 1.0, 2500) ** 2

    def value(path, floats, start, times):
        first, last, order = *floats, weights[2]
        found = path(lambda u: last @ jnp.tanh(u @ first.T)[order] - square(u), start, times)
        return jnp.sum(found[::7] ** 2)

    arguments = weights[:2], jnp.ones(1), times
    found, reference = (
        jax.jit(jax.grad(partial(value, path), argnums=(0, 1, 2)))(*arguments) for path in (by_solve, by_scan)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12), found, reference)


def test_second_derivatives_of_one_number():
    def end(path, a):
        return path(lambda u: a[0] * u + jnp.sin(a[1] * u), jnp.array(0.7), jnp.linspace(0.0, 1.0, 9))[-1]

    a = jnp.array([[0.3, 2.0], [-1.0, 0.5]])
    found, reference = (jax.jit(jax.vmap(jax.hessian(partial(end, path))))(a) for path in (by_solve, by_scan))
    np.testing.assert_allclose(found, reference, rtol=1e-9, atol=1e-12)


def test_one_time_is_the_start():
    assert jax.grad(lambda a: solve(lambda u: a * u, 2.0, [0.5]).sum())(3.0) == 0
    assert jax.grad(lambda u: solve(lambda v: -v, u, [0.5]).sum())(3.0) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((3.0, 1.0, [0.0, 1.0]), "field must be a function"),
        ((lambda u: u[:1], jnp.ones(2), [0.0, 1.0]), r"field must return what has the shape \(2,\)"),
        ((lambda u: -u, 1.0, [0.0, 1.0, 0.5]), "times must increase"),
        ((lambda u: -u, 1.0, []), "times must not be empty"),
        ((lambda u: u**2, 1.0, np.linspace(0, 2, 9)), "explodes: at time 1.[0-9]+ it is not finite"),
    ],
)
def test_bad_input(arguments, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        solve(*arguments, substeps=20)


def test_unknown_method():
    with pytest.raises(ValueError, match="method must be"):
        solve(lambda u: -u, 1.0, [0.0, 1.0], method="heun")


def test_steps_of_diffrax_against_scipy():
    reference = solve_ivp(
        lambda _, u: np.array([u[1], -np.sin(u[0])]), (0.5, 3.0), [1.0, 0.3], t_eval=TIMES, rtol=1e-12, atol=1e-12
    )
    found = solve(pendulum, [1.0, 0.3], TIMES, method="adaptive", tolerance=1e-9)
    np.testing.assert_allclose(found, reference.y.T, atol=1e-7)
    assert solve(pendulum, jnp.array([1.0, 0.3], jnp.float32), TIMES, method="adaptive").dtype == jnp.float32


def test_a_stiff_equation():
    # Robertson's reaction: rates from 0.04 to 3e7
    def rates(u):
        a, b, c = u
        slow, fast = 0.04 * a - 1e4 * b * c, 3e7 * b**2
        return jnp.stack([-slow, slow - fast, fast])

    times = np.array([0.0, 0.4, 40.0])
    reference = solve_ivp(
        lambda _, u: np.asarray(rates(u)), (0, 40), [1.0, 0, 0], "Radau", times, rtol=1e-9, atol=1e-12
    )
    found = solve(rates, [1.0, 0.0, 0.0], times, method="stiff", tolerance=1e-9)
    np.testing.assert_allclose(found, reference.y.T, rtol=1e-5, atol=1e-10)


def test_derivatives_through_adaptive_steps():
    end = jax.grad(lambda a: solve(lambda u: a * u, 1.0, [0.0, 1.0], method="adaptive", tolerance=1e-9)[-1])
    np.testing.assert_allclose(end(0.5), np.exp(0.5), rtol=1e-6)


def test_what_adaptive_steps_cannot_follow():
    with pytest.raises(ValueError, match=r"beyond time 0\.5 to a tolerance of 1e-06 in 65,536 steps: it explodes, or"):
        solve(lambda u: u**2, 1.0, [0.0, 0.5, 2.0], method="adaptive")
    with pytest.raises(ValueError, match="tolerance must be positive"):
        solve(pendulum, [1.0, 0.3], TIMES, method="adaptive", tolerance=0.0)


def test_diffrax_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match=r"needs Diffrax: pip install 'corollary\[ode\]'"):
        solve(pendulum, [1.0, 0.3], TIMES, method="stiff")
