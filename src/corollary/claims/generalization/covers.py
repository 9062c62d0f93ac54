"""Covers of the unit ball, and losses that change little between neighbours."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.generalization._sines import gap_of_a_sine
from corollary.evidence import Range, at_least, at_most, claim, control, frequency_at_most, printed
from corollary.generalization import cover_bound, cover_size, greedy_cover

DELTA = 0.05


def _disk(spacing):
    """Points of the unit disk, of which every other point of it is within spacing / √2 of one."""
    line = np.arange(-1 - spacing, 1 + 2 * spacing, spacing)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    return grid / np.maximum(np.linalg.norm(grid, axis=1, keepdims=True), 1)  # a projection brings nothing apart


@claim(rows=("T05.10", "T05.11"))
def cover_of_the_ball(key, *, spacing: Annotated[float, Range(0.02, 0.2)] = 0.06):
    r"""A greedy cover of the unit ball with radius ρ has between ρ^-k and (1 + 2/ρ)^k centres.

    Centres are further than $\rho$ apart, so that balls of radius $\rho/2$ about them are disjoint and lie in a ball of
    radius $1+\rho/2$; and $N$ balls of radius $\rho$ have the volume of the unit ball only if $N\rho^k\ge1$. For a
    segment and a disk, as points in a random order of which every other point is near one. A segment of twice the
    length needs more.
    """
    radii = np.array([0.9, 0.5, 0.25])
    line, disk = np.linspace(-1, 1, 401)[:, None], _disk(spacing)

    @jax.jit
    def measure(key):
        line_key, disk_key = jax.random.split(key)
        sets = jax.random.permutation(line_key, line), jax.random.permutation(disk_key, disk)
        covers = [[greedy_cover(points, rho) for rho in radii] for points in sets]
        apart = [_closest(points, cover.chosen) for points, row in zip(sets, covers, strict=True) for cover in row]
        longer = jnp.stack([greedy_cover(2 * line, rho).size for rho in radii])
        return jnp.array([[cover.size for cover in row] for row in covers]), jnp.stack(apart), longer

    sizes, apart, longer = (np.asarray(a) for a in measure(key))
    yield at_least("distance of the closest centres", apart.reshape(2, 3), np.tile(radii, (2, 1)))
    dimensions = np.array([[1], [2]])
    yield at_most("centres of a segment and of a disk", sizes, cover_size(dimensions, radii))
    reach = radii + np.array([[0.0025], [spacing / np.sqrt(2)]])
    yield at_least("centres, against the volume", sizes, reach**-dimensions)
    yield control("the set is the unit ball: here twice as long", at_most("centres", longer, cover_size(1, radii)))


def _closest(points, chosen):
    distance = jnp.linalg.norm(points[:, None] - points, axis=-1)
    both = chosen[:, None] & chosen & ~jnp.eye(len(chosen), dtype=bool)
    return jnp.min(jnp.where(both, distance, jnp.inf))


@claim(rows=("T05.11",), erratum="The size of a cover is printed as ((2 + ρ)/2ρ)^k, which lacks a factor 2^k.")
def cover_size_as_printed(key):
    r"""The unit ball of k dimensions is covered by ((2 + ρ)/2ρ)^k balls of radius ρ.

    As printed. Two points more than $2\rho$ apart are in no common ball: the ends of a segment need 2 balls of radius
    0.9, where 1.61 is printed; the centre and the corners of a hexagon of the plane need 7 balls of radius 0.49, where
    6.5 is printed. The volume argument gives $((2+\rho)/\rho)^k$.
    """
    turn = jax.random.uniform(key)
    corner = 2 * jnp.pi * (jnp.arange(6) / 6 + turn)
    hexagon = jnp.concatenate([jnp.zeros((1, 2)), jnp.stack([jnp.cos(corner), jnp.sin(corner)], 1)])
    needed = [greedy_cover(jnp.array([[-1.0], [1.0]]), 1.8).size, greedy_cover(hexagon, 0.98).size]
    dimensions, radii = np.array([1, 2]), np.array([0.9, 0.49])
    yield at_most("balls that are needed, corrected", needed, cover_size(dimensions, radii))
    yield printed(at_most("balls that are needed", needed, cover_size(dimensions, radii, form="printed")))


@claim(rows=("T05.12",), full={"draws": 20_000})
def bound_by_a_cover(
    key, *, n: Annotated[int, Range(50, 2000)] = 200, draws: Annotated[int, Range(2000, 100_000)] = 2000
):
    r"""If the loss changes little with the parameters, it is close to its mean for all of them.

    For a loss in $[0,1]$ that is $C$-Lipschitz in the parameters $w$ of the unit ball of $\mathbb R^k$, with
    probability $1-\delta$: $\Delta_S(w)\le2C\rho+\sqrt{\frac{k\ln(1+2/\rho)+\ln(1/\delta)}{2n}}$ for all $w$, once
    $C\rho$ for the expected and once for the training loss. Here $\min(|w\cdot x-y|,1)$ with unit vectors $x$ of the
    plane, a law on 40 points, and parameters on a fine grid. The signs of sines have one parameter and no such
    constant.
    """
    law_key, draw_key, sine_key = jax.random.split(key, 3)
    weights = _disk(0.05)

    @jax.jit
    def largest(law_key, draw_key):
        x_key, y_key = jax.random.split(law_key)
        x = jax.random.normal(x_key, (40, 2))
        x, y = x / jnp.linalg.norm(x, axis=1, keepdims=True), jax.random.uniform(y_key, (40,), minval=-1.0)
        losses = jnp.minimum(jnp.abs(weights @ x.T - y), 1)
        rows = jax.random.randint(draw_key, (draws, n), 0, 40)
        shares = jax.vmap(lambda r: jnp.bincount(r, length=40))(rows) / n
        return jnp.max((1 / 40 - shares) @ losses.T, 1)

    bound = float(cover_bound(n, 2, DELTA, lipschitz=1.0).value)
    yield frequency_at_most("largest gap beyond the bound", np.asarray(largest(law_key, draw_key)) > bound, DELTA)
    gap = gap_of_a_sine(sine_key, 200, 4000)
    yield control(
        "the loss is Lipschitz in the parameters: here the sign of a sine",
        at_most("gap", gap, cover_bound(200, 1, DELTA, lipschitz=1.0).value),
    )


@claim(
    rows=("T05.12",),
    erratum="The bound is printed with γ for 2γ and without the probability with which it may fail.",
)
def cover_bound_as_printed(
    key, *, n: Annotated[int, Range(20, 1000)] = 100, draws: Annotated[int, Range(2000, 100_000)] = 2000
):
    r"""If parameters within ρ have losses within γ, no gap is beyond γ + 2√(k ln(2/ρ)/n).

    As printed, for every sample. A loss that is the same fair coin for all parameters has $\gamma=0$ for every $\rho$:
    with $k=1$ and $\rho=1.9$ the printed bound is exceeded. With the term $\ln(1/\delta)$ it
    is exceeded no more often than it may.
    """
    coins = jax.random.bernoulli(key, 0.5, (draws, n))
    gaps = 0.5 - np.asarray(coins).mean(1)
    corrected = cover_bound(n, 1, DELTA, lipschitz=0.0, radius=1.9).value
    yield frequency_at_most("gap beyond the corrected bound", gaps > float(corrected), DELTA)
    yield printed(at_most("gap", gaps, 2 * np.sqrt(np.log(2 / 1.9) / n)))
