import equinox as eqx
import jax
import numpy as np
import pytest

from corollary.nets.attention import Encoder

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(5, 6))


def norm(x):
    """Layer normalisation at its start: scale 1, shift 0, and Equinox's small constant."""
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def test_stack_is_its_blocks_in_a_row():
    encoder = Encoder(6, 2, 3, 7, key=KEY, order="pre", unroll=3)
    arrays, rest = eqx.partition(encoder.stack.blocks, eqx.is_array)
    x, run = X, eqx.filter_jit(lambda block, x: block(x))
    for i in range(3):
        x = run(eqx.combine(jax.tree.map(lambda a, i=i: a[i], arrays), rest), x)
    layers, out = eqx.filter_jit(lambda e, x: (e.layers(x), e(x)))(encoder, X)
    np.testing.assert_allclose(layers[-1], x, rtol=1e-11)
    np.testing.assert_allclose(out, norm(np.asarray(x)), rtol=1e-11, atol=1e-12)
    with pytest.raises(ValueError, match=r"x must have shape \(T, 6\)"):
        encoder(np.zeros((3, 5)))
