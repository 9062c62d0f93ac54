"""Open, closed and compact sets, the density of the rationals, and minimisers as a set."""

from fractions import Fraction

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control, equal, picture
from corollary.foundations import (
    IntervalSet,
    argmin_set,
    entrywise,
    finite_subcover,
    hadamard,
    indicator,
    rational_between,
    simplest_between,
)


@claim(rows=("B01.30", "B01.36"))
def open_and_closed(key, *, dim: Size = 3, samples: Size = 500):
    r"""Open balls are open and closed balls are closed, and a set is closed exactly if it holds its limit points.

    A set is open if every point has a ball inside: in the open ball of radius $r$ about $c$ the ball of radius
    $r-\|x-c\|$ about $x$ fits. It is closed if its complement is open: outside the closed ball, the ball of radius
    $\|y-c\|-r$ about $y$ stays outside. Equivalently it contains all its limit points, and equals its closure
    $A\cup A'$: $\overline{(0,1)\cup(1,2)}=[0,2]$, in which $(0,1)\cup(1,2)$ is dense. $0$ is a limit point of
    $\{1/n\}$. On the line, compact means closed and bounded. (Definition 13 first calls the closure "the union of all
    its limit points", then writes $A\cup A'$, which is right: the isolated point 2 of $[0,1]\cup\{2\}$ is no limit
    point.)
    """
    c_key, x_key, d_key = jax.random.split(key, 3)

    @jax.jit
    def balls_of(c_key, x_key, d_key):
        centre = jax.random.normal(c_key, (dim,))
        out, other = jax.random.normal(x_key, (2, samples, dim))
        out, other = (d / jnp.linalg.norm(d, axis=-1, keepdims=True) for d in (out, other))
        share = jax.random.uniform(d_key, (samples, 1))
        inside, outside = centre + share * out, centre + (1 + share) * out

        def distance(x):
            return jnp.linalg.norm(x - centre, axis=-1)

        # to the end of the ball that fits, in a random direction and in the worst one: straight out, or straight in
        room, space = 1 - distance(inside)[:, None], distance(outside)[:, None] - 1
        within = jnp.stack([distance(inside + room * other), distance(inside + 0.999999 * room * out)])
        beyond = jnp.stack([distance(outside + space * other), distance(outside - 0.999999 * space * out)])
        return within, beyond, distance(centre + (1 + 1e-6) * out)

    within, beyond, edge = balls_of(c_key, x_key, d_key)
    yield at_most("open ball: ends of the ball that fits", within, 1.0)
    yield at_least("closed ball: balls in the complement", beyond, 1.0)
    yield control(
        "a point on the edge has no ball inside the closed ball",
        at_most("a step of a millionth from the edge", edge, 1.0),
    )

    two = IntervalSet.open(0, 1) | IntervalSet.open(1, 2)
    sets = {
        "(0, 1)": IntervalSet.open(0, 1),
        "[0, 1]": IntervalSet.closed(0, 1),
        "(0, 1) and (1, 2)": two,
        "[0, 1] and {2}": IntervalSet.closed(0, 1) | IntervalSet.point(2),
        "(0, 1) and {1}": IntervalSet.open(0, 1) | IntervalSet.point(1),
        "[0, ∞)": IntervalSet.closed(0, np.inf),
        "the line": IntervalSet.open(-np.inf, np.inf),
        "nothing": IntervalSet(),
    }
    found = np.array([[s.is_open, s.is_closed, s.is_compact] for s in sets.values()])
    known = [[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]]
    yield equal("open, closed, compact: eight sets", found, np.array(known), atol=0, rtol=0)
    limits = np.array([(s | s.limit_points) == s for s in sets.values()])
    yield equal("closed exactly with all limit points inside", limits, found[:, 1], atol=0, rtol=0)
    turned = np.array([s.complement.is_closed for s in sets.values()])
    yield equal("open exactly with a closed complement", turned, found[:, 0], atol=0, rtol=0)
    yield equal("closure of (0, 1) and (1, 2) is [0, 2]", two.closure == IntervalSet.closed(0, 2), 1, atol=0)
    isolated = sets["[0, 1] and {2}"]
    found = [2 in isolated.limit_points, 2 in isolated.closure]
    yield equal("an isolated point: limit point, in the closure", found, [0, 1], atol=0)
    yield equal("dense there", two.is_dense_in(IntervalSet.closed(0, 2)), 1, atol=0)
    n = 1 / np.arange(1, 10_001)
    balls = np.geomspace(1, 1e-4, 9)
    counts = (n[None, :] <= balls[:, None]).sum(1)
    yield at_least("points of 1/n within ε of 0", counts, 1, x=np.log10(balls), along="log10 of ε")
    others = np.abs(n - 1 / 3)
    yield control(
        "1/3 is isolated among the 1/n",
        at_least("points of 1/n within 1/13 of 1/3, itself apart", ((others > 1e-12) & (others <= 1 / 13)).sum(), 1),
    )


