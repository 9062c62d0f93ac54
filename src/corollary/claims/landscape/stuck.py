"""The stuck region around a saddle is thin: slabs, coupled sequences, and their difference (T section 7.3)."""

from typing import Annotated

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import (
    Positive,
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    picture,
    rate,
)
from corollary.landscape import (
    coupled_descent,
    cubic_saddle,
    difference_decomposition,
    escape_times,
    separation_time,
    slab_probability,
    stuck_probability_bound,
    stuck_region,
    uniform_ball,
)


def _bent(x):
    """A saddle at the origin of curvatures -0.2 and 0.2 whose stable manifold is bent."""
    bend = x[0] - 3 * x[1] ** 2
    return -0.1 * bend**2 + 0.1 * x[1] ** 2 + 0.05 * bend**4


def _disc(region, names):
    """The disc coloured by escape time; the stuck cells in black."""
    region = jax.tree.map(np.asarray, region)
    k = region.offsets
    cell = float(k[1] - k[0]) / 2
    rows = [
        {
            "x": float(k[j]) - cell,
            "x2": float(k[j]) + cell,
            "y": float(k[i]) - cell,
            "y2": float(k[i]) + cell,
            "steps": int(region.times[i, j]),
            "stuck": bool(region.stuck[i, j]),
        }
        for i, j in zip(*np.nonzero(region.inside), strict=True)
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            alt.X("x:Q", title=names[0], scale=alt.Scale(nice=False)),
            alt.X2("x2:Q"),
            alt.Y("y:Q", title=names[1], scale=alt.Scale(nice=False)),
            alt.Y2("y2:Q"),
            color=alt.condition(
                "datum.stuck",
                alt.value("black"),
                alt.Color("steps:Q", title="steps to escape", scale=alt.Scale(scheme="viridis", reverse=True)),
            ),
        )
    )
    return picture("where gradient descent is stuck (black)", chart.properties(width=280, height=280))


