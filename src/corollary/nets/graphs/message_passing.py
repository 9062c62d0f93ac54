r"""Message passing: every vertex hears its neighbours' messages all together and changes its features."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._validate import one_of
from corollary.catalog import implements
from corollary.nets.graphs.neighbours import AGGREGATIONS, as_graph, features


@implements("E07.11")
class MessagePassing(eqx.Module):
    r"""$x_m'=\phi\big(x_m,\bigoplus_{n\in N(m)}\psi(x_n)\big)$ with the sum, mean or maximum for $\bigoplus$.

    The `update` $\phi$ is called on the concatenation of both vectors, the `message` $\psi$ on the features of one
    vertex. A vertex without neighbours hears zero. Sums tell multisets apart that means ($\{a\}$ from $\{a,a\}$) and
    maxima ($\{a,a,b\}$ from $\{a,b,b\}$) do not.
    """

    update: Callable
    message: Callable
    aggregation: str = eqx.field(static=True)

    def __init__(self, update: Callable, message: Callable, aggregation: str = "sum"):
        for name, function in (("update", update), ("message", message)):
            if not callable(function):
                raise TypeError(f"{name} must be a function of a vector, got {function!r}.")
        self.update, self.message = update, message
        self.aggregation = one_of("aggregation", aggregation, AGGREGATIONS)

    def __call__(self, x: Float[ArrayLike, "m d"], graph: Float[ArrayLike, "m m"]) -> Float[Array, "_ _"]:
        x = features(x)
        graph = as_graph(graph, x.shape[0])
        heard = AGGREGATIONS[self.aggregation](graph, jax.vmap(self.message)(x))
        return jax.vmap(self.update)(jnp.concatenate([x, heard], axis=1))
