"""Networks as compositions: of different layers in a row, or of many layers of one kind in one compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import NetworkLike, Scalar
from corollary._validate import real, whole
from corollary.catalog import implements


@implements("E02.08", "M01.01")
class Composition(eqx.Module):
    r"""$F^L\circ\dots\circ F^1$ for any maps; `activations` gives every $x^\ell=F^\ell(x^{\ell-1})$ on the way."""

    layers: tuple

    def __init__(self, layers: tuple):
        layers = tuple(layers)
        if not layers or not all(map(callable, layers)):
            raise TypeError(f"layers must be one or more functions of a vector, got {layers!r}.")
        self.layers = layers

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self.activations(x)[-1]

    def activations(self, x: Float[ArrayLike, "n"]) -> list:
        r"""$[x^0,x^1,\dots,x^L]$ with $x^0=x$."""
        return activations_of(self.layers, x)


@implements("E02.08")
class Stack(eqx.Module):
    """`depth` layers of one kind in a row, each with parameters of its own, as one loop.

    `make(key)` builds one layer, which must map a vector to one of the same size. The parameters of all layers lie in
    one module with a leading axis, so that a network of 200 layers compiles as fast as one of two.
    """

    layers: eqx.Module
    depth: int = eqx.field(static=True)

    def __init__(self, make: Callable, depth: int, *, key: PRNGKeyArray):
        if not callable(make):
            raise TypeError(f"make must be a function from a key to a layer, got {make!r}.")
        self.depth = whole("depth", depth)
        self.layers = eqx.filter_vmap(make)(jax.random.split(key, self.depth))

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return self._run(x, keep=False)[0]

    def activations(self, x: Float[ArrayLike, "..."]) -> list[Array]:
        """The input and what every layer makes of it, as rows: (depth + 1, n)."""
        x, rest = self._run(x, keep=True)
        return rest

    def _run(self, x, keep):
        x = real("x", x, "n", finite=False)
        arrays, rest = eqx.partition(self.layers, eqx.is_array)

        def advance(state, layer):
            out = eqx.combine(layer, rest)(state)
            if out.shape != state.shape:
                raise ValueError(
                    f"every layer of a Stack must keep the shape {state.shape}, this one gives {out.shape}."
                )
            return out, out if keep else None

        x = x.astype(jnp.result_type(x, *jax.tree.leaves(arrays)))
        last, states = jax.lax.scan(advance, x, arrays)
        return last, jnp.concatenate([x[None], states]) if keep else None


@implements("B02.24", "M01.09")
def parameter_count(network: NetworkLike) -> int:
    """How many numbers a network holds: the entries of all its floating-point arrays.

    >>> parameter_count(network)
    21
    """
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))


@implements("B02.04")
def superposition_defect(
    f: Callable, x: Float[ArrayLike, "n"], y: Float[ArrayLike, "n"], alpha: Scalar, beta: Scalar
) -> Array:
    r"""$\|f(\alpha x+\beta y)-\alpha f(x)-\beta f(y)\|$, zero for all arguments exactly if $f$ is linear."""
    x, y = real("x", x, "n", dims := {}), real("y", y, "n", dims)
    alpha, beta = real("alpha", alpha, ""), real("beta", beta, "")
    return jnp.linalg.norm(jnp.ravel(f(alpha * x + beta * y) - alpha * f(x) - beta * f(y)))


@implements("B02.04")
def matrix_of(f: Callable, inputs: int) -> Float[Array, "_ _"]:
    r"""The matrix $(f(e_1)\mid\dots\mid f(e_n))$ of shape (m, n): of a linear $f$ the only one with $f(x)=Ax$."""
    basis = jnp.eye(whole("inputs", inputs))
    return jax.vmap(f, out_axes=-1)(basis)


def activations_of(layers, x) -> list:
    states = [real("x", x, "n", finite=False)]
    for layer in layers:
        states.append(layer(states[-1]))
    return states
