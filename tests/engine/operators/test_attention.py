"""Attention beside PyTorch's."""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.nn import functional as F

from corollary._engine.operators.attention import attend


def test_masks_of_numbers_and_of_booleans(agrees, draw):
    arrays = draw(2, 3, 4, 5), draw(2, 3, 6, 5), draw(2, 3, 6, 7)
    added = draw(2, 1, 4, 6)
    agrees(
        lambda q, k, v: attend(q, k, v, added, scale=0.3),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.tensor(added), scale=0.3),
        *arrays,
    )
    counts = added > -0.5
    agrees(
        lambda q, k, v: attend(q, k, v, counts),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.tensor(counts)),
        *arrays,
    )


def test_causal_attention_with_fewer_heads_of_keys(agrees, draw):
    agrees(
        lambda q, k, v: attend(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
        draw(2, 4, 5, 3),
        draw(2, 2, 5, 3),
        draw(2, 2, 5, 3),
    )


def test_later_queries_see_the_keys_of_the_past(draw):
    q, k, v = draw(1, 5, 3), draw(1, 5, 3), draw(1, 5, 3)
    whole = attend(q, k, v, causal=True)
    np.testing.assert_allclose(attend(q[:, 3:], k, v, causal=True, offset=3), whole[:, 3:], rtol=1e-5)


def test_a_query_that_sees_nothing_gets_zeros_and_no_derivative(draw):
    q, k, v = draw(2, 3), draw(4, 3), draw(4, 3)
    mask = np.array([[True] * 4, [False] * 4])
    assert np.array_equal(attend(q, k, v, mask)[1], np.zeros(3))
    slope = jax.grad(lambda q: jnp.sum(attend(q, k, v, mask)[1] ** 2))(jnp.asarray(q))
    assert np.array_equal(slope, np.zeros((2, 3)))


def test_scores_stay_below_their_cap(draw):
    q, k, v = 100 * draw(2, 3), draw(4, 3), draw(4, 3)
    scores = 2 * np.tanh(q @ k.T / np.sqrt(3) / 2)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(attend(q, k, v, softcap=2.0), weights @ v, rtol=1e-4)
