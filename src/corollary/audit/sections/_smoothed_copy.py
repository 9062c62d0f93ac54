"""What a copy of the network that votes under noise could certify."""

from typing import NamedTuple

import jax
import numpy as np

from corollary.audit import _plan
from corollary.audit._sample import exact_interval
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._attackable import LEAST, SHARE, Attackable
from corollary.robustness import Smoothed, reachable_radius

NAME = "what a smoothed copy certifies"
# scales of the noise, in distances to the nearest example of another class: half of the distance is all there is to
# win, and votes certify no more than about two scales
SCALES = (0.0625, 0.125)
# as many votes choose the class as estimate its share: one program
VOTES, EXAMPLES, ALPHA = {"quick": 500, "full": 10_000}, {"quick": 128, "full": 512}, 1e-3
# the radius that is compared
RADIUS = 0.1
FACTS = dict(
    theorem="If a class has the probability p under normal noise of scale β, the copy that takes the likeliest class "
    "gives it within β Φ⁻¹(p) in the Euclidean norm, whatever the network.",
    claim="robustness.smoothing_certificate.certified_radius_holds",
)


class Copy(NamedTuple):
    """Of the better scale: whether the class of every example is right, the radius certified, and the most possible.

    Radii and scale in distances to the nearest example of another class.
    """

    right: np.ndarray
    radius: np.ndarray
    scale: float
    reachable: float
    votes: int


def measure(subject, victim: Attackable, budget, key) -> Copy | None:
    """Certificates by votes; None where they would take too long."""
    votes = VOTES.get(budget.name, VOTES["quick"])
    each = 2 * len(SCALES) * votes * _plan.forward(subject)
    n = int(min(EXAMPLES.get(budget.name, EXAMPLES["quick"]), len(victim.x), SHARE * budget.work / each))
    if n < LEAST:
        return None
    found = []
    for scale, k in zip(SCALES, jax.random.split(key, len(SCALES)), strict=True):
        beta = np.asarray(scale * victim.unit, victim.x.dtype)
        made = Smoothed(victim.network, beta).certify(
            victim.data[0][:n], selection=votes, samples=votes, alpha=ALPHA, key=k,
            batch_size=_plan.batch_of(subject, budget, 8192),
        )  # fmt: skip
        right = (np.asarray(made.label) == victim.y[:n]) & ~np.asarray(made.abstained)
        most = float(reachable_radius(votes, ALPHA, scale))
        found.append(Copy(right, np.asarray(made.radius, float) / victim.unit, scale, most, votes))
    return max(found, key=lambda copy: float(np.mean(copy.right & (copy.radius > RADIUS))))


def judge(copy: Copy | None, certified: np.ndarray, right: np.ndarray) -> Finding:
    """`certified` are the distances that hold for the network itself, `right` whether it is right as is."""
    if copy is None:
        why = "This was left out: a thousand forward passes of each example take too long. --budget full makes them."
        return Finding(NAME, "not applicable", why, **FACTS)
    n = len(copy.right)
    sure = copy.right & (copy.radius > RADIUS)
    own = float(np.mean(right[:n] & (certified[:n] > RADIUS)))
    low, high = exact_interval(sure.sum(), n)
    value = float(sure.mean())
    text = (
        f"A copy that takes the class with most of {copy.votes:,} votes under normal noise of scale "
        f"{short(copy.scale)} of the distance to the nearest example of another class is right on "
        f"{short(100 * copy.right.mean())} % of {n} examples, and certainly stays so within a tenth of that distance "
        f"on {short(100 * value)} % (the network itself on {short(100 * own)} %). So many votes certify "
        f"{short(copy.reachable)} of it at most."
    )
    trusted = Premise("each certificate by itself", True, f"with probability {1 - ALPHA}")
    return Finding(
        NAME, "fine", text, 100 * value, (100 * low, 100 * high), unit="% of examples", premises=(trusted,),
        **FACTS,
    )  # fmt: skip
