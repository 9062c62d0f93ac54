"""Will it train? Inputs, signals and gradients layer by layer, the first steps, at the point where training starts.

The findings are made in `_signals` (what the layers do), `_units` (what they lose), `_attention` (how far it is
spread), `_inputs` (the scale of the data and of the first outputs), `_first_steps` (the largest stable step and what
the tangent kernel predicts) and `_prospects` (what the first steps say of the rest).
"""

from functools import partial

import jax
import jax.numpy as jnp

from corollary.audit import _plan
from corollary.audit._answer import because, by_name
from corollary.audit._answer import first as first_marked
from corollary.audit._sample import some
from corollary.audit.action import Action, Effect, advise, by_hand
from corollary.audit.finding import Finding, short
from corollary.audit.sections import (
    _attention,
    _blind,
    _decayed,
    _first_steps,
    _inputs,
    _longer,
    _outlying,
    _prospects,
    _signals,
    _targets,
    _units,
)
from corollary.audit.sections._explained import listed
from corollary.audit.sections._first_steps import SLOW
from corollary.audit.sections._mends import without
from corollary.audit.sections._start import losses_at, start_of
from corollary.audit.sections._treatments import (
    SAFE,
    drawn_anew,
    knows_start,
    retraining,
    standardised,
    step_times,
    suited,
    times,
)

TITLE = "Will it train?"
# the step by which units are not killed: the next one that people try
GENTLER = 10
STEP, *_ = _first_steps.NAMES
#: what is seen at the end of a training that could not get anywhere
NOWHERE = (
    _prospects.NAME,
    _blind.NAME,
    "regime",
    "gradient norm",
    "least curvature",
    "median margin",
    "most frequent answer",
    "classes as often as it expects them",
    "variation of the tangent kernel",
    "how far influence can be believed",
)
#: what nothing can be learned from leaves labels and shuffled ones alike; the step has no part in that
BLANK = (*NOWHERE, "labels against shuffled ones")
#: what another start cures
START = (
    "examples without a finite loss",
    "dead units",
    "signal by layer",
    "gradient by layer",
    "saturated units",
    "rank of the layers",
    "confidence of the softmax",
)
#: inputs that are too large, or a few of them
SIZES = (_inputs.LARGEST, "scale of the inputs")
#: what decides, in this order; the scale of the inputs is a cause of these, and no answer
DECIDE = (
    "examples without a finite loss",
    "condition of the tangent kernel",
    STEP,
    "dead units",
    "signal by layer",
    "gradient by layer",
    "saturated units",
    "rank of the layers",
    "confidence of the softmax",
    _decayed.NAME,
    _outlying.NAME,
    _targets.NAME,
    *SLOW,
    _prospects.NAME,
    "units dead after training",
    "depth that can be reached",
)
#: what inputs that are too large, or a few of them, do
LARGE = (
    "examples without a finite loss",
    "saturated units",
    "confidence of the softmax",
    "rank of the layers",
    "largest stable step",
    "sharpness against 2/η",
    "units dead after training",
    "largest norm of a layer against the others",
    *SLOW,
    *BLANK,
)
EXPLAINS = {
    _inputs.LARGEST: (
        "scale of the inputs",
        "inputs at another scale",
        "columns that say the same",
        "calibration error",
        "noise, shift, scale and missing inputs",
        *LARGE,
    ),
    _targets.NAME: (
        "largest stable step",
        "sharpness against 2/η",
        "units dead after training",
        "rank of the layers",
        "variation of the outputs",
        "noise scale",
        "most important input",
        "attributions of the worst mistakes",
        "attributions with the weights mixed up",
        *SLOW,
        *BLANK,
    ),
    # what a few targets decide leaves nothing to be learned of the others
    _outlying.NAME: (
        _targets.NAME,
        "largest stable step",
        "sharpness against 2/η",
        "variation of the outputs",
        "noise scale",
        "share of the noise in its largest direction",
        "gap between training and test loss",
        "most harmful training example",
        "most important input",
        "attributions of the worst mistakes",
        *SLOW,
        *BLANK,
    ),
    _decayed.NAME: (*SLOW, *NOWHERE, "rank of the layers", "units dead after training", "calibration error"),
    # the same change of all columns is none of the large and too much for the small, and what drowns them all examples
    # have in common
    "scale of the inputs": ("dead units", "rank of the layers", "noise, shift, scale and missing inputs", *LARGE),
    "dead units": (
        "units dead after training",
        "signal by layer",
        "gradient by layer",
        "rank of the layers",
        "condition of the tangent kernel",
        *BLANK,
    ),
    "signal by layer": (
        "units dead after training",
        "gradient by layer",
        "depth that can be reached",
        "saturated units",
        "confidence of the softmax",
        "examples without a finite loss",
        "largest stable step",
        *SLOW,
        *BLANK,
    ),
    # what is flat gives no more than 1, whatever comes in
    "saturated units": ("signal by layer", "gradient by layer"),
    "gradient by layer": ("depth that can be reached", *SLOW),
    "confidence of the softmax": (
        "calibration error",
        "gradient by layer",
        "largest stable step",
        "units dead after training",
        "rank of the layers",
        *SLOW,
        *BLANK,
    ),
    "condition of the tangent kernel": BLANK,
    # what is slow stays near its start, and that is no constant
    **dict.fromkeys(SLOW, (*(name for name in NOWHERE if name != "most frequent answer"), "calibration error")),
    # a training that was another one than was said explains whatever is odd about its end
    _prospects.NAME: (*NOWHERE[1:], "calibration error", "sharpness against 2/η", "noise scale"),
    # signals that are parallel leave half of the units off
    "rank of the layers": (
        "dead units",
        "units dead after training",
        *BLANK,
    ),
    # the step at the start is the step at the end
    "largest stable step": (
        "sharpness against 2/η",
        "units dead after training",
        "rank of the layers",
        "calibration error",
        *SLOW,
        *NOWHERE,
    ),
}


