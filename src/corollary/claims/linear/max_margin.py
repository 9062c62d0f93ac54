"""The greatest margin and the version space."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.linear._planted import planted
from corollary.evidence import Size, at_least, at_most, claim, control, equal, estimate, monotone, picture
from corollary.linear import (
    feasible_arc,
    in_version_space,
    margin,
    max_margin,
    novikoff_bound,
    perceptron,
    separability,
)


@claim(rows=("E01.06",))
def greatest_margin(key, *, sets: Size = 40, s: Size = 30, d: Size = 4, tried: Size = 1000):
    r"""The greatest margin is half the distance between the convex hulls of the classes.

    Let both classes be present and $S$ separable. Then
    $$\max_{w,b}\gamma[w,b](S)=\tfrac12\min\Big\{\Big\|\sum_{y_i=1}\lambda_ix_i-\sum_{y_i=-1}\lambda_ix_i\Big\|:
    \lambda\ge0,\sum_{y_i=1}\lambda_i=\sum_{y_i=-1}\lambda_i=1\Big\},$$
    so that any hyperplane and any $\lambda$ with the same value prove each other optimal. Of two points it is half
    their distance; of the orthonormal $e_1,\dots,e_d$, all labelled 1, without bias, it is $1/\sqrt d$. Without
    separability the distance is zero.
    """
    data_key, plane_key, try_key = jax.random.split(key, 3)
    _, x, y = planted(data_key, sets, s, d, 0.1)
    noise = jax.random.normal(try_key, (tried, d + 1)) * jnp.geomspace(1e-3, 1, tried)[:, None]
    # one point moved to the mean of the other class, which lies in its hull: no hyperplane parts them
    other = y[..., None] != y[:, :1, None]
    mixed = x.at[:, 0].set(jnp.sum(x * other, axis=1) / jnp.sum(other, axis=1))
    # two points again and again; and points of the plane, for the picture
    first = jnp.arange(s) == 0
    two = jnp.where(first[:, None], x[:, :1], x[:, 1:2])
    sides = jnp.broadcast_to(jnp.where(first, -1.0, 1.0), (sets, s))
    _, flat, flat_y = planted(plane_key, 1, s, 2, 0.3)
    flat = jnp.zeros((1, s, d)).at[..., :2].set(flat)

    @jax.jit
    def measure(x, y, noise):
        def one(x, y):
            found = max_margin(x, y)
            near = jnp.append(found.w, found.b) + noise
            trained = perceptron(x, y, updates=1000)
            return {
                "found": found,
                "margin": margin(found.w, found.b, x, y),
                "hulls": jnp.linalg.norm((found.multipliers * y) @ x) / 2,
                "sums": jnp.stack([jnp.sum(found.multipliers * (side * y > 0)) for side in (1, -1)]),
                "others": jnp.max(jax.vmap(lambda theta: margin(theta[:-1], theta[-1], x, y))(near)),
                "perceptron": margin(trained.w, trained.b, x, y),
            }

        return jax.vmap(one)(x, y)

    every = measure(jnp.concatenate([x, mixed, two, flat]), jnp.concatenate([y, y, sides, flat_y]), noise)
    m, overlap, pair, plane = (jax.tree.map(lambda a, k=k: a[k * sets : (k + 1) * sets], every) for k in range(4))
    yield equal("greatest margin, against the distance of the hulls", m["margin"], m["hulls"])
    yield equal("sums of the multipliers in the classes", m["sums"], 1.0)
    yield at_least("least multiplier", jnp.min(m["found"].multipliers, axis=1), 0.0)
    yield at_most("best margin of hyperplanes nearby", m["others"], m["hulls"])
    yield at_most("margin of the perceptron's hyperplane", m["perceptron"], m["hulls"])
    yield equal("two points", pair["margin"], jnp.linalg.norm(x[:, 0] - x[:, 1], axis=1) / 2)
    yield equal("orthonormal points without bias", max_margin(jnp.eye(d), jnp.ones(d), bias=False).margin, d**-0.5)
    # nothing is left of the distance but the rounding of numbers of the order of one
    yield equal("distance of the hulls of overlapping classes", overlap["hulls"], 0.0)
    yield at_most("margin of overlapping classes", overlap["margin"], 0.0)
    yield control("the classes overlap", equal("greatest margin", overlap["margin"], overlap["hulls"]))
    yield _band("greatest margin in the plane", flat[0, :, :2], flat_y[0], jax.tree.map(lambda a: a[0], plane["found"]))


@claim(rows=("E01.07",))
def convex_cone(key, *, pairs: Size = 20_000, sets: Size = 100):
    r"""The version space is an open convex cone, not empty exactly for data on which the perceptron stops.

    $\mathcal V(S)=\{(w,b):y(w\cdot x+b)>0\text{ for all }(x,y)\in S\}$. Of two members, all positive combinations are
    members, and so is everything near enough. $\mathcal V(S)\ne\emptyset$, decided by linear programming, exactly if
    the perceptron stops; where it does, it has stopped after $R^2/\gamma^2$ updates in the space of $(x,1)$.
    """
    data_key, draw_key, mix_key, whole_key, label_key = jax.random.split(key, 5)
    u, x, y = (a[0] for a in planted(data_key, 1, 6, 2, 0.3))
    theta = jnp.append(u, 0.0) + 0.6 * jax.random.normal(draw_key, (2 * pairs, 3))
    weights = jax.random.exponential(mix_key, (pairs, 2, 1))
    small = jax.random.randint(whole_key, (sets, 6, 2), -2, 3).astype(float)
    labels = jax.random.rademacher(label_key, (sets, 6)).astype(float)
    limit = 20_000

    @jax.jit
    def measure(x, y, theta, weights, small, labels):
        member = in_version_space(theta[:, :2], theta[:, 2], x, y)
        sums = jnp.sum(jnp.stack([weights, weights * jnp.array([[1.0], [-1.0]])]) * theta.reshape(-1, 2, 3), axis=2)
        products = y * (sums[..., :2] @ x.T + sums[..., 2:])
        # moving (w, b) by r changes no product by more than r |(x, 1)|
        reach = jnp.min(y * (theta[:, :2] @ x.T + theta[:, 2:]) / jnp.sqrt(jnp.sum(x * x, 1) + 1), axis=1)
        moved = (
            theta
            + 0.999 * reach[:, None] * jnp.roll(theta, 1, 0) / jnp.linalg.norm(jnp.roll(theta, 1, 0), axis=1)[:, None]
        )
        stays = in_version_space(moved[:, :2], moved[:, 2], x, y)
        runs = jax.vmap(lambda x, y: perceptron(x, y, updates=limit))(small, labels)
        wide = jnp.concatenate([small, jnp.ones((sets, 6, 1))], axis=2)
        gamma = jax.vmap(lambda x, y: max_margin(x, y, bias=False).margin)(wide, labels)
        bound = jax.vmap(novikoff_bound)(wide, gamma)
        return {
            "member": member,
            "both": member.reshape(-1, 2).all(1),
            "least": jnp.min(products, axis=2),
            "stays": stays,
            "stopped": runs.converged,
            "updates": runs.updates,
            "bound": bound,
        }

    m = {name: np.asarray(value) for name, value in measure(x, y, theta, weights, small, labels).items()}
    yield at_least("pairs of members", m["both"].sum(), 100)
    yield at_least("least product of positive combinations", m["least"][0][m["both"]], 0.0)
    yield equal("members moved by less than their reach: still members", m["stays"][m["member"]], 1)
    linear = np.array([separability(a, b).separable for a, b in zip(small, labels, strict=True)])
    yield equal("the perceptron stopped, against linear programming", m["stopped"], linear)
    yield at_most("updates on separable data", m["updates"][linear], m["bound"][linear])
    yield at_most("longest run that the limit must allow", m["bound"][linear], limit)
    differences = m["least"][1][m["both"]]
    yield control("one of the weights is negative", at_least("least product of combinations", differences, 0.0))


@claim(rows=("E01.07", "E01.08"))
def more_data_less_space(key, *, directions: Size = 20_000, s: Size = 20):
    r"""Adding data can only shrink the version space.

    $\mathcal V(S\cup\{(x,y)\})=\mathcal V(S)\cap\{(w,b):y(w\cdot x+b)>0\}$, hence $S\subseteq S'$ implies
    $\mathcal V(S')\subseteq\mathcal V(S)$. Replacing a point of $S$ by another one does not.
    """
    plane_key, space_key, draw_key = jax.random.split(key, 3)

    @jax.jit
    def members(x, y, theta):
        """Whether each direction classifies the first k points correctly, k = 0, ..., s; and each point alone."""
        right = y * (theta[:, :-1] @ x.T + theta[:, -1:]) > 0
        nested = jax.vmap(
            lambda k: in_version_space(
                theta[:, :-1],
                theta[:, -1],
                jnp.where(jnp.arange(s)[:, None] < k, x, x[0]),
                jnp.where(jnp.arange(s) < k, y, y[0]),
            ),
            out_axes=1,
        )(jnp.arange(1, s + 1))
        return right, nested

    for d, name_key in ((2, plane_key), (5, space_key)):
        u, x, y = (a[0] for a in planted(name_key, 1, s, d, 0.0))
        # directions around the one that labelled the data, so that some survive
        theta = jnp.append(u, 0.0) + 0.7 * jax.random.normal(jax.random.fold_in(draw_key, d), (directions, d + 1))
        right, nested = members(x, y, theta)
        outside = jnp.sum(nested[:, 1:] & ~nested[:, :-1], axis=0)
        yield equal(f"members of V(S') outside V(S), {d} features", outside, 0, x=range(2, s + 1), along="points")
        yield equal(f"V(S) with one more half-space, {d} features", nested[:, 1:], nested[:, :-1] & right[:, 1:])
        share = jnp.mean(nested, axis=0, dtype=float)
        yield monotone(
            f"share of the directions in V(S), {d} features", share, "decreasing", x=range(1, s + 1), along="points"
        )
    # of the first k points, the last is exchanged for the one after it
    others = jnp.concatenate([jnp.ones((directions, 1), bool), nested[:, :-2]], axis=1) & right[:, 1:]
    yield control(
        "the last point is exchanged for another",
        equal(
            "members of V(S') outside V(S)",
            jnp.sum(others & ~nested[:, :-1], axis=0),
            0,
            x=range(1, s),
            along="points",
        ),
    )


@claim(rows=("E01.16", "E01.08"))
def arc_of_directions(key, *, samples: Size = 50_000, s: Size = 12):
    r"""In the plane, without a bias, the version space is an arc: what a gap of angles has beyond a half-turn.

    Each point allows the half-circle of directions about $y_ix_i$. The directions that all allow are those opposite to
    the widest gap between the angles of the $y_ix_i$, and the width of their arc is what the gap has beyond $\pi$.
    The share of random directions in $\mathcal V(S)$ is that width over $2\pi$.
    """
    angle_key, length_key, label_key, draw_key = jax.random.split(key, 4)
    # within 1.35 of a common direction: the arc keeps at least π - 2.7 = 0.44, seven hundredths of the circle
    angles = jax.random.uniform(angle_key, (s,), minval=-1.35, maxval=1.35)
    z = jnp.exp(jax.random.normal(length_key, (s, 1))) * jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    y = jax.random.rademacher(label_key, (s,)).astype(float)
    x = z * y[:, None]
    turns = jax.random.uniform(draw_key, (samples,), maxval=2 * jnp.pi)

    @jax.jit
    def measure(x, y, turns):
        w = jnp.stack([jnp.cos(turns), jnp.sin(turns)], axis=1)
        first = jnp.arange(s) < jnp.arange(1, s + 1)[:, None]
        some = jnp.where(first[..., None], x, x[0]), jnp.where(first, y, y[0])
        arcs = jax.vmap(feasible_arc)(*some)
        inside = jax.vmap(lambda x, y: in_version_space(w, 0.0, x, y), out_axes=1)(*some)
        return arcs, inside, jax.vmap(lambda arc: arc.contains(turns), out_axes=1)(arcs)

    arcs, inside, within = measure(x, y, turns)
    yield equal("directions in V(S), against the arc", inside, within)
    share = arcs.width / (2 * jnp.pi)
    yield estimate("share of random directions", inside.astype(float), share, wrong=1.25 * share)
    yield monotone("width of the arc", arcs.width, "decreasing", x=range(1, s + 1), along="points")
    yield at_least("least width that the angles leave", arcs.width, jnp.pi - 2.7)
    spread = feasible_arc(jnp.concatenate([x, jnp.array([[1.0, 0.0]])]), jnp.append(y, -1.0)).width
    yield control(
        "a point is added with the wrong label", at_least("least width that the angles leave", spread, jnp.pi - 2.7)
    )
    rows = [
        {"points": k + 1, "from": float(c - w / 2), "to": float(c + w / 2)}
        for k, (c, w) in enumerate(zip(*map(np.asarray, arcs), strict=True))
    ]
    bars = alt.Chart(alt.Data(values=rows)).mark_bar(color="#1f6f8b", height=9)
    bars = bars.encode(alt.X("from:Q", title="direction (radian)"), alt.X2("to:Q"), alt.Y("points:O"))
    yield picture("directions that classify the first points correctly", bars.properties(width=300, height=190))


def _band(name, x, y, found):
    """The points of two classes, the hyperplane of greatest margin and the lines at that distance on either side."""
    w, b, gamma = np.asarray(found.w)[:2], float(found.b), float(found.margin)
    along, reach = np.array([-w[1], w[0]]), float(np.abs(x).max())
    rows = [{"u": float(p), "v": float(q), "class": f"{t:+.0f}"} for (p, q), t in zip(x, y, strict=True)]
    ends = [
        {"u": float(p[0]), "v": float(p[1]), "line": f"{side:+d}", "of": "margin" if side else "hyperplane"}
        for side in (-1, 0, 1)
        for p in ((side * gamma - b) * w + t * along for t in (-1.5 * reach, 1.5 * reach))
    ]
    scale = alt.Scale(domain=[-1.1 * reach, 1.1 * reach], nice=False)
    axes = alt.X("u:Q", title="x1", scale=scale), alt.Y("v:Q", title="x2", scale=scale)
    colour = alt.Color("class:N", scale=alt.Scale(range=["#1f6f8b", "#d1495b"]), legend=alt.Legend(orient="bottom"))
    dots = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=50, clip=True).encode(*axes, colour)
    dash = alt.StrokeDash("of:N", scale=alt.Scale(domain=["hyperplane", "margin"], range=[[1, 0], [5, 4]]), legend=None)
    lines = alt.Chart(alt.Data(values=ends)).mark_line(clip=True, color="#22313f").encode(*axes, dash, detail="line:N")
    return picture(name, alt.layer(lines, dots).properties(width=240, height=240))
