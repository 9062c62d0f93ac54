import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from corollary.nets import MLP, FeedForward, flip_hidden, hidden_symmetries, logistic, outer_positive, relu, tanh

KEY = jax.random.key(3)
X = np.random.default_rng(0).normal(size=(40, 2))


@pytest.mark.parametrize("activation", [logistic, tanh])
@pytest.mark.parametrize("scaling", ["standard", "ntk"])
def test_flip_keeps_the_function(activation, scaling):
    network = MLP((2, 4, 3, 2), activation, key=KEY, scaling=scaling)
    for layer, signs in ((0, [1, -1, -1, 1]), (1, [-1, -1, 1])):
        flipped = flip_hidden(network, layer, np.array(signs, float))
        np.testing.assert_allclose(jax.vmap(flipped)(X), jax.vmap(network)(X), atol=1e-13)
        assert np.abs(ravel_pytree(flipped)[0] - ravel_pytree(network)[0]).max() > 0.01
        back = flip_hidden(flipped, layer, np.array(signs, float))
        np.testing.assert_allclose(ravel_pytree(back)[0], ravel_pytree(network)[0], atol=1e-14)


@pytest.mark.parametrize(("units", "count"), [(1, 2), (2, 8), (3, 48)])
def test_all_symmetries_are_different_and_one_function(units, count):
    network = FeedForward((2, units, 1), logistic, key=KEY)
    everything = hidden_symmetries(network)
    vectors = np.concatenate([np.reshape(a, (len(a), -1)) for a in jax.tree.leaves(everything)], 1)
    assert len(np.unique(vectors.round(10), axis=0)) == count
    values = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda n, x: n(x), (None, 0)), (0, None)))(everything, X))[..., 0]
    expected = np.asarray(jax.jit(jax.vmap(lambda x: network(x)))(X))[:, 0]
    np.testing.assert_allclose(values, np.broadcast_to(expected, values.shape), atol=1e-14)


def test_representative_is_the_same_for_all():
    network = FeedForward((2, 3, 1), logistic, key=KEY)
    forms = jax.vmap(lambda n: ravel_pytree(outer_positive(n))[0])(hidden_symmetries(network))
    np.testing.assert_allclose(forms, np.broadcast_to(forms[0], forms.shape), atol=1e-14)
    weights = outer_positive(network).layers[1].weight[0]
    assert (weights > 0).all()
    assert (np.diff(weights) <= 0).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: flip_hidden(MLP((2, 3, 1), logistic, key=KEY), 1, np.ones(3)), "layer must be from 0 to 0"),
        (lambda: flip_hidden(MLP((2, 3, 1), logistic, key=KEY), 0, np.ones(2)), "signs must have shape"),
        (lambda: flip_hidden(MLP((2, 3, 1), logistic, key=KEY), 0, np.zeros(3)), "signs must be 1 or -1"),
        (lambda: flip_hidden(MLP((2, 3, 1), relu, key=KEY), 0, np.ones(3)), "logistic or tanh"),
        (lambda: flip_hidden(MLP((2, 3, 1), logistic, key=KEY, bias=False), 0, np.ones(3)), "must have a bias"),
        (lambda: flip_hidden(jnp.ones(3), 0, np.ones(3)), "network must be an MLP or a FeedForward"),
        (lambda: hidden_symmetries(MLP((2, 6, 1), logistic, key=KEY)), "at most 5 units"),
        (lambda: outer_positive(MLP((2, 3, 2), logistic, key=KEY)), "one hidden layer and one output"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
