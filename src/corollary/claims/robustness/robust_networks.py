"""Two-layer networks that withstand perturbations of the order of the inputs exist, and training does not find them."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary._charts import lines
from corollary.evidence import (
    Probability,
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    picture,
    printed,
    rate,
)
from corollary.robustness import TwoLayerNetwork, ray_flip, robust_network, sphere_points

# inputs of units are sums of d products of the order 1: the rounding of float64 leaves 1e-12 for a few hundred
ROUNDING = 1e-11


def _labels(m):
    return jnp.where(jnp.arange(m) % 2 == 0, 1.0, -1.0)


@claim(rows=("B12.08", "B12.09", "B12.10", "B12.11"), full={"dim": 400, "m": 100})
def robust_network_exists(key, *, dim: Size = 100, m: Annotated[int, Range(4, 200)] = 50, c: Probability = 0.3):
    r"""A two-layer network fits m points and withstands perturbations of the order of their length.

    Let $x_1,\dots,x_m$ lie on the sphere of radius $\sqrt d$ with $|x_i\cdot x_j|\le cd$ for $i\ne j$, $c<1$, and
    $y_i=\pm1$. The ReLU network with $a_j=y_j$, $w_j=\frac{2x_j}{d(1-c)}$ and $b_j=-\frac{1+c}{1-c}$ has $y_if(x_i)=1$,
    and for $\|\delta\|\le r=\frac{1-c}4\sqrt d$ the unit of $x_i$ gets at least $\frac12$ at $x_i+\delta$ and every
    other one at most $-\frac12$: the sign does not change. It changes no earlier than at $2r$, and there it does,
    towards the origin, where the output becomes zero. An output of the other sign is further away still: for two points
    with $x_1\cdot x_2=cd$ exactly half their distance. Without $|x_i\cdot x_j|\le cd$ not even $f(x_i)=y_i$.
    """
    x_key, v_key = jax.random.split(key)

    @jax.jit
    def measure(x_key, v_key):
        x, y = sphere_points(m, dim, key=x_key), _labels(m)
        made = robust_network(x, y)
        # all directions towards and away from the examples, which are those of the weights, and random ones
        v = jnp.concatenate([x, -x, jax.random.normal(v_key, (4 * m, dim))])
        v = v / jnp.linalg.norm(v, axis=1, keepdims=True)
        inputs = jax.vmap(jax.vmap(made.network.units), (0,))(x[:, None] + made.radius * v)
        own = jnp.eye(m, dtype=bool)[:, None]
        flips = jax.vmap(lambda p: jax.vmap(lambda v: ray_flip(made.network, p, v))(v))(x)
        return {
            "outputs": jax.vmap(made.network)(x),
            "own": jnp.min(jnp.where(own, inputs, jnp.inf), (1, 2)),
            "other": jnp.max(jnp.where(own, -jnp.inf, inputs), (1, 2)),
            "flips": jnp.min(flips, 1),
            "inwards": jnp.diagonal(flips[:, m : 2 * m]),
            "radii": jnp.stack([made.radius, made.exact_radius]),
        }

    found = {name: np.asarray(a) for name, a in measure(x_key, v_key).items()}
    radius, exact = found["radii"]
    yield equal("outputs at the examples", found["outputs"], _labels(m), rtol=0, atol=ROUNDING)
    yield at_least("input of the own unit at distance r", found["own"], 0.5, rtol=ROUNDING)
    yield at_most("input of the other units at distance r", found["other"], -0.5, rtol=ROUNDING)
    yield at_least("distance to a change of sign, all directions", found["flips"], radius)
    yield at_least("distance to a change of sign, twice the certificate", found["flips"], exact, rtol=ROUNDING)
    yield equal("distance to zero towards the origin", found["inwards"], exact, rtol=ROUNDING)

    @jax.jit
    def pair(c):
        first = jnp.zeros(dim).at[0].set(dim**0.5)
        second = dim**0.5 * jnp.zeros(dim).at[0].set(c).at[1].set(jnp.sqrt(1 - c**2))
        made = robust_network(jnp.stack([first, second]), jnp.array([1.0, -1.0]), c)
        # the network depends on the plane of both points only, and so does the nearest change of sign
        angles = jnp.linspace(0, 2 * jnp.pi, 2000, endpoint=False)
        plane = jnp.zeros((2000, dim)).at[:, 0].set(jnp.cos(angles)).at[:, 1].set(jnp.sin(angles))
        all_round = jax.vmap(lambda v: ray_flip(made.network, first, v, opposite=True))(plane)
        across = ray_flip(made.network, first, second - first, opposite=True)
        return across, jnp.min(all_round), jnp.linalg.norm(first - second) / 2

    across, nearest, half = map(float, pair(c))
    yield equal("two points: distance to the other sign along their segment", across, half, rtol=ROUNDING)
    yield at_least("two points: distance to the other sign, all directions", nearest, half, rtol=ROUNDING)

    @jax.jit
    def too_near(x_key):
        x = sphere_points(m, dim, key=x_key)
        beside = 0.95 * x[0] + jnp.sqrt(1 - 0.95**2) * _across(x[1], x[0])
        x = x.at[1].set(beside)  # an angle of 18° between points of opposite labels
        return _labels(m) * jax.vmap(robust_network(x, _labels(m), c).network)(x)

    yield control(
        "no two points further than c along each other: here two at 0.95",
        at_least("output times label", too_near(x_key)[:2], 1.0),
    )


def _across(v, u):
    """The part of `v` at a right angle to `u`, of the length of `u`."""
    rest = v - (v @ u) / (u @ u) * u
    return rest * jnp.linalg.norm(u) / jnp.linalg.norm(rest)


@claim(
    rows=("B12.10",),
    erratum="The inputs of the other units at an example are at most -1, not -1: equality needs inner products of cd.",
)
def other_units_get_minus_one(key, *, dim: Size = 100, m: Size = 20):
    r"""At an example the units of the other examples get exactly -1.

    As printed under the brace in the last display of the proof of Theorem 75: $w_j^\top x_i+b_j=-1$ for $i\ne j$. It is
    at most -1, with equality for the pair whose inner product is $cd$; the inequality is what the proof needs.
    """

    @jax.jit
    def inputs(key):
        x = sphere_points(m, dim, key=key)
        return jax.vmap(robust_network(x, _labels(m)).network.units)(x)

    at = np.asarray(inputs(key))
    others = at[~np.eye(m, dtype=bool)]
    yield printed(equal("inputs of the other units", others, -1.0))
    yield at_most("inputs of the other units, from above", others, -1.0, rtol=ROUNDING)
    yield equal("inputs of the own units", np.diagonal(at), 1.0, rtol=ROUNDING)


WIDTH, STEPS, NETS = 40, 400, 3
SIZES = (8, 12, 16, 24, 32, 48, 64)


def _trained(key, m, dim):
    """How far the points of a trained network are from a change of sign along the common direction, and so on."""
    x_key, w_key, a_key = jax.random.split(key, 3)
    most = max(SIZES)
    x, y = sphere_points(most, dim, key=x_key), _labels(most)
    there = jnp.arange(most) < m  # one program for every number of points
    weights = 0.3 * jax.random.normal(w_key, (WIDTH, dim)) / dim**0.5
    start = weights, jnp.zeros(WIDTH), 0.3 * jax.random.rademacher(a_key, (WIDTH,), float)

    def loss(params):
        inner, bias, outer = params
        return jnp.sum(there * jax.nn.softplus(-y * (jax.nn.relu(x @ inner.T + bias) @ outer))) / m

    def step(params, _):
        value, slope = jax.value_and_grad(loss)(params)
        # gradient descent in a time that runs faster as the loss falls, so that margins grow to their limit
        return jax.tree.map(lambda p, g: p - 0.05 * g / jnp.maximum(value, 1e-5), params, slope), None

    (inner, bias, outer), _ = jax.lax.scan(step, start, length=STEPS)
    network = TwoLayerNetwork(outer, inner, bias)
    common = (there * y) @ x
    flips = jax.vmap(lambda p, label: ray_flip(network, p, -label * common))(x, y)
    inwards = jnp.max(jnp.abs(x @ x.T) * jnp.outer(there, there) * (1 - jnp.eye(most))) / dim
    margin = jnp.min(jnp.where(there, y * jax.vmap(network)(x), jnp.inf))
    return jnp.nanmedian(jnp.where(there, flips, jnp.nan)), margin, (1 - inwards) / 2 * dim**0.5


@claim(rows=("B12.12",))
def training_does_not_find_it(key, *, dim: Annotated[int, Range(200, 1000)] = 300):
    r"""Gradient descent finds a network that one common direction flips, nearer by the root of the number of points.

    $m$ points on the sphere of radius $\sqrt d$ are fitted by a two-layer ReLU network and gradient descent on the
    logistic loss, until all margins are large. Moved along $\mp\sum_iy_ix_i$ the median point changes its class after
    a distance of the order $\sqrt{d/m}$, while a network that would withstand up to $\frac{1-c}2\sqrt d$, $c$ the
    coherence of the same points, exists.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, NETS)
        return jax.vmap(lambda m: jax.vmap(lambda k: _trained(k, m, dim))(keys))(jnp.array(SIZES))

    flips, margins, certified = map(np.asarray, measure(key))
    yield at_least("smallest margin of the trained networks", margins.ravel(), 1.0)
    # the points are orthogonal up to 1/√d, which bends the line by a share of that order
    middle, m = np.exp(np.log(flips).mean(1)), np.array(SIZES)
    yield rate("median distance to a change of sign", m, middle, -0.5, tolerance=0.15, along="points m")
    yield at_most("median distance, below what is possible, from 32 points on", flips[4:], certified[4:])
    rows = [
        {"points": int(n), "distance": float(v), "what": name}
        for name, values in (
            ("trained, median", middle),
            ("√(d/m)", np.sqrt(dim / m)),
            ("constructed, exact", certified.mean(1)),
        )
        for n, v in zip(m, values, strict=True)
    ]
    yield picture("distance to a change of sign", lines(rows, "points", "distance", colour="what"))