@claim(rows=("B01.30",))
def finite_subcovers(key, *, intervals: Size = 200):
    r"""Of open intervals that cover [0, 1] finitely many suffice; of those that cover (0, 1] they need not.

    Going from left to right, always with the interval that reaches farthest, a subcover of $[0,1]$ is found in which
    no point is in more than two members. The intervals $(1/n,2)$ cover $(0,1]$, but any finite number of
    them leaves out $(0,1/N]$, with $N$ the largest index: $(0,1]$ is not compact.
    """
    w_key, shift_key = jax.random.split(key)
    sizes = np.array([10, 100, 1000, 10_000])

    @jax.jit
    def measure(w_key, shift_key):
        width = jax.random.uniform(w_key, (intervals,), minval=1.0, maxval=8.0) / intervals
        middle = (jnp.arange(intervals) + jax.random.uniform(shift_key, (intervals,))) / intervals
        lefts, rights = middle - width, middle + width  # neighbours meet: their middles are less than 2/n apart
        found = finite_subcover(0.0, 1.0, lefts, rights)
        grid = jnp.linspace(0, 1, 5001)[:, None]
        n = jnp.arange(1, 10_001)
        half = finite_subcover(1e-4, 1.0, 1.0 / n, jnp.full(n.shape, 2.0))
        points = jnp.geomspace(1e-5, 1.0, 2000)

        def left_out(count):
            """The largest of many points of (0, 1] that is in none of the first intervals (1/n, 2)."""
            return jnp.where(jnp.any((1 / n < points[:, None]) & (n <= count), axis=1), 0.0, points).max()

        gaps = jax.lax.map(left_out, sizes)
        return lefts, rights, found, ((lefts < grid) & (grid < rights) & found.chosen).sum(1), half.covers, gaps

    lefts, rights, found, covered, half, gaps = measure(w_key, shift_key)
    yield equal("the greedy choice covers", found.covers, 1, atol=0)
    yield at_least("chosen intervals over every point of a fine grid", covered, 1)
    yield at_most("chosen intervals over a point", covered, 2)
    # neighbours on the grid of points differ by 0.6 percent
    name = "largest point that N intervals (1/n, 2) leave out, times N"
    yield equal(name, gaps * sizes, 1.0, rtol=0, atol=6e-3, x=np.log10(sizes), along="log10 of N")
    yield control("(0, 1] is not compact", equal("ten thousand intervals cover it", half, 1, atol=0))
    yield _cover(np.asarray(lefts), np.asarray(rights), np.asarray(found.chosen))


def _cover(lefts, rights, chosen):
    rows = [
        {"a": float(a), "b": float(b), "k": k % 12, "chosen": "chosen" if c else "not needed"}
        for k, (a, b, c) in enumerate(zip(lefts, rights, chosen, strict=True))
    ]
    colour = alt.Color(
        "chosen:N",
        scale=alt.Scale(domain=["not needed", "chosen"], range=["#c9d3da", "#d1495b"]),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    width = alt.condition("datum.chosen == 'chosen'", alt.value(4), alt.value(1.5))
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_rule()
        .encode(alt.X("a:Q", title="x"), alt.X2("b:Q"), alt.Y("k:O", axis=None), colour, strokeWidth=width)
    )
    return picture("a cover of [0, 1] and a finite choice from it", chart.properties(width=300, height=190))


