r"""Forward mode: numbers $a+b\varepsilon$ with $\varepsilon^2=0$ carry a derivative along with the value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.autodiff import elementary, forward_derivative, forward_gradient


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def program(x):
    a, b = x
    return (a**3 / b + 2 / a - elementary.log(b) * elementary.sin(a)) * elementary.cos(b) + (1 - a) * (b - 2) - a**0


def test_dual_arithmetic_against_jax():
    x = np.array([0.7, 1.3])
    gradient, tally = forward_gradient(program, x)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: program(list(x)))(jnp.asarray(x)), rtol=1e-13)
    single = forward_derivative(program, x, [1.0, 0.0])[2]
    assert tally.values == 2 * single.values  # one pass for each variable
    values, tangents, _ = forward_derivative(lambda x: [x[0] * 2, 5.0], x, [1.0, 0.0])
    assert values == [1.4, 5.0]
    assert tangents == [2.0, 0.0]


def test_duals_branch_on_values():
    f = lambda x: x[0] * x[0] if x[0] > 1 else -x[0]  # noqa: E731
    assert forward_gradient(f, [2.0])[0] == [4.0]
    assert forward_gradient(f, [0.5])[0] == [-1.0]
