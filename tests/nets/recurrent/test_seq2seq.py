import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.recurrent.seq2seq import BahdanauAttention, Conditioned, Seq2Seq

KEY = jax.random.key(0)
X, Y = np.array([2, 0, 3, 1]), np.array([1, 3, 0, 2, 1])


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def gru(cell, x, h):
    """The gated unit written out: reset, keep, candidate."""
    m = h.size
    inputs, gates, recurrent, bias, extra = map(
        np.asarray, (cell.inputs, cell.gate_recurrent, cell.recurrent, cell.bias, cell.recurrent_bias)
    )
    drive = inputs @ x + bias
    both = sigmoid(drive[: 2 * m] + gates @ h)
    new = np.tanh(drive[2 * m :] + both[:m] * (recurrent @ h + extra))
    return both[m:] * h + (1 - both[m:]) * new


def softmax(a):
    e = np.exp(a - a.max())
    return e / e.sum()


def reference(model, x, y):
    """Logits and weights, one step after the other."""
    h, states = np.zeros(model.encoder.units), []
    for token in x:
        h = gru(model.encoder, np.asarray(model.source)[token], h)
        states.append(h)
    states, rows, looks = np.array(states), [], []
    for token in [model.start, *y[:-1]]:
        word, context = np.asarray(model.target)[token], np.zeros(0)
        if model.attention is not None:
            a = model.attention
            weights = softmax(np.tanh(a.query @ h + states @ a.memory.T) @ a.score)
            context = weights @ states
            looks.append(weights)
        h = gru(model.decoder, np.concatenate([word, context]), h)
        rows.append(model.readout.weight @ np.concatenate([h, context]) + model.readout.bias)
    return np.array(rows), np.array(looks)


@pytest.mark.parametrize("attention", [False, True])
def test_step_by_step(attention):
    model = Seq2Seq(5, 4, 5, key=KEY, attention=attention, embedding=3, pad=4)

    @jax.jit
    def everything(model, x, y):
        looks = model.alignment(x, y) if attention else None
        return model(x, y), model.log_probability(x, y), looks, model.generate(x, 6, end=1)

    # what is padded is not read
    rows, log_p, looks, greedy = everything(model, np.array([*X, 4, 4]), Y)
    expected, weights = reference(model, X, Y)
    np.testing.assert_allclose(rows, expected, rtol=1e-10)
    laws = expected - np.log(np.exp(expected).sum(1, keepdims=True))
    np.testing.assert_allclose(log_p, laws[np.arange(5), Y].sum(), rtol=1e-10)
    best = reference(model, X, greedy)[0].argmax(1)
    np.testing.assert_array_equal(np.where(np.cumsum(best == 1) > 0, 1, best), greedy)
    if attention:
        np.testing.assert_allclose(looks[:, :4], weights, rtol=1e-10)
        np.testing.assert_array_equal(looks[:, 4:], 0.0)
    else:
        with pytest.raises(ValueError, match="alignment needs a network with attention"):
            model.alignment(X, Y)


def test_order_does_not_matter_to_attention():
    attention = BahdanauAttention(3, 4, 6, key=KEY)
    rng = np.random.default_rng(0)
    z, states, order = rng.normal(size=3), rng.normal(size=(5, 4)), rng.permutation(5)
    context, weights = attention(z, states)
    permuted, moved = attention(z, states[order])
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(moved, weights[order], rtol=1e-12)
    np.testing.assert_allclose(permuted, context, rtol=1e-12)
    logits = np.tanh(attention.query @ z + states @ np.asarray(attention.memory).T) @ attention.score
    np.testing.assert_allclose(weights, softmax(np.asarray(logits)), rtol=1e-12)
    np.testing.assert_allclose(context, np.asarray(weights) @ states, rtol=1e-12)
    only = attention(z, states, jnp.arange(5) == 2)[0]
    np.testing.assert_allclose(only, states[2], rtol=1e-12)


def test_messages():
    model = Seq2Seq(4, 4, 3, key=KEY)
    for bad, sentence in [
        (lambda: Seq2Seq(4, 4, 0, key=KEY), "units must be at least 1"),
        (lambda: Seq2Seq(4, 4, 3, key=KEY, pad=4), "pad must be from 0 to 3"),
        (lambda: model([4], Y), "source must hold labels from 0 to 3, got 4"),
        (lambda: model(X, [4]), "target must hold labels from 0 to 3, got 4"),
        (lambda: model.generate(X, 0), "length must be at least 1"),
        (lambda: model.generate(X, 2, end=4), "end must be from 0 to 3"),
        (lambda: Conditioned(model, *[None] * 4).step(5, None), "token must hold labels from 0 to 4, got 5"),
        (lambda: BahdanauAttention(3, 4, 6, key=KEY)(np.zeros(2), np.zeros((5, 4))), "z must have shape"),
        (lambda: BahdanauAttention(3, 4, 6, key=KEY)(np.zeros(3), np.zeros((5, 3))), "states must have shape"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            bad()
