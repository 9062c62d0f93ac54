"""Smoothed networks: votes estimate probabilities, certificates by votes hold, and noise in training helps."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy  # its stats load slowly, so only when a claim runs

from corollary._charts import lines
from corollary.claims.robustness._regions import regions
from corollary.data import digits
from corollary.evidence import (
    Count,
    Positive,
    Probability,
    Range,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    monotone,
    picture,
    rate,
    same_law,
)
from corollary.nets import train
from corollary.robustness import NoisyInput, Smoothed, certified_accuracy, reachable_radius, vote_lower_bound

Repetitions = Annotated[int, Range(500, 20_000)]


@claim(rows=("T18.12",))
def votes_estimate_probabilities(key, *, repetitions: Repetitions = 1000, beta: Positive = 0.8):
    r"""The shares of the votes under noise are unbiased estimates of the probabilities of the classes.

    $g^\beta(x)$ is the class of $g(x+\delta)$, $\delta\sim N(0,\beta^2I)$, and $g^\beta_{smooth}(x)$ the likeliest one.
    The share of $n$ votes for a class has the mean $p$ and the variance $\frac{p(1-p)}n$; for half-spaces, slabs,
    balls, their outside and the exclusive or of two half-spaces $p$ is known exactly. The plurality of votes is the
    likeliest class except with a probability of at most $\alpha$, where an exact test lets it speak.
    """
    point_key, vote_key, label_key = jax.random.split(key, 3)
    normal, points = np.asarray(jax.random.normal(point_key, (2, 3)))
    samples, alpha = 200, 0.1
    known = regions(normal)

    @jax.jit
    def measure(vote_key, label_key, x):
        keys = jax.random.split(vote_key, repetitions)
        smoothed = [Smoothed(region.score, beta) for region in known]
        shares = [jax.vmap(lambda k, s=s: s.probabilities(x, samples=samples, key=k)[0, 1])(keys) for s in smoothed]
        keys = jax.random.split(label_key, repetitions)
        said = jax.vmap(lambda k: smoothed[2].predict(x, samples=samples, alpha=alpha, key=k)[:2])(keys)
        return jnp.stack(shares, 1), *said

    shares, label, abstained = map(np.asarray, measure(vote_key, label_key, points[None]))
    p = np.array([region.probability(points[None], beta)[0] for region in known])
    yield estimate("share of the votes", shares, p, wrong=p + 0.05)
    spread = samples * (shares - p) ** 2
    yield estimate("n times the squared error", spread, p * (1 - p), wrong=p * (1 - p) + 0.1)
    mistaken = (label[:, 0] != (p[2] > 0.5)) & ~abstained[:, 0]
    yield frequency_at_most("ball: a plurality that is not the likeliest class", mistaken, alpha)


@claim(rows=("T18.13",))
def certificates_by_votes_hold(
    key,
    *,
    repetitions: Repetitions = 4000,
    samples: Annotated[int, Range(50, 1000)] = 100,
    alpha: Probability = 0.1,
    beta: Positive = 0.5,
):
    r"""A radius from votes exceeds the true one with a probability of at most α, if other votes have chosen the class.

    Some votes choose a class, $n$ others estimate its probability from below at level $\alpha$ (Clopper and Pearson),
    and the radius is $\beta\,\Phi^{-1}$ of that. For a half-space the true radius is the distance to the boundary: it
    is exceeded in at most $\alpha$ of all repetitions, also on the boundary itself, where both classes are equally
    likely and any certificate is wrong. How often it abstains is the probability of too few votes, which falls as the
    gap between the classes grows. Votes that choose the class and then count for it certify at a tie twice as often as
    $\alpha$.
    """
    # distances in units of the scale: a tie, and gaps that grow
    distances = np.array([0.0, 0.1, 0.3, 0.6]) * beta

    @jax.jit
    def measure(key):
        x = jnp.zeros((4, 2)).at[:, 0].set(distances)
        smoothed = Smoothed(lambda z: z[0], beta)

        def one(k):
            made = smoothed.certify(x, selection=20, samples=samples, alpha=alpha, key=k)
            same = made.votes.max(1)  # the class that these votes choose, and their count for it
            true = jnp.where(made.label == 1, distances, 0.0)  # on the other side nothing is certified rightly
            return made.radius > true, made.abstained, vote_lower_bound(same, samples, alpha)[0] > 0.5, made.label

        return jax.vmap(one)(jax.random.split(key, repetitions))

    broken, abstained, reused, label = map(np.asarray, measure(key))
    for i, t in enumerate(distances / beta):
        yield frequency_at_most(f"radius too large, distance {t:.2g} scales", broken[:, i], alpha)
    ends = np.asarray(vote_lower_bound(np.arange(samples + 1), samples, alpha))
    few = int(np.sum(ends <= 0.5)) - 1  # the largest count that certifies nothing
    p = scipy.special.ndtr(distances / beta)
    sides = label == 1
    silent = scipy.stats.binom.cdf(few, samples, np.where(sides, p, 1 - p))
    # given the class that was chosen, how often it abstains is a binomial probability; at the largest distance it is
    # rare, and a mean of rare events has no normal law
    less = (abstained - silent)[:, :3]
    yield estimate("abstained, less its probability", less, np.zeros(3), wrong=np.full(3, 0.05))
    yield monotone("abstentions fall with the gap", abstained.mean(0), "decreasing", x=distances, along="distance")
    # exact, and so are the bounds: no test of ours may certify more than this
    most = np.asarray(reachable_radius(samples, alpha, beta))
    yield equal("radius of unanimous votes", beta * scipy.special.ndtri(ends[-1]), most)
    # 4,000 repetitions allow 0.123 where 0.1 is meant, and the same votes give nearly 0.2
    yield control(
        "the class is chosen by other votes: here by the same, at a tie",
        frequency_at_most("a certificate at the boundary", reused, alpha),
    )


@claim(rows=("T18.14",))
def noise_is_near_a_sphere(key, *, draws: Count = 4000, beta: Positive = 0.5):
    r"""In high dimension normal noise is nearly uniform on a ball of the radius of β times the root of d.

    $\|\delta\|/(\beta\sqrt d)$ for $\delta\sim N(0,\beta^2I_d)$ tends to 1, with a standard deviation of $1/\sqrt{2d}$
    in the limit. A point uniform in the ball of radius $\beta\sqrt d$ has coordinates $\beta\sqrt d\,(2B-1)$ with $B$
    of the law $\mathrm{Beta}(\frac{d+1}2,\frac{d+1}2)$, and the probabilities of a half-space under both laws differ by
    $O(\frac1d)$. In two dimensions they differ visibly.
    """
    dims = np.array([10, 30, 100, 300])

    @jax.jit
    def measure(key):
        lengths = [
            jnp.linalg.norm(beta * jax.random.normal(jax.random.fold_in(key, d), (draws, d)), axis=1) / (beta * d**0.5)
            for d in map(int, dims)
        ]
        k1, k2 = jax.random.split(key)
        v, u = jax.random.normal(k1, (2, draws, 30)), jax.random.uniform(k2, (draws, 1))
        inside = beta * 30**0.5 * u ** (1 / 30) * v[0] / jnp.linalg.norm(v[0], axis=1, keepdims=True)
        flat = jax.random.normal(k1, (draws, 2))
        flat = beta * 2**0.5 * jnp.sqrt(u) * flat / jnp.linalg.norm(flat, axis=1, keepdims=True)
        return jnp.stack(lengths), inside[:, 0], flat[:, 0]

    lengths, inside, flat = map(np.asarray, measure(key))
    chi = scipy.stats.chi(dims)
    yield estimate("mean length over β√d", lengths.T, chi.mean() / np.sqrt(dims), wrong=np.full(4, 1.05))
    spread = 2 * dims * (lengths.T - chi.mean() / np.sqrt(dims)) ** 2
    yield estimate("squared deviation of the length times 2d", spread, 2 * chi.var(), wrong=2 * chi.var() + 0.3)
    yield rate("standard deviation of the length", dims, lengths.std(1), -0.5, tolerance=0.1, along="d")
    yield rate(
        "distance of the mean length from 1", dims, 1 - chi.mean() / np.sqrt(dims), -1.0, tolerance=0.05, along="d"
    )
    radius = beta * 30**0.5
    ball = scipy.stats.beta(31 / 2, 31 / 2)
    normal = scipy.stats.norm(scale=beta)
    yield same_law(
        "a coordinate of the ball, d = 30",
        inside,
        lambda t: ball.cdf((1 + t / radius) / 2),
        wrong=scipy.stats.norm(scale=1.2 * beta).cdf,
    )
    t = np.linspace(-3, 3, 601) * beta
    gaps = [
        np.abs(scipy.stats.beta.cdf((1 + t / (beta * d**0.5)) / 2, (d + 1) / 2, (d + 1) / 2) - normal.cdf(t)).max()
        for d in dims
    ]
    yield rate("largest difference of the probabilities of half-spaces", dims, gaps, -1.0, tolerance=0.1, along="d")
    yield control(
        "high dimension: here two",
        same_law("a coordinate of the ball", flat, normal.cdf, wrong=scipy.stats.norm(scale=2 * beta).cdf),
    )


@claim(rows=("T18.18",))
def certified_share(key, *, points: Annotated[int, Range(200, 5000)] = 1000, beta: Positive = 0.5):
    r"""The certified share of held-out points falls with the radius, and tends to the true one with the votes.

    The certified accuracy at $r$ is the share of points whose class is right and certified with a radius of at least
    $r$; who abstains is not right. For a half-space every point has the distance to the boundary as its true radius.
    All points share the $n$ draws of a call, so that the share of the votes is within $\eta=\sqrt{\ln(2/q)/(2n)}$ of
    the probability at all of them together with probability $1-q$ (Dvoretzky, Kiefer, Wolfowitz, Massart): every radius
    is at most $\beta\,\Phi^{-1}(p+\eta)$ and at least $\beta\,\Phi^{-1}(p-\eta-\sqrt{\ln(1/\alpha)/(2n)})$, and the
    certified share tends to the true one. On the boundary all is abstained from, and counts as wrong. More noise costs
    accuracy: a class that is a ball disappears when $\beta$ is large.
    """
    x_key, vote_key = jax.random.split(key)
    alpha, radii, votes = 1e-6, np.linspace(0, 1.2, 13), 4000

    @jax.jit
    def measure(x_key, vote_key):
        x = jax.random.normal(x_key, (points, 2))
        y = (x[:, 0] > 0).astype(int)
        line = Smoothed(lambda z: z[0], beta)
        few, many = (
            certified_accuracy(line, (x, y), radii, samples=n, alpha=alpha, key=vote_key) for n in (100, votes)
        )
        edge = x.at[:, 0].set(0.0)
        tie = certified_accuracy(line, (edge, y), radii[:1], samples=100, alpha=alpha, key=vote_key)
        return x, few.accuracy, many.accuracy, many.certificates.radius, tie.accuracy, tie.certificates.abstained

    x, few, many, radius, tie, silent = map(np.asarray, measure(x_key, vote_key))
    distance = np.abs(x[:, 0])
    p = scipy.special.ndtr(distance / beta)
    eta, below = np.sqrt(np.log(2e6) / (2 * votes)), np.sqrt(np.log(1 / alpha) / (2 * votes))
    order = np.argsort(distance)
    along = {"x": distance[order], "along": "distance to the boundary"}
    high = beta * scipy.special.ndtri(np.minimum(p + eta, 1 - 1e-15))
    low = beta * scipy.special.ndtri(np.maximum(p - eta - below, 0.5))
    yield at_most("radius of every point, from above", radius[order], high[order], **along)
    yield at_least("radius of every point, from below", radius[order], low[order], **along)
    yield monotone("certified share", many, "decreasing", x=radii, along="radius")
    true = (distance >= radii[:, None]).mean(1)
    yield at_most("certified share, from above", many, (high >= radii[:, None]).mean(1), x=radii, along="radius")
    yield at_least("more votes certify more", many, few, x=radii, along="radius")
    # with this α a certificate at a tie comes once in a million
    yield equal("on the boundary: certified share", tie, 0.0)
    yield equal("on the boundary: abstained", silent, 1.0)
    ball = regions(np.ones(2))[2]
    inside = np.array([[0.5, 0.0], [1.2, 0.0]])
    kept = np.array([(ball.probability(inside, b) > 0.5).mean() for b in (0.1, 0.5, 1.0, 2.0)])
    yield equal("points of a ball that keep their class, β from 0.1 to 2", kept, [1.0, 1.0, 0.5, 0.0])
    rows = [
        {"radius": float(r), "share": float(v), "what": name}
        for name, values in (("true", true), ("4,000 votes", many), ("100 votes", few))
        for r, v in zip(radii, values, strict=True)
    ]
    yield picture("certified share", lines(rows, "radius", "share", colour="what"))


@claim(rows=("T18.17",))
def training_with_noise(key, *, beta: Positive = 0.5, steps: Annotated[int, Range(200, 5000)] = 400):
    r"""A network that was trained under noise is certified further than one that was not.

    Training gives the label $y$ to $x+\delta$, $\delta\sim N(0,\beta^2I)$, too. On images of digits (8 by 8 pixels in
    $[0,1]$) its certified accuracy is higher at the radii $\frac\beta4$, $\frac\beta2$ and $\beta$ than that of the
    same network trained on the images as they are, both smoothed with the same $\beta$.
    """
    net_key, train_key, vote_key = jax.random.split(key, 3)
    images, labels = digits()
    data, held = (images[:1400], labels[:1400]), (images[1400:1700], labels[1400:1700])

    def trained(scale):
        network = eqx.nn.MLP(64, 10, 64, 1, key=net_key)
        whole = NoisyInput(network, scale) if scale else network
        made = train(whole, "cross_entropy", data, optax.adam(3e-3), steps=steps, batch_size=100, key=train_key).network
        return made.network if scale else made

    radii = np.array([0.25, 0.5, 1.0]) * beta

    @eqx.filter_jit
    def share(network):
        return certified_accuracy(Smoothed(network, beta), held, radii, samples=1000, alpha=0.01, key=vote_key).accuracy

    plain, noisy = (np.asarray(share(trained(scale))) for scale in (0, beta))
    yield at_least("certified accuracy, trained under noise", noisy, plain, x=radii, along="radius")
    # three standard deviations of the difference of two shares of 300 images
    yield at_least("gain at the largest radius", noisy[-1] - plain[-1], 3 * np.sqrt(2 * 0.25 / 300))
