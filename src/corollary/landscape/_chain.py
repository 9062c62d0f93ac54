"""Chains of matrices: the weights of a linear network, the first layer first."""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import jax
import jax.numpy as jnp

from corollary._validate import real


def chain(name: str, weights, low: int = 1) -> tuple[jax.Array, ...]:
    """`weights` as matrices of which each can be applied to what the one before gives, all of one dtype."""
    if not isinstance(weights, Sequence) and getattr(weights, "ndim", 0) != 3:
        raise TypeError(f"{name} must be a sequence of matrices, got {type(weights).__name__}.")
    out = [real(f"{name}[{i}]", w, "m n") for i, w in enumerate(weights)]
    if len(out) < low:
        raise ValueError(f"{name} must hold at least {low} matrices, got {len(out)}.")
    for i, (first, then) in enumerate(pairwise(out)):
        if first.shape[0] != then.shape[1]:
            raise ValueError(
                f"{name}[{i + 1}] must have {first.shape[0]} columns, as many as {name}[{i}] has rows, "
                f"got shape {then.shape}."
            )
    dtype = jnp.result_type(*out)
    return tuple(w.astype(dtype) for w in out)


def product(weights):
    r"""$W_N\cdots W_1$."""
    return reduce(lambda done, w: w @ done, weights)


def around(weights) -> list[tuple]:
    r"""For every layer what comes after it and what comes before it: $(W_N\cdots W_{l+1},\ W_{l-1}\cdots W_1)$."""
    eye = [jnp.eye(weights[-1].shape[0], dtype=weights[0].dtype), jnp.eye(weights[0].shape[1], dtype=weights[0].dtype)]
    after, before = [eye[0]], [eye[1]]
    for w in weights[:0:-1]:
        after.append(after[-1] @ w)
    for w in weights[:-1]:
        before.append(w @ before[-1])
    return list(zip(after[::-1], before, strict=True))
