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
