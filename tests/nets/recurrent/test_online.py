import equinox as eqx
import jax
import numpy as np
import optax

from corollary.nets.recurrent import Elman, online_sgd, step_error, train_truncated

KEY = jax.random.key(0)
XS, YS = jax.random.normal(jax.random.key(1), (6, 2)), jax.random.normal(jax.random.key(2), (6, 1))


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))])


def test_algorithm_1_is_truncation_after_one_step():
    net = Elman(2, 3, 1, key=KEY)
    halved = lambda output, target: 0.5 * step_error(output, target)  # noqa: E731
    ours = eqx.filter_jit(online_sgd)(net, XS, YS, 0.1)
    theirs = eqx.filter_jit(train_truncated)(net, XS, YS, optax.sgd(0.1), loss=halved)
    np.testing.assert_allclose(flat(ours.network), flat(theirs.network), rtol=1e-12)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-12)
