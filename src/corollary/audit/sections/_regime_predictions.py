"""How well the linearised network and regression with its tangent kernels predict what the network predicts."""

import altair as alt
import numpy as np

from corollary import kernels
from corollary.audit._sample import interval
from corollary.audit._tangent import known, whole
from corollary.audit.finding import Finding, Premise, short
from corollary.evidence import picture
from corollary.foundations import wilson_interval
from corollary.network.losses import IGNORED

# Of the mean of the kernel's diagonal. Rounding in single precision is of the order of n 1e-7 of that, 1e-4 for a
# thousand examples: ten times as much keeps the system solvable, and is little beside any noise in labels.
RIDGE = 1e-3

NO_TEST = "There are no test data: on the training examples the network has seen the answers."
REGRESSION = (
    "A wide network, trained on the squared loss to its end, predicts what regression with its tangent kernel predicts."
)


def findings(subject, found, seen, no_start):
    yield _linearisation(found, seen, no_start)
    yield _linearised(subject, found, no_start)
    first = None if found.before is None else _regression(subject, found, found.before, initial=True)
    yield _initial(subject, found, first, no_start)
    yield _final(subject, found, first)


def no_aims(found) -> str:
    """Why there are no numbers that stand for the targets."""
    if found.chosen is not None:
        return f"The tangent kernel was taken of {found.looked_at}, and the labels are a matter of all of them."
    return "The loss does not say which numbers the outputs should be."


def _linearisation(found, seen, no_start):
    name, claim = "error of the linearised network", "kernels.linearised.second_order"
    theorem = (
        "A smooth network differs from its expansion to first order about the start by the square of the distance "
        "travelled, times its curvature."
    )
    if found.before is None:
        return Finding(name, "not applicable", no_start, theorem=theorem, claim=claim)
    if not known(found, "linearisation"):
        why = "Training did not change the outputs: there is no change to explain."
        return Finding(name, "not applicable", why, theorem=theorem, claim=claim)
    value, bounds = found.numbers["linearisation"]
    sentence = (
        "Linearised at the start, the network with its trained parameters misses the outputs of the trained one by "
        f"{short(100 * value)} % of the change that training made."
    )
    n = len(found.train.out)
    out, line = (np.asarray(a, float)[:n].reshape(-1) for a in (found.train.out, found.linear))
    few = np.linspace(0, len(out) - 1, min(len(out), 400)).astype(int)
    rows = [{"network": float(out[i]), "linearised": float(line[i])} for i in few]
    ends = [float(out.min()), float(out.max())]
    base = alt.Chart(alt.Data(values=rows))
    dots = base.mark_circle(size=12, opacity=0.5).encode(
        x=alt.X("network:Q", title="output of the network"), y=alt.Y("linearised:Q", title="of its linearisation")
    )
    same = alt.Chart(alt.Data(values=[{"network": e, "linearised": e} for e in ends]))
    chart = dots + same.mark_line(color="grey", strokeDash=[4, 3]).encode(x="network:Q", y="linearised:Q")
    return Finding(
        name,
        "fine",
        sentence,
        value,
        bounds,
        whole(bounds),
        theorem=theorem,
        claim=claim,
        premises=(Premise("activations are smooth", None, "not looked at"), seen),
        figure=picture("outputs of the network and of its linearisation", chart.properties(width=320, height=180)),
    )


def _linearised(subject, found, no_start):
    """Classes alone: for a regression the error of the linearised network has said it already."""
    name = "classes of the linearised network"
    facts = dict(
        theorem="A wide network stays near its linearisation at the start all along training.",
        claim="dynamics.wide_two_layer_limits.linearisation_gap",
    )
    if subject.classes is None:
        why = "This is a regression: the error of the linearised network says how near it is."
        return Finding(name, "not applicable", why, **facts)
    if found.before is None:
        return Finding(name, "not applicable", no_start, **facts)
    n = len(found.train.out)
    held = found.test is not None
    part = found.test if held else found.train
    out, line = part.out, found.linear[n:] if held else found.linear[:n]
    same, right, own = _shares(subject, part, line, out)
    sentence = (
        f"At the trained parameters the linearised network gives the network's own answer to {_percent(same)} of "
        f"{_of(part)} {'test' if held else 'training'} examples; {_percent(right)} of its answers are right, of the "
        f"network's {_percent(own)}."
    )
    ends = _ends(_right(_answers(subject, part, line), part, _answers(subject, part, out)), part)
    return Finding(name, "fine", sentence, same, ends, premises=(_unseen(held),), **facts)


def _initial(subject, found, got, no_start):
    name, facts = (
        "regression with the initial kernel",
        dict(theorem=REGRESSION, claim="dynamics.wide_two_layer_limits.kernel_regression"),
    )
    why = no_start if found.before is None else _why_not(found, found.before)
    if why:
        return Finding(name, "not applicable", why, **facts)
    value, bounds, sentence = _compare(subject, found, got)
    return Finding(name, "fine", sentence, value, bounds, premises=_premises(subject, found, initial=True), **facts)


