"""Margin over Lipschitz constant: how far the class of an example certainly stays, anywhere and where the data are."""

from typing import Any, NamedTuple

import numpy as np

from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _certificates
from corollary.audit.sections._attackable import Attackable
from corollary.robustness import lipschitz_certificate

NAME = "margin over Lipschitz constant"
# steps of a program whose layers are looked at one by one
STEPS = 1000
FACTS = dict(
    theorem="Two outputs differ by a function that changes by at most √2 L per unit of the input: a margin m keeps its "
    "sign within m/(√2 L).",
    claim="robustness.lipschitz_certificate.margin_over_lipschitz_constant",
)


class Margins(NamedTuple):
    """Radii (n,) in the units of the inputs, margins, and the constants: a bound, and the largest at the data."""

    radius: np.ndarray
    margins: np.ndarray
    everywhere: float
    at_data: float
    unknown: tuple[str, ...]


def measure(subject, victim: Attackable, budget, key) -> Margins | None:
    """The certificate of every example; None where the norms of the layers would take too long."""
    if subject.cost.steps > STEPS or _certificates.spectra_work(subject) > _certificates.SHARE * budget.work:
        return None
    found: Any = lipschitz_certificate(victim.network, victim.data, key=key, batch_size=victim.batch_size)
    # how a margin changes where the network is steepest, by the same factor of the constant
    slopes = float(found.lipschitz.lower) * (2**0.5 if np.asarray(subject.outputs("train")[0]).size > 1 else 1.0)
    return Margins(
        np.asarray(found.radius, float), np.asarray(found.margins, float), float(found.constant), slopes,
        found.lipschitz.unknown,
    )  # fmt: skip


def judge(found: Margins | None, victim: Attackable, nearest: np.ndarray) -> Finding:
    """`nearest` are the distances that attacks have found, in units."""
    if found is None:
        why = "This was left out: the norms of so many or so large layers take too long. --budget full measures them."
        return Finding(NAME, "not applicable", why, **FACTS)
    if not np.isfinite(found.everywhere):
        names = ", ".join(found.unknown)
        why = f"Nothing is certified: how fast the network can change is not known for {names or 'one of its steps'}."
        return Finding(NAME, "not applicable", why, **FACTS)
    right = found.margins > 0
    radius = found.radius[right] / victim.unit
    middle, margin = float(np.median(radius)), float(np.median(found.margins[right]))
    local = margin / found.at_data / victim.unit if found.at_data > 0 else np.inf
    reached = float(np.median(nearest[right[: len(nearest)]]))
    text = (
        f"Half of the right answers have a margin of {short(margin)} or more. A margin changes by at most "
        f"{short(found.everywhere)} per unit of the input anywhere, and by {short(found.at_data)} at the steepest "
        f"example: the first certifies {short(middle)} of the distance to the nearest example of another class for the "
        f"median one, the second would allow {short(local)}, and attacks have found {short(reached)}."
    )
    seen = Premise("the bound holds on all inputs", True, f"the slope seen at the data is {short(found.at_data)}")
    return Finding(NAME, "fine", text, middle, exact=True, unit="of the distance", premises=(seen,), **FACTS)