@claim(rows=("B01.31",))
def rationals_are_dense(key, *, samples: Size = 1500):
    r"""Between any two real numbers lies a rational, with a denominator of at most one over their distance, plus one.

    For $a<b$ take $q=\lfloor1/(b-a)\rfloor+1$ and $p=\lfloor qa\rfloor+1$: then $a<p/q<b$. Checked in exact arithmetic
    for intervals of widths from $10^{-1}$ to $10^{-15}$, about numbers of both signs. The integers are not dense.
    """
    start = np.asarray(10 * jax.random.normal(key, (samples,)))
    widths = np.geomspace(1e-1, 1e-15, samples)
    ends = [(Fraction(a), Fraction(a) + Fraction(w)) for a, w in zip(start.tolist(), widths.tolist(), strict=True)]
    found = [rational_between(a, b) for a, b in ends]
    simple = [simplest_between(a, b) for a, b in ends]
    inside = [[a < x < b for x in pair] for (a, b), *pair in zip(ends, found, simple, strict=True)]
    yield equal("strictly between", np.array(inside), 1, atol=0)
    along = {"x": np.log10(widths), "along": "log10 of the width"}
    denominators = np.array([float(x.denominator) for x in found])
    # the width is exact, its reciprocal as a float is off by a rounding
    yield at_most("denominator", denominators, 1 / widths + 1, **along)
    smallest = np.array([float(x.denominator) for x in simple])
    yield at_most("smallest denominator", smallest, denominators, **along)
    yield at_least("both signs of numbers", np.array([np.mean(start < 0), np.mean(start > 0)]), 0.3)
    whole = [float(a // 1 + 1 < b) for a, b in ends]
    yield control("the integers are not dense", equal("an integer between", np.array(whole), 1, atol=0))


@claim(rows=("M00.03",))
def argmin_is_a_set(key, *, points: Size = 401):
    r"""The minimisers of a function form a set, which may have one element, several, or all.

    $\arg\min g=\{z:g(z)\le g(z')\ \forall z'\}$: $\{-1,1\}$ for $(z^2-1)^2$, $\{0\}$ for $|z|$, all for a constant.
    For $e^{-z}$ on the line it is empty: on any grid the least value is at the right end. Along with it the other
    notation: $\mathbf 1_A$, $(x\odot y)_d=x_dy_d$, and functions applied entry by entry.
    """
    half = points // 2
    z = jnp.arange(-half, half + 1) * (2.0 / (half // 2 * 2))  # a grid that contains -1, 0 and 1
    x, y = jax.random.normal(key, (2, 5))

    @jax.jit
    def measure(x, y):
        return {
            "wells": argmin_set(lambda z: (z**2 - 1) ** 2, z),
            "one": argmin_set(jnp.abs, z),
            "all": argmin_set(lambda z: 0 * z, z),
            "none": jnp.stack([z[argmin_set(lambda z: jnp.exp(-z), z * s).argmax()] * s for s in (1, 10, 100)]),
            "hadamard": hadamard(x, y),
            "entrywise": entrywise(jnp.tanh, jnp.stack([x, y])),
            "indicator": indicator(lambda z: (z >= 0) & (z < 1), z),
        }

    m = measure(x, y)
    yield equal("double well: minimisers", z[m["wells"]], jnp.array([-1.0, 1.0]), atol=0, rtol=0)
    yield equal("|z|: minimisers", z[m["one"]], 0.0, atol=0)
    yield equal("constant: all are minimisers", m["all"], 1, atol=0)
    yield equal("exp(-z): always the right end", m["none"], z[-1] * jnp.array([1, 10, 100]))
    yield equal("entrywise product", m["hadamard"], jnp.diag(x) @ y)
    yield equal("entrywise function", m["entrywise"], np.tanh(np.stack([x, y])))
    yield equal("indicator of [0, 1), summed", m["indicator"].sum(), jnp.sum(z >= 0) - jnp.sum(z >= 1), atol=0)
    yield control("a function with two wells", equal("number of minimisers", m["wells"].sum(), 1, atol=0, rtol=0))
