import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import mixed_up

KEY = jax.random.key(0)


def test_the_numbers_stay_and_their_places_change():
    network = eqx.nn.MLP(3, 2, 8, 1, key=KEY)
    mixed = mixed_up(network, key=KEY)
    for old, new in zip(network.layers, mixed.layers, strict=True):
        np.testing.assert_array_equal(np.sort(old.weight.ravel()), np.sort(new.weight.ravel()))
        assert np.mean(np.asarray(old.weight) == np.asarray(new.weight)) < 0.5
    only_first = eqx.tree_at(lambda m: m.layers[0].weight, jax.tree.map(lambda _: False, network), True)
    partly = mixed_up(network, key=KEY, trainable=only_first)
    np.testing.assert_array_equal(partly.layers[1].weight, network.layers[1].weight)
    np.testing.assert_array_equal(partly.layers[0].weight, mixed.layers[0].weight)


def test_a_transpose_is_mixed_up_alike():
    matrix = jax.random.normal(KEY, (5, 7))

    class Plain(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            return self.weight @ x

    straight, turned = (mixed_up(Plain(w), key=KEY).weight for w in (matrix, matrix.T))
    np.testing.assert_array_equal(straight, jnp.transpose(turned))
