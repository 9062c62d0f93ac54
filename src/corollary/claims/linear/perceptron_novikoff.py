"""Novikoff's bound on the mistakes of the perceptron, and the two lemmas behind it."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.linear._planted import planted
from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.linear import (
    max_margin,
    novikoff_bound,
    perceptron,
    perceptron_path,
    sampled_perceptron,
    zero_one_loss,
)


@claim(rows=("E01.11",))
def progress(key, *, sets: Size = 60, s: Size = 60, d: Size = 6, updates: Size = 200):
    r"""Each update takes the perceptron at least the margin further in the direction of any separator.

    Without bias, from $w_0=0$: if $\|u\|=1$ and $\gamma=\min_iy_iu\cdot x_i>0$, then after $t$ updates
    $u\cdot w_t\ge t\gamma$. On orthonormal points $e_i$ labelled 1, with $u=(1,\dots,1)/\sqrt d$, it is an equality.
    """
    u, x, y = planted(key, sets, s, d, 0.05)

    @jax.jit
    def measure(u, x, y):
        def one(u, x, y):
            path = perceptron_path(x, y, updates=updates, bias=False)
            t = jnp.concatenate([jnp.zeros(1), jnp.cumsum(path.index >= 0)])
            best = max_margin(x, y, bias=False).w
            products = {"planted": y * (x @ u), "best": y * (x @ best)}
            along = {"planted": path.w @ u, "best": path.w @ best}
            elsewhere = perceptron_path(x, y, updates=updates, bias=False, start=-u)
            return (
                t,
                along,
                products,
                elsewhere.w @ u,
                jnp.concatenate([jnp.zeros(1), jnp.cumsum(elsewhere.index >= 0)]),
            )

        return jax.vmap(one)(u, x, y)

    t, along, products, behind, other_t = measure(u, x, y)
    # a sum of t products rounds by less than t eps times their size
    rounding = 1e-12 * updates
    for name, words in (("planted", "the planted separator"), ("best", "the separator of greatest margin")):
        floor = t * products[name].min(axis=1, keepdims=True)
        yield at_least(f"progress along {words}", along[name], floor, atol=rounding, along="update")
    unit = perceptron_path(jnp.eye(d), jnp.ones(d), updates=d, bias=False)
    yield equal("orthonormal points", unit.w.sum(axis=1) * d**-0.5, jnp.arange(d + 1) * d**-0.5, along="update")
    floor = other_t * products["planted"].min(axis=1, keepdims=True)
    yield control(
        "the weights do not start at zero", at_least("progress", behind, floor, atol=rounding, along="update")
    )


@claim(rows=("E01.12",))
def norm_growth(key, *, sets: Size = 60, s: Size = 60, d: Size = 6, updates: Size = 200):
    r"""Mistakes make the weights of the perceptron grow no faster than the square root of their number.

    Without bias, from $w_0=0$: $\|w_t\|^2\le\sum_{k\le t}\|x^{(k)}\|^2\le R^2t$ after $t$ updates, $x^{(k)}$ being the
    points of the updates and $R=\max_i\|x_i\|$. The data need not be separable. On orthonormal points of one label it
    is an equality. An update is made only where $y\,w\cdot x\le0$; with updates at every point the norm itself would
    grow like $t$.
    """
    data_key, label_key = jax.random.split(key)
    _, x, y = planted(data_key, sets, s, d, 0.05)
    random = jax.random.rademacher(label_key, (sets, s)).astype(float)

    @jax.jit
    def measure(x, y):
        def one(x, y):
            path = perceptron_path(x, y, updates=updates, bias=False)
            made = path.index >= 0
            squares = jnp.where(made, jnp.sum(x**2, axis=1)[path.index], 0)
            every = jnp.cumsum((y[:, None] * x)[jnp.arange(updates) % s], axis=0)
            radius = jnp.max(jnp.sum(x**2, axis=1))
            return {
                "square": jnp.sum(path.w**2, axis=1)[1:],
                "sum": jnp.cumsum(squares),
                "bound": radius * jnp.cumsum(made),
                "every": jnp.sum(every**2, axis=1),
                "allowed": radius * jnp.arange(1, updates + 1),
            }

        return jax.vmap(one)(x, y)

    number = {"x": range(1, updates + 1), "along": "update"}
    for name, m in (("random labels", measure(x, random)), ("separable", measure(x, y))):
        yield at_most(f"squared norm of the weights, {name}", m["square"], m["sum"], **number)
        yield at_most(f"sum of the squared points, {name}", m["sum"], m["bound"], **number)
    unit = perceptron_path(jnp.eye(d), jnp.ones(d), updates=d, bias=False)
    yield equal("orthonormal points: squared norm", jnp.sum(unit.w**2, axis=1), jnp.arange(d + 1.0), along="update")
    yield control("updates at every point", at_most("squared norm of the weights", m["every"], m["allowed"], **number))


@claim(rows=("E01.13", "M04.05"), full={"sets": 200, "limit": 20_000})
def mistake_bound(key, *, sets: Size = 40, s: Size = 60, d: Size = 8, orders: Size = 5, limit: Size = 3000):
    r"""Novikoff: the perceptron makes at most R²/γ² mistakes, in whatever order the data come.

    Let $\|x_i\|\le R$ and $y_iu\cdot x_i\ge\gamma>0$ for a unit vector $u$. From $w_0=0$ and without bias, the
    perceptron makes at most $\lfloor R^2/\gamma^2\rfloor$ updates, whatever the order of presentation, and then
    classifies all points correctly; the greatest margin gives the best bound. The points $e_1,\dots,e_k$ labelled 1
    have $R=1$, $\gamma=1/\sqrt k$ and take exactly $k$ updates. With a bias the same holds for the points $(x,1)$ and
    the margin there; for $R$ and $\gamma$ of the points $x$ themselves it does not.
    """
    data_key, order_key, sample_key = jax.random.split(key, 3)
    _, x, y = planted(data_key, sets, s, d, jnp.geomspace(0.02, 0.5, sets))
    # further sets of the same shape: the first k unit vectors over and over, for each k
    unit = jnp.eye(d)[jnp.arange(s) % jnp.arange(1, d + 1)[:, None]]
    # and the points 20 and 24 of the line with a constant feature, labelled -1 and 1
    line = jnp.zeros((1, s, d)).at[0, :, 0].set(20.0 + 4 * (jnp.arange(s) % 2)).at[0, :, 1].set(1.0)
    sides = jnp.where(jnp.arange(s) % 2, 1.0, -1.0)[None]
    x = jnp.concatenate([x, unit, line])
    y = jnp.concatenate([y, jnp.ones((d, s)), sides])
    order = jax.vmap(lambda k: jax.random.permutation(k, s))(jax.random.split(order_key, orders))
    order = jnp.concatenate([jnp.arange(s)[None].repeat(2, 0), order])
    turned = jnp.ones((orders + 2, s)).at[0, 0].set(-1)  # the first run has the first label turned over

    @jax.jit
    def measure(x, y, order, turned, key):
        def one(x, y, key):
            runs = jax.vmap(lambda o, t: perceptron(x, t * y, bias=False, order=o, updates=limit))(order, turned)
            drawn = sampled_perceptron(x, y, steps=4 * limit, key=key, at_zero=0)
            gamma = max_margin(x, y, bias=False).margin
            loss = jax.vmap(lambda w: zero_one_loss(jnp.append(w, 0.0), x, y, at_zero=0))(runs.w[1:])
            return runs.updates, jnp.sum(drawn.mistake), novikoff_bound(x, gamma), loss

        return jax.vmap(one)(x, y, jax.random.split(key, x.shape[0]))

    runs, drawn, bound, loss = measure(x, y, order, turned, sample_key)
    # the bound is a quotient known to a few digits less than sixteen: a whole number in it must not be missed
    whole = jnp.floor(bound * (1 + 1e-9))
    updates = jnp.concatenate([runs[:, 1:], drawn[:, None]], axis=1)
    each = jnp.repeat(whole, updates.shape[1])
    yield at_most("updates, in order, shuffled and drawn at random", updates.ravel(), each)
    yield equal("0-1 loss at the end", loss, 0)
    k = jnp.arange(1, d + 1)
    yield equal("orthonormal points: updates", updates[sets : sets + d, :-1].T, k, x=k, along="dimension")
    yield equal("orthonormal points: bound", bound[sets : sets + d], k, x=k, along="dimension")
    yield control("the run has a bias, R and γ are those of x", at_most("updates", updates[-1, 0], 24.0**2 / 2.0**2))
    yield control("one label is turned over", at_most("updates", runs[:sets, 0], whole[:sets]))


@claim(
    rows=("E01.13",),
    erratum="The bound is called strict (below the floor in one version, the ceiling in the other); it is attained.",
)
def mistake_bound_is_strict(key, *, d: Size = 10):
    r"""The perceptron converges in less than R²/γ² steps.

    As printed: "converges in less than $\lfloor R^2/\gamma^2\rfloor$ steps", in the earlier version "less than
    $\lceil R^2/\gamma^2\rceil$". The points $e_1,\dots,e_d$ labelled 1 have $R=1$, $\gamma=1/\sqrt d$, and every one of
    them is a mistake once: $d$ updates, in any order. At most $\lfloor R^2/\gamma^2\rfloor$ is what the proof shows.
    """
    order = jax.random.permutation(key, d)
    fit = perceptron(jnp.eye(d), jnp.ones(d), bias=False, order=order)
    gamma = max_margin(jnp.eye(d), jnp.ones(d), bias=False).margin
    bound = np.round(float(novikoff_bound(jnp.eye(d), gamma)), 9)
    yield equal("the data are separable with γ = 1/√d", gamma, d**-0.5)
    yield equal("the perceptron stopped", fit.converged, 1)
    yield at_most("updates, at most the floor", fit.updates, np.floor(bound))
    yield printed(at_most("updates, less than the floor", fit.updates, np.floor(bound) - 1))
    yield printed(at_most("updates, less than the ceiling", fit.updates, np.ceil(bound) - 1))
