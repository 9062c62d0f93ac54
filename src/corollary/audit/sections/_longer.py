"""Trainings that were too slow: a longer step, or more of them, whichever promises more."""

from functools import partial

from corollary.audit.sections import _first_steps
from corollary.audit.sections._treatments import SAFE, retraining, step_times, times

# by what a step is lengthened where the optimiser scales it itself
TENS = (10, 100, 1000)


def longer(longest, subject, finding):
    """A longer step, where there is room for one, or more steps: what promises more."""
    found = []
    for factor in factors(longest, subject):
        found += [retraining(subject, times(factor, "the step"), finding.name, partial(step_times, factor=factor))]
    if subject.steps is not None:
        steps = _first_steps.ORDER * subject.steps
        what = f"train for {steps} steps, {_first_steps.ORDER} times as many"
        found += [retraining(subject, what, finding.name, lambda s: s.replaced(steps=steps))]
    return min((a for a in found if a is not None), key=lambda action: action.effect.then, default=None)


def factors(longest, subject) -> list[float]:
    """Factors of the step that are tried: up to half of the longest stable one, and by powers of ten under an optimiser
    of its own, of whose step 2/λ says nothing."""
    step = subject.learning_rate
    if step is None:
        return []
    room = [SAFE * longest / step] if longest is not None and step < SAFE * longest / 2 else []
    return room + (list(TENS) if subject.optimiser is not None else [])
