import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.autodiff import multiplications
from corollary.nets.attention import MultiHeadAttention
from corollary.nets.recurrent import (
    GRU,
    LRU,
    LSTM,
    DiagonalSystem,
    LinearSystem,
    LRULayer,
    attention_token_cost,
    compose,
    diagonalise,
    doubling_scan,
    impulse_response,
    input_map,
    linear_loop,
    linear_scan,
    linear_states,
    lru_eigenvalues,
    lru_initialisation,
    nu_from_radius,
    recover_inputs,
    recurrent_token_cost,
    response,
    ring,
    unroll,
    unroll_linear,
)

KEY = jax.random.key(5)


def test_three_ways_to_run_a_linear_recurrence():
    a, b = jax.random.normal(KEY, (2, 37, 3)) + 0j
    start = jnp.array([1.0, -1.0, 2.0])
    z, expected = np.asarray(start, complex), []
    for t in range(37):
        z = np.asarray(a[t]) * z + np.asarray(b[t])
        expected.append(z)
    # errors grow with the products of the coefficients, as the states do
    ways = (linear_loop, linear_scan, linear_states, lambda *args: doubling_scan(*args).states)
    for states in (way(a, b, start) for way in ways):
        np.testing.assert_allclose(states, np.stack(expected), rtol=1e-10)
    assert doubling_scan(a, b).rounds == 6
    assert doubling_scan(a[:1], b[:1]).rounds == 0
    assert doubling_scan(a[:32], b[:32]).rounds == 5
    np.testing.assert_allclose(linear_scan(a[0], b), linear_scan(jnp.broadcast_to(a[0], b.shape), b), rtol=1e-12)


def test_the_product_of_steps_is_associative_and_not_commutative():
    steps = [(jnp.array(a), jnp.array(b)) for a, b in ((2.0, 1.0), (-1.0, 3.0), (0.5, -2.0))]
    left = compose(compose(steps[0], steps[1]), steps[2])
    right = compose(steps[0], compose(steps[1], steps[2]))
    assert [float(v) for v in left] == [float(v) for v in right] == [-1.0, -1.0]
    assert float(compose(steps[1], steps[0])[1]) != float(compose(steps[0], steps[1])[1])


def test_linear_scan_refuses():
    with pytest.raises(ValueError, match="b must have at least one step along the first axis"):
        linear_scan(jnp.zeros((0, 2)), jnp.zeros((0, 2)))
    with pytest.raises(ValueError, match=r"a must have the shape of b, \(4, 2\), or that of one step, got \(4,\)."):
        linear_scan(jnp.zeros(4), jnp.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"initial must have the shape of one step of b, \(2,\), got \(\)."):
        linear_loop(jnp.zeros(2), jnp.zeros((4, 2)), 1.0)


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
    np.testing.assert_allclose(impulse_response(whole, 3)[2], whole.transition @ whole.transition @ whole.inputs)


def test_linear_systems_refuse():
    with pytest.raises(ValueError, match="transition must be a square matrix"):
        LinearSystem(jnp.ones((2, 3)), jnp.ones((2, 1)))
    with pytest.raises(ValueError, match=r"inputs must have shape \(m, n\) with m = 2"):
        LinearSystem(jnp.ones((2, 2)), jnp.ones((3, 1)))
    with pytest.raises(ValueError, match="eigenvalues and inputs must have shapes"):
        DiagonalSystem(jnp.ones(2), jnp.ones((3, 1)))
    for function in (diagonalise, lambda s: impulse_response(s, 2), lambda s: response(s, jnp.ones((2, 1)))):
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


def test_eigenvalues_are_inside_of_the_circle_and_come_back():
    nu, phi = jnp.array([-30.0, -1.0, 0.0, 3.0]), jnp.array([0.0, 1.0, 2.0, 6.0])
    values = lru_eigenvalues(nu, phi)
    np.testing.assert_allclose(values, np.exp(-np.exp(nu) + 1j * phi), rtol=1e-13)
    assert float(jnp.abs(values).max()) < 1
    radii = jnp.array([1e-6, 0.5, 1 - 1e-6])
    np.testing.assert_allclose(jnp.abs(lru_eigenvalues(nu_from_radius(radii), 0.0)), radii, rtol=1e-12)
    with pytest.raises(ValueError, match=r"radius must be in \(0, 1\)"):
        nu_from_radius(1.0)


def test_initialisation_has_its_radii_and_law():
    nu, phi = lru_initialisation(4000, 0.5, 0.9, key=KEY, law="area", phase=1.0)
    radius = np.exp(-np.exp(np.asarray(nu)))
    assert 0.5 <= radius.min() < radius.max() <= 0.9
    assert 0 <= phi.min() < phi.max() <= 1
    # uniform squares: mean (0.25 + 0.81) / 2 with standard error 0.56 / sqrt(12 * 4000)
    assert abs(np.mean(radius**2) - 0.53) < 5 * 0.56 / np.sqrt(12 * 4000)
    assert np.isfinite(lru_initialisation(100, key=KEY)[0]).all()
    with pytest.raises(ValueError, match="law must be one of 'radius', 'area', got 'ring'."):
        lru_initialisation(3, key=KEY, law="ring")
    with pytest.raises(ValueError, match=r"high must be in \[0, 1\]"):
        lru_initialisation(3, 0.1, 1.1, key=KEY)


def test_lru_in_parallel_and_step_by_step():
    cell, xs = LRU(2, 3, key=KEY), jax.random.normal(KEY, (7, 2))
    states = unroll(cell, xs)
    np.testing.assert_allclose(unroll_linear(cell, xs), states, rtol=1e-12)
    layer = LRULayer(2, 3, 4, jnp.tanh, key=KEY)
    weight = layer.weight[0] + 1j * layer.weight[1]
    expected = np.tanh((unroll(layer.cell, xs) @ weight.T).real + xs @ layer.skip.T)
    np.testing.assert_allclose(layer(xs), expected, rtol=1e-12)
    assert LRULayer(2, 3, 4, key=KEY)(xs).shape == (7, 4)
    with pytest.raises(TypeError, match="readout must be a function of one step's features, got int."):
        LRULayer(2, 3, 4, 5, key=KEY)


def test_lru_trains_in_single_precision():
    cell = LRU(2, 3, key=KEY)
    cell = jax.tree.map(lambda a: a.astype(jnp.float32), cell)
    assert unroll_linear(cell, jnp.ones((4, 2), jnp.float32)).dtype == jnp.complex64
    slope = jax.grad(lambda c: jnp.sum(jnp.abs(unroll_linear(c, jnp.ones((4, 2), jnp.float32))) ** 2))(cell)
    assert slope.inputs.dtype == jnp.float32
    assert float(jnp.abs(slope.nu).min()) > 0


def test_costs_are_those_of_the_programs():
    for cell, blocks in ((GRU(3, 5, key=KEY), 3), (LSTM(3, 5, key=KEY), 4)):
        assert multiplications(cell, jnp.ones(3), cell.initial()) == recurrent_token_cost(5, 3, blocks)
    attend, tokens = MultiHeadAttention(8, 2, key=KEY), jnp.ones((6, 8))
    assert multiplications(attend, tokens) == attention_token_cost(8, 6, cached=False)

    def one_more(token, keys, values):
        key, value = attend.keys_values(token)
        return attend.attend(token, jnp.concatenate([keys, key]), jnp.concatenate([values, value]))

    keys, values = attend.keys_values(tokens[:5])
    assert multiplications(one_more, tokens[:1], keys, values) == attention_token_cost(8, 6)
