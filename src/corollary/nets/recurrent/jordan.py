r"""The Jordan network: the last output is all that is remembered, so training it is plain regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.data import Data
from corollary.nets.activations import tanh
from corollary.nets.mlp import MLP


@implements("M13.04")
def lagged_table(xs: Float[ArrayLike, "..."], ys: Float[ArrayLike, "..."], lags: int = 1) -> Data:
    r"""The pairs $((X_t,Y_{t-1},\dots,Y_{t-p}),Y_t)$, one per row, NaN where there is no earlier $Y$.

    `xs` is (T,) or (T, n), `ys` (T,) or (T, q); the features are (T, n + q p). Drop the first `lags` rows to train.
    """
    lags = whole("lags", lags)
    xs, ys = (a[:, None] if a.ndim == 1 else a for a in (real("xs", xs), real("ys", ys)))
    dims = {}
    xs, ys = real("xs", xs, "T n", dims), real("ys", ys, "T q", dims)
    if lags >= dims["T"]:
        raise ValueError(f"lags must be less than the {dims['T']} steps, got {lags}.")
    nothing = jnp.full((lags, ys.shape[1]), jnp.nan, ys.dtype)
    past = [jnp.concatenate([nothing[:lag], ys[:-lag]]) for lag in range(1, lags + 1)]
    return Data(jnp.concatenate([xs, *past], axis=1), ys)


@implements("M13.03")
class Jordan(eqx.Module):
    r"""$Y_t=m(X_t,Y_{t-1})$; without hidden layers $m=\tanh(w_1X_t+w_2Y_{t-1}+b)$ (13.2).

    `hidden` are the widths of hidden layers. The last layer has the activation too.
    """

    network: MLP
    activation: object = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, hidden: Sequence[int] = (), activation: Callable = tanh, *, key: PRNGKeyArray
    ):
        inputs, outputs = whole("inputs", inputs), whole("outputs", outputs)
        if not callable(activation):
            raise TypeError(f"activation must be a function of a number, got {activation!r}.")
        self.network = MLP((inputs + outputs, *hidden, outputs), activation, key=key)
        self.activation = activation

    def __call__(self, x: Float[ArrayLike, "n"], last: Float[ArrayLike, "q"]) -> Float[Array, "q"]:
        r"""$m(X_t,Y_{t-1})$ of one input (n,) and the output before it (q,)."""
        return self.activation(self.network(jnp.concatenate([real("x", x, "n"), real("last", last, "q")])))

    def one_step(self, xs: Float[ArrayLike, "T n"], ys: Float[ArrayLike, "T q"]) -> Float[Array, "_ _"]:
        r"""Predictions of $Y_2,\dots,Y_T$, each from the true output before it (teacher forcing): (T - 1, q)."""
        dims = {}
        xs, ys = real("xs", xs, "T n", dims), real("ys", ys, "T q", dims)
        if dims["T"] < 2:
            raise ValueError("xs must have at least two steps: the first has no output before it.")
        return jax.vmap(self)(xs[1:], ys[:-1])

    def rollout(self, xs: Float[ArrayLike, "T n"], last: Float[ArrayLike, "q"]) -> Float[Array, "T _"]:
        r"""Outputs $Y_1,\dots,Y_T$ when each is fed back, from $Y_0=$ `last`: (T, q)."""
        xs, last = real("xs", xs, "T n"), real("last", last, "q")

        def advance(y, x):
            y = self(x, y)
            return y, y

        return jax.lax.scan(advance, last.astype(jnp.result_type(last, xs, *jax.tree.leaves(self.network))), xs)[1]

    def loss(self, xs: Float[ArrayLike, "..."], ys: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$\frac1{T-1}\sum_{t=2}^T\|Y_t-m(X_t,Y_{t-1})\|^2$: the first row has no lag and is dropped."""
        return jnp.mean(jnp.sum((real("ys", ys)[1:] - self.one_step(xs, ys)) ** 2, axis=1))
