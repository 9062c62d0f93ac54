r"""Saliency maps by gradients: how an output changes with each coordinate of its input.

All functions look at one output of each example: `output` is its number, one for all examples or one for each, the
largest of the example's outputs unless given.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import labels, positive, real, whole
from corollary.attribution._coalitions import example_array, looked_at
from corollary.catalog import implements
from corollary.network.apart import output_of
from corollary.network.batches import each

#: Panels of the path with which an integral begins, and how many of them are halved at a time.
PANELS = 8
#: Gauss and Legendre's nodes and weights of a panel, on [0, 1].
NODES, WEIGHTS = (a / 2 for a in np.polynomial.legendre.leggauss(4))
NODES = NODES + 0.5


@implements("T10.21")
def saliency(
    network: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    *,
    output: Int[ArrayLike, "..."] | None = None,
    batch_size: int = 1024,
) -> Float[Array, "n ..."]:
    r"""$|\partial f_c/\partial x_j|$ at every example, of the shape of `x`.

    >>> saliency(network, x).shape
    (4, 3)
    """
    return jnp.abs(_gradients(*_prepared(network, x, output), whole("batch_size", batch_size)))


@implements("T10.21")
def gradient_input(
    network: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    *,
    output: Int[ArrayLike, "..."] | None = None,
    batch_size: int = 1024,
) -> Float[Array, "n ..."]:
    r"""$x_j\,\partial f_c/\partial x_j$ at every example, of the shape of `x`.

    >>> gradient_input(network, x).shape
    (4, 3)
    """
    network, x, chosen = _prepared(network, x, output)
    return x * _gradients(network, x, chosen, whole("batch_size", batch_size))


def smoothed_saliency(
    network: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    scale: Scalar,
    *,
    samples: int = 64,
    key: PRNGKeyArray,
    output: Int[ArrayLike, "..."] | None = None,
    batch_size: int = 1024,
) -> Float[Array, "n ..."]:
    r"""$\big|\frac1m\sum\partial f_c(x+\sigma\xi)/\partial x_j\big|$ over `samples` draws of normal noise $\xi$.

    An estimate of the saliency of the smoothed network $E\,f_c(x+\sigma\xi)$, `scale` $=\sigma$ in the units of `x`.
    The output is that which is largest without noise.

    >>> smoothed_saliency(network, x, 0.1, key=key).shape
    (4, 3)
    """
    network, x, chosen = _prepared(network, x, output)
    scale, samples = positive("scale", real("scale", scale, "")), whole("samples", samples)
    at_once = max(1, whole("batch_size", batch_size) // samples)
    return jnp.abs(_smoothed(network, x, chosen, scale, samples, key, at_once))


class IntegratedGradients(NamedTuple):
    """Attributions of the shape of `x`; of every example how far they are from adding up, and how many nodes it took.

    `gap` is |sum of the values - (output - output of the baseline)|.
    """

    values: jax.Array
    gap: jax.Array
    nodes: jax.Array

    __repr__ = shown


@implements("T10.21")
def integrated_gradients(
    network: NetworkLike,
    x: Float[ArrayLike, "n ..."],
    baseline: Float[ArrayLike, "..."],
    *,
    tolerance: float = 1e-4,
    output: Int[ArrayLike, "..."] | None = None,
    panels: int = 512,
    batch_size: int = 128,
) -> IntegratedGradients:
    r"""$(x_j-b_j)\int_0^1\partial_jf_c(b+t(x-b))\,dt$ at every example, for the `baseline` $b$, one example.

    They sum to $f_c(x)-f_c(b)$. The path is cut into panels with four Gauss nodes each; on every panel the integral of
    the slope along the path is compared with what the output grows by, and the worst panels are halved until these
    errors sum to at most `tolerance` times the largest change of the output along the path, or there are `panels` of
    them. A kink is so closed in on by halves. `gap` says how far the result is from adding up.

    >>> found = integrated_gradients(network, x, jnp.zeros(3))
    >>> bool(found.gap.max() < 1e-3)
    True
    """
    network, x, chosen = _prepared(network, x, output)
    baseline = real("baseline", baseline)
    if baseline.shape != x.shape[1:]:
        raise ValueError(f"baseline must have the shape of an example, {x.shape[1:]}, got {baseline.shape}.")
    tolerance = positive("tolerance", real("tolerance", tolerance, ""))
    rounds = -(-whole("panels", panels, PANELS) // PANELS)
    found = _integrated(network, x, chosen, baseline, tolerance, rounds, whole("batch_size", batch_size))
    return IntegratedGradients(*found)


def _prepared(network, x, output):
    """The network in inference mode, the examples, and the number of the output to look at for each of them."""
    x = example_array("x", x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            f"x must hold floating-point numbers, got dtype {x.dtype}: by whole numbers there is no gradient, use "
            "shapley_values."
        )
    network = looked_at(network, x)
    size = int(np.prod(output_of(network, x).shape))
    if output is None:
        return network, x, _largest(network, x)
    shape = "" if np.ndim(output) == 0 else "n"
    return network, x, jnp.broadcast_to(labels("output", output, size, shape, {"n": x.shape[0]}), x.shape[:1])


def _output(network, chosen):
    return lambda one: jnp.ravel(network(one))[chosen]


@eqx.filter_jit
def _largest(network, x):
    return each(lambda batch: jax.vmap(lambda one: jnp.argmax(jnp.ravel(network(one))))(batch), x, 1024)


@eqx.filter_jit
def _gradients(network, x, chosen, batch_size):
    def one(example):
        point, number = example
        return jax.grad(_output(network, number))(point)

    return each(jax.vmap(one), (x, chosen), batch_size)


@eqx.filter_jit
def _smoothed(network, x, chosen, scale, samples, key, at_once):
    def one(example):
        key, point, number = example
        noise = jax.random.normal(key, (samples, *point.shape), point.dtype)
        return jax.vmap(jax.grad(_output(network, number)))(point + scale.astype(point.dtype) * noise).mean(0)

    return each(jax.vmap(one), (jax.random.split(key, x.shape[0]), x, chosen), at_once)


class _Panels(NamedTuple):
    """Panels [a, b] of the path, the outputs at their ends, and by how much the quadrature misses their difference."""

    a: jax.Array
    b: jax.Array
    at_a: jax.Array
    at_b: jax.Array
    error: jax.Array


@eqx.filter_jit
def _integrated(network, x, chosen, baseline, tolerance, rounds, batch_size):
    def one(example):
        point, number = example
        start = baseline.astype(point.dtype)
        return _along(_output(network, number), start, point - start, tolerance.astype(point.dtype), rounds)

    return each(jax.vmap(one), (x, chosen), batch_size)


def _along(f, start, move, tolerance, rounds):
    dtype = move.dtype
    nodes, weights = jnp.asarray(NODES, dtype), jnp.asarray(WEIGHTS, dtype)

    def height(t):
        return f(start + t * move)

    def slope(t):
        return jax.jvp(height, (t,), (jnp.ones((), dtype),))[1]

    def measured(a, b, at_a, at_b):
        area = (b - a) * (jax.vmap(jax.vmap(slope))(a[:, None] + (b - a)[:, None] * nodes) @ weights)
        return _Panels(a, b, at_a, at_b, jnp.abs(at_b - at_a - area))

    edges = jnp.linspace(0, 1, PANELS + 1, dtype=dtype)
    heights = jax.vmap(height)(edges)
    first = measured(edges[:-1], edges[1:], heights[:-1], heights[1:])
    room = jax.tree.map(lambda part: jnp.zeros(rounds * PANELS, dtype).at[:PANELS].set(part), first)

    def unfinished(state):
        panels, used = state
        outputs = jnp.where(panels.b > panels.a, panels.at_b - heights[0], 0)
        largest = jnp.max(jnp.abs(outputs))
        return (panels.error.sum() > tolerance * largest) & (used < rounds)

    def halved(state):
        panels, used = state
        worst = lax.top_k(panels.error, PANELS)[1]
        a, b, at_a, at_b, _ = jax.tree.map(lambda part: part[worst], panels)
        middle = (a + b) / 2
        at_middle = jax.vmap(height)(middle)
        left, right = measured(a, middle, at_a, at_middle), measured(middle, b, at_middle, at_b)
        panels = jax.tree.map(lambda part, new: part.at[worst].set(new), panels, left)
        panels = jax.tree.map(lambda part, new: lax.dynamic_update_slice(part, new, (used * PANELS,)), panels, right)
        return panels, used + 1

    panels, used = lax.while_loop(unfinished, halved, (room, jnp.asarray(1)))

    def added(i, total):
        a, width = panels.a[i], panels.b[i] - panels.a[i]
        gradients = jax.vmap(lambda node: jax.grad(f)(start + (a + width * node) * move))(nodes)
        return total + width * jnp.tensordot(weights, gradients, 1)

    values = move * lax.fori_loop(0, used * PANELS, added, jnp.zeros_like(move))
    gap = jnp.abs(values.sum() - (heights[-1] - heights[0]))
    return values, gap, used * PANELS * NODES.size
