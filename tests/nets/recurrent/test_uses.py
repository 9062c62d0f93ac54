import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import tanh
from corollary.nets.recurrent import Elman, autoregression_loss, bptt, classification_loss, labelling_loss, step_error
from corollary.network.losses import cross_entropy

KEY = jax.random.key(0)
XS, YS = jax.random.normal(jax.random.key(1), (6, 2)), jax.random.normal(jax.random.key(2), (6, 1))


def model():
    return Elman(2, 3, 1, output_activation=tanh, key=KEY, start=0.2)


def test_adjoints_are_derivatives_by_the_states():
    net = model()
    adjoints = eqx.filter_jit(bptt)(net, XS, YS).adjoints
    # push the state after step 3 and run on
    states = net.run(XS).states

    def after(z):
        rest = step_error(YS[2], net.readout(z))
        return (rest + jnp.sum((net(XS[3:], z) - YS[3:]) ** 2)) / 6

    np.testing.assert_allclose(adjoints[2], jax.jit(jax.grad(after))(states[2]), rtol=1e-10)


def test_three_losses():
    outputs = jnp.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
    net, classes = (lambda xs: outputs + 0 * xs), jnp.array([0, 1, 1])
    xs = jax.nn.one_hot(classes, 2)
    wrong = [np.log1p(np.exp(-1.0)), np.log1p(np.exp(-2.0)), np.log1p(np.exp(2.0))]
    assert labelling_loss(net, xs, classes, cross_entropy) == pytest.approx(np.mean(wrong))
    first = np.log1p(np.exp(1.0))  # predicts 0 where 1 comes
    expected = np.mean([first, wrong[1]])
    assert autoregression_loss(net, xs, cross_entropy, classes) == pytest.approx(expected)
    assert classification_loss(net, xs, 1, cross_entropy) == pytest.approx(wrong[2])
    assert autoregression_loss(net, xs) == pytest.approx(((1 + 1) + (0 + 1)) / 2)