@claim(rows=("T07.10",))
def thin_pancake(key, *, draws: Size = 10_000, resolution: Annotated[int, Range(21, 121)] = 71):
    r"""The stuck region is a thin pancake: wide across, narrow along the direction of escape.

    If a subset of the ball of radius $\eta r$ in $\mathbb R^d$ is at most $\eta\omega$ wide along $e_1$, a uniform
    point lies in it with probability at most
    $\frac\omega{r\sqrt\pi}\frac{\Gamma(d/2+1)}{\Gamma(d/2+1/2)}\le\frac\omega r\sqrt{\frac d\pi}$. The first is
    attained by the central slab as $\omega\to0$; the second is larger by a factor between $\frac2{\sqrt\pi}$ and
    $\sqrt2$. Around a saddle the starts that stay within reach for $\mathscr T$ steps of gradient descent are such
    a set, bent but narrow, and the width shrinks like $(1+\eta\gamma)^{-\mathscr T}$.
    """
    dims = (3, 30, 300)
    lengths = np.arange(40, 70, 4)  # long enough for 1.1^t - 1 to be a power
    radius, reach, eta, gamma = 0.1, 0.3, 0.5, 0.2

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, draws)
        z = jax.random.normal(keys[0], (draws, dims[-1] + 2))

        def first(d):  # u_1 of a uniform point of the ball, in every dimension from the same draws
            return z[:, 0] / jnp.sqrt(jnp.sum(jnp.where(jnp.arange(dims[-1] + 2) < d + 2, z**2, 0.0), axis=1))

        in_slab = jnp.stack([jnp.abs(first(d)) <= 0.05 / d**0.5 for d in dims], axis=1)
        region = stuck_region(
            _bent, jnp.zeros(2), jnp.eye(2), radius, eta, steps=40, reach=reach, resolution=resolution
        )
        starts = jax.vmap(lambda k: uniform_ball(2, radius, key=k))(keys)
        # the width on the line through the saddle, to a fraction of itself, for several lengths of the run
        guess = reach / ((1 + eta * gamma) ** lengths.astype(float) - 1)
        line = (guess[:, None] * jnp.linspace(-3, 3, 301)).reshape(-1, 1) * jnp.eye(2)[0]
        times = escape_times(
            _bent, jnp.concatenate([starts, line]), eta, steps=int(lengths[-1]), reach=reach
        )  # one program for both
        stuck, scan = times[:draws] > 40, times[draws:].reshape(-1, 301)
        inside = jnp.sum(scan > lengths[:, None], axis=1) / 300 * 6 * guess
        return in_slab, region, stuck, inside

    in_slab, region, stuck, widths = measure(key)
    d = np.arange(1, 2001)
    bound = stuck_probability_bound(d, 1.0, 1.0)
    yield at_most("ratio of the volumes, d = 1 to 2000", bound.volumes, bound.root, x=d, along="d")
    yield equal("the two bounds for d = 2000", bound.volumes[-1] / bound.root[-1], 2**-0.5, rtol=1e-3)
    exact = jnp.stack([slab_probability(n, 0.05 / n**0.5) for n in dims])
    yield estimate("points in the slab", in_slab.astype(float), exact, wrong=1.5 * exact)
    yield at_most(
        "slab against the bound", exact, stuck_probability_bound(np.array(dims), 0.1 / np.sqrt(dims), 1.0).volumes
    )
    small = jnp.stack([slab_probability(n, 1e-4) for n in dims])
    # the density of u_1 is (1 - u^2)^((d-1)/2): at 1e-4 it has fallen by at most 150e-8
    yield equal("thin slab: attained", small, stuck_probability_bound(np.array(dims), 2e-4, 1.0).volumes, rtol=1e-5)
    share = float(stuck.mean())
    chance = 5 * (share * (1 - share) / draws) ** 0.5
    cell = 2 * radius / (resolution - 1)
    # between the outermost stuck points of a row and the edge of the region there is up to one cell on either side
    allowed = stuck_probability_bound(2, region.width + cell, radius).volumes
    yield at_most("share of stuck starts, bent saddle", share, allowed, atol=chance)
    yield at_least("share of stuck starts: there are some", share, 0.02)
    inside = float(jnp.sum(region.stuck)) / float(jnp.sum(region.inside))
    # the band has two edges of about the length of the diameter, and the grid may be off by a cell along each
    edges = 2 * 2 * radius * cell / (np.pi * radius**2)
    yield equal("the same share on the grid", inside, share, atol=edges + chance, rtol=0)
    yield rate(
        "width against the length of the run",
        lengths,
        widths,
        -np.log1p(eta * gamma),
        tolerance=0.1 * np.log1p(eta * gamma),
        axes="semi-log",
        along="steps",
    )
    across = jnp.max(jnp.sum(region.stuck, axis=0)) * cell
    yield control("along the direction of escape: here across it", at_most("extent", across, region.width))
    yield _disc(region, ("along the direction of escape", "across"))


