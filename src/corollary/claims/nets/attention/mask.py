"""Causal masks: what a token may see, and why a cache of keys and values is right."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import randomise
from corollary.claims.nets.attention._pictures import matrices
from corollary.evidence import Range, Size, claim, control, equal
from corollary.nets import zeros
from corollary.nets.attention import MultiHeadAttention, additive_mask, attention_weights, causal_mask

Several = Annotated[int, Range(2, 100)]  # with one token there is nothing to mask


@claim(rows=("B10.61", "M13.41"))
def masked_softmax(key, *, tokens: Several = 6, dim: Size = 4, heads: Size = 2):
    r"""A causal mask makes the weights of each token a softmax over the tokens up to it.

    With $M_{ij}=0$ for $j\le i$ and $-\infty$ for $j>i$, $\mathrm{softmax}(QK^\top/\sqrt{d_k}+M)$ has entries
    $a_{ij}=e^{\langle Q_i,K_j\rangle/\sqrt{d_k}}/\sum_{m\le i}e^{\langle Q_i,K_m\rangle/\sqrt{d_k}}$ for $j\le i$ and
    exactly 0 otherwise: its rows sum to 1, and the first is $(1,0,\dots,0)$. Setting the entries to 0 after the
    softmax gives rows that do not sum to 1.
    """
    q, k = np.asarray(jax.random.normal(key, (2, tokens, heads, dim)))
    plain, found = jax.jit(lambda q, k: (attention_weights(q, k), attention_weights(q, k, causal=True)))(q, k)
    logits = np.einsum("thd,shd->hts", q, k) / dim**0.5
    prefix = np.zeros_like(logits)
    for i in range(tokens):
        exponentials = np.exp(logits[:, i, : i + 1])
        prefix[:, i, : i + 1] = exponentials / exponentials.sum(-1, keepdims=True)
    yield equal("weights, against the softmax over the prefix", found, prefix)
    added = jax.nn.softmax(logits + additive_mask(causal_mask(tokens)), axis=-1)
    yield equal("weights, against logits with minus infinity", found, added)
    later = ~np.asarray(causal_mask(tokens))
    yield equal("weights of later tokens", np.asarray(found)[:, later], 0.0, rtol=0, atol=0)
    yield equal("sum of the weights of a token", found.sum(-1), 1.0)
    yield control("masked after the softmax", equal("sum of the weights", (plain * ~later).sum(-1), 1.0))
    yield matrices(
        "weights with and without the mask", {"plain": plain[0], "masked": found[0]}, across="attended", down="token"
    )


@claim(rows=("B10.62", "M13.41", "T15.07"))
def autoregressive(key, *, tokens: Several = 7, dim: Size = 6, layers: Size = 4, prefix: Size = 3):
    r"""A stack of masked attention layers sees no later token: derivatives vanish, prefixes agree, caches are right.

    Let $f$ be any number of layers, each with causal self-attention and maps of single tokens. Then
    $\partial f(X)_i/\partial x_j=0$ for $j>i$, exactly; $f(X_{1:k})=f(X)_{1:k}$ for every $k$; and token after token
    gives the same outputs when each layer keeps the keys and values of the tokens so far and attends with the
    newest query alone. Without the mask all three fail.
    """
    prefix = min(prefix, tokens - 1)  # of all tokens it would be no prefix

    @jax.jit
    def measure(key):
        blank = MultiHeadAttention(dim, 2 if dim % 2 == 0 else 1, key=key, initialisation=zeros)
        shapes = (blank, jnp.zeros((dim, dim)))
        stack, x = randomise(
            (jax.tree.map(lambda a: jnp.zeros((layers, *a.shape)), shapes), jnp.zeros((tokens, dim))), key, 0.5
        )

        def network(x, causal):
            def layer(x, params):
                attention, w = params
                x = x + attention(x, causal=causal)
                return x + jnp.tanh(x @ w), None

            return jax.lax.scan(layer, x, stack)[0]

        def blocks(causal):
            jacobian = jax.jacfwd(lambda x: network(x, causal))(x)
            return jnp.max(jnp.abs(jacobian), axis=(1, 3))

        # token after token, with the keys and values of all layers in two arrays
        heads = blank.heads
        room = jnp.zeros((layers, tokens, heads, dim // heads))

        def advance(cache, t):
            def layer(x, params):
                attention, w, keys, values = params
                k, v = attention.keys_values(x)
                keys, values = keys.at[t].set(k[0]), values.at[t].set(v[0])
                x = x + attention.attend(x, keys, values, jnp.arange(tokens) <= t)
                return x + jnp.tanh(x @ w), (keys, values)

            out, cache = jax.lax.scan(layer, x[t][None], (*stack, *cache))
            return cache, out[0]

        return {
            "blocks": jnp.stack([blocks(True), blocks(False)]),
            "whole": jnp.stack([network(x, True), network(x, False)]),
            "prefix": jnp.stack([network(x[:prefix], True), network(x[:prefix], False)]),
            "cached": jax.lax.scan(advance, (room, room), jnp.arange(tokens))[1],
        }

    found = measure(key)
    later = ~np.asarray(causal_mask(tokens))
    blocks = np.asarray(found["blocks"])
    yield equal("largest derivative of an output in a later token", blocks[0][later], 0.0, rtol=0, atol=0)
    yield equal("outputs of a prefix", found["prefix"][0], found["whole"][0, :prefix])
    yield equal("outputs token after token, with a cache", found["cached"], found["whole"][0])
    yield control("without the mask", equal("derivatives in later tokens", blocks[1][later], 0.0, rtol=0, atol=0))
    yield control("without the mask", equal("outputs of a prefix", found["prefix"][1], found["whole"][1, :prefix]))
    yield control("without the mask", equal("outputs token after token", found["cached"], found["whole"][1]))
    yield matrices(
        "largest derivative of output i in token j",
        {"masked": np.log10(1e-3 + blocks[0]), "not masked": np.log10(1e-3 + blocks[1])},
        across="j",
        down="i",
    )
