r"""A network of one hidden layer as a cloud of units, and its training in the scaling where the kernel stays.

$m(x)=N^{-\gamma}\sum_{n=1}^NC^n\sigma(W^n\cdot x)$. With $\gamma=\frac12$ the outputs at the start are of order one and
the network trains as its tangent kernel says; with $\gamma=1$ it is an average over the measure of its units. The rate
$\eta N^{-2(1-\gamma)}$ of a step moves the outputs by the order $1/N$ for every $\gamma$, so that
time is steps over $N$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

from corollary._engine.runge_kutta import flow
from corollary._types import Scalar
from corollary._validate import concrete, labels, one_of, positive, real, whole, within
from corollary.catalog import implements
from corollary.kernels.dual import activation as resolved

# Laws of the outer weights, each of mean 0 and variance 1, and the bound of its support.
OUTER: dict[str, tuple[Callable, float]] = {
    "uniform": (lambda key, shape, dtype: jax.random.uniform(key, shape, dtype, -(3**0.5), 3**0.5), 3**0.5),
    "signs": (lambda key, shape, dtype: jax.random.rademacher(key, shape, dtype), 1.0),
    "skewed": (
        lambda key, shape, dtype: (3 * jax.random.bernoulli(key, 1 / 3, shape) - 1).astype(dtype) / 2**0.5,
        2**0.5,
    ),
    "normal": (jax.random.normal, float("inf")),
}


@implements("M19.10")
class UnitMeasure(eqx.Module):
    r"""The empirical measure $\frac1N\sum_n\delta_{(C^n,W^n)}$ of the units: `outer` (n,), `inner` (n, d).

    Only the first `width` units count.
    """

    outer: jax.Array
    inner: jax.Array
    width: jax.Array

    def pair(self, f: Callable) -> Float[Array, "..."]:
        r"""$\langle f,\mu\rangle=\frac1N\sum_nf(C^n,W^n)$ for a function of the two weights of one unit."""
        if not callable(f):
            raise TypeError(f"f must be a function of the weights (c, w) of a unit, got {type(f).__name__}.")
        values = jax.vmap(f)(self.outer, self.inner)
        return jnp.tensordot(_present(self), values, 1) / self.width

    def wasserstein(self, other: "UnitMeasure") -> Float[Array, ""]:
        r"""$W_2(\mu,\nu)$ between measures of equally many units: the best of all ways to pair them up."""
        if not isinstance(other, UnitMeasure) or other.inner.shape != self.inner.shape:
            raise TypeError("other must be a UnitMeasure with the same numbers of units and inputs.")
        mine, theirs = (jnp.concatenate([m.outer[:, None], m.inner], 1) for m in (self, other))
        cost = jnp.sum((mine[:, None] - theirs) ** 2, -1)
        # absent units pair up among themselves, for nothing
        both = _present(self)[:, None] * _present(other)
        neither = (1 - _present(self))[:, None] * (1 - _present(other))
        cost = jnp.where(both > 0, cost, jnp.where(neither > 0, 0, 1 + 2 * jnp.sum(cost)))
        rows, columns = optax.assignment.hungarian_algorithm(cost)
        return jnp.sqrt(jnp.sum(cost[rows, columns]) / self.width)


@implements("M19.07", "M19.22")
class ScaledNetwork(eqx.Module):
    r"""$m(x)=N^{-\gamma}\sum_nC^n\sigma(W^n\cdot x)$; with `bias`, $x$ is taken as $(1,x)$.

    `outer` is $C$ (n,) and `inner` $W$ (n, d), or (n, 1 + d) with the bias first. `width` is $N$, the number of
    units unless less: the units beyond it are absent, so that one compiled program serves many widths.
    """

    outer: jax.Array
    inner: jax.Array
    width: jax.Array
    gamma: jax.Array
    activation: Callable = eqx.field(static=True)
    bias: bool = eqx.field(static=True)

    def __init__(
        self,
        outer: Float[ArrayLike, "n"],
        inner: Float[ArrayLike, "n d"],
        *,
        gamma: Scalar = 0.5,
        activation: str | Callable = "erf",
        bias: bool = False,
        width: Scalar | None = None,
    ):
        dims = {}
        self.outer, self.inner = real("outer", outer, "n", dims), real("inner", inner, "n d", dims)
        self.width = real("width", dims["n"] if width is None else width, "").astype(self.outer.dtype)
        within("width", self.width, 1, dims["n"])
        self.gamma = within("gamma", real("gamma", gamma, "").astype(self.outer.dtype), 0.5, 1.0)
        self.activation, self.bias = resolved(activation), bool(bias)
        if self.bias and dims["d"] < 2:
            raise ValueError("inner must have a column for the bias and one for each input, got 1 column.")

    def __call__(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The outputs at `x` (..., d): shape (...)."""
        x = self.inputs(x)
        return self.width**-self.gamma * (self.activation(x @ self.inner.T) @ (self.outer * _present(self)))

    def inputs(self, x: Float[ArrayLike, "... d"]) -> Float[Array, "..."]:
        """What the units see of `x`: with a bias, a first coordinate 1."""
        x = real("x", x, "... d", {"d": self.inner.shape[1] - self.bias}).astype(self.inner.dtype)
        return jnp.concatenate([jnp.ones_like(x[..., :1]), x], -1) if self.bias else x

    @property
    def measure(self) -> UnitMeasure:
        return UnitMeasure(self.outer, self.inner, self.width)


