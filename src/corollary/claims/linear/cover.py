"""Cover's function counting: how many labellings are linear, and where that stops being most of them."""

from fractions import Fraction
from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, claim, control, equal, estimate, monotone, picture, printed
from corollary.linear import (
    count_dichotomies,
    cover_capacity,
    cover_count,
    cover_crossing,
    cover_fraction,
    cover_table,
    in_general_position,
    labelings,
    linearly_separable,
    log2_cover_count,
    realisable,
    separability,
)


@claim(rows=("E01.17", "E01.18", "E01.19", "M01.03"))
def function_counting(key, *, draws: Size = 3):
    r"""Of s points of R^n in general position, 2 Σ C(s-1, i), i < n, labellings are linear, whatever the points.

    Let any $n$ of the points be linearly independent. Then
    $$\mathcal C(s,n)=\big|\{y\in\{\pm1\}^s:\exists w\ \forall i\ y_iw\cdot x_i>0\}\big|
    =2\sum_{i=0}^{n-1}\binom{s-1}i,$$
    which is $2^s$ for $s\le n$. With a bias, $n+1$ takes the place of $n$, and general position is that of the points
    $(x,1)$. Counted labelling by labelling, by linear programming and by the distance of a polytope from the
    origin. Without general position there are fewer: with $x_4=x_1+x_2$, $x_5=x_1-x_2$ only 26 of six points of
    $\mathbb R^3$ instead of 32.
    """
    sizes = ((6, 3), (8, 4))
    points = {
        (s, n): jax.random.normal(jax.random.fold_in(key, 100 * s + n), (draws, s, n)) for s, n in (*sizes, (8, 2))
    }
    # three draws without bias, three in one dimension less with bias: the same dimension of the parameters
    plain = [[count_dichotomies(x) for x in points[size]] for size in sizes]
    biased = [[count_dichotomies(x[:, :-1], bias=True) for x in points[size]] for size in sizes]
    formula = [[cover_count(*size)] * draws for size in sizes]
    yield equal("count without bias, against the formula", plain, formula)
    yield equal("count with bias, against the formula of one dimension more", biased, formula)
    yield equal("in general position", [in_general_position(x) for size in sizes for x in points[size]], 1)
    x = points[6, 3][0]
    program = [separability(x, y, bias=False).separable for y in labelings(6)]
    yield equal("verdict on each labelling, against linear programming", realisable(x), program)
    plane = points[8, 2][0]
    yield equal("count in the plane, by angles", _by_angles(np.asarray(plane)), cover_count(8, 2))
    degenerate = x.at[3].set(x[0] + x[1]).at[4].set(x[0] - x[1])
    yield equal("not in general position", in_general_position(degenerate), 0)
    yield control(
        "four of the points lie in a plane through the origin",
        equal("count of six points in R³", count_dichotomies(degenerate), cover_count(6, 3)),
    )
    yield _heat("share of linear labellings of s points in R^n")


@claim(rows=("E01.20",))
def recursion(key, *, largest: Annotated[int, Range(2, 200)] = 60):
    r"""A new point divides as many version spaces in two as there are linear labellings in one dimension less.

    $\mathcal C(1,n)=2$, $\mathcal C(s,0)=0$ and $\mathcal C(s+1,n)=\mathcal C(s,n)+\mathcal C(s,n-1)$ determine the
    count. The second term are the labellings of $s$ points that can be continued to $x_{s+1}$ in both ways: those made
    by some $w$ with $w\cdot x_{s+1}=0$, that is, the linear labellings of the points projected along $x_{s+1}$. If
    $x_{s+1}$ is not in general position to the others these are still as many, but no longer $\mathcal C(s,n-1)$.
    """
    table = cover_table(largest, largest)
    off = [table[s - 1][n] - cover_count(s, n) for s in range(1, largest + 1) for n in range(largest + 1)]
    yield equal("recursion less closed form", [float(o) for o in off], 0.0)
    s, n = 7, 4
    x = jax.random.normal(key, (s + 1, n))
    flat = x.at[s].set(x[0] + 2 * x[1])

    def split(x):
        both = jnp.all(realisable(x).reshape(-1, 2), axis=1)
        # coordinates in the space orthogonal to the last point
        basis = jnp.linalg.svd(x[-1:])[2][1:]
        return jnp.sum(both), jnp.sum(realisable(x[:-1] @ basis.T)), count_dichotomies(x)

    both, projected, total = split(x)
    yield equal("labellings that continue both ways, against the projected points", both, projected)
    yield equal("labellings that continue both ways, against C(s, n-1)", both, cover_count(s, n - 1))
    yield equal("C(s+1, n), counted", total, cover_count(s, n) + cover_count(s, n - 1))
    both, projected, _ = split(flat)
    yield equal("not in general position: against the projected points", both, projected)
    yield control(
        "the new point lies in the plane of two others",
        equal("labellings that continue both ways, against C(s, n-1)", both, cover_count(s, n - 1)),
    )


