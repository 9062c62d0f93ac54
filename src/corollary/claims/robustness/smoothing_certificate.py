"""What normal noise certifies, against exact probabilities of half-spaces, slabs, balls and exclusive ors."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.claims._drawn import drawn
from corollary.claims.robustness._regions import regions
from corollary.evidence import (
    Count,
    Positive,
    Range,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    printed,
    rate,
)
from corollary.foundations import average_deviation
from corollary.robustness import Smoothed, certified_radius, smoothed_gradient, smoothing_bound

# the exact probabilities, and Φ after its inverse, are right to a few units in the twelfth digit
EXACT, SLACK = 1e-12, 1e-10


@claim(rows=("T18.15",))
def smoothing_theorem(key, *, dim: Annotated[int, Range(2, 20)] = 3, pairs: Size = 400, beta: Positive = 0.8):
    r"""Under normal noise the probability of a class falls no faster with the distance than that of a half-space.

    For any classifier $g$ and $\delta\sim N(0,\beta^2I)$: if $P\{g(x+\delta)=y\}=p_a$, then
    $P\{g(x'+\delta)=y\}\ge\Phi(\Phi^{-1}(p_a)-\|x-x'\|/\beta)$, with equality if $y$ has a half-space whose boundary is
    normal to $x'-x$. So it is for slabs, balls, their outside, the exclusive or of two half-spaces, and for a random
    network. The noise must be normal with this scale: with Laplace noise of the same variance, or with normal noise of
    half the scale, a half-space falls faster.
    """
    normal_key, x_key, v_key, t_key, net_key, noise_key = jax.random.split(key, 6)
    normal = np.asarray(jax.random.normal(normal_key, (dim,)))
    x = np.asarray(jax.random.normal(x_key, (pairs, dim)))
    v = np.asarray(jax.random.normal(v_key, (pairs, dim)))
    v = v / np.linalg.norm(v, axis=1, keepdims=True)
    t = np.asarray(jax.random.uniform(t_key, (pairs,), maxval=3.0)) * beta
    half, *others = regions(normal)
    unit = normal / np.linalg.norm(normal)
    fallen = half.probability(x + t[:, None] * unit, beta)
    bound = smoothing_bound(half.probability(x, beta), t, beta)
    order = np.argsort(t)
    yield equal(
        "half-space, along its normal", fallen[order], bound[order], rtol=0, atol=EXACT, x=t[order], along="distance"
    )
    for region in (half, *others):
        bound = smoothing_bound(region.probability(x, beta), t, beta)
        yield at_least(region.name, region.probability(x + t[:, None] * v, beta), bound, rtol=0, atol=SLACK)

    @jax.jit
    def network(net_key, noise_key, x, v):
        smoothed = Smoothed(drawn(lambda k: eqx.nn.MLP(10, 3, 20, 1, key=k), net_key, gain=2.0), 1.0)
        return smoothed.probabilities(jnp.concatenate([x, x + v]), samples=20_000, key=noise_key)

    here = jax.random.normal(x_key, (20, 10))
    far = jax.random.normal(v_key, (20, 10)) / 10**0.5
    shares = np.asarray(network(net_key, noise_key, here, far))
    # every share is within this of its probability, all 120 together with probability 1 - 1e-6 (Hoeffding)
    off = float(average_deviation(1e-6 / 120, 20_000, 1.0))
    moved = np.linalg.norm(np.asarray(far), axis=1)[:, None]
    least = smoothing_bound(np.clip(shares[:20] - off, 0, 1), moved, 1.0)
    yield at_least("random network of three classes, by votes", shares[20:] + off, least)
    s = np.linspace(0.05, 3, 60)
    laplace = scipy.stats.laplace(scale=beta / np.sqrt(2))
    start = laplace.cdf(1.5 * beta)
    yield control(
        "normal noise: here of Laplace's law, with the same variance",
        at_least("half-space", laplace.cdf(1.5 * beta - s * beta), smoothing_bound(start, s * beta, beta), x=s),
    )
    quiet = scipy.stats.norm(scale=beta / 2)
    yield control(
        "noise of the scale β: here of half of it",
        at_least(
            "half-space", quiet.cdf(0.5 * beta - s * beta), smoothing_bound(quiet.cdf(0.5 * beta), s * beta, beta)
        ),
    )


def _strips(x, cuts, beta):
    """Probabilities of the three classes below, between and above two cuts of the line, at points `x`."""
    low, high = (scipy.special.ndtr((cut - x) / beta) for cut in cuts)
    return np.stack([low, high - low, 1 - high])


def _first_loss(cuts, beta, top, reach, steps=20_001):
    """How far from 0 class `top` stops being the likeliest, on either side; at most `reach`."""
    t = np.linspace(0, reach, steps)[:, None]
    found = []
    for side in (-1, 1):
        p = _strips(side * t, cuts, beta)  # (3, steps, n)
        own = np.take_along_axis(p, top[None, None], 0)[0]
        rest = np.where(np.arange(3)[:, None, None] == top, -1.0, p).max(0)
        lost = own <= rest
        found.append(np.where(lost.any(0), t[lost.argmax(0), 0], reach))
    return np.minimum(*found)


@claim(rows=("T18.16",))
def certified_radius_holds(key, *, models: Size = 300, beta: Positive = 0.8):
    r"""Nearer than half the difference of two normal quantiles, the likeliest class stays the likeliest.

    If $P\{g(x+\delta)=y\}=p_a$ and every other class has at most $p_0$, then $y$ is the likeliest class at all $x'$
    with $\|x'-x\|<\frac\beta2(\Phi^{-1}(p_a)-\Phi^{-1}(p_0))$. With two classes and a half-space that is the distance
    to its boundary. Three classes in parallel strips, $y$ on one side and the second likeliest on the other, attain it:
    at the radius both are equally likely, and at 1.05 times the radius $y$ is not the likeliest. $p_0$ must bound all
    other classes: with that of the least likely one the radius is too large.
    """
    cut_key, low_key, gap_key = jax.random.split(key, 3)
    distance = np.asarray(jax.random.uniform(low_key, (models,), minval=0.1, maxval=2.0))
    p = scipy.special.ndtr(distance / beta)
    radius = np.asarray(certified_radius(p, 1 - p, beta))
    # 1 - p loses a digit for every digit of p that is 9: three of sixteen
    yield equal("half-space: radius and distance to its boundary", radius, distance, rtol=1e-10)
    beyond = scipy.special.ndtr((distance - 1.05 * radius) / beta)
    yield at_most("half-space: probability at 1.05 times the radius", beyond, 0.5, rtol=0)

    # random strips: the true radius by search, in steps of 1/4000 of β
    middle = np.asarray(jax.random.normal(cut_key, (models,))) * beta
    width = np.asarray(jax.random.uniform(gap_key, (models,), minval=0.05, maxval=2.0)) * beta
    cuts, reach = (middle - width / 2, middle + width / 2), 5 * beta
    law = _strips(0.0, cuts, beta)
    least, second, first = np.sort(law, 0)
    # the search finds the first point of its grid that is lost, at most one step too far
    true = _first_loss(cuts, beta, law.argmax(0), reach) + reach / 20_000
    yield at_least("strips: true radius", true, np.minimum(certified_radius(first, second, beta), reach))
    # a class between that is thin, so that the one beyond it is the second likeliest
    narrow = distance, distance + 0.05 * beta
    below, between, above = _strips(0.0, narrow, beta)
    use = (above >= between) & (below > above)
    narrow = tuple(cut[use] for cut in narrow)
    radius = np.asarray(certified_radius(below[use], above[use], beta))
    there, later = _strips(radius, narrow, beta), _strips(1.05 * radius, narrow, beta)
    yield equal("strips: the two classes at the radius", there[0], there[2], rtol=0, atol=1e-10)
    yield at_most("strips: lead at 1.05 times the radius", later[0] - later[2], 0.0)
    yield control(
        "a bound on all other classes: here the probability of the least likely one",
        at_least("strips: true radius", true, np.minimum(certified_radius(first, least, beta), reach)),
    )


@claim(
    rows=("T18.16",),
    erratum="At the certified radius itself there may be a tie, which can be broken the other way: < is needed, not ≤.",
)
def label_at_the_certified_radius(key, *, dim: Size = 4, beta: Positive = 0.5):
    r"""The likeliest class stays the likeliest at all distances up to and including the certified radius.

    As printed in Corollary 18.2.4, for $|\delta|_2\le\frac\beta2(\Phi^{-1}(p_a)-\Phi^{-1}(p_0))$, while ties are broken
    arbitrarily. For a half-space both classes have probability one half at the radius, and the tie may go to the other
    one. At every smaller distance the statement is right.
    """
    normal = np.asarray(jax.random.normal(key, (dim,)))
    half = regions(normal)[0]
    unit = normal / np.linalg.norm(normal)
    x = np.zeros((1, dim))
    p = half.probability(x, beta)
    radius = float(certified_radius(p, 1 - p, beta)[0])
    share = np.linspace(0.0, 1.0, 101)
    at = half.probability(x + share[:, None] * radius * unit, beta)
    # a lead below the rounding of the probabilities is a tie, and goes to the other class
    label = at - 0.5 > 1e-13
    yield printed(equal("label up to the radius", label, 1.0, x=share, along="share of the radius"))
    yield equal("label before the radius", label[:-1], 1.0, x=share[:-1], along="share of the radius")
    yield equal("probability at the radius", at[-1], 0.5)


CONSTANT = np.sqrt(2 / np.pi)


@claim(rows=("T18.19",))
def smoothed_functions_are_lipschitz(key, *, draws: Count = 20_000, beta: Positive = 0.7):
    r"""The mean of a bounded function under normal noise has a bounded gradient, in every dimension.

    If $|g|\le1$ and $\delta\sim N(0,\beta^2I)$, the gradient of $E\,g(x+\delta)$ is
    $\frac1{\beta^2}E[g(x+\delta)\delta]$, of a length of at most $\sqrt{2/\pi}/\beta$, whatever the dimension; for
    $0\le g\le1$ half of that. The sign of a linear function attains it. With less noise than supposed the slope
    is larger.
    """
    dims = (2, 20, 200)

    @jax.jit
    def measure(key):
        found, vectors = [], []
        for d, k in zip(dims, jax.random.split(key, 3), strict=True):
            w_key, x_key, n_key = jax.random.split(k, 3)
            w = jax.random.normal(w_key, (d,))
            w = w / jnp.linalg.norm(w)
            # 50 estimates of the slope along w, where all of it is, at a point of the boundary
            x = jax.random.normal(x_key, (d,))
            x = x - (x @ w) * w
            at = lambda g, k, x=x, s=beta: smoothed_gradient(g, x, s, samples=draws // 50, key=k)  # noqa: E731
            keys = jax.random.split(n_key, 50)
            found.append(jax.vmap(lambda k, w=w, at=at: at(lambda z: jnp.sign(w @ z), k) @ w)(keys))
            inner = jax.random.normal(x_key, (20, d)) / d**0.5
            bounded = lambda z, inner=inner: jnp.tanh(jnp.sum(jnp.tanh(3 * inner @ z)))  # noqa: E731
            vectors.append(jnp.linalg.norm(jax.vmap(lambda k, b=bounded, at=at: at(b, k))(keys).mean(0)))
        less = jax.vmap(
            lambda k: smoothed_gradient(lambda z: jnp.sign(z[0]), jnp.zeros(2), beta / 2, samples=400, key=k)[0]
        )
        return jnp.stack(found, 1), jnp.stack(vectors), less(jax.random.split(key, 50))

    slopes, lengths, less = map(np.asarray, measure(key))
    top = CONSTANT / beta
    yield estimate("sign of a linear function: slope", slopes, np.full(3, top), wrong=np.full(3, 0.9 * top))
    # the estimate of a gradient with d entries is off by the root of d over the number of draws, over the scale
    off = (np.sqrt(dims) + 5) / np.sqrt(draws) / beta
    yield at_most("networks with values in (-1, 1): length of the gradient", lengths, top + off)
    # against the exact gradient of exact probabilities, for functions with values 0 and 1
    rng = np.random.default_rng(int(jax.random.randint(key, (), 0, 2**31 - 1)))
    x, step = rng.normal(size=(300, 3)), 1e-5
    for region in regions(rng.normal(size=3)):
        ends = [region.probability(x + s * step * e, beta) for e in np.eye(3) for s in (1, -1)]
        gradient = np.stack([ends[0] - ends[1], ends[2] - ends[3], ends[4] - ends[5]], 1) / (2 * step)
        size = np.linalg.norm(gradient, axis=1)
        # central differences are off by the step squared and by the rounding over the step
        yield at_most(f"{region.name}: length of the gradient", size, top / 2, rtol=0, atol=1e-6)
    yield control(
        "noise of the scale β: here of half of it",
        estimate("sign of a coordinate: slope", less, top, wrong=3 * top),
    )


@claim(
    rows=("T18.19",),
    erratum="g ≤ 1 is not enough: g must be bounded from below too, as |g| ≤ 1, for a constant to exist.",
)
def bounded_above_is_enough(key, *, dim: Annotated[int, Range(1, 20)] = 3):
    r"""If a function is at most 1 everywhere, its mean under normal noise has a gradient bounded by a constant.

    As printed in Problem 18.2.5: "$g(x)\le1$ for all $x$", and a constant $C$ independent of $d$. For $g(x)=1-\|x\|^2$
    the gradient of the mean is $-2x$, of any length. With $|g|\le1$, here the same function cut off at -1, it is at
    most $\sqrt{2/\pi}$.
    """
    lengths = 2.0 ** np.arange(2, 8)

    @jax.jit
    def measure(key):
        v = jax.random.normal(key, (dim,))
        v = v / jnp.linalg.norm(v)
        bowl = lambda z: 1 - jnp.sum(z**2)  # noqa: E731
        cut = lambda z: jnp.maximum(bowl(z), -1)  # noqa: E731
        near = jnp.linspace(0, 4, 9)

        def size(g, r):
            return jnp.linalg.norm(smoothed_gradient(g, r * v, 1.0, samples=40_000, key=key))

        return jax.vmap(lambda r: size(bowl, r))(lengths), jax.lax.map(lambda r: size(cut, r), near)

    free, bounded = map(np.asarray, measure(key))
    # an estimate is off by its own size over the root of 40,000 draws, for every entry
    yield printed(rate("length of the gradient, bounded", lengths, free, 0.0, tolerance=0.1, along="distance from 0"))
    yield rate(
        "length of the gradient grows with the distance", lengths, free, 1.0, tolerance=0.1, along="distance from 0"
    )
    yield at_most("length of the gradient, |g| at most 1", bounded, CONSTANT + (dim**0.5 + 5) / 200)
