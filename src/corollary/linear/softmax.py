"""The softmax map, voting by plurality, and the regions in which a linear model decides for a class."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from corollary._show import shown
from corollary._validate import labels, real, whole
from corollary.catalog import implements


@implements("M03.22", "M03.28", "B02.15", "E02.12", "T15.04")
def softmax(z: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$e^{z_i}/\sum_je^{z_j}$ over the last axis, without overflow. Entries far below the greatest round to 0."""
    return jax.nn.softmax(real("z", z, "... J"), axis=-1)


@implements("M03.22", "E02.12")
def log_softmax(z: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$z_i-\ln\sum_je^{z_j}$ over the last axis: finite where the probability itself rounds to 0."""
    return jax.nn.log_softmax(real("z", z, "... J"), axis=-1)


@implements("M03.22", "B02.15", "T15.04")
def softmax_jacobian(z: Float[ArrayLike, "... J"]) -> Float[Array, "..."]:
    r"""$\mathrm{diag}(p)-pp^\top$ at $p=S_{softmax}(z)$: symmetric, with $\mathbf 1$ in its kernel."""
    p = softmax(z)
    return p[..., :, None] * jnp.eye(p.shape[-1], dtype=p.dtype) - p[..., :, None] * p[..., None, :]


@implements("M03.24")
def plurality(p: Float[ArrayLike, "... J"]) -> Int[Array, "..."]:
    """The class of the greatest entry over the last axis; a tie goes to the lowest class."""
    return jnp.argmax(real("p", p, "... J"), axis=-1)


@implements("M03.24")
def one_hot(y: Int[ArrayLike, "n"], classes: int) -> Float[Array, "n _"]:
    """Labels `0..classes-1` as probability vectors: shape (n, classes)."""
    classes = whole("classes", classes)
    return jax.nn.one_hot(labels("y", y, classes), classes, dtype=jnp.result_type(float))


class HalfSpaces(NamedTuple):
    """The open set where `normals @ x > offsets`, row by row."""

    normals: jax.Array
    offsets: jax.Array

    __repr__ = shown

    def contains(self, x: Float[ArrayLike, "... _"]) -> Bool[Array, "..."]:
        """Whether each point of `x` (..., d) lies in all of the half-spaces."""
        x = real("x", x, f"... {self.normals.shape[1]}")
        return jnp.all(x @ self.normals.T > self.offsets, axis=-1)


@implements("M03.25", "M03.26")
def decision_region(weight: Float[ArrayLike, "J d"], bias: Float[ArrayLike, "J"], index: int) -> HalfSpaces:
    r"""Where the logits $Wx+b$ are greatest at class `index`: $(w_i-w_j)\cdot x>b_j-b_i$ for all $j\ne i$."""
    weight, bias = _model(weight, bias)
    classes = weight.shape[0]
    index = whole("index", index, 0, classes - 1)
    others = jnp.array([j for j in range(classes) if j != index])
    return HalfSpaces(weight[index] - weight[others], bias[others] - bias[index])


@implements("M03.25")
def meeting_point(weight: Float[ArrayLike, "J d"], bias: Float[ArrayLike, "J"]) -> Float[Array, "d"]:
    r"""The point where all logits $Wx+b$ are equal, for one class more than features; raises if there is none."""
    weight, bias = _model(weight, bias)
    if weight.shape[0] != weight.shape[1] + 1:
        raise ValueError(f"weight must have one row more than columns, got shape {weight.shape}.")
    normals, offsets = weight[0] - weight[1:], bias[1:] - bias[0]
    return _solve(normals, offsets)


def _model(weight, bias):
    dims = {}
    weight, bias = real("weight", weight, "J d", dims), real("bias", bias, "J", dims)
    if dims["J"] < 2:
        raise ValueError(f"weight must have a row for each of at least 2 classes, got shape {weight.shape}.")
    return weight, bias


def _solve(normals, offsets):
    if not isinstance(normals, jax.core.Tracer) and int(jnp.linalg.matrix_rank(normals)) < normals.shape[0]:
        raise ValueError("weight must have affinely independent rows: the regions meet in no single point.")
    return jnp.linalg.solve(normals, offsets)