def draw_shallow(
    units: int, features: int, *, key: PRNGKeyArray, outer: str = "uniform", bias: bool = False, **options: Any
) -> ScaledNetwork:
    r"""A `ScaledNetwork` with independent $W\sim\mathcal N(0,I)$ and $C$ of mean 0 and variance 1.

    `outer` is the law of $C$: "uniform", "signs", "skewed" (two values, the larger half as likely) or "normal".
    `options` are those of `ScaledNetwork`.
    """
    units, features = whole("units", units), whole("features", features)
    sampler, _ = OUTER[one_of("outer", outer, OUTER)]
    outer_key, inner_key = jax.random.split(key)
    dtype = jnp.result_type(float)
    inner = jax.random.normal(inner_key, (units, features + bool(bias)), dtype)
    return ScaledNetwork(sampler(outer_key, (units,), dtype), inner, bias=bias, **options)


@implements("M19.11")
def tangent_parts(
    network: ScaledNetwork, x: Float[ArrayLike, "n d"], x2: Float[ArrayLike, "_ d"] | None = None
) -> tuple[Float[Array, "n _"], Float[Array, "n _"]]:
    r"""The two parts of the kernel $K(x,x';\mu)$: $\langle\sigma(w\cdot x)\sigma(w\cdot x'),\mu\rangle$ and
    $\langle c^2\sigma'(w\cdot x)\sigma'(w\cdot x'),\mu\rangle\,x\cdot x'$, each (n, n2).

    The first is what training the outer weights gives, the second the inner ones. Their sum is $N^{2\gamma-1}JJ^\top$
    with the Jacobian $J$ of the outputs in all weights.
    """
    _network(network)
    a = _points(network, "x", x)
    b = a if x2 is None else _points(network, "x2", x2)
    weight = _present(network) / network.width
    values, slopes = _unit_values(network, a)
    values2, slopes2 = (values, slopes) if x2 is None else _unit_values(network, b)
    return (values * weight) @ values2.T, (slopes * weight * network.outer**2) @ slopes2.T * (a @ b.T)


@implements("M19.11")
def tangent_kernel(
    network: ScaledNetwork, x: Float[ArrayLike, "n d"], x2: Float[ArrayLike, "n d"] | None = None
) -> Float[Array, "_ _"]:
    r"""$K(x,x';\mu)$ of the network's units, (n, n2): the sum of `tangent_parts`."""
    return sum(tangent_parts(network, x, x2))


@implements("M19.16")
def shallow_step(network: ScaledNetwork, x: Float[ArrayLike, "d"], y: Scalar, eta: Scalar) -> ScaledNetwork:
    r"""One step of SGD on $\frac12(y-m(x))^2$ at one example, of the rate $\eta N^{-2(1-\gamma)}$.

    $C\leftarrow C+\eta^NN^{-\gamma}(y-m(x))\sigma(W\cdot x)$ and
    $W\leftarrow W+\eta^NN^{-\gamma}(y-m(x))C\sigma'(W\cdot x)x$, both from the old weights.
    """
    _network(network)
    x = network.inputs(real("x", x, "d", {"d": network.inner.shape[1] - network.bias}))
    y, eta = (v.astype(x.dtype) for v in (real("y", y, ""), positive("eta", real("eta", eta, ""))))
    return _step(network, x, y, eta)


