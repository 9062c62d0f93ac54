import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import (
    additive_mask,
    attention_entropy,
    attention_weights,
    causal_mask,
    dot_product_attention,
)

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(4, 3, 8)), RNG.normal(size=(6, 3, 8)), RNG.normal(size=(6, 3, 5))
MASK = RNG.random((4, 6)) < 0.6
MASK[:, 0] = True


def loops(q, k, v, allowed, scale):
    """One head, token by token, as in M (13.15) and (13.16)."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        exponentials = np.array([np.exp(scale * q[i] @ k[j]) if allowed[i, j] else 0.0 for j in range(len(k))])
        for j in range(len(k)):
            out[i] += exponentials[j] / exponentials.sum() * v[j]
    return out


def test_token_by_token():
    every = np.ones_like(MASK)
    for mask, scale in ((None, None), (MASK, 0.3)):
        expected = [
            loops(Q[:, h], K[:, h], V[:, h], every if mask is None else mask, scale or 8**-0.5) for h in range(3)
        ]
        found = dot_product_attention(Q, K, V, mask, scale=scale)
        np.testing.assert_allclose(found, np.stack(expected, axis=1), rtol=1e-12)
        np.testing.assert_allclose(
            dot_product_attention(Q[:, 1], K[:, 1], V[:, 1], mask, scale=scale), expected[1], rtol=1e-12
        )


def test_weights_and_entropy():
    weights = np.asarray(attention_weights(Q, K, MASK))
    assert weights.shape == (3, 4, 6)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-14)
    assert ((weights == 0) == ~MASK).all()
    per_head = np.stack([MASK, np.ones_like(MASK), MASK])
    np.testing.assert_allclose(attention_weights(Q, K, per_head)[1], attention_weights(Q, K)[1])
    np.testing.assert_array_equal(
        attention_weights(Q, K, jnp.arange(6) < 4), attention_weights(Q, K, jnp.ones((4, 6), bool).at[:, 4:].set(False))
    )
    np.testing.assert_allclose(attention_entropy(np.eye(3)), 0)
    np.testing.assert_allclose(attention_entropy(np.full((2, 5), 0.2)), np.log(5))


def test_large_logits_and_rows_without_keys():
    shifted = jnp.concatenate([1e4 * Q, jnp.ones((4, 3, 1))], axis=-1)
    keys = jnp.concatenate([K, jnp.full((6, 3, 1), 1e5)], axis=-1)
    # all logits of a row moved by the same number: the same weights, up to the rounding of logits of size 1e5
    found = dot_product_attention(shifted, keys, V, scale=1.0)
    np.testing.assert_allclose(found, dot_product_attention(1e4 * Q, K, V, scale=1.0), rtol=1e-9)
    nothing = dot_product_attention(Q, K, V, np.zeros((4, 6), bool))
    np.testing.assert_allclose(nothing, np.broadcast_to(V.mean(0), (4, 3, 5)), rtol=1e-12)


def test_half_precision_agrees_with_double():
    q, k = Q.astype(jnp.bfloat16), K.astype(jnp.bfloat16)

    @jax.jit
    def both(q, k, mask):
        wide = q.astype(float), k.astype(float), k.astype(float)
        heads = dot_product_attention(q, k, k, mask), dot_product_attention(*wide, mask)
        free = dot_product_attention(q[:, 0], k[:, 0], k[:, 0]), dot_product_attention(*(a[:, 0] for a in wide))
        return heads, free

    for found, exact in both(q, k, MASK):
        assert found.dtype == jnp.bfloat16
        # weights and result rounded to 8 bits: two roundings of 2^-9 relative to values of size 3
        np.testing.assert_allclose(found.astype(float), exact, atol=3 * 2 * 2**-8)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU")
def test_fused_kernel():
    with jax.enable_x64(False):
        keys = jax.random.split(jax.random.key(0), 3)
        q, k, v = (jax.random.normal(key, (4, 64, 2, 32), jnp.bfloat16) for key in keys)

        def loss(q, k, v):
            out = jax.vmap(lambda q, k, v: dot_product_attention(q, k, v, causal=True))(q, k, v)
            return jnp.mean(out.astype(jnp.float32) ** 2)

        assert "__cudnn$fmha" in jax.jit(jax.grad(loss)).lower(q, k, v).as_text()
        fused = jax.jit(jax.grad(loss, (0, 1, 2)))(q, k, v)
        plain = jax.grad(loss, (0, 1, 2))(*(a.astype(jnp.float32) for a in (q, k, v)))
        for a, b in zip(fused, plain, strict=True):
            np.testing.assert_allclose(a.astype(jnp.float32), b, atol=0.02 * float(jnp.abs(b).max()))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: dot_product_attention(Q, K[:, :2], V), r"k must have shape \(S, heads, d\) with heads = 3"),
        (lambda: dot_product_attention(Q, K, V[:5]), r"v must have shape \(S, heads, e\) with S = 6"),
        (lambda: dot_product_attention(Q, K, V, 1.0 * MASK), "mask must be boolean, .* got dtype float64"),
        (lambda: dot_product_attention(Q, K, V, MASK.T), r"mask must broadcast to \(3, 4, 6\), got shape \(6, 4\)"),
        (lambda: dot_product_attention(Q, K, V, causal=True), "as many queries as keys, got 4 and 6"),
        (lambda: attention_weights(Q, K, scale=0.0), "scale must be positive, got 0.0"),
        (lambda: attention_entropy(np.ones(3)), r"weights must have shape \(\.\.\., T, S\)"),
        (lambda: causal_mask(3, 2), "keys must be at least 3, got 2"),
        (lambda: additive_mask(np.eye(2)), "mask must be boolean"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
