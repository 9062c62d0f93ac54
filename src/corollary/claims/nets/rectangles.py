"""Sums of indicators of rectangles approximate functions; wedges as networks with one hidden layer."""

import jax
import jax.numpy as jnp

from corollary.claims.nets._regions import heat_maps, square
from corollary.evidence import Positive, Size, at_most, claim, control, equal, monotone, rate
from corollary.nets import conjunction_error, intersection_network, smooth_staircase, staircase


def _waves(x, y):
    """Its gradient is longest at 0, where it is (3, 0)."""
    return jnp.sin(3 * x) * jnp.cos(2 * y)


def _plane(x, y):
    return x + y


def _edge(x, y):
    """A jump along a line that is no grid line."""
    return jnp.where(x + y > 1 / jnp.sqrt(2.0), 1.0, 0.0)


def _lattice(side: int):
    """All multiples of 1/side in the unit square: they hold a corner of every cell."""
    ticks = jnp.arange(side + 1) / side
    return jnp.stack(jnp.meshgrid(ticks, ticks, indexing="ij"), -1)


@claim(rows=("M05.15",))
def staircases(key, *, points: Size = 4000, side: Size = 256):
    r"""Sums of indicators of rectangles approximate a Lipschitz function, with an error of the order of the side.

    If $f$ has the Lipschitz constant $L$ on $[0,1]^2$, the step function with the value at the centre of each of
    $n\times n$ cells is off by at most $L/(\sqrt2\,n)$ everywhere: attained by $x+y$, and of the order $1/n$ for
    $\sin3x\cos2y$, $L=3$. With a smooth AND of four steps for every rectangle and $\varepsilon\ll1/n$ the average
    distance to $f$ obeys the same bound.
    """
    cells = jnp.array([4, 8, 16, 32, 64])
    lattice = _lattice(side)
    sample = jax.random.uniform(key, (points, 2))
    coarse = (4, 8, 16)
    ratios = jnp.array([1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64])

    @jax.jit
    def measure(lattice, sample):
        def largest(f):
            exact = f(lattice[..., 0], lattice[..., 1])
            return jnp.stack([jnp.abs(staircase(f, n, lattice) - exact).max() for n in (4, 8, 16, 32, 64)])

        exact = _waves(sample[:, 0], sample[:, 1])

        def distance(n, ratio):
            return jnp.abs(smooth_staircase(_waves, n, sample, ratio / n) - exact).mean()

        def to_steps(ratio):
            return jnp.abs(smooth_staircase(_waves, 8, sample, ratio / 8) - staircase(_waves, 8, sample)).mean()

        narrow, wide = (jnp.stack([distance(n, r) for n in coarse]) for r in (1 / 64, 1.0))
        return [largest(f) for f in (_waves, _plane, _edge)], narrow, wide, jax.vmap(to_steps)(ratios)

    (waves, plane, edge), narrow, wide, to_steps = measure(lattice, sample)
    diagonal = 1 / (jnp.sqrt(2.0) * cells)
    yield at_most("largest error, sin 3x cos 2y", waves, 3 * diagonal, x=cells, along="n")
    yield rate("largest error, sin 3x cos 2y, as a power of n", cells, waves, -1.0, tolerance=0.1, along="n")
    yield equal("largest error, x + y", plane, jnp.sqrt(2.0) * diagonal, x=cells, along="n")
    sides = jnp.array(coarse)
    yield at_most("average error of smooth rectangles, ε = 1/(64n)", narrow, 3 / (jnp.sqrt(2.0) * sides))
    yield monotone(
        "average distance of smooth from sharp rectangles, n = 8", to_steps, "decreasing", strict=True, x=1 / ratios,
        along="1/(nε)",
    )  # fmt: skip
    yield control("a jump has no Lipschitz constant", at_most("largest error", edge, 3 * diagonal, x=cells, along="n"))
    yield control(
        "with ε = 1/n the rectangles overlap",
        at_most("average error of smooth rectangles", wide, 3 / (jnp.sqrt(2.0) * sides)),
    )
    u, v = square(0.5)
    grid = jnp.stack([u, v], 1) + 0.5
    fields = {"f": _waves(*grid.T)} | {f"n = {n}": smooth_staircase(_waves, n, grid, 1 / (64 * n)) for n in (4, 8)}
    yield heat_maps("f about (1/2, 1/2) and smooth staircases", fields, radius=0.5, columns=3, size=110)


WEDGES = {
    "0 < y < 2x + 3": ([[0.0, 1.0], [2.0, -1.0]], [0.0, 3.0]),
    "y < 2x + 3, x > 0": ([[2.0, -1.0], [1.0, 0.0]], [3.0, 0.0]),
}


@claim(rows=("M05.26", "M05.27"))
def wedges(key, *, points: Size = 4000, margin: Positive = 0.2, eps: Positive = 0.02):
    r"""A wedge between two lines is a logistic network 2-2-1.

    $S_\varepsilon(S_\varepsilon(a)+S_\varepsilon(b)-\frac32)$ with $a=y$, $b=2x+3-y$ classifies $0<y<2x+3$, and with
    $a=2x+3-y$, $b=x$ the wedge $y<2x+3$, $x>0$: off by at most $S(-(\frac12-2q)/\varepsilon)$,
    $q=1/(1+e^{\delta/\varepsilon})$, wherever $|a|,|b|\ge\delta$. No point there is classified wrongly.
    """
    sample = 8 * jax.random.uniform(key, (points, 2)) - 4

    @jax.jit
    def measure(sample):
        rows = []
        for normals, offsets in WEDGES.values():
            value = jax.vmap(intersection_network(normals, offsets, eps))(sample)[:, 0]
            affine = sample @ jnp.asarray(normals).T + jnp.asarray(offsets)
            inside = (affine > 0).all(1)
            clear = (jnp.abs(affine) >= margin).all(1)
            rows.append((jnp.abs(value - inside), clear, jnp.abs(value - (affine > 0).any(1))))
        return [jnp.stack(part) for part in zip(*rows, strict=True)]

    error, clear, either = measure(sample)
    allowed = conjunction_error(margin, eps)
    yield at_most("error off the lines", jnp.where(clear, error, 0.0).max(1), allowed, atol=3e-16)
    yield equal("points classified wrongly off the lines", ((error > 0.5) & clear).sum(1), 0, rtol=0, atol=0)
    yield at_most("share of the points near a line", 1 - clear.mean(1), 0.5)
    yield control(
        "the union of the two half-planes is another region",
        at_most("error off the lines", jnp.where(clear, either, 0.0).max(1), allowed, atol=3e-16),
    )
    yield control("near the lines nothing is promised", at_most("error", error.max(1), allowed, atol=3e-16))
    u, v = square(4.0)
    grid = jnp.stack([u, v], 1)
    fields = {name: jax.vmap(intersection_network(*wedge, 0.1))(grid) for name, wedge in WEDGES.items()}
    yield heat_maps("the two wedges, ε = 0.1", fields, radius=4.0, columns=2, size=140)
