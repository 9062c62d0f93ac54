import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import GRU, MinGRU, unroll, unroll_linear

KEY = jax.random.key(3)


def inputs(steps=6, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


def test_mingru_is_an_average_of_the_past():
    cell, xs = MinGRU(3, 2, key=KEY, bias=True, keep_bias=0.5), inputs()
    states = unroll(cell, xs)
    np.testing.assert_allclose(unroll_linear(cell, xs), states, rtol=1e-12)
    np.testing.assert_allclose(unroll_linear(cell, xs[2:], states[1]), states[2:], rtol=1e-12)
    kept = np.asarray(jax.nn.sigmoid(xs @ cell.gate.T + 0.5))
    weights = np.stack([np.prod(kept[t + 1 :], axis=0) * (1 - kept[t]) for t in range(6)])
    np.testing.assert_allclose(states[-1], np.sum(weights * (xs @ cell.value.T), axis=0), rtol=1e-12)
    np.testing.assert_allclose(weights.sum(0), 1 - np.prod(kept, axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match="keep_bias must be a number"):
        MinGRU(3, 2, key=KEY, bias=True, keep_bias=jnp.ones(3))
    with pytest.raises(TypeError, match="cell must be linear in its state"):
        unroll_linear(GRU(3, 2, key=KEY), xs)
