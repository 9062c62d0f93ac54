"""Truth tables of the quadrants: AND, its shift, all sixteen regions, opposing quadrants, one architecture for all."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._regions import heat_maps, off_axes, square
from corollary.evidence import Positive, Size, at_least, at_most, claim, control, equal, monotone
from corollary.nets import (
    REGIONS,
    FeedForward,
    conjunction_error,
    in_region,
    logistic,
    opposing_sum,
    parameter_count,
    region_indicator,
    region_of,
    smooth_and,
    smooth_clip,
    smooth_step,
    smooth_xnor,
    smooth_xor,
    truth_table_network,
)

# 1 - S(u) for large u is off by the rounding of S(u) near 1
ROUNDING = 3e-16
LAYERS = {"constant": 1, "half-plane": 1, "quadrant": 2, "complement": 2, "opposing": 3}


@claim(rows=("M05.05",))
def and_indicator(key, *, margin: Positive = 0.3, points: Size = 20_000):
    r"""Two layers of steps make an AND: the indicator of the first quadrant.

    If $|x|,|y|\ge\delta$ and $q=1/(1+e^{\delta/\varepsilon})$, then
    $S_\varepsilon(S_\varepsilon(x)+S_\varepsilon(y)-\frac32)$ is off from $\mathbf 1[x>0,y>0]$ by at most
    $S(-(\frac12-2q)/\varepsilon)$, attained at $x=y=\delta$; so it tends to the indicator off the axes. Averaged over
    standard normal points the error falls with $\varepsilon$.
    """
    x, y = off_axes(2.0, margin)
    eps = jnp.array([0.1, 0.05, 0.02])
    sample = jax.random.normal(key, (2, points))

    @jax.jit
    def measure(x, y, sample):
        def error(x, y, e):
            return jnp.abs(smooth_and(x, y, e) - in_region("Q1", x, y))

        def three_layers(x, y, e):
            return jnp.abs(smooth_clip(smooth_and(x, y, e), e) - in_region("Q1", x, y))

        return (
            jax.vmap(lambda e: error(x, y, e))(eps),
            jax.vmap(lambda e: three_layers(*sample, e).mean())(eps),
            jax.vmap(lambda e: error(x * margin / 20, y, e))(eps),
        )

    errors, averages, close = measure(x, y, sample)
    bound = conjunction_error(margin, eps)
    yield at_most("error off the axes", errors, bound[:, None], atol=ROUNDING)
    yield equal("largest error, the bound is attained", errors.max(1), bound, atol=ROUNDING)
    yield monotone("average error on normal points, three layers", averages, "decreasing", x=1 / eps, along="1/ε")
    yield control(
        "points nearer to an axis than δ", at_most("error off the axes", close, bound[:, None], atol=ROUNDING)
    )
    u, v = square()
    yield heat_maps("two layers", {f"ε = {e}": smooth_and(u, v, e) for e in (0.5, 0.1, 0.02)}, columns=3, size=110)


@claim(rows=("M05.06",))
def any_shift(key, *, points: Size = 5000, margin: Positive = 0.1):
    r"""The loss hardly depends on the shift of an AND, as long as it lies between 1 and 2.

    On points with $|x|,|y|\ge\delta$ the squared loss of $S_\varepsilon(S_\varepsilon(x)+S_\varepsilon(y)-z)$ against
    the first quadrant is at most $S(-(g-2q)/\varepsilon)^2$, $g=\min(z-1,2-z)$, for $z\in(1,2)$: asymptotically flat
    in $z$. For $z<1$ two quadrants too many light up, for $z>2$ none does, and the loss jumps up.
    """
    # normal points, moved away from the axes by δ
    draw = jax.random.normal(key, (2, points))
    x, y = draw + margin * jnp.sign(draw)
    eps = jnp.array([0.1, 0.05, 0.03, 0.02, 0.01])
    shifts, outside = jnp.linspace(1.1, 1.9, 41), jnp.array([0.5, 0.8, 2.2, 2.5])

    @jax.jit
    def loss(shifts, x, y):
        truth = in_region("Q1", x, y)

        def one(e, z):
            # |S(u) - 1| as S(-u): the difference itself ends at 1e-16
            level = (smooth_step(x, e) + smooth_step(y, e) - z) / e
            return jnp.mean(jax.nn.sigmoid(jnp.where(truth == 1, -level, level)) ** 2)

        return jax.vmap(lambda e: jax.vmap(lambda z: one(e, z))(shifts))(eps)

    inside = loss(shifts, x, y)
    plain = jnp.mean((smooth_and(x, y, 0.1, 1.5) - in_region("Q1", x, y)) ** 2)
    yield equal("loss for ε = 0.1 and the shift 3/2, as a mean of squares", inside[0, 20], plain, rtol=1e-10)
    gap = jnp.minimum(shifts - 1, 2 - shifts)
    bound = conjunction_error(margin, eps[:, None], 2, gap) ** 2
    yield at_most("loss for shifts between 1 and 2", inside, bound, x=shifts, along="shift")
    spread = inside.max(1) - inside.min(1)
    yield monotone("variation of the loss over the shifts", spread, "decreasing", strict=True, x=1 / eps, along="1/ε")
    yield at_most("variation for ε = 0.01", spread[-1], bound[-1].max())
    beyond = loss(outside, x, y)[-1]
    yield at_least("loss for shifts beyond, ε = 0.01", beyond, 0.1, x=outside, along="shift")
    edge = jnp.abs(outside[None] - jnp.array([1.0, 2.0])[:, None]).min(0)
    yield control(
        "a shift outside (1, 2) separates other regions",
        at_most("loss", beyond, conjunction_error(margin, eps[-1], 2, edge) ** 2),
    )


@claim(rows=("M05.08", "M05.14"))
def sixteen_regions(key, *, margin: Positive = 0.3):
    r"""Every union of quadrants has a short formula in steps.

    With $|x|,|y|\ge\delta$ and $q=1/(1+e^{\delta/\varepsilon})$ the formulas of the text, three of them corrected,
    are off from the indicators by at most: $S(-1/\varepsilon)$ for the two constants, $q$ for the four half-planes,
    $r=S(-(\frac12-2q)/\varepsilon)$ for the four quadrants and their complements, $S(-(\frac12-2r)/\varepsilon)$ for
    the two opposing pairs. That is $2+4+4+4+2=16=2^4$ regions, all that there are.
    """
    x, y = off_axes(2.0, margin)
    eps = jnp.array([0.1, 0.05, 0.02])

    @jax.jit
    def errors(x, y):
        truth = jnp.stack([in_region(name, x, y) for name in REGIONS])
        values = jax.vmap(lambda e: jnp.stack([region_indicator(name, x, y, e) for name in REGIONS]))(eps)
        return jnp.abs(values - truth).max(-1).T

    def allowed(e):
        q, r = jax.nn.sigmoid(-margin / e), conjunction_error(margin, e)
        table = {"constant": jax.nn.sigmoid(-1 / e), "half-plane": q, "quadrant": r, "complement": r}
        table["opposing"] = conjunction_error(jnp.log(1 / r - 1) * e, e)  # two conditions, each off by r
        return jnp.stack([table[region.kind] for region in REGIONS.values()])

    bound = jax.vmap(allowed, out_axes=1)(eps)
    measured = errors(x, y)
    yield at_most("largest error of each region", measured, bound, atol=ROUNDING, x=1 / eps, along="1/ε")
    yield at_most("largest error for ε = 0.05, by region", measured[:, 1], 0.5)
    patterns = {region_of([(i >> q) & 1 for q in range(4)]) for i in range(16)}
    kinds = [sum(REGIONS[name].kind == kind for name in patterns) for kind in LAYERS]
    yield equal("regions of each kind", kinds, [2, 4, 4, 4, 2], rtol=0, atol=0)
    yield control(
        "on points nearer to an axis than δ",
        at_most("largest error of each region", errors(x * margin / 20, y), bound, atol=ROUNDING),
    )
    u, v = square()
    yield heat_maps(
        "the sixteen regions, ε = 0.1", {name: region_indicator(name, u, v, 0.1) for name in REGIONS}, size=64
    )


@claim(rows=("M05.10",))
def opposing_quadrants(key, *, margin: Positive = 0.3, points: Size = 400):
    r"""Opposing quadrants, XNOR and XOR: a clipped sum of two ANDs, and one hidden unit an input is not enough.

    The sum (5.10) of the ANDs for the first and third quadrant lies in $(0,1)$ for every $\varepsilon$, since with
    $s=S_\varepsilon(x)+S_\varepsilon(y)$ it is $1-[S_\varepsilon(s-\frac12)-S_\varepsilon(s-\frac32)]$; clipped it is
    off from $\mathbf 1[xy>0]$ by at most $S(-(\frac12-2r)/\varepsilon)$ where each AND is off by at most $r$. No
    $S_\varepsilon(aS_\varepsilon(x)+bS_\varepsilon(y)+c)$ gets more than three of the four quadrants right. Two
    hidden units with mixed inputs get the points $(\pm1,\pm1)$ right in two layers, though not whole quadrants. (The
    text clips because it has "no assurance" that the sum stays in $(0,1)$; what is above gives it. The clip makes the
    result sharper all the same.)
    """
    x, y = off_axes(2.0, margin)
    u, v = 2 * jax.random.normal(key, (2, points))
    eps, wide = jnp.array([0.1, 0.05, 0.02]), jnp.array([1.0, 0.3, 0.1])

    @jax.jit
    def measure(x, y, u, v):
        same = (x * y > 0).astype(float)
        errors = jax.vmap(
            lambda e: jnp.stack([jnp.abs(smooth_xnor(x, y, e) - same), jnp.abs(smooth_xor(x, y, e) - (1 - same))]).max(
                1
            )
        )(eps)

        def by_level(e):
            s = jax.nn.sigmoid(u / e) + jax.nn.sigmoid(v / e)
            return 1 - jax.nn.sigmoid((s - 0.5) / e) + jax.nn.sigmoid((s - 1.5) / e)

        sums = jax.vmap(lambda e: opposing_sum(u, v, e))(wide)
        ticks = jnp.linspace(-4, 4, 33)
        a, b, c = (t.ravel() for t in jnp.meshgrid(ticks, ticks, ticks))
        corners = jnp.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
        steps = jax.nn.sigmoid(corners / 0.05)
        votes = steps @ jnp.stack([a, b]) + c > 0
        shares = jnp.mean(votes == jnp.array([1, 0, 1, 0])[:, None], axis=0)
        mixed = FeedForward.of(
            [
                (jnp.array([[1.0, 1.0], [-1.0, -1.0]]) / 0.05, jnp.full(2, -1.0) / 0.05),
                (jnp.ones((1, 2)) / 0.05, jnp.array([-0.5]) / 0.05),
            ],
            logistic,
        )
        whole = jax.vmap(mixed)(jnp.stack([x, y], 1))[:, 0]
        two_by_two = jnp.mean((jax.vmap(mixed)(corners)[:, 0] > 0.5) == jnp.array([1, 0, 1, 0]))
        ends = shares.max(), two_by_two, jax.vmap(mixed)(corners)[:, 0]
        return errors, sums, jax.vmap(by_level)(wide), *ends, whole, same

    errors, sums, levels, best, crossed, mixed, whole, same = measure(x, y, u, v)
    r = conjunction_error(margin, eps)
    bound = jax.vmap(lambda r, e: jax.nn.sigmoid(-(0.5 - 2 * r) / e))(r, eps)
    yield at_most("error of XNOR and XOR", errors, bound[:, None], atol=ROUNDING)
    yield equal("sum (5.10) against the difference of two steps", sums, levels, atol=1e-13)
    yield at_most("sum (5.10) is below 1", sums, 1.0, rtol=0)
    yield at_least("sum (5.10) is above 0", sums, 0.0, rtol=0)
    yield equal("most quadrants right with one unit an input, of all (a, b, c) on a grid", best, 0.75, rtol=0)
    corner_error = jnp.abs(mixed - jnp.array([1.0, 0.0, 1.0, 0.0]))
    yield at_most("error at (±1, ±1) of two mixed units", corner_error, conjunction_error(1.0, 0.05), atol=ROUNDING)
    yield control(
        "every hidden unit sees one input: here both see both",
        equal("most quadrants right", crossed, 0.75, rtol=0),
    )
    yield control(
        "the points are (±1, ±1): here whole quadrants",
        at_most("error of two mixed units", jnp.abs(whole - same), conjunction_error(1.0, 0.05), atol=ROUNDING),
    )
    p, t = square()
    fields = {f"{kind}, ε = {e}": f(p, t, e) for kind, f in (("sum", opposing_sum), ("clipped", smooth_xnor))
              for e in (0.5, 0.2, 0.1)}  # fmt: skip
    yield heat_maps("first and third quadrant without and with the clip", fields, columns=3, size=90)


@claim(rows=("M05.11", "M05.12", "M05.14"))
def one_architecture(key, *, points: Size = 300):
    r"""One logistic network 2-2-2-1 represents all sixteen truth tables, with explicit weights.

    With the weights of the text, all divided by $\varepsilon$, and $S$ in every layer (15 numbers in all) the network
    computes the nested steps exactly: the formula of the region, clipped until it has three layers. At the points
    $(\pm1,\pm1)$ and $\varepsilon=0.02$ its output rounds to the truth table, for 16 of 16.
    """
    x, y = jax.random.normal(key, (2, points))
    eps = 0.05

    @jax.jit
    def outputs(x, y, eps):
        # every region's network side by side, its parameters along the first axis
        networks = [truth_table_network(name, eps) for name in REGIONS]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)
        return jax.vmap(lambda n: jax.vmap(lambda a, b: n(jnp.stack([a, b]))[0])(x, y))(stacked)

    @jax.jit
    def nested(x, y):
        def one(name):
            value = region_indicator(name, x, y, eps)
            for _ in range(3 - LAYERS[REGIONS[name].kind]):
                value = smooth_clip(value, eps)
            return value

        return jnp.stack([one(name) for name in REGIONS])

    # arguments of size 1/ε are rounded at 1/ε times 2.2e-16, and a layer magnifies by at most 1/(4ε)
    rounding = 10 * 2.3e-16 / eps / (4 * eps) ** 2
    yield equal("network against nested steps", outputs(x, y, eps), nested(x, y), rtol=0, atol=rounding)
    corners = jnp.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    tables = np.array([region.quadrants for region in REGIONS.values()])
    decided = outputs(*corners.T, 0.02)
    # the last layer sees 1/2 on the right side of 0, up to what the layers before it leave, which is as small
    yield equal("output at (±1, ±1), ε = 0.02", decided, tables, rtol=0, atol=2 * np.exp(-0.5 / 0.02))
    yield equal("tables right, of 16", (jnp.round(decided) == tables).all(1).sum(), 16, rtol=0, atol=0)
    yield equal("parameters", parameter_count(truth_table_network("Q1", eps)), 15, rtol=0, atol=0)
    yield control("ε is small: here 1", equal("output at (±1, ±1)", outputs(*corners.T, 1.0), tables, rtol=0, atol=0.5))