@claim(rows=("E01.21",), full={"n": 20, "draws": 1000}, large={"n": 60, "draws": 2000})
def capacity(key, *, n: Annotated[int, Range(4, 200)] = 8, draws: Size = 600):
    r"""Random labels of s points can be separated with probability C(s,n)/2^s, which falls from 1 to 0 about s = 2n.

    For points in general position the fraction $\mathcal C(s,n)/2^s$ is 1 for $s\le n$ and exactly ½ at $s=2n$. As
    $n\to\infty$ it tends to 1 for $s=(2-\varepsilon)n$ and to 0 for $s=(2+\varepsilon)n$. Measured on Gaussian points
    with random labels. Points of a proper subspace are not in general position, and separable less often.
    """
    dims, ends = (10, 100, 1000), []
    for ratio, direction in ((1.6, "increasing"), (2.4, "decreasing")):
        exact = [float(Fraction(cover_count(round(ratio * k), k), 2 ** round(ratio * k))) for k in dims]
        yield monotone(f"fraction at s = {ratio} n", exact, direction, strict=True, x=dims, along="n")
        ends.append(exact[-1])
    yield equal("fraction at s = 1.6 n and 2.4 n, n = 1000", ends, [1.0, 0.0])
    half = [Fraction(cover_count(cover_capacity(k), k), 2 ** cover_capacity(k)) for k in range(1, 201)]
    yield equal("fraction at s = 2n for n up to 200, less ½", [float(f - Fraction(1, 2)) for f in half], 0.0)

    # the transition is as wide as the root of the number of points; so much less or more is one standard deviation
    width, off = (2 * n) ** 0.5, round((n / 2) ** 0.5)
    sizes = np.array([n, *(2 * n + np.round(np.array([-1.0, -0.5, 0.0, 0.5, 1.0]) * width).astype(int))])
    keys = jax.random.split(key, 2)
    x = jax.random.normal(keys[0], (draws, sizes[-1], n))
    y = jax.random.rademacher(keys[1], (draws, sizes[-1])).astype(float)

    @jax.jit
    def measure(x, y):
        def one(x, y):
            # points beyond the size repeat the first one, which changes nothing
            first = jnp.arange(sizes[-1]) < sizes[:, None]
            some = jnp.where(first[..., None], x, x[0]), jnp.where(first, y, y[0])
            return jax.vmap(lambda x, y: linearly_separable(x, y, bias=False))(*some)

        return jax.lax.map(lambda a: one(*a), (x, y), batch_size=200).astype(float)

    separable = measure(x, y)
    curves = {k: np.unique(np.round(np.linspace(1, 3, 81) * k)) for k in (5, 20, 100, 1000)}
    share, wrong, about, *drawn = _fractions(
        [(sizes, n), (sizes, n + off), ([2 * n - 1, 2 * n + 1], n), *((s, k) for k, s in curves.items())]
    )
    yield equal("as many points as dimensions: separable", separable[:, 0], 1)
    yield estimate(f"separable, random labels (wrong: n + {off})", separable[:, 1:], share[1:], wrong=wrong[1:])
    # a frequency at ½ has the error ½ / sqrt(draws), five of them are allowed; the slope there turns it into points.
    # Between the sizes the curve is not straight: what that does to the exact fractions is added.
    slope = (about[0] - about[1]) / 2
    bend = jnp.abs(cover_crossing(sizes, share) - 2 * n)
    crossing = cover_crossing(sizes, separable.mean(axis=0))
    room = float(5 * 0.5 / draws**0.5 / slope + bend)
    yield equal("size at which half of the labellings are separable", crossing, cover_capacity(n), rtol=0, atol=room)
    yield control(
        "the points lie in a subspace",
        estimate(
            "separable at s = 2n", measure(x.at[..., n - off :].set(0.0), y)[:, 3:4], share[3:4], wrong=wrong[3:4]
        ),
    )
    yield _transition("fraction of linear labellings", curves, drawn)


