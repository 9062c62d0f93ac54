import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import parameter_count
from corollary.nets.convolutional.densenet import DenseBlock, DenseNet
from corollary.nets.convolutional.lenet import ConvolutionalNetwork, Stage, lenet5, network_parameters
from corollary.nets.convolutional.resnet import ResNet, ResNet9, small_resnet

KEY = jax.random.key(0)


def size_of(make):
    """Numbers in a module, without drawing them."""
    return sum(int(np.prod(a.shape)) for a in jax.tree.leaves(eqx.filter_eval_shape(make)))


def test_convolutional_network():
    stages = (Stage(3, (3, 2), stride=2, padding=1, pool=2), Stage(2, 2))
    make = lambda **options: ConvolutionalNetwork((2, 11, 12), stages, 4, key=KEY, hidden=(5,), **options)  # noqa: E731
    model = make()
    x = np.random.default_rng(0).normal(size=(2, 11, 12))
    maps = model.maps(x)
    assert [m.shape for m in maps] == [(2, 11, 12), (3, 3, 3), (2, 2, 2)]
    assert parameter_count(model) == network_parameters((2, 11, 12), stages, 4, (5,))
    # one entry of the first stage by hand: rows 0 and 1 and columns 0 and 1 of the convolution are pooled
    padded, weight = np.pad(x, ((0, 0), (1, 1), (1, 1))), np.asarray(model.convolutions[0].weight)
    bias = np.asarray(model.convolutions[0].bias).ravel()
    values = [
        np.sum(weight[1] * padded[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 2]) + bias[1] for i in (0, 1) for j in (0, 1)
    ]
    assert maps[1][1, 0, 0] == pytest.approx(max(0, *values))
    logits = model(x)
    np.testing.assert_allclose(model.probabilities(x), np.exp(logits) / np.exp(logits).sum(), rtol=1e-9)
    assert model.loss(x, 2) == pytest.approx(-np.log(model.probabilities(x)[2]))
    pooled = make(readout="max")
    assert pooled.dense.layers[0].weight.shape == (5, 2)
    np.testing.assert_allclose(model.batch(np.stack([-x, x]))[1], logits, rtol=1e-9)
    np.testing.assert_allclose(pooled.batch(x[None])[0], pooled(x), rtol=1e-9)


def test_binary_output_is_a_probability():
    model = ConvolutionalNetwork((1, 4, 4), (Stage(2),), 1, key=KEY, readout="mean")
    x = jnp.ones((1, 4, 4))
    p, f = model.probabilities(x), model(x)[0]
    assert p == pytest.approx(1 / (1 + np.exp(-f)))
    assert (model.loss(x, 1), model.loss(x, 0)) == (pytest.approx(-np.log(p)), pytest.approx(-np.log(1 - p)))
    assert size_of(lambda: lenet5(key=KEY)) == 61_706


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ResNet9(3, 10, key=KEY, widths=(1, 2)), "widths must be a sequence of four"),
        (
            lambda: ResNet9(1, 2, key=KEY, widths=(1, 1, 1, 1)).batch(jnp.ones((1, 1, 64, 64)), (None,) * 6),
            "x must be images of 32 by 32",
        ),
        (lambda: small_resnet(1, 2, 0, key=KEY), "n must be at least 1"),
        (lambda: ResNet(1, 2, key=KEY, stages=(1,)), "stages and widths must be sequences of the same length"),
        (lambda: ResNet(1, 2, key=KEY, stem="tiny"), "stem must be one of"),
        (lambda: ResNet(1, 2, key=KEY, kind="wide"), "kind must be one of"),
        (lambda: DenseBlock(1, 0, 1, key=KEY), "layers must be at least 1"),
        (lambda: DenseNet(1, 2, key=KEY, stages=()), "stages must be a sequence of one or more"),
        (lambda: DenseNet(1, 2, key=KEY, compression=0.0), "compression must be in"),
        (lambda: ConvolutionalNetwork((1, 4), (Stage(1),), 1, key=KEY), "shape must be"),
        (lambda: ConvolutionalNetwork((1, 4, 4), (), 1, key=KEY), "stages must be a sequence of one or more stages"),
        (lambda: ConvolutionalNetwork((1, 4, 4), (Stage(1, 5),), 1, key=KEY), "must fit into 4"),
        (lambda: ConvolutionalNetwork((1, 4, 4), (Stage(1, 3, pool=4),), 1, key=KEY), "stage 0 reduces it to"),
        (lambda: ConvolutionalNetwork((1, 4, 4), (Stage(1),), 1, key=KEY, readout="sum"), "readout must be one of"),
    ],
)
def test_bad_networks_are_one_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
