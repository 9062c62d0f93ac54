import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import logistic
from corollary.nets.convolutional.gradients import ConvClassifier, classifier_gradient, layer_backward, sgd_classifier

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def test_layer_backward_against_jax():
    x, kernel, up = RNG.normal(size=(2, 6, 5)), RNG.normal(size=(3, 2, 3, 2)), RNG.normal(size=(3, 4, 4))

    def loss(x, kernel, bias):
        layer = eqx.tree_at(lambda c: (c.weight, c.bias), eqx.nn.Conv2d(2, 3, (3, 2), key=KEY), (kernel, bias))
        return jnp.sum(up * layer(x))

    expected = jax.grad(loss, argnums=(0, 1, 2))(jnp.asarray(x), jnp.asarray(kernel), jnp.zeros((3, 1, 1)))
    found = layer_backward(x, kernel, up)
    np.testing.assert_allclose(found.x, expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.kernel, expected[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.bias, expected[2].ravel(), rtol=1e-10)


def test_classifier_gradient_and_descent():
    model = ConvClassifier((6, 5), (3, 2), 2, 3, logistic, key=KEY)
    x, y = jnp.asarray(RNG.normal(size=(1, 6, 5))), np.array([2])
    found, expected = classifier_gradient(model, x[0], 2), jax.grad(lambda m: m.loss(x[0], 2))(model)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13)
    # the convolution by hand, at one place
    z = model.preactivations(x[0])
    assert z[1, 2, 3] == pytest.approx(float(jnp.sum(model.filters[1] * x[0, 2:5, 3:5])))
    stepped = sgd_classifier(model, x, y, key=KEY, steps=1, step=0.1)
    np.testing.assert_allclose(stepped.network.filters, model.filters - 0.1 * expected.filters, rtol=1e-10)
    assert stepped.losses[0] == pytest.approx(float(model.loss(x[0], 2)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: layer_backward(np.ones((1, 3)), np.ones((1, 1, 4)), np.ones((1, 1))), "kernel must have shape"),
        (lambda: layer_backward(np.ones((1, 3)), np.ones((1, 1, 2)), np.ones((1, 3))), "upstream must have the shape"),
        (lambda: ConvClassifier((3, 3), (4, 1), 1, 2, key=KEY), "window must fit into the image"),
        (lambda: ConvClassifier((3, 3), (2, 2), 1, 2, jnp.tanh, key=KEY), "activation must be an Activation"),
        (lambda: classifier_gradient(None, np.ones((3, 3)), 0), "network must be a ConvClassifier"),
    ],
)
def test_bad_layers_are_one_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