@implements("M19.16", "M19.35")
def shallow_sgd(
    network: ScaledNetwork,
    x: Float[ArrayLike, "..."],
    y: Float[ArrayLike, "n"],
    eta: Scalar,
    order: Int[ArrayLike, "_"],
    checkpoints: Int[ArrayLike, "t"] | None = None,
    *,
    observe: Callable | None = None,
) -> tuple[Float[Array, "..."], Any]:
    r"""SGD in which step $k$ sees the example `order[k]`: what `observe(network)` gives after each of `checkpoints`.

    The rate is $\eta N^{-2(1-\gamma)}$, for $\gamma=\frac12$ the $\eta/N$ of M, Theorem 19.3. `checkpoints` are
    increasing numbers of steps, all of 0 to `len(order)` unless given; they may be traced, and depend on the width.
    `observe` is the outputs at `x` unless given. Returns the observations, stacked, and the network at the end.
    """
    _network(network)
    x, y, eta, observe = _training(network, x, y, eta, observe)
    order = labels("order", order, y.shape[0])
    if checkpoints is None:
        checkpoints = np.arange(order.shape[0] + 1)
    points = labels("checkpoints", checkpoints, order.shape[0] + 1, "t")
    if concrete(checkpoints) and (np.diff(np.asarray(checkpoints)) < 0).any():
        raise ValueError("checkpoints must increase.")

    def one(k, network):
        return _step(network, x[order[k]], y[order[k]], eta)

    def onward(state, end):
        begin, network = state
        network = jax.lax.fori_loop(begin, end, one, network)
        return (end, network), observe(network)

    (_, network), observed = jax.lax.scan(onward, (jnp.zeros((), points.dtype), network), points)
    return observed, network


@implements("M19.09", "M19.36")
def shallow_velocity(
    network: ScaledNetwork, x: Float[ArrayLike, "..."], y: Float[ArrayLike, "n"], eta: Scalar
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""$(\dot C,\dot W)$ of the flow $\dot\theta=-\eta N^{2\gamma-1}\nabla\Lambda$ of the loss
    $\Lambda=\frac1{2M}\sum_m(y_m-m(x_m))^2$.
    """
    _network(network)
    x, y, eta, _ = _training(network, x, y, eta, None)
    return _velocity(network, x, y, eta)


@implements("M19.09")
def shallow_flow(
    network: ScaledNetwork,
    x: Float[ArrayLike, "..."],
    y: Float[ArrayLike, "n"],
    eta: Scalar,
    times: Float[ArrayLike, "t"],
    *,
    substeps: int = 20,
    observe: Callable | None = None,
) -> tuple[Float[Array, "..."], Any]:
    r"""The gradient flow of the mean squared loss: what `observe(network)` gives at each of the increasing `times`.

    Runge and Kutta's method of fourth order, `substeps` equal steps to each time from the one before. `observe` is the
    outputs at `x` unless given. Returns the observations, stacked, and the network at the end.
    """
    _network(network)
    x, y, eta, observe = _training(network, x, y, eta, observe)
    times, substeps = within("times", real("times", times, "t"), 0.0), whole("substeps", substeps)
    if concrete(times) and (np.diff(np.asarray(times)) < 0).any():
        raise ValueError("times must increase.")

    def at(weights):
        return eqx.tree_at(lambda n: (n.outer, n.inner), network, weights)

    seen, end = flow(
        lambda weights: _velocity(at(weights), x, y, eta),
        (network.outer, network.inner),
        times,
        substeps=substeps,
        observe=lambda weights: observe(at(weights)),
    )
    return seen, at(end)


def _step(network, x, y, eta):
    values, slopes = _unit_values(network, x)
    scale = network.width**-network.gamma
    miss = y - scale * (values @ network.outer)
    move = miss * values, miss * (network.outer * slopes)[:, None] * x
    return _moved(network, move, eta * network.width ** (network.gamma - 2))


def _velocity(network, x, y, eta):
    values, slopes = _unit_values(network, x)
    miss = (y - network.width**-network.gamma * (values @ network.outer)) / y.shape[0]
    scale = eta * network.width ** (network.gamma - 1)
    return scale * (miss @ values), scale * network.outer[:, None] * ((slopes * miss[:, None]).T @ x)


def _unit_values(network, x):
    r"""$\sigma(W\cdot x)$ and $\sigma'(W\cdot x)$ of the present units, the absent ones 0."""
    z = x @ network.inner.T
    values, slopes = jax.jvp(network.activation, (z,), (jnp.ones_like(z),))
    return values * _present(network), slopes * _present(network)


def _present(units):
    return (jnp.arange(units.outer.shape[0]) < units.width).astype(units.outer.dtype)


def _moved(network, move, length):
    weights = tuple(w + length * m for w, m in zip((network.outer, network.inner), move, strict=True))
    return eqx.tree_at(lambda n: (n.outer, n.inner), network, weights)


def _points(network, name, x):
    return network.inputs(real(name, x, "n d", {"d": network.inner.shape[1] - network.bias}))


def _training(network, x, y, eta, observe):
    x = _points(network, "x", raw := x)
    y = real("y", y, "n", {"n": x.shape[0]}).astype(x.dtype)
    eta = positive("eta", real("eta", eta, "")).astype(x.dtype)
    if observe is not None and not callable(observe):
        raise TypeError(f"observe must be a function of the network, got {type(observe).__name__}.")
    return x, y, eta, observe or (lambda network: network(raw))


def _network(network):
    if not isinstance(network, ScaledNetwork):
        raise TypeError(f"network must be a ShallowNetwork, got {type(network).__name__}.")
