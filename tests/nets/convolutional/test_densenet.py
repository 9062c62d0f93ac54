import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.nets.convolutional.densenet import DenseBlock, DenseNet

KEY = jax.random.key(0)


def test_dense_block_counts_and_network():
    block = eqx.filter_eval_shape(lambda: DenseBlock(4, 5, 3, key=KEY))
    assert [layer.kernel.shape for layer in block.layers] == [(3, 3, 4 + 3 * i, 3) for i in range(5)]
    assert (block.outputs, block.connections) == (19, 15)

    @jax.jit
    def both(key):
        model = DenseNet(1, 3, key=key, stages=(1, 1), growth=2)
        x = jax.random.normal(key, (3, 1, 6, 6))
        out, state = model.batch(x, model.state(), training=True)
        block = DenseBlock(2, 2, 1, key=key)
        cut = eqx.tree_at(lambda b: b.layers[0].kernel, block, jnp.zeros((3, 3, 2, 1)))
        image = x.reshape(3, 3, 6, 2) + jnp.arange(2)
        direct = jax.grad(lambda x: cut(x, cut.state(), False)[0][..., -1].sum())(image)
        return out, jax.vmap(lambda a: model(a, state))(x), model.batch(x, state)[0], direct

    out, one_by_one, together, direct = both(KEY)
    assert out.shape == (3, 3)
    assert float(jnp.abs(direct).max()) > 1e-3  # past a layer that gives nothing
    np.testing.assert_allclose(one_by_one, together, rtol=1e-9)
