"""The largest curvature where training ended, beside 2/η: how long a step that point can bear."""

from functools import partial

from corollary.audit._linear import linear
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _statistics
from corollary.audit.sections._treatments import SAFE, knows_start, retraining, step_times, times

# Of 2/η: beyond the first a step overshoots, and from the second on it is at the edge of stability, where healthy
# networks end too: that is marked for linear models alone.
OVER, EDGE = 1.5, 0.9


def judge(subject, largest, bounds, seen) -> Finding:
    eta, n = subject.learning_rate, subject.count()
    facts = dict(
        theorem="On a quadratic, gradient descent with step η diverges along every direction of curvature above 2/η; "
        "on networks it holds the sharpness near 2/η.",
        claim="landscape.edge_of_stability.edge_of_stability_on_digits",
        interval=bounds,
    )
    if eta is None:
        return Finding(
            "sharpness",
            "fine",
            f"The largest curvature is {short(largest)}: plain gradient descent is stable here up to a step of "
            f"{short(2 / largest) if largest > 0 else 'any size'}. The step used in training was not given.",
            largest,
            premises=(seen,),
            **facts,
        )
    ratio, straight = largest * eta / 2, linear(subject)
    full = subject.batch_size is None or subject.batch_size >= n
    premises = (
        seen,
        Premise(
            "full-batch gradient descent without momentum",
            full if subject.batch_size else None,
            f"batch of {subject.batch_size or 'unknown size'}",
        ),
    )
    if _statistics.stored(subject.network):
        mark, text = (
            "fine",
            "That is with the stored statistics. A training step normalises by its batch, a loss of other curvature: "
            "by this one no step is judged.",
        )
    elif ratio > OVER:
        mark, text = "problem", "A step of gradient descent from here overshoots: the step is too long for this point."
    elif ratio > 1 and straight and subject.loss_name == "squared" and full:
        mark, text = "problem", "The loss is a quadratic, so that it grows with every step without end."
    elif ratio > EDGE and straight:
        mark, text = "look", "That is as long as a step may be: a linear model has no flatter place to go to."
    elif ratio > EDGE:
        mark, text = "fine", "This is the edge of stability: a shorter step would find a sharper point."
    else:
        mark, text = "fine", "The step is well within what this point can bear."
    sentence = f"The largest curvature is {short(largest)}, {short(ratio)} of 2/η = {short(2 / eta)}. {text}"
    headline = "The step is too long for this point" if mark == "problem" else "The step is as long as it may be"
    return Finding("sharpness against 2/η", mark, sentence, largest, premises=premises, headline=headline, **facts)


def shorter(subject, finding):
    if not knows_start(subject):
        return None
    factor = 2 * SAFE / (finding.value * subject.learning_rate)
    return retraining(subject, times(factor, "the step"), finding.name, partial(step_times, factor=factor))
