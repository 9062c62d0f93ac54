"""Certificates by votes against the exact distance to the nearest other class of the smoothed classifier."""

from typing import Annotated

import jax
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.claims.robustness._regions import regions
from corollary.evidence import Positive, Probability, Range, at_most, claim, control, equal, frequency_at_most
from corollary.robustness import Smoothed

DIM = 3


def _crossing(probability, reach):
    """Where a probability that falls along a line is one half; 0 if it is below that from the start."""
    if probability(0.0) <= 0.5:
        return 0.0
    return scipy.optimize.brentq(lambda t: probability(t) - 0.5, 0.0, reach, xtol=1e-13)


def _smoothed_distance(number, x, normal, beta):
    """The distance of points to the boundary of the smoothed classifier, with the class, for each of `regions`.

    The probability depends on one coordinate (half-space, slab), on the length (ball and its outside), or has the
    sign of a product (exclusive or): its level one half is a pair of planes, a sphere, or the axes.
    """
    region = regions(normal)[number]
    unit = normal / np.linalg.norm(normal)
    line = lambda t: region.probability(np.atleast_2d(t * unit), beta)[0]  # noqa: E731
    inside = region.probability(x, beta) > 0.5
    if number == 0:
        return np.abs(0.7 - x @ unit), inside
    if number == 4:
        return np.abs(x[:, :2]).min(1), inside
    level = _crossing(line if number < 3 else lambda t: 1 - line(t), 20.0)
    size = np.abs(x @ unit) if number == 1 else np.linalg.norm(x, axis=1)
    # where one class has less than half of the probability everywhere there is no boundary
    return np.abs(size - level) if level > 0 else np.full(len(x), np.inf), inside


@claim(rows=("T18.11", "T18.13"))
def certificates_and_exact_distances(
    key,
    *,
    points: Annotated[int, Range(500, 5000)] = 2000,
    samples: Annotated[int, Range(50, 1000)] = 100,
    alpha: Probability = 0.1,
    beta: Positive = 0.5,
):
    r"""No more than a share α of certificates reaches beyond the nearest point of another class.

    A classifier is $\gamma$-robust at $(x,y)$ if it gives $y$ at all $x'$ with $\|x'-x\|_2\le\gamma$. For half-spaces,
    slabs, balls, their outside and the exclusive or of two half-spaces the smoothed classifier is known exactly, and
    with it the largest $\gamma$ at every point: the distance to a plane, a sphere or an axis. A certificate by votes
    with the right class and at most that radius is kept; 10,000 of them, with noise of their own each, are broken in at
    most a share $\alpha$. Votes under half of the noise that is claimed certify too much.
    """
    normal_key, x_key, vote_key = jax.random.split(key, 3)
    normal = np.asarray(jax.random.normal(normal_key, (DIM,)))
    x = np.asarray(jax.random.normal(x_key, (points, DIM)))
    known = regions(normal)

    @jax.jit
    def certified(vote_key, x, share):
        def one(region, k, point):
            smoothed = Smoothed(region.score, share * beta)
            made = smoothed.certify(point[None], selection=20, samples=samples, alpha=alpha, key=k)
            return made.label[0], made.radius[0] / share  # the quantile of the votes times β

        keys = jax.random.split(vote_key, (len(known), points))
        return [jax.vmap(lambda k, p, r=region: one(r, k, p))(row, x) for region, row in zip(known, keys, strict=True)]

    def beyond(found):
        truth = [_smoothed_distance(number, x, normal, beta) for number in range(len(known))]
        return np.stack(
            [
                (np.asarray(radius) > 0) & ((np.asarray(label) != inside) | (np.asarray(radius) > distance))
                for (label, radius), (distance, inside) in zip(found, truth, strict=True)
            ]
        )

    broken = beyond(certified(vote_key, x, 1.0))
    quiet = beyond(certified(vote_key, x, 0.5))
    yield frequency_at_most("broken certificates, five regions", broken.ravel(), alpha)
    for region, events in zip(known, broken, strict=True):
        yield frequency_at_most(f"broken certificates, {region.name}", events, alpha)
    # the boundary of the smoothed ball from its probability: one half there
    level = _crossing(lambda t: known[2].probability(np.array([[t, 0.0, 0.0]]), beta)[0], 20.0)
    at = known[2].probability(level * np.eye(DIM), beta)
    yield equal("ball: probability on the boundary of its smoothed class", at, 0.5)
    yield at_most("ball: its smoothed class is smaller", level, 1.4)
    yield control(
        "votes under noise of the scale that is claimed: here under half of it",
        frequency_at_most("broken certificates, five regions", quiet.ravel(), alpha),
    )