@claim(
    rows=("E01.21",),
    erratum="The number of linear classifications is said to fall to 0 beyond s = 2n; it grows, the fraction falls.",
)
def number_falls(key, *, n: Size = 20):
    r"""Beyond s = 2n the number of linear classifications decreases steeply towards 0.

    As printed: "after $s=2n$, there is a steep decrease in number of linear classifications, quickly moving toward 0".
    $\mathcal C(s,n)$ is strictly increasing in $s$ (for $n\ge2$). It is the fraction $\mathcal C(s,n)/2^s$, the chance
    of random labels, that falls.
    """
    s = np.arange(2 * n, 6 * n)
    yield monotone("fraction of all labellings", cover_fraction(s, n), "decreasing", strict=True, x=s, along="points")
    counts, name = np.asarray(log2_cover_count(s, n)), "binary logarithm of the number of linear labellings"
    yield monotone(f"{name}, growing", counts, "increasing", strict=True, x=s, along="points")
    yield printed(monotone(f"{name}, falling", counts, "decreasing", x=s, along="points"))


def _by_angles(x):
    """The different labellings that the lines through the origin make of points of the plane, one between any two."""
    angles = np.sort(np.mod(np.arctan2(x[:, 1], x[:, 0]) + np.pi / 2, np.pi))
    between = (angles + np.append(angles[1:], angles[0] + np.pi)) / 2
    turns = np.concatenate([between, between + np.pi])
    return len(np.unique(np.sign(x @ np.stack([np.cos(turns), np.sin(turns)])).T, axis=0))


def _heat(name):
    rows = [
        {"s": s, "n": n, "share": float(Fraction(cover_count(s, n), 2**s))} for s in range(1, 25) for n in range(1, 13)
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_rect()
    colour = alt.Color("share:Q", scale=alt.Scale(scheme="blues"), legend=alt.Legend(title=None))
    chart = chart.encode(alt.X("s:O", title="points s"), alt.Y("n:O", title="dimension n", sort="descending"), colour)
    return picture(name, chart.properties(width=300, height=190))


def _fractions(pairs):
    """`cover_fraction` of each pair of sizes and a dimension, as one call."""
    lengths = np.cumsum([len(sizes) for sizes, _ in pairs])
    s = np.concatenate([np.asarray(sizes, float) for sizes, _ in pairs])
    n = np.concatenate([np.full(len(sizes), float(n)) for sizes, n in pairs])
    return np.split(np.asarray(cover_fraction(s, n)), lengths[:-1])


def _transition(name, curves, shares):
    rows = [
        {"s/n": float(a / n), "share": float(f), "n": str(n)}
        for (n, s), values in zip(curves.items(), shares, strict=True)
        for a, f in zip(s, values, strict=True)
    ]
    scale = alt.Scale(domain=["5", "20", "100", "1000"], scheme="blues")
    chart = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2)
    colour = alt.Color("n:N", scale=scale, legend=alt.Legend(orient="bottom"))
    x = alt.X("s/n:Q", title="points over dimension, s/n", scale=alt.Scale(domain=[1, 3]))
    return picture(name, chart.encode(x, alt.Y("share:Q", title=None), colour).properties(width=300, height=190))