@claim(rows=("T07.11",))
def coupled_sequences_separate(key, *, eps: Positive = 0.01, gamma_over_root: Annotated[float, Range(1.0, 3.0)] = 1.0):
    r"""Of two nearby starts, apart along the direction of escape, one gets away in logarithmic time.

    Let $\lambda_{\min}(\nabla^2f(\tilde x))=-\gamma\le-\sqrt{\rho\epsilon}$ with eigenvector $e_1$ and
    $x_0-x_0'=\eta\omega e_1$. On a quadratic the runs are $(1+\eta\gamma)^t\eta\omega$ apart, so that after
    $\frac{\ln(2S/\eta\omega)}{\ln(1+\eta\gamma)}\le\kappa'\ln\frac{2S}{\eta\omega}$ steps one is at least
    $S=\frac14\sqrt{\epsilon/\rho}$ from $\tilde x$; with a cubic term, within 20 % of that. Each factor by which
    $\omega$ is smaller costs $\frac1{\ln(1+\eta\gamma)}$ times its logarithm. Starts that differ along a direction of
    positive curvature merge instead.
    """
    omegas = 10.0 ** -jnp.arange(3, 11)
    gamma, eta = gamma_over_root * eps**0.5, 1.0
    reach = eps**0.5 / 4
    steps = int(1.3 * float(separation_time(gamma, eta, omegas[-1], reach))) + 10

    @jax.jit
    def measure(key):
        offset = uniform_ball(3, 1e-2 * reach, key=key)
        cubic = cubic_saddle(3, gamma, 1.0, 0.5)

        def flat(x):
            return -gamma / 2 * x[0] ** 2 + x[1] ** 2 / 4 + x[2] ** 2 / 4

        def run(f, omega, axis):
            # the cubic is symmetric: a pair on both sides of the saddle is the slowest to leave
            middle = offset.at[0].set(0.0)
            half = eta * omega / 2 * jnp.eye(3)[axis]
            return coupled_descent(f, middle + half, middle - half, eta, steps=steps)

        def time(pair):
            gap = jnp.linalg.norm(pair.difference, axis=1)
            away = jnp.maximum(*(jnp.abs(v[:, 0]) for v in pair))
            return jnp.argmax(gap >= 2 * reach), gap, away.max()

        quadratic = jax.vmap(lambda w: time(run(flat, w, 0)))(omegas)
        bent = jax.vmap(lambda w: time(run(cubic, w, 0)))(omegas)
        merging = jnp.linalg.norm(run(flat, omegas[0], 1).difference, axis=1)
        return quadratic, bent, merging

    (times, gaps, away), (bent, _, bent_away), merging = measure(key)
    predicted = separation_time(gamma, eta, omegas, reach)
    t = np.arange(steps + 1)
    growth = np.exp(np.log(eta * np.asarray(omegas))[:, None] + t * np.log1p(eta * gamma))
    yield equal("distance of the two runs, quadratic", gaps, growth, x=t, along="iteration")
    yield equal("time to separate, quadratic", times, jnp.ceil(predicted), x=omegas, along="ω")
    yield at_most("time to separate, with a cubic term", bent, 1.2 * predicted + 1, x=omegas, along="ω")
    yield at_least("one of the two is far", jnp.stack([away, bent_away]), reach)
    slope = 1 / np.log1p(eta * gamma)
    yield rate(
        "exponential of the time to separate (cubic)",
        1 / omegas,
        jnp.exp(bent),
        slope,
        tolerance=0.03 * slope,
        along="1/ω",
    )
    yield control(
        "a difference along negative curvature: here positive",
        at_least("largest distance of the two runs", merging.max(), 2 * reach),
    )


