"""Did it find a minimum? The point at which training ended: slope, curvature, kind, margins."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit import _plan
from corollary.audit._answer import because, by_name, first
from corollary.audit._order import curvature
from corollary.audit._sample import interval, quadratic_forms
from corollary.audit.action import advise
from corollary.audit.finding import Finding, Premise
from corollary.audit.retrain import steps_of
from corollary.audit.sections import (
    _blind,
    _class_margins,
    _expected,
    _least_curvature,
    _reach,
    _sharpness,
    _slope,
    _spectrum,
    _statistics,
)
from corollary.audit.sections._first_steps import SLOW
from corollary.audit.sections._treatments import knows_start, retraining, suited

TITLE = "Did it find a minimum?"
EXPLAINS = {
    # in inference mode the network is another one than was trained
    "stored batch statistics": (
        _blind.NAME,
        "gradient norm",
        "least curvature",
        "median margin",
        "most frequent answer",
        _expected.NAME,
        "dead units",
        "units dead after training",
        "saturated units",
        "rank of the layers",
        "calibration error",
        # inputs of another size make good for some of it, and outputs that are all alike have little noise
        "inputs at another scale",
        "noise scale",
        *SLOW,
    ),
    # what is worse than a blind guess is not where a training ends: nothing that is odd there is about the training
    _blind.NAME: (
        "gradient norm",
        "least curvature",
        "sharpness against 2/η",
        "median margin",
        "most frequent answer",
        _expected.NAME,
        "regime",
        "calibration error",
        "noise scale",
        "how far influence can be believed",
        *SLOW,
    ),
    # what stands at its end has no slope, and no influence
    _reach.NAME: (
        "gradient norm",
        "least curvature",
        "how far influence can be believed",
        "most important input",
        *SLOW,
    ),
    # what saw the classes in another proportion is not at rest on these, and as sure as it was there
    _expected.NAME: ("gradient norm", "least curvature", "calibration error", "how far influence can be believed"),
    # on a slope the curvature says little
    "gradient norm": ("least curvature",),
}
#: what decides, in this order
DECIDE = (
    "stored batch statistics",
    _blind.NAME,
    "least curvature",
    "sharpness against 2/η",
    _expected.NAME,
    _reach.NAME,
    "gradient norm",
    "median margin",
)


def findings(subject, budget, key):
    sample_key, top_key, trace_key, density_key = jax.random.split(key, 4)
    if (long := _plan.too_long(subject, budget)) is None:
        yield from _derivatives(subject, budget, sample_key, top_key, trace_key, density_key)
    else:
        yield Finding("slope and curvature", "not applicable", long)
    yield _blind.judge(subject.mean_loss(), _blind.blind_guess(subject))
    if (reach := _reach.measure(subject)) is not None:
        yield _reach.judge(reach)
    if subject.classes is not None:
        yield _class_margins.judge(*_class_margins.measure(subject))
        if (expected := _expected.measure(subject)) is not None:
            yield _expected.judge(expected)
    statistics = _statistics.finding(subject, budget, sample_key)
    if statistics is not None:
        yield statistics


def answer(findings) -> str:
    found = by_name(findings)
    for mark, word in (("problem", "No"), ("look", "Partly")):
        if (decides := first(findings, DECIDE, mark)) is not None:
            return because(word, decides.sentence)
    if (least := found.get("least curvature")) is None:
        return because("Cannot tell", findings[0].sentence)
    return because("Yes", least.sentence, *(found[n].sentence for n in ("gradient norm",) if n in found))


def actions(subject, findings):
    remedies = {
        "sharpness against 2/η": _sharpness.shorter,
        "least curvature": _least_curvature.away,
        "gradient norm": _on,
        _blind.NAME: _again,
        _expected.NAME: _expected.shuffled,
        _reach.NAME: _reach.set_free,
        _statistics.NAME: _statistics.recompute,
    }
    yield from advise(subject, findings, EXPLAINS, remedies)


def _again(subject, finding):
    """The training there was, from its start."""
    if not knows_start(subject):
        return None
    what = f"train it again from its start, for {steps_of(subject)} steps"
    return retraining(subject, what, finding.name, suited)


def _on(subject, finding):
    """More of the same training, from where it ended."""
    what = f"train on for {steps_of(subject)} steps"
    return retraining(subject, what, finding.name, lambda s: s.replaced(initial_params=s.params))


def _derivatives(subject, budget, sample_key, top_key, trace_key, density_key):
    """Slope and curvature."""
    plan = _plan.curvature(subject, budget, sample_key)
    data, (count, total) = plan.data, _plan.looked_at(subject, plan.data)
    partly = count < total
    seen = Premise("measured on all training data", not partly, f"{count:,} of {total:,} examples")
    operator = curvature(subject, subject.params, plan)
    ends = operator.top(2, which="both", products=plan.products, basis=plan.basis, key=top_key, tolerance=1e-4)
    ends = jax.tree.map(np.asarray, ends)
    largest, least = float(ends.values[0]), float(ends.values[-1])
    forms = [
        np.asarray(quadratic_forms(subject.objective, subject.params, data, jnp.asarray(v), plan.batch_size))
        for v in ends.vectors
    ]

    yield _slope.judge(_slope.measure(subject, data, budget), subject.batch_size, seen)
    yield _sharpness.judge(subject, largest, _bounds(forms[0], total, ends.residuals[0]), seen)
    bounds = _bounds(forms[-1], total, ends.residuals[-1])
    yield _least_curvature.judge(_least_curvature.measure(subject, data, ends, bounds), seen)
    yield _spectrum.density(operator, density_key, largest, least, seen, plan.steps)
    yield _spectrum.trace(operator, trace_key, seen, plan)


def _bounds(forms, total, residual):
    """Chance over the examples that were not seen, the residual of Lanczos, and the rounding of a mean."""
    low, high = interval(forms, total)
    error = float(residual) + 16 * float(np.finfo(forms.dtype).eps) * float(np.mean(np.abs(forms)))
    return low - error, high + error