def _final(subject, found, first):
    name = "regression with the final kernel"
    facts = dict(
        theorem="A network that learns its features needs fewer examples than regression with the kernel it started "
        "from, where there are features to learn.",
        claim="dynamics.experiments_wide_networks.features_against_kernels",
    )
    if why := _why_not(found, found.after):
        return Finding(name, "not applicable", why, **facts)
    got = _regression(subject, found, found.after, initial=False)
    value, bounds, sentence = _compare(subject, found, got)
    if first is not None and not _why_not(found, found.before):
        low, high = _gain(subject, found, first, got)
        if low > 0:
            sentence += " That is better than with the initial kernel: what was learned sits in the kernel too."
        elif high < 0:
            sentence += " That is worse than with the initial kernel."
        else:
            sentence += " These examples show no difference to the initial kernel."
    return Finding(name, "fine", sentence, value, bounds, premises=_premises(subject, found, initial=False), **facts)


def _why_not(found, kernel):
    if found.test is None:
        return NO_TEST
    if found.train.aims is None:
        return no_aims(found)
    n = len(found.train.out)
    return "" if np.trace(kernel[:n, :n]) > 0 else "The tangent kernel is zero."


def _regression(subject, found, kernel, *, initial):
    """Predictions on the test examples; None where they cannot be had.

    Under the squared loss the initial kernel starts from the network's initial outputs, as the theorem has it.
    Otherwise outputs have no scale that could be compared with labels, and the labels' mean takes that place.
    """
    if _why_not(found, kernel):
        return None
    n = len(found.train.out)
    goals = np.asarray(found.train.aims, kernel.dtype)
    if initial and subject.loss_name == "squared":
        base, new = found.start[:n].reshape(n, -1), found.start[n:].reshape(-1, goals.shape[1])
    else:
        base = new = goals.mean(0, keepdims=True)
    square, cross = kernel[:n, :n], kernel[n:, :n]
    scale = np.trace(square) / n
    alpha = kernels.kernel_coefficients(square / scale, goals - base, RIDGE)
    return new + cross / scale @ np.asarray(alpha)


def _compare(subject, found, predicted):
    """Value, interval and sentence of what `predicted` makes of the test examples."""
    part, n = found.test, len(found.train.out)
    m = len(part.out)
    if subject.classes is not None:
        same, right, own = _shares(subject, part, predicted, part.out)
        sentence = (
            f"Kernel regression from {n} training examples answers {_percent(right)} of {_of(part)} test examples "
            f"rightly, the network {_percent(own)}; both give the same answer to {_percent(same)}."
        )
        return right, _ends(_right(_answers(subject, part, predicted), part), part), sentence
    out = np.asarray(part.out, float).reshape(m, -1)
    squares, own = (((a - part.aims) ** 2).mean(1) for a in (predicted, out))
    gap = np.sqrt(((predicted - out) ** 2).mean())
    sentence = (
        f"Kernel regression from {n} training examples has a mean squared error of {short(squares.mean())} on {m} test "
        f"examples, the network {short(own.mean())}; their predictions lie {short(gap)} apart in the quadratic mean."
    )
    low, high = interval(squares)
    return float(squares.mean()), (max(low, 0.0), high), sentence


def _gain(subject, found, first, second):
    """The 95 % interval of how much better the second predictions are, on the same examples."""
    if subject.classes is None:
        return interval(((first - found.test.aims) ** 2).mean(1) - ((second - found.test.aims) ** 2).mean(1))
    before, after = (_right(_answers(subject, found.test, p), found.test) for p in (first, second))
    return interval(after - before)


def _premises(subject, found, *, initial):
    n, total = len(found.train.out), subject.count()
    row = found.train.aims.shape[1]
    out = (
        Premise("the regression sees the examples that the network saw", n == total, f"{n:,} of {total:,}"),
        Premise("the kernel is the same for all outputs", row == 1 or None, "the mean over outputs was taken"),
    )
    if initial:
        out = (Premise("trained on the squared loss", subject.loss_name == "squared", subject.loss_name), *out)
    return out


def _unseen(held):
    return Premise("examples that training has not seen", held)


def _answers(subject, part, outputs):
    return np.asarray(subject.decide(np.asarray(outputs).reshape(part.out.shape)))


def _right(answers, part, truth=None):
    """The share of every example's places that have the right answer; places without a class do not count."""
    same = answers == (part.labels if truth is None else truth)
    known = part.labels != IGNORED
    same, known = (a.reshape(len(a), -1) for a in (same, known))
    return (same & known).sum(axis=1) / np.maximum(known.sum(axis=1), 1)


def _shares(subject, part, predicted, out):
    theirs, ours = _answers(subject, part, out), _answers(subject, part, predicted)
    return tuple(float(a.mean()) for a in (_right(ours, part, theirs), _right(ours, part), _right(theirs, part)))


def _of(part) -> str:
    return f"{len(part.out)}" if part.labels.ndim == 1 else f"the places of {len(part.out)}"


def _ends(right, part) -> tuple[float, float]:
    """The 95 % interval of a share of examples; of places over examples, since those of one are not independent."""
    if part.labels.ndim == 1:
        return tuple(float(v) for v in wilson_interval(round(float(right.sum())), len(right)))
    low, high = interval(right)
    return max(0.0, low), min(1.0, high)


def _percent(share):
    return f"{100 * share:.1f} %"
