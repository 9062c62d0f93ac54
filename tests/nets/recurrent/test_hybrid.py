import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent import LSTMAttention

KEY = jax.random.key(7)


def inputs(steps=5, size=3):
    return jax.random.normal(jax.random.key(0), (steps, size))


@pytest.mark.parametrize("both_ways", [False, True])
def test_lstm_attention_sees_the_order_of_its_inputs(both_ways):
    net = LSTMAttention(3, 4, 2, key=KEY, bidirectional=both_ways)
    xs = inputs()
    ys = net(xs)
    assert ys.shape == (5, 4)
    np.testing.assert_allclose(net.weights(xs, causal=True).sum(-1), 1.0, rtol=1e-12)
    order = jnp.array([2, 0, 1, 4, 3])
    assert float(jnp.abs(net(xs[order]) - ys[order]).max()) > 1e-4
    causal, changed = net(xs, causal=True), net(xs.at[4].add(1.0), causal=True)
    if not both_ways:
        np.testing.assert_allclose(causal[:4], changed[:4], rtol=1e-12)