def findings(subject, budget, key):
    sample_key, draw_key, part_key, top_key, kernel_key = jax.random.split(key, 5)
    start = start_of(subject, draw_key)
    total = subject.count()
    data = some(subject.train, budget.examples, sample_key)
    outputs, losses = losses_at(subject, start)
    broken = _inputs.broken_start(losses, start)
    if broken is not None:
        # nothing that follows would be a number
        yield _inputs.judge_scale(_inputs.measure_scale(data), None, start, total, names=subject.columns)
        yield broken
        return
    long = _plan.too_long(subject, budget)
    try:
        # at the start and at the end, and again on parts of the data or for every draw of the start
        passes = _plan.GRADIENT * (3 + len(start.others))
        few = some(subject.train, _plan.examples_for(subject, budget, passes), sample_key)
        measured = _signals.measure(subject, start, few, total, budget, part_key) if long is None else None
        missing = long
    except ValueError as error:
        measured, missing = None, f"The layers of this network could not be measured: {error}"
    first = None if measured is None else measured.first
    scale = _inputs.measure_scale(data)
    uneven = scale is not None and scale.widest >= _inputs.COLUMN_LOOK
    felt = _inputs.measure_felt(subject.at(start.params), data[0]) if uneven else None
    yield _inputs.judge_scale(scale, first, start, total, felt, subject.columns)
    if (targets := _targets.measure(subject)) is not None:
        yield _targets.judge(targets)
    if (outlying := _outlying.measure(subject)) is not None:
        yield _outlying.judge(outlying)
    # where the network brings its columns to one scale, examples as they come are of no size that it sees
    own = felt is not None and felt < _inputs.COLUMN_LOOK
    if not own and (sizes := _inputs.measure_sizes(subject)) is not None:
        yield _inputs.judge_largest(sizes)
    if measured is None:
        yield Finding("signals of the layers", "not applicable", missing)
    else:
        yield from _signals.findings(measured)
        yield from _units.findings(measured)
        attended = _attention.measure(subject, start, budget, jax.random.fold_in(key, 6))
        if attended is not None:
            yield _attention.judge(attended, start, total)
    if subject.loss_name == "cross_entropy":
        yield _inputs.judge_confidence(_inputs.measure_confidence(subject, outputs, losses), start)
    if start.kind == "trained":
        yield from _first_steps.left_out(_first_steps.NO_START, (*_first_steps.NAMES, _prospects.NAME))
        return
    if long is not None:
        yield from _first_steps.left_out(long, (*_first_steps.NAMES, _prospects.NAME))
        return
    step = _first_steps.measure_step(subject, start, losses, budget, sample_key, top_key)
    yield _first_steps.judge_step(subject, start, step)
    hope = _prospects.measure(subject, start, budget, jax.random.fold_in(key, 5))
    yield from _first_steps.kernel(subject, start, outputs, losses, budget, kernel_key, _prospects.surely(hope))
    yield _prospects.judge(hope, start)
    if (pull := _decayed.measure(subject)) is not None:
        yield _decayed.judge(pull)


