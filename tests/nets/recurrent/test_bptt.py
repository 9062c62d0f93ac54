import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.autodiff import RNN
from corollary.autodiff import bptt_by_hand as by_hand
from corollary.nets import relu, tanh
from corollary.nets.recurrent import (
    Elman,
    ElmanCell,
    Recurrent,
    Stacked,
    autoregression_loss,
    bptt,
    bptt_blocks,
    bptt_window,
    labelling_loss,
    online_sgd,
    rtrl,
    train_truncated,
)
from corollary.nets.recurrent.lstm import LSTM

KEY = jax.random.key(0)
XS, YS = jax.random.normal(jax.random.key(1), (6, 2)), jax.random.normal(jax.random.key(2), (6, 1))


def model():
    return Elman(2, 3, 1, output_activation=tanh, key=KEY, start=0.2)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))])


@eqx.filter_jit
def gradients(model, xs, ys):
    state = jnp.array([0.3, -0.1, 0.4])  # a start of one's own
    loss = lambda m: labelling_loss(lambda xs: m(xs, state), xs, ys)  # noqa: E731
    value, slope = eqx.filter_value_and_grad(loss)(model)
    return {
        "automatic": (value, slope),
        "bptt": bptt(model, xs, ys, state)[:2],
        "rtrl": rtrl(model, xs, ys, state)[:2],
        "window": bptt_window(model, xs, ys, 6, state)[:2],
        "blocks": bptt_blocks(model, xs, ys, 6, state)[:2],
        "short": bptt_window(model, xs, ys, 2, state)[:2],
        "pieces": bptt_blocks(model, xs, ys, 2, state)[:2],
    }


def test_all_forms_give_the_gradient_and_short_ones_do_not():
    found = gradients(model(), XS, YS)
    value, slope = found["automatic"]
    for name in ("bptt", "rtrl", "window", "blocks"):
        np.testing.assert_allclose(found[name][0], value, rtol=1e-12)
        np.testing.assert_allclose(flat(found[name][1]), flat(slope), rtol=1e-10, atol=1e-14)
    for name in ("short", "pieces"):
        np.testing.assert_allclose(found[name][0], value, rtol=1e-12)
        assert np.abs(flat(found[name][1]) - flat(slope)).max() > 1e-4


def test_states_of_any_form_and_a_readout_without_parameters():
    net = Recurrent(Stacked([LSTM(2, 2, key=KEY), ElmanCell(2, 1, key=KEY)]), lambda z, x: z * x[0], sees_input=True)

    @eqx.filter_jit
    def ways(net):
        automatic = eqx.filter_grad(labelling_loss)(net, XS, YS)
        cut = bptt_window(net, XS, YS, 9), bptt_blocks(net, XS, YS, 6)
        return automatic, [found.gradient for found in (bptt(net, XS, YS), rtrl(net, XS, YS), *cut)]

    automatic, found = ways(net)
    for gradient in found:
        np.testing.assert_allclose(flat(gradient), flat(automatic), rtol=1e-9, atol=1e-14)


def test_the_same_as_the_passes_written_for_tanh():
    rnn = RNN(2, 3, 1, key=KEY)

    @eqx.filter_jit
    def both(rnn):
        same = Elman.of(rnn.recurrent, rnn.inputs, rnn.bias, rnn.readout, rnn.offset)
        ours = bptt(same, XS, YS).gradient, bptt_window(same, XS, YS, 3).gradient
        return ours, (by_hand(rnn, XS, YS), by_hand(rnn, XS, YS, 3))

    ours, theirs = both(rnn)
    # theirs is of half the squared error; both in the order of `Elman.of`
    np.testing.assert_allclose(flat(ours), 2 * flat(theirs), rtol=1e-10, atol=1e-14)


def test_streamed_training_takes_the_steps_of_its_blocks():
    net, state, rate = model(), jnp.full(3, 0.2), 0.1
    found = eqx.filter_jit(train_truncated)(net, XS, YS, optax.sgd(rate), block=3)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def block(net, xs, ys, state):
        states, outputs = net.run(xs, state)
        return jnp.mean((outputs - ys) ** 2), states[-1]

    losses = []
    for k in (0, 3):
        (value, state), slope = block(net, XS[k : k + 3], YS[k : k + 3], state)
        net = eqx.apply_updates(net, jax.tree.map(lambda g: -rate * g, slope))
        losses.append(value)
    np.testing.assert_allclose(flat(found.network), flat(net), rtol=1e-12)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-12)
    np.testing.assert_allclose(found.state, state, rtol=1e-12)


def test_bad_arguments():
    net = model()
    with pytest.raises(TypeError, match="network must be a Recurrent network, got function"):
        bptt(lambda xs: xs, XS, YS)
    with pytest.raises(TypeError, match="network must be a Recurrent network, got function"):
        rtrl(lambda xs: xs, XS, YS)
    with pytest.raises(ValueError, match="network must have a cell with at least one floating-point array"):
        rtrl(Recurrent(Keeps(), lambda z: z), XS, YS)
    with pytest.raises(ValueError, match="ys must have as many steps as xs, 6, got 5"):
        bptt(net, XS, YS[:5])
    with pytest.raises(ValueError, match=r"target must have the shape of the output, \(1,\), got \(2,\)"):
        bptt(net, XS, XS)
    with pytest.raises(ValueError, match="block must divide the 6 steps, got 4"):
        bptt_blocks(net, XS, YS, 4)
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        bptt_window(net, XS, YS, 0)
    with pytest.raises(TypeError, match="optimiser must be an Optax transformation, got float"):
        train_truncated(net, XS, YS, 0.1)
    with pytest.raises(ValueError, match="xs must have at least two steps: the last has no next one"):
        autoregression_loss(net, XS[:1])
    with pytest.raises(TypeError, match="network must be an Elman network with biases"):
        online_sgd(Elman(2, 3, 1, key=KEY, bias=False), XS, YS, 0.1)
    with pytest.raises(TypeError, match="network must have an activation with a derivative and the identity"):
        online_sgd(Elman(2, 3, 1, relu, relu, key=KEY), XS, YS, 0.1)
    with pytest.raises(ValueError, match="step must be a number or one for each of 6 steps"):
        online_sgd(Elman(2, 3, 1, key=KEY), XS, YS, jnp.ones(3))
    with pytest.raises(ValueError, match="step must be positive"):
        online_sgd(Elman(2, 3, 1, key=KEY), XS, YS, 0.0)


class Keeps:
    def initial(self):
        return jnp.zeros(1)

    def __call__(self, x, z):
        return z
