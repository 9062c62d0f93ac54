"""Worst cases that are known, and what attacks make of them."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone
from corollary.robustness import Ball, flip_distance, linear_adversarial_risk, pgd, relu_worst_margin, worst_margin

#: The norms, and those that are dual to them.
DUAL = {1: np.inf, 2: 2, np.inf: 1}


def _linear(w, bias):
    return Network(lambda p, x: (p[0] @ x + p[1])[None], (w, bias))


@claim(rows=("B12.02", "T18.02"))
def linear_worst_case(key, *, dim: Size = 15, n: Size = 40):
    r"""A linear classifier loses the dual norm of its weights per unit of perturbation, and attacks find that.

    $\min_{\|\delta\|_p\le\epsilon}y(w\cdot(x+\delta)+b)=y(w\cdot x+b)-\epsilon\|w\|_q$, $\frac1p+\frac1q=1$, attained
    for $p=\infty$ by $\delta=-\epsilon y\,\mathrm{sign}(w)$; hence the smallest $\|\delta\|_p$ that changes the class
    is $|w\cdot x+b|/\|w\|_q$. Projected ascent attains the first; it succeeds at 1.001 times the second and never at
    0.999 times. A curved boundary may be nearer.
    """

    @jax.jit
    def measure(key):
        w_key, x_key = jax.random.split(key)
        w, x = jax.random.normal(w_key, (dim,)), jax.random.normal(x_key, (n, dim))
        y, network = jnp.sign(x @ w + 0.3), _linear(w, jnp.array(0.3))
        out = {}
        for p in DUAL:
            made = pgd(network, "logistic", (x, y), Ball(p, 0.2), stop=False)
            distance = flip_distance(w, x, p, 0.3)
            near = [
                jax.vmap(lambda x, y, r, p=p: pgd(network, "logistic", (x[None], y[None]), Ball(p, r)).success[0])(
                    x, y, share * distance
                )
                for share in (0.999, 1.001)
            ]
            out[p] = y * (made.inputs @ w + 0.3), distance, *near
        # concave: on its positive side it falls faster than its slope at the example says
        curved = Network(lambda p, x: (p[0] @ x + p[1] - x @ x)[None], network.params)
        value, slope = jax.vmap(jax.value_and_grad(lambda x: curved(x)[0]))(x / 4)
        linearised = 0.999 * value / jnp.linalg.norm(slope, axis=1)
        bent = jax.vmap(lambda x, r: pgd(curved, "logistic", (x[None], jnp.ones(1)), Ball(2, jnp.abs(r))).success[0])
        return w, x, y, out, bent(x / 4, linearised) & (value > 0)

    w, x, y, out, bent = jax.tree.map(np.asarray, measure(key))
    for p, name in ((1, "sum"), (2, "Euclidean"), (np.inf, "largest")):
        margin, distance, before, after = out[p]
        size = np.linalg.norm(w, DUAL[p])
        yield equal(f"{name} norm: least margin found", margin, y * (x @ w + 0.3) - 0.2 * size, atol=1e-12)
        yield equal(f"{name} norm: distance", distance, np.abs(x @ w + 0.3) / size)
        yield equal(f"{name} norm: successes just before", before.sum(), 0)
        yield equal(f"{name} norm: successes just after", after.sum(), n)
    yield control("linear: here curved, with the slope at the example", equal("successes just before", bent.sum(), 0))


@claim(rows=("B12.02",))
def small_relu_networks(key, *, networks: Count = 6, side: Size = 400):
    r"""The least margin of a small ReLU network, by its patterns: a grid finds nothing below, ascent gets within 1 %.

    $f(x)=\sum_ia_i(w_i\cdot x+b_i)_+$ with 8 units in the plane. $\min_{\|\delta\|_p\le r}f(x+\delta)$ is the least of
    convex problems, one for each on-off pattern of the units with $a_i<0$. It is at most every value on a grid of the
    ball, 400 points wide, and below the least of these by no more than the slope times half a cell; the ascent of
    $-f$ from 30 points ends within 1 % of the range of $f$ on the ball.
    """

    @jax.jit
    def measure(key):
        line = jnp.linspace(-1, 1, side)
        grid = 0.8 * jnp.stack(jnp.meshgrid(line, line), -1).reshape(-1, 2)

        def one(key):
            keys = jax.random.split(key, 5)
            weight, bias = jax.random.normal(keys[0], (8, 2)), jax.random.normal(keys[1], (8,))
            outer, x = jax.random.normal(keys[2], (1, 8)), jax.random.normal(keys[3], (1, 2))
            values = jnp.maximum((x + grid) @ weight.T + bias, 0) @ outer[0]
            network = Network(lambda p, x: p[2] @ jnp.maximum(p[0] @ x + p[1], 0), (weight, bias, outer))
            cell = 1.6 / (side - 1) / 2 * jnp.sum(jnp.abs(outer) @ jnp.abs(weight))
            out = []
            for p in (1, 2, np.inf):
                inside = jnp.linalg.norm(grid, p, axis=1) <= 0.8
                least, most = jnp.min(jnp.where(inside, values, jnp.inf)), jnp.max(jnp.where(inside, values, -jnp.inf))
                exact = relu_worst_margin(weight, bias, outer, x, jnp.ones(1, int), Ball(p, 0.8))
                down = lambda output, y: -output[0]  # noqa: E731
                made = pgd(
                    network, down, (x, jnp.ones(1)), Ball(p, 0.8), steps=40, restarts=30, stop=False, key=keys[4]
                )
                out.append((exact.lower[0], exact.upper[0], least, most, -made.loss[0]))
            return jnp.array(out), cell

        return jax.lax.map(one, jax.random.split(key, networks))

    found, cell = map(np.asarray, measure(key))
    lower, upper, least, most, attacked = np.moveaxis(found, -1, 0)
    # the method stops at 64 units of rounding of the largest value, a sum of 8 terms
    yield equal("both ends of the least margin", lower, upper, rtol=0, atol=1e-10)
    yield at_most("least margin, against the grid", upper, least, atol=1e-10)
    yield at_least("least margin, against the grid less a cell", lower, least - 2 * cell[:, None])
    yield at_least("attacked margin", attacked, lower, atol=1e-10)
    yield at_most("attacked margin, within 1 % of the range", attacked, upper + 0.01 * (most - least))


@claim(rows=("B12.24",))
def adversarial_risk(key, *, dim: Size = 8, n: Size = 60):
    r"""The adversarial risk of a linear logistic model has a closed form, and grows with the radius.

    $\hat
    R_{\mathrm{adv}}=\frac1n\sum_i\max_{\|\delta\|_p\le\epsilon}\ln(1+e^{-y_iw\cdot(x_i+\delta)})=\frac1n\sum_i\ln(1+
    e^{-(y_iw\cdot x_i-\epsilon\|w\|_q)})$, also where inputs are confined to a box, with the worst margin in it. It is
    $\hat R$ at $\epsilon=0$ and increases. What an attack finds is never more, and on this model as much.
    """
    radii = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8])

    @jax.jit
    def measure(key):
        w_key, x_key, f_key = jax.random.split(key, 3)
        w, x = jax.random.normal(w_key, (dim,)), jax.random.uniform(x_key, (n, dim))
        y = jnp.where(jax.random.bernoulli(f_key, 0.2, (n,)), -1, 1) * jnp.sign(x @ w - 0.1)
        network = _linear(w, jnp.array(-0.1))

        def both(p, low, high):
            exact = jax.vmap(lambda r: linear_adversarial_risk(w, x, y, Ball(p, r, low, high), -0.1))(radii)
            attack = lambda r: pgd(network, "logistic", (x, y), Ball(p, r, low, high), stop=False).loss.mean()  # noqa: E731
            return exact, jax.vmap(attack)(radii)

        found = {p: both(p, None, None) for p in DUAL}
        boxed = {p: both(p, 0.0, 1.0) for p in DUAL}
        corner = worst_margin(w, x, y, Ball(np.inf, 5.0, 0.0, 1.0), -0.1)  # the box alone
        return w, x, y, found, boxed, corner

    w, x, y, found, boxed, corner = jax.tree.map(np.asarray, measure(key))
    for p, name in ((1, "sum"), (2, "Euclidean"), (np.inf, "largest")):
        margin = y * (x @ w - 0.1) - radii[:, None] * np.linalg.norm(w, DUAL[p])
        closed = np.logaddexp(0, -margin).mean(1)
        yield equal(f"{name} norm: risk under attack", found[p][1], closed, x=radii, along="radius")
        yield monotone(f"{name} norm: risk with the radius", found[p][1], "increasing")
        yield equal(f"{name} norm: risk in the unit box, attacked and exact", boxed[p][1], boxed[p][0], rtol=1e-9)
    yield equal("radius 0", found[2][1][0], np.logaddexp(0, -y * (x @ w - 0.1)).mean())
    # in a ball that holds the box every coordinate goes to the end that is worse
    ends = np.minimum(y[:, None] * w * 0.0, y[:, None] * w * 1.0).sum(1) - 0.1 * y
    yield equal("least margin in the box", corner, ends, atol=1e-12)
