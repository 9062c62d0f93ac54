import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import data
from corollary.nets import parameter_count, train
from corollary.nets.sets import PointNet, PointNetClassifier, PointNetSegmenter, TNet, orthogonality_penalty
from corollary.network import BatchLoss
from corollary.network.losses import cross_entropy

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(12, 3))


def relu(a):
    return np.maximum(a, 0)


def shared(mlp, x):
    for i, layer in enumerate(mlp.layers):
        x = x @ np.asarray(layer.weight).T + np.asarray(layer.bias)
        x = relu(x) if i < len(mlp.layers) - 1 else x
    return x


def drawn(make):
    """The module with every array drawn anew, so that the T-nets are not the identity (and nothing is compiled)."""
    rng = np.random.default_rng(1)
    shapes = eqx.filter_eval_shape(make, KEY)
    draw = lambda a: jnp.asarray(rng.normal(size=a.shape) * (2 / a.shape[-1]) ** 0.5)  # noqa: E731
    return jax.tree.map(lambda a: draw(a) if isinstance(a, jax.ShapeDtypeStruct) else a, shapes)


def test_layer_by_layer():
    segmenter = drawn(lambda key: PointNetSegmenter(6, local=4, features=10, key=key))
    net = segmenter.features
    found, logits, turned = eqx.filter_jit(lambda m, x: (m.features(x), m.logits(x), m.logits(x[::-1])))(segmenter, X)
    first = shared(net.input_net.pooled, relu(shared(net.input_net.each, X)).max(0)).reshape(3, 3) + np.eye(3)
    np.testing.assert_allclose(found.input_transform, first, rtol=1e-12)
    hidden = relu(shared(net.first, X @ first))
    second = shared(net.feature_net.pooled, relu(shared(net.feature_net.each, hidden)).max(0)).reshape(4, 4)
    np.testing.assert_allclose(found.feature_transform, second + np.eye(4), rtol=1e-12)
    local = hidden @ (second + np.eye(4))
    np.testing.assert_allclose(found.local, local, rtol=1e-12)
    each = relu(shared(net.second, local))
    np.testing.assert_allclose(found.whole, each.max(0), rtol=1e-12)
    used = {*each.argmax(0), *relu(shared(net.input_net.each, X)).argmax(0)}
    used |= {*relu(shared(net.feature_net.each, hidden)).argmax(0)}
    assert set(np.flatnonzero(found.critical)) == used
    both = np.concatenate([local, np.tile(each.max(0), (12, 1))], axis=1)
    np.testing.assert_allclose(logits, shared(segmenter.head, both), rtol=1e-11)
    np.testing.assert_allclose(turned, logits[::-1], rtol=1e-11)
    assert parameter_count(segmenter.head) == (14 * 5 + 5) + (5 * 2 + 2) + (2 * 6 + 6)


def test_sizes_of_the_text_and_first_transforms():
    net = jax.eval_shape(lambda k: PointNetSegmenter(5, key=k), KEY)
    assert net.head.layers[0].weight.shape[1] == 1088
    assert net.features.second.layers[-1].weight.shape[0] == 1024
    np.testing.assert_array_equal(jax.jit(lambda k, x: TNet(3, (4, 5, 6), key=k)(x))(KEY, X), np.eye(3))
    assert orthogonality_penalty(np.diag([2.0, 1.0])) == 9.0


def test_it_learns_solids():
    clouds = jax.jit(lambda key: data.point_clouds(32, 24, key=key))(KEY)
    model = drawn(lambda key: PointNetClassifier(4, local=8, features=32, key=key))

    @BatchLoss
    def loss(model, batch):
        return jnp.mean(jax.vmap(lambda x, y: cross_entropy(model.logits(x), y))(*batch))

    trained = train(model, loss, (clouds.x, clouds.y), optax.adam(1e-2), steps=60)
    assert trained.losses[-1] < 0.5 * trained.losses[0]
    np.testing.assert_allclose(eqx.filter_jit(trained.network)(clouds.x[0]).sum(), 1.0)


def test_bad_input():
    with pytest.raises(ValueError, match=r"x must have shape \(m, 3\)"):
        jax.eval_shape(lambda: PointNet(4, 8, key=KEY)(X[:, :2]))
    with pytest.raises(ValueError, match=r"x must have shape \(m, 2\)"):
        jax.eval_shape(lambda: TNet(2, (4, 4, 4), key=KEY)(X))
    with pytest.raises(ValueError, match="classes must be at least 2"):
        PointNetClassifier(1, key=KEY)
    with pytest.raises(ValueError, match="parts must be at least 2"):
        PointNetSegmenter(1, local=2, features=2, key=KEY)
    with pytest.raises(TypeError, match="local must be an integer"):
        PointNet(4.0, key=KEY)
    with pytest.raises(ValueError, match=r"transform must have shape \(k, k\)"):
        orthogonality_penalty(np.ones((2, 3)))
