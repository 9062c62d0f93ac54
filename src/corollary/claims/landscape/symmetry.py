"""Symmetry of hidden units: families of minima, no convexity, saddles; and minima that are not global."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, picture
from corollary.landscape import (
    SumNet,
    all_orders,
    committee_descent,
    committee_loss,
    committee_polish,
    segment,
    sum_net_loss,
    symmetrise,
)
from corollary.nets import identity, relu, tanh


def _teacher(key, units, dim, n):
    """Distinct teachers, orthogonal and of length 2, with their data."""
    t_key, x_key = jax.random.split(key)
    axes = jnp.linalg.qr(jax.random.normal(t_key, (dim, dim)))[0]
    return 2 * axes[:units], jax.random.normal(x_key, (n, dim))


@claim(rows=("T06.15", "T06.16"))
def symmetry_forbids_convexity(key, *, units: Size = 3, dim: Size = 4, n: Size = 200):
    r"""Equivalent minima whose average is worse: the loss of hidden units cannot be convex.

    $h_W(x)=\sum_{i\le k}\sigma(w_i^\top x)$ does not change when its units change places, so every minimum
    comes with $k!$ equivalent ones, and the gradient is equivariant. Were the loss convex, their average
    $\bar\theta$, all units equal to the mean, would be a minimum too. But then
    $h_{\bar\theta}(x)=k\,\sigma(\frac1k\sum_iw_i^\top x)$ is a single neuron, and three distinct ones cannot
    be fitted by it: $f(\bar\theta)>0=f(\theta^*)$, and the chord between two of the minima runs below the
    loss. For $\sigma(u)=u$ there is no contradiction: the average is a minimum.
    """

    @jax.jit
    def measure(key):
        t_key, w_key = jax.random.split(key)
        teacher, x = _teacher(t_key, units, dim, n)
        other = jax.random.normal(w_key, (units, dim))

        def one(activation):
            y = SumNet(activation, teacher)(x)
            loss = lambda w: sum_net_loss(activation, w, x, y)  # noqa: E731
            orders = all_orders(teacher)
            slope = jax.grad(loss)(other)
            turned = jax.vmap(jax.grad(loss))(all_orders(other))
            mean = symmetrise(teacher)
            single = units * activation(x @ teacher.mean(0))
            return {
                "family": jax.vmap(loss)(orders),
                "apart": jnp.linalg.norm((orders[1:] - orders[0]).reshape(len(orders) - 1, -1), axis=1),
                "values": (jax.vmap(loss)(all_orders(other)), loss(other)),
                "slopes": (turned, all_orders(slope)),
                "mean": (jnp.abs(orders.mean(0) - mean).max(), loss(mean), 0.5 * jnp.mean((single - y) ** 2)),
                "path": segment(loss, orders[0], orders[-1])[1],
                "least": jnp.linalg.eigvalsh(jax.hessian(loss)(mean).reshape(mean.size, mean.size))[0],
            }

        return [one(a) for a in (tanh, relu, identity)]

    *bent, linear = measure(key)
    for name, m in zip(("tanh", "ReLU"), bent, strict=True):
        yield equal(f"{name}: loss in all orders of the units", *m["values"], rtol=1e-12)
        yield equal(f"{name}: gradient in all orders", *m["slopes"], rtol=1e-10, atol=1e-13)
        yield equal(f"{name}: all orders of the teacher are minima", m["family"], 0.0)
        yield at_least(f"{name}: different points", m["apart"], 1.0)
        off, value, single = m["mean"]
        yield equal(f"{name}: their average has equal units", off, 0.0)
        yield equal(f"{name}: loss of the average is that of one neuron", value, single)
        yield at_least(f"{name}: loss of the average", value, 0.01)
        yield at_least(f"{name}: highest point between two minima", m["path"].max(), 0.01)
    yield control("units that are not linear: here linear", at_least("loss of the average", linear["mean"][1], 0.01))
    yield control("units that are not linear: here linear", at_least("highest point", linear["path"].max(), 0.01))


@claim(rows=("T06.17",))
def symmetric_saddle(key, *, units: Size = 3, dim: Size = 4, n: Size = 200, steps: Count = 2000):
    r"""Descent that starts with equal units ends at a saddle, which a little noise leaves.

    Where all units are equal their gradients are equal: gradient descent on $\frac12\mathbb E(h_W-y)^2$ keeps
    them equal and converges to a critical point of the whole loss. With a teacher of distinct units that
    point is a strict saddle: the Hessian has a negative eigenvalue, in a direction that makes the units
    different. With noise of $10^{-6}$ in the start the loss stays on the same level for a while and then
    falls below it. For linear units the point is a minimum.
    """

    @jax.jit
    def measure(key):
        t_key, s_key, n_key = jax.random.split(key, 3)
        teacher, x = _teacher(t_key, units, dim, n)
        row = jax.random.normal(s_key, (dim,)) / jnp.sqrt(dim)
        noise = jax.random.normal(n_key, (units, dim))

        def one(activation):
            y = SumNet(activation, teacher)(x)
            loss = lambda w: sum_net_loss(activation, w, x, y)  # noqa: E731
            begin = jnp.broadcast_to(row, (units, dim)) + jnp.array([0.0, 1e-6])[:, None, None] * noise
            slope = jax.vmap(jax.grad(loss))
            ends, path = jax.lax.scan(lambda w, _: (w - 0.1 * slope(w), jax.vmap(loss)(w)), begin, length=steps)
            # the end on the symmetric set, polished there by Newton's method for its one row
            reduced = lambda r: loss(jnp.broadcast_to(r, (units, dim)))  # noqa: E731
            newton = lambda r, _: (r - jnp.linalg.solve(jax.hessian(reduced)(r), jax.grad(reduced)(r)), None)  # noqa: E731
            last, _ = jax.lax.scan(newton, ends[0].mean(0), length=4)
            point = jnp.broadcast_to(last, (units, dim))
            spectrum, axes = jnp.linalg.eigh(jax.hessian(loss)(point).reshape(units * dim, units * dim))
            return {
                "spread": jnp.abs(ends[0] - ends[0].mean(0)).max(),
                "moved": jnp.linalg.norm(point - ends[0]),
                "slope": jnp.linalg.norm(jax.grad(loss)(point)),
                "least": spectrum[0],
                "sum": jnp.linalg.norm(axes[:, 0].reshape(units, dim).sum(0)),
                "level": loss(point),
                "path": path,
            }

        return one(tanh), one(identity)

    bent, linear = measure(key)
    yield equal("units stay equal", bent["spread"], 0.0, atol=1e-12)
    yield at_most("distance of the end from the critical point", bent["moved"], 1e-3)
    yield equal("gradient of the whole loss there", bent["slope"], 0.0, atol=1e-8)
    yield at_most("least curvature there", bent["least"], -1e-3)
    yield equal("its direction makes the units different: it sums to 0 over them", bent["sum"], 0.0, atol=1e-8)
    plateau, end = bent["path"][steps // 50 : steps // 10 + 1, 1], bent["path"][-1, 1]
    yield at_most("with noise: loss at the end over that of the saddle", end / bent["level"], 0.5)
    yield at_least("with noise: loss on the plateau over that of the saddle", plateau / bent["level"], 0.5)
    yield equal("without noise: loss at the end", bent["path"][-1, 0], bent["level"], rtol=1e-6)
    yield control("units that are not linear: here linear", at_most("least curvature", linear["least"], -1e-3))
    t = np.unique(np.geomspace(1, steps, 80).astype(int)) - 1
    rows = [
        {"step": int(i) + 1, "loss": float(bent["path"][i, j]), "start": name}
        for j, name in enumerate(("equal units", "noise of 1e-6"))
        for i in t
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line()
    yield picture(
        "the saddle of equal units, left with noise",
        chart.encode(
            alt.X("step:Q", scale=alt.Scale(type="log")),
            alt.Y("loss:Q", title=None),
            alt.Color("start:N", title=None),
        ).properties(width=300, height=190),
    )


@claim(rows=("B06.02",), no_control="an experiment; more units than the teacher has are among the checks")
def spurious_minima_of_committees(
    key, *, units: Size = 10, extra: Annotated[int, Range(1, 10)] = 1, trials: Size = 80, steps: Count = 1500
):
    r"""A ReLU committee as large as its teacher has minima that are not global; one more unit avoids them.

    Teacher $\sum_{j\le k}\sigma(v_j^\top x)$ with orthonormal $v_j$, Gaussian $x$, student $\sum_{i\le
    n}\sigma(w_i^\top x)$; the population loss is known in closed form. For $n=k\ge6$ gradient descent from
    random starts ends at spurious local minima with a probability that grows with $k$ (Safran and Shamir;
    about 0.4 for $k=10$): a loss that is not zero, no gradient, positive curvature in all directions. With
    one more unit than the teacher it hardly ever does. What is known of very wide networks is a statement on
    descent, not on all local minima.
    """

    @jax.jit
    def descend(key):
        teacher = jnp.eye(units)
        keys = jax.random.split(key)
        runs = [
            committee_descent(units + more, teacher, key=k, trials=trials, step=0.5, steps=steps)
            for more, k in zip((0, extra), keys, strict=True)
        ]
        losses = jnp.stack([jax.vmap(lambda w: committee_loss(w, teacher))(w) for w in runs])
        # of the runs that ended high, those that have come to rest; the others may still be on a plateau
        slopes = jax.vmap(lambda w: jnp.linalg.norm(jax.grad(committee_loss)(w, teacher)))(runs[0])
        still = jnp.argsort(jnp.where(losses[0] > 1e-3, slopes, jnp.inf))[:5]
        return losses, committee_polish(runs[0][still], teacher, steps=2)

    losses, ends = descend(key)
    proven = np.asarray((ends.loss > 1e-3) & (ends.gradient_norm < 1e-9) & (ends.least_curvature > 1e-4))
    yield at_least("of five runs that ended high: at a proven spurious minimum", proven.sum(), 3)
    stuck, fewer = np.asarray(losses > 1e-3).sum(1)
    # Fisher's exact test: how often equal shares would give counts so far apart
    chance = stats.fisher_exact([[stuck, trials - stuck], [fewer, trials - fewer]], alternative="greater").pvalue
    yield at_most("runs above 1e-3, as many units against more: chance of the difference", chance, 1e-3)
    yield at_most("runs above 1e-3 with more units, of those with as many", fewer / max(stuck, 1), 0.5)
    rows = [
        {"loss": float(np.log10(max(v, 1e-16))), "units": f"{units + more} units"}
        for more, values in zip((0, extra), np.asarray(losses), strict=True)
        for v in values
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_bar(opacity=0.6)
    yield picture(
        f"final losses against a teacher of {units}",
        chart.encode(
            alt.X("loss:Q", bin=alt.Bin(maxbins=32), title="log10 of the loss"),
            alt.Y("count()", stack=None, title="runs"),
            alt.Color("units:N", title=None),
        ).properties(width=300, height=190),
    )
