import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import (
    DiagonalSystem,
    LinearSystem,
    diagonalise,
    impulse_states,
    input_map,
    recover_inputs,
    response,
    ring,
    unroll,
    unroll_linear,
)

KEY = jax.random.key(5)


def system(m=4, n=2):
    a, b = jax.random.split(KEY)
    return LinearSystem(jax.random.normal(a, (m, m)) / m**0.5, jax.random.normal(b, (m, n)))


def test_a_linear_system_four_ways():
    xs = jax.random.normal(jax.random.key(1), (9, 2))
    whole = system()
    states = unroll(whole, xs)
    np.testing.assert_allclose(response(whole, xs), states, rtol=1e-10, atol=1e-12)
    diagonal, basis = diagonalise(whole)
    # the condition number of the basis multiplies rounding; of these few units it is small
    for zeta in (unroll(diagonal, xs), unroll_linear(diagonal, xs)):
        np.testing.assert_allclose((zeta @ basis.T).real, states, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(impulse_states(whole, 3)[2], whole.transition @ whole.transition @ whole.inputs)


def test_linear_systems_refuse():
    with pytest.raises(ValueError, match="transition must be a square matrix"):
        LinearSystem(jnp.ones((2, 3)), jnp.ones((2, 1)))
    with pytest.raises(ValueError, match=r"inputs must have shape \(m, n\) with m = 2"):
        LinearSystem(jnp.ones((2, 2)), jnp.ones((3, 1)))
    with pytest.raises(ValueError, match="eigenvalues and inputs must have shapes"):
        DiagonalSystem(jnp.ones(2), jnp.ones((3, 1)))
    for function in (diagonalise, lambda s: impulse_states(s, 2), lambda s: response(s, jnp.ones((2, 1)))):
        with pytest.raises(TypeError, match="system must be a LinearSystem, got int."):
            function(3)


def test_the_last_state_knows_the_input():
    x = jax.random.normal(KEY, (8,))
    eigenvalues = ring(0.9, 8)
    matrix = input_map(eigenvalues, 8)
    assert float(jnp.linalg.cond(matrix)) == pytest.approx(0.9**-7)
    state = unroll(DiagonalSystem(eigenvalues, jnp.ones((8, 1))), x[:, None])[-1]
    np.testing.assert_allclose(state, matrix @ x, rtol=1e-10)
    np.testing.assert_allclose(recover_inputs(eigenvalues, state, 8), x, rtol=1e-10)
    with pytest.raises(ValueError, match=r"eigenvalues must have shape \(m,\)"):
        input_map(jnp.ones((2, 2)), 3)
    with pytest.raises(ValueError, match="state must have the shape of eigenvalues"):
        recover_inputs(eigenvalues, state[:3], 8)
