import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import (
    GatedPlant,
    gate,
    gated_solution,
    half_life,
    memory_biases,
    retained,
    unroll,
    unroll_linear,
)

KEY = jax.random.key(3)


def inputs(steps=6, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


def test_a_constant_gate_forgets_exponentially():
    assert float(retained(0.5, 3)) == 0.125
    assert float(half_life(0.5)) == pytest.approx(1.0)
    assert float(retained(0.99, half_life(0.99))) == pytest.approx(0.5)
    assert gate(jnp.array([0.0, 1.0, 0.5]), jnp.array([3.0, 3.0, 3.0])).tolist() == [0.0, 3.0, 1.5]
    with pytest.raises(ValueError, match=r"s must be in \[0, 1\]"):
        gate(1.5, 1.0)
    with pytest.raises(ValueError, match=r"g must be in \(0, 1\)"):
        half_life(1.0)


def test_memories_begin_with_all_lengths():
    lifetimes = 1 / (1 - jax.nn.sigmoid(memory_biases(1000, 50.0, key=KEY)))
    assert 2 <= float(lifetimes.min()) < 4
    assert 48 < float(lifetimes.max()) <= 50
    with pytest.raises(ValueError, match="longest must be at least 2, got 1.0."):
        memory_biases(3, 1.0, key=KEY)


def test_gated_plant_and_its_solution():
    plant, xs = GatedPlant(3, 2, lambda x: jnp.tanh(x[:2]), key=KEY), inputs()
    start = jnp.array([0.5, -1.0])
    gates, updates = plant.coefficients(xs)
    np.testing.assert_allclose(unroll(plant, xs, start)[-1], gated_solution(gates, updates, start), rtol=1e-12)
    np.testing.assert_allclose(unroll_linear(plant, xs, start), unroll(plant, xs, start), rtol=1e-12)
    with pytest.raises(TypeError, match="update must be a function of one input, got int."):
        GatedPlant(3, 2, 3, key=KEY)
    with pytest.raises(ValueError, match=r"updates must have shape \(T, N\) with T = 6"):
        gated_solution(gates, updates[:3], start)
