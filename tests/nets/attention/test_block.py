import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import MLP, parameter_count, tanh
from corollary.nets.attention import BlockStack, DecoderBlock, Encoder, EncoderBlock
from corollary.nets.attention.block import drop

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(5, 6))


def norm(x):
    """Layer normalisation at its start: scale 1, shift 0, and Equinox's small constant."""
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def attend(layer, x, context, allowed):
    """Attention written out: head by head, query by query."""
    q, k, v = (
        np.asarray(a @ p.weight.T + (0 if p.bias is None else p.bias))
        for a, p in ((x, layer.query), (context, layer.key), (context, layer.value))
    )
    out, size = [], q.shape[1] // layer.heads
    for h in range(layer.heads):
        part = slice(h * size, (h + 1) * size)
        rows = []
        for i in range(len(x)):
            seen = [j for j in range(len(context)) if allowed(i, j)]
            e = np.exp([q[i, part] @ k[j, part] / np.sqrt(size) for j in seen])
            rows.append(sum(w * v[j, part] for w, j in zip(e / e.sum(), seen, strict=True)))
        out.append(np.stack(rows))
    o = layer.output
    return np.concatenate(out, 1) @ np.asarray(o.weight).T + (0 if o.bias is None else np.asarray(o.bias))


def network(block, z):
    first, second = block.feed_forward.layers
    hidden = np.maximum(z @ np.asarray(first.weight).T + (0 if first.bias is None else np.asarray(first.bias)), 0)
    return hidden @ np.asarray(second.weight).T + (0 if second.bias is None else np.asarray(second.bias))


def always(i, j):
    return True


def earlier(i, j):
    return j <= i


def test_listing_written_out():
    block = EncoderBlock(6, 2, 7, key=KEY)
    z = norm(X + attend(block.attention, X, X, always))
    np.testing.assert_allclose(eqx.filter_jit(block)(X), norm(z + network(block, z)), rtol=1e-11, atol=1e-12)


def test_without_norm_and_with_scales_written_out():
    block = EncoderBlock(6, 3, 7, key=KEY, order="none", bias="none", scales=(0.5, -2.0))
    z = X + 0.5 * attend(block.attention, X, X, earlier)
    out = eqx.filter_jit(lambda block, x: block(x, causal=True))(block, X)
    np.testing.assert_allclose(out, z - 2.0 * network(block, z), rtol=1e-11, atol=1e-12)


def test_zero_scales_are_the_identity():
    block = EncoderBlock(6, 2, key=KEY, order="none", scales=(0.0, 0.0))
    np.testing.assert_array_equal(eqx.filter_jit(block)(X), X)


def test_norm_before_written_out():
    block = EncoderBlock(6, 2, 7, key=KEY, order="pre", bias="hidden")
    z = X + attend(block.attention, norm(X), norm(X), always)
    np.testing.assert_allclose(eqx.filter_jit(block)(X), z + network(block, norm(z)), rtol=1e-11, atol=1e-12)


def test_any_network_of_a_token():
    mlp = MLP((6, 3, 3, 6), tanh, key=KEY)
    block = EncoderBlock(6, 2, key=KEY, feed_forward=mlp)
    z = norm(X + attend(block.attention, X, X, always))
    wanted = norm(z + np.stack([mlp(row) for row in z]))
    np.testing.assert_allclose(eqx.filter_jit(block)(X), wanted, rtol=1e-11, atol=1e-12)


def test_dropout_keeps_the_mean_and_acts_with_a_key_only():
    dropped = np.asarray(drop(jnp.ones(10_000), 0.25, KEY))
    assert set(dropped) == {0.0, 4 / 3}
    assert abs(dropped.mean() - 1) < 5 * np.sqrt(0.25 / 0.75 / 10_000)  # five standard deviations
    block = EncoderBlock(6, 2, 7, key=KEY, dropout=0.5)
    run = eqx.filter_jit(lambda block, key: block(X, key=key))
    np.testing.assert_array_equal(run(block, None), eqx.filter_jit(block)(X))
    assert np.abs(run(block, KEY) - run(block, jax.random.key(1))).max() > 0.1


def test_parameters_of_the_listing():
    E, F = 6, 7
    wanted = 4 * (E * E + E) + 2 * E * F + F + E + 4 * E
    assert parameter_count(EncoderBlock(E, 2, F, key=KEY)) == wanted


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EncoderBlock(6, 2, key=KEY, order="middle"), "order must be one of"),
        (lambda: EncoderBlock(6, 2, key=KEY, bias="some"), "bias must be one of"),
        (lambda: EncoderBlock(6, 2, key=KEY, dropout=1.0), r"dropout must be in \[0, 1\)"),
        (lambda: EncoderBlock(6, 2, key=KEY, scales=(1.0,)), "scales must be two numbers"),
        (lambda: EncoderBlock(6, 2, 0, key=KEY), "hidden must be at least 1"),
        (lambda: EncoderBlock(6, 4, key=KEY), "inputs must be a multiple of heads"),
        (lambda: EncoderBlock(6, 2, key=KEY, feed_forward=3), "feed_forward must be a function of one token"),
        (lambda: DecoderBlock(6, 2, key=KEY, bias="some"), "bias must be one of"),
        (lambda: BlockStack(lambda key: EncoderBlock(6, 2, key=key), 2, key=KEY, unroll=0), "unroll must be at least"),
        (lambda: Encoder(6, 2, 0, key=KEY), "depth must be at least 1"),
    ],
)
def test_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