def answer(findings) -> str:
    found = by_name(findings)
    for mark, word in (("problem", "No"), ("look", "Partly")):
        if (decides := first_marked(findings, DECIDE, mark)) is not None:
            return because(word, decides.sentence)
    step, hope = found.get(STEP), found.get(_prospects.NAME)
    if step is None or step.mark == "not applicable":
        return because("Cannot tell", *_unknown(step))
    for mark in ("problem", "look"):
        if (slow := first_marked(findings, SIZES, mark)) is not None:
            return because("Partly", step.sentence, because("But the inputs make it slow", slow.sentence))
    if hope is not None and hope.value is not None and hope.value >= _prospects.LOOK:
        return because("Yes", hope.sentence)
    return because("Yes", step.sentence)


def _unknown(step):
    reason = "The start could not be measured." if step is None else step.sentence
    if step is not None and reason == _first_steps.NO_START:
        return reason, "Give initial=, the network that training started from, or init=, which draws one."
    return (reason,)


def actions(subject, findings):
    if not knows_start(subject):
        yield from advise(subject, findings, EXPLAINS, {"scale of the inputs": _empty})
        return
    longest = by_name(findings).get(STEP)
    remedies = {
        STEP: _shorter,
        "scale of the inputs": _scaled,
        _inputs.LARGEST: _without_largest,
        _decayed.NAME: _less_decay,
        _targets.NAME: _targets.standardise,
        _outlying.NAME: _outlying.look_at_them,
        "units dead after training": _gentler,
        **dict.fromkeys(SLOW, partial(_longer.longer, None if longest is None else longest.value)),
        **dict.fromkeys(START, _started),
        _prospects.NAME: _other_step,
    }
    yield from advise(subject, findings, EXPLAINS, remedies)


def _shorter(subject, finding):
    factor = SAFE * finding.value / subject.learning_rate
    return retraining(subject, times(factor, "the step"), finding.name, partial(step_times, factor=factor))


def _gentler(subject, finding):
    """Units that training has killed: a step that does not throw them so far."""
    if subject.learning_rate is None:
        return None
    what = f"divide the step by {GENTLER}, and train again from the start"
    return retraining(subject, what, finding.name, partial(step_times, factor=1 / GENTLER))


def _other_step(subject, finding):
    """A step that suits the start, where the one it has is far from it; the same training, where that gets there."""
    if finding.value >= _prospects.SURELY:
        what = f"train it again from its start, for {subject.steps} steps"
        return retraining(subject, what, finding.name, lambda s: s)
    factor = suited(subject).learning_rate / subject.learning_rate
    if factor == 1:
        return None
    return retraining(subject, times(factor, "the step"), finding.name, partial(step_times, factor=factor))


def _empty(subject, finding):
    """Of inputs that are all zero a person must find out why; what others would do is not known."""
    if finding.value:
        return None
    now = subject.mean_loss()
    effect = Effect("training loss", now, now, (min(0.0, now), now))
    return Action("find out why all inputs are zero", finding.name, effect, "theorem", by_hand)


def _scaled(subject, finding):
    if not finding.value:
        return _empty(subject, finding)
    return retraining(subject, "standardise the inputs", finding.name, standardised)


def _without_largest(subject, finding):
    found = _inputs.measure_sizes(subject)
    if found.code is not None:
        what = f"replace {short(found.code[0])} by the mean of the other numbers at its place"
        return retraining(subject, what, finding.name, partial(_filled, code=found.code[0]))
    rows = found.rows[_inputs.large_rows(found.each)]
    many = "these training examples" if len(rows) > 1 else "this training example"
    what = f"look at {many}, and train without: {listed(rows)}"
    return retraining(subject, what, finding.name, partial(without, rows=rows))


def _filled(subject, code: float):
    """The subject with the mean of the other training examples wherever the code stands."""

    def mean(a):
        known = a != code
        return jnp.sum(jnp.where(known, a, 0), axis=0) / jnp.maximum(known.sum(axis=0), 1)

    means = jax.tree.map(mean, subject.train[0])
    data = {}
    for split in subject.splits:
        x, y = subject.data(split)
        data[split] = jax.tree.map(lambda a, m: jnp.where(a == code, m, a).astype(a.dtype), x, means), y
    return suited(subject.replaced(**data))


def _less_decay(subject, finding):
    what = f"divide the weight decay by {short(_decayed.LESS)}"
    decay = subject.weight_decay / _decayed.LESS
    return retraining(subject, what, finding.name, lambda s: s.replaced(weight_decay=decay))


def _started(subject, finding):
    what = "draw the first weights with variance 2/fan-in, by He's rule, and biases of 0"
    return retraining(subject, what, finding.name, drawn_anew)
