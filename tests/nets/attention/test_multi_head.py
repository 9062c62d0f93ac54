import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets import parameter_count
from corollary.nets.attention import (
    AttentionPooling,
    MultiHeadAttention,
    causal_mask,
    linear_attention,
    plain_attention,
    shared_attention,
    soft_lookup,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, CONTEXT = RNG.normal(size=(5, 6)), RNG.normal(size=(7, 4))
PROJECTIONS = ("query", "key", "value", "output")


def test_agrees_with_equinox():
    ours = MultiHeadAttention(6, 2, key=KEY, size=3, value_size=5, outputs=8, context_inputs=4, bias=True)
    biases = {f"use_{name}_bias": True for name in PROJECTIONS}
    theirs = eqx.nn.MultiheadAttention(2, 6, 4, 4, 8, 3, 5, **biases, key=KEY)
    for name in PROJECTIONS:
        layer = getattr(ours, name)
        theirs = eqx.tree_at(
            lambda m, n=name: (getattr(m, f"{n}_proj").weight, getattr(m, f"{n}_proj").bias),
            theirs,
            (layer.weight, layer.bias),
        )
    mask = jnp.asarray(RNG.random((5, 7)) < 0.7).at[:, 0].set(True)

    @eqx.filter_jit
    def run(ours, theirs):
        by_head = jnp.einsum("hts,she->the", ours.weights(X, CONTEXT, mask), ours.keys_values(CONTEXT)[1])
        by_hand = jax.vmap(ours.output)(by_head.reshape(5, -1))
        return ours(X, CONTEXT, mask), theirs(X, CONTEXT, CONTEXT, mask), by_hand

    found, reference, by_hand = run(ours, theirs)
    np.testing.assert_allclose(found, reference, rtol=1e-12)
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)


def test_parameter_counts():
    listing = MultiHeadAttention(6, 1, key=KEY, bias=True)
    assert parameter_count(listing) == 4 * (6**2 + 6)
    heads = MultiHeadAttention(6, 3, key=KEY, size=4, value_size=5)
    assert parameter_count(heads) == 6 * (2 * 3 * 4 + 3 * 5) + 3 * 5 * 6


def test_key_value_cache():
    model = MultiHeadAttention(6, 2, key=KEY)

    @jax.jit
    def run(x):
        keys, values = model.keys_values(x)
        # room for later tokens, which the mask hides
        roomy = (jnp.concatenate([a, jnp.full((2, 2, 3), 7.0)]) for a in (keys, values))
        last_two = model.attend(x[3:], keys, values, causal_mask(2, 5))
        return model(x, causal=True), last_two, model.attend(x[4:], *roomy, jnp.arange(7) < 5)

    all_at_once, last_two, last = run(X)
    np.testing.assert_allclose(last_two, all_at_once[3:], rtol=1e-12)
    np.testing.assert_allclose(last, all_at_once[4:], rtol=1e-12)


def test_follows_the_dtype():
    model = jax.tree.map(lambda a: a.astype(jnp.bfloat16), MultiHeadAttention(6, 2, key=KEY))
    assert model(X.astype(jnp.bfloat16)).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: MultiHeadAttention(6, 4, key=KEY), "inputs must be a multiple of heads .* got 6 and 4"),
        (lambda: MultiHeadAttention(6, 2, key=KEY)(X[:, :5]), r"context must have shape \(T, 6\), got \(5, 5\)"),
        (lambda: MultiHeadAttention(6, 2, key=KEY)(X, CONTEXT), r"context must have shape \(T, 6\), got \(7, 4\)"),
        (lambda: AttentionPooling(6, 0, key=KEY), "queries must be at least 1, got 0"),
        (lambda: soft_lookup(X[0], X, X, -1.0), "beta must be zero or more, got -1.0"),
        (lambda: shared_attention(X, np.eye(5)), r"u must have shape \(d, e\) with d = 6"),
        (lambda: linear_attention(X, CONTEXT, CONTEXT), r"k must have shape \(S, d\) with d = 6"),
        (lambda: plain_attention(X[0]), r"x must have shape \(T, d\)"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
