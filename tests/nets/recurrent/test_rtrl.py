import equinox as eqx
import jax
import numpy as np

from corollary.nets import tanh
from corollary.nets.recurrent import Elman, sensitivities

KEY = jax.random.key(0)
XS, YS = jax.random.normal(jax.random.key(1), (6, 2)), jax.random.normal(jax.random.key(2), (6, 1))


def model():
    return Elman(2, 3, 1, output_activation=tanh, key=KEY, start=0.2)


def test_sensitivities_are_the_jacobian():
    net = model()
    params, static = eqx.partition(net.cell, eqx.is_inexact_array)
    states = lambda p: eqx.tree_at(lambda n: n.cell, net, eqx.combine(p, static)).run(XS).states  # noqa: E731
    expected = jax.jit(jax.jacfwd(states))(params)
    found = eqx.filter_jit(sensitivities)(net, XS)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)
