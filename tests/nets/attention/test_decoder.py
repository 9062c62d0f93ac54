import equinox as eqx
import jax
import numpy as np

from corollary.nets.attention import DecoderBlock, PrintedDecoderBlock

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(5, 6))
CONTEXT = np.random.default_rng(1).normal(size=(4, 6))


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


def test_decoder_block_written_out():
    block = DecoderBlock(6, 2, 7, key=KEY)
    z = norm(X + attend(block.attention, X, X, earlier))
    z = norm(z + attend(block.cross, z, CONTEXT, always))
    out = eqx.filter_jit(block)(X, CONTEXT)
    np.testing.assert_allclose(out, norm(z + network(block, z)), rtol=1e-11, atol=1e-12)


def test_printed_decoder_block_written_out():
    block = PrintedDecoderBlock(6, 2, 7, key=KEY)
    z = norm(X + attend(block.attention, X, X, always))
    z = norm(z + attend(block.masked, z, z, earlier))
    np.testing.assert_allclose(eqx.filter_jit(block)(X), norm(z + network(block, z)), rtol=1e-11, atol=1e-12)
