"""DenseNet connectivity: every layer sees the input and everything that the layers before it made."""

import jax
import numpy as np

from corollary import nets
from corollary.nets import DenseNetwork, parameter_count

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=4)


def test_dense_network():
    net = DenseNetwork(4, 3, 2, nets.relu, key=KEY)
    w1, b1, w2, b2 = (np.asarray(a) for layer in net.layers for a in (layer.weight, layer.bias))
    first = np.concatenate([X, np.maximum(w1 @ X + b1, 0)])
    np.testing.assert_allclose(net(X), np.concatenate([first, np.maximum(w2 @ first + b2, 0)]), rtol=1e-12)
    assert parameter_count(net) == 3 * 4 + 3 + 3 * 7 + 3
