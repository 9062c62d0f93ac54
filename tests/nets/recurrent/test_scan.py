import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import LRU, compose, doubling_scan, linear_loop, linear_scan, linear_states, unroll_linear

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


def test_lru_trains_in_single_precision():
    cell = LRU(2, 3, key=KEY)
    cell = jax.tree.map(lambda a: a.astype(jnp.float32), cell)
    assert unroll_linear(cell, jnp.ones((4, 2), jnp.float32)).dtype == jnp.complex64
    slope = jax.grad(lambda c: jnp.sum(jnp.abs(unroll_linear(c, jnp.ones((4, 2), jnp.float32))) ** 2))(cell)
    assert slope.inputs.dtype == jnp.float32
    assert float(jnp.abs(slope.nu).min()) > 0