@claim(rows=("T07.12",))
def quadratic_part_dominates(key, *, instances: Size = 16, iota: Annotated[float, Range(2.0, 20.0)] = 4.0):
    r"""While both of two runs are near a saddle, their difference is that of a quadratic, up to a half of it.

    With $\hat x_t=x_t-x_t'$, $H=\nabla^2f(\tilde x)$ and $\Delta_t=\int_0^1[\nabla^2f(x_t'+\theta\hat x_t)-H]d\theta$:
    $\hat x_t=p(t)-q(t)$, $p(t)=(I-\eta H)^t\hat x_0$, $q(t)=\eta\sum_{\tau<t}(I-\eta
    H)^{t-1-\tau}\Delta_\tau\hat x_\tau$. For $\hat x_0=\eta\omega e_1$, $\|p(t)\|=(1+\eta\gamma)^t\eta\omega$;
    $\|\Delta_t\|\le\rho\max\{\|x_t-\tilde x\|,\|x_t'-\tilde x\|\}$; and if $\gamma\ge\sqrt{\rho\epsilon}$,
    $\eta\le1/\ell$ and both runs stay within $\frac1{4\iota}\sqrt{\epsilon/\rho}$ of $\tilde x$ up to
    $t\le\mathscr T=\frac{\iota}{\eta\sqrt{\rho\epsilon}}$, then $\|q(t)\|\le\frac12\|p(t)\|$: the constant that the
    text leaves open. Two runs that wait at a saddle at that distance from $\tilde x$ come to about half of the bound.
    """
    dim, steps, gamma = 3, 120, 0.1
    curvatures = np.array([-gamma, 0.4, 0.8])

    @jax.jit
    def measure(key):
        def one(key, aligned):
            tensor_key, axes_key, start_key, size_key = jax.random.split(key, 4)
            v = jax.random.normal(axes_key, (dim,))
            axes = jnp.eye(dim) - 2 * jnp.outer(v, v) / (v @ v)
            t = jax.random.normal(tensor_key, (dim, dim, dim))
            t = t + t.swapaxes(0, 1)
            t = t + t.transpose(1, 2, 0) + t.transpose(2, 0, 1)
            # rho = 1: the spectral norm of the change along a unit vector is at most the Frobenius norm of the tensor
            t = t / jnp.linalg.norm(t)
            reach = gamma / (4 * iota)  # and sqrt(rho eps) = gamma
            # or a cubic along the direction of escape, with its saddle at almost this distance from the centre
            wait = 0.98 * reach
            cube = jnp.einsum("i,j,k", *[axes[:, 0]] * 3)
            t = jnp.where(aligned, cube, t)
            tilt = jnp.where(aligned, -gamma * wait - wait**2 / 2, 0.0)

            def f(x):
                z = axes.T @ x
                return curvatures @ z**2 / 2 + tilt * z[0] + jnp.einsum("ijk,i,j,k", t, x, x, x) / 6

            omega = reach * 10.0 ** jax.random.uniform(size_key, minval=-4.0, maxval=-2.0)
            start = jnp.where(aligned, -wait * axes[:, 0], uniform_ball(dim, reach / 10, key=start_key))
            pair = coupled_descent(f, start + omega * axes[:, 0], start, 1.0, steps=steps)
            parts = difference_decomposition(f, jnp.zeros(dim), pair, 1.0, nodes=2)
            p, q = jnp.linalg.norm(parts.quadratic, axis=1), jnp.linalg.norm(parts.error, axis=1)
            far = jnp.maximum(jnp.linalg.norm(pair.first, axis=1), jnp.linalg.norm(pair.second, axis=1))
            k = jnp.arange(steps + 1)
            # q(t) sees the iterates before t
            local = jnp.concatenate([jnp.array([True]), jnp.cumprod(far[:-1] <= reach).astype(bool)])
            local = local & (k <= iota / gamma)
            identity = jnp.abs(parts.quadratic - parts.error - pair.difference).max(1) / (p + q)
            growth = p / (omega * (1 + gamma) ** k)
            known = jnp.where(local, q / p, 0.0)
            return identity, growth, parts.curvature_change, far[:-1], known, local.sum(), q / p

        return jax.vmap(one)(jax.random.split(key, instances), jnp.arange(instances) % 2 == 0)

    identity, growth, change, far, local, length, ratio = measure(key)
    # runs that left the neighbourhood may go anywhere: only what is still finite and small counts there
    near = far <= 10.0
    # differences of numbers of the size of the reach, 1e4 times as large as they are, over a hundred steps
    yield equal("p − q against the difference of the runs", jnp.where(near, identity[:, :-1], 0.0), 0.0, atol=1e-10)
    yield equal("growth of the quadratic part", growth, 1.0, rtol=1e-9, along="iteration")
    yield at_most("change of the curvature", jnp.where(near, change, 0.0), jnp.where(near, far, 0.0), atol=1e-14)
    yield at_most("error over quadratic part, both near", local, 0.5, along="iteration")
    yield at_least("steps with both near", length, 3)
    yield control(
        "runs near the saddle: here also those that left",
        at_most("error over quadratic part", jnp.where(near, ratio[:, :-1], 0.0), 0.5),
    )
