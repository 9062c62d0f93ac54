"""What the layers do where training starts, measured, and how signals and gradients change with depth."""

import math
from typing import Any, NamedTuple

import altair as alt
import jax
import numpy as np

from corollary.audit import _plan
from corollary.audit._sample import numbers_of
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._axes import logarithmic
from corollary.audit.sections._blind import learned_by_loss
from corollary.audit.sections._start import Start
from corollary.evidence import picture
from corollary.landscape import depth_factor, layer_signals
from corollary.network.batches import count

# numbers of the inputs in one batch: activations are some hundred times as many
NUMBERS = 2**17
# All layers share one step, so that a layer with gradients 1000 times smaller (1e-6 in the square) needs 1000 times as
# many steps; thirty times (1e-3) is what is still found in networks that train well.
LOOK, PROBLEM = 1e3, 1e6
# dies: shrinks to a millionth in size, which is a unit in the last place of float32 and nothing beside a bias
MILLION = 1e12
# deeper than this is as good as any depth
DEEPEST = 1e5
# what did not fit into float32 counts as this; ratios are told apart down to exp(-RANGE), about 1e-36
MOST, RANGE = 3e38, 82.0
# Student's t at 95 % for means of 5 draws and of 4 parts of the data
STUDENT = {5: 2.776, 4: 3.182}
PARTS = 4


class Measured(NamedTuple):
    """The layers where training starts and, if that is elsewhere, at its end; `profiles` of repeated measurements.

    `learned` says that training is known to have got far below a blind guess: what was in its way was no obstacle.
    """

    start: Start
    layers: tuple
    trained: tuple | None
    profiles: tuple[Any, ...]
    share: float
    seen: Premise
    inputs: float | None
    needed: int
    learned: bool

    @property
    def first(self) -> float:
        return float(self.layers[0].forward)


def measure(subject, start: Start, data, total: int, budget, key) -> Measured:
    x, n = data[0], count(data)
    batch = min(n, NUMBERS // max(1, sum(a[0].size for a in jax.tree.leaves(x))))
    batch = _plan.batch_of(subject, budget, max(1, batch))

    def signals(params, data=data):
        found = layer_signals(subject.at(params), subject.loss, data, batch_size=batch, trainable=subject.trainable)
        return jax.tree.map(np.asarray, found)

    layers = signals(start.params)
    trained = None if start.kind == "trained" else signals(subject.params)
    profiles = ()
    if start.kind == "drawn":
        profiles = (layers, *map(signals, start.others))
    elif n < total and n >= PARTS:
        rows = np.asarray(jax.random.permutation(key, n))[: n // PARTS * PARTS].reshape(PARTS, -1)
        profiles = tuple(signals(start.params, jax.tree.map(lambda a, r=r: a[r], data)) for r in rows)
    seen = Premise("all training examples were used", n == total, f"{n:,} of {total:,}")
    # classes are the corners of a simplex of one dimension less
    needed = int(np.prod(subject.outputs("train").shape[1:])) - (subject.classes is not None)
    learned = bool(learned_by_loss(subject))
    return Measured(start, layers, trained, profiles, n / total, seen, _input_rank(x), needed, learned)


class _Profile(NamedTuple):
    """The factor per layer with its interval, and by how much the whole depth multiplies: the worse of fit and ends."""

    factor: float
    interval: tuple[float, float] | None
    whole: float


def findings(m: Measured):
    """How signals and gradients change with depth."""
    hidden = len(m.layers) - 1
    if hidden < 1:
        yield Finding("signal by layer", "not applicable", "There is one layer only: nothing changes with depth.")
        return
    if hidden < 2 and _zero_head(m):
        yield Finding("signal by layer", "not applicable", "The last layer starts at zero, and before it there is one.")
        return
    forward, backward = _profile(m, "forward"), _profile(m, "backward")
    yield _signal(m, forward)
    blocked = all(float(layer.backward) == 0 for layer in m.layers[:-1])
    # units are alive, the outputs are the same for all examples, and nothing comes back: the last weights are zero
    alive = all(layer.dead is None or float(layer.dead) < 1 for layer in m.layers[:-1])
    last = m.layers[-1].rank
    if blocked and alive and last is not None and float(last) == 0 and m.start.kind != "trained":
        yield Finding(
            "gradient by layer",
            "not applicable",
            "The last layer starts at zero and passes no gradient back before the first step, which is often meant: "
            "how gradients change with depth cannot be measured yet.",
        )
        yield _reach(m, forward, None)
        return
    yield _gradient(m, backward)
    yield _reach(m, forward, backward)


def _zero_head(m: Measured) -> bool:
    """Whether the last layer gives zero for every example: a head that starts at zero, as is good practice."""
    return float(m.layers[-1].forward) == 0 and any(float(layer.forward) > 0 for layer in m.layers[:-1])


def _profile(m: Measured, name: str) -> _Profile:
    main = _chosen(m.layers, name)
    factor, whole = _factor(main), float(main[-1] / main[0])
    if not m.profiles:
        return _Profile(factor, None, _worse(whole, factor ** (len(main) - 1)))
    logs = np.log([_factor(_chosen(layers, name)) for layers in m.profiles])
    if m.start.kind == "drawn":
        factor, rest = float(np.exp(logs.mean())), 1.0
    else:
        rest = 1 - m.share
    error = STUDENT[len(logs)] * logs.std(ddof=1) * math.sqrt(rest / len(logs))
    return _Profile(
        factor, (factor * math.exp(-error), factor * math.exp(error)), _worse(whole, factor ** (len(main) - 1))
    )


def _chosen(layers, name):
    """The profile in the direction of travel. The last layer has a scale of its own: left out where others suffice."""
    values = np.asarray([float(getattr(layer, name)) for layer in layers])
    own_scale = len(layers) > 3 or (name == "forward" and len(layers) > 2 and values[-1] == 0)
    values = values[:-1] if own_scale and values[:-1].any() else values
    if name == "backward":
        values = values[::-1]
        # a branch that starts at zero has no gradient, but lets it pass: what arrives decides
        values = values[values > 0] if values[-1] > 0 and np.sum(values > 0) > 1 else values
    with np.errstate(divide="ignore"):
        logs = np.log(np.nan_to_num(values, nan=MOST, posinf=MOST))
    # relative to the largest, in what float32 can hold
    return np.exp(np.maximum(logs - max(logs.max(), -RANGE), -RANGE))


def _factor(values) -> float:
    return float(depth_factor(values.astype(np.float32)))


def _worse(a, b) -> float:
    return a if abs(math.log(a)) > abs(math.log(b)) else b


def _mark(m: Measured, whole, shrinks: str, grows: str, fine: str):
    size = max(whole, 1 / whole)
    if size <= LOOK:
        return "fine", fine
    if m.learned:
        return "fine", "That is far from 1, and training has got over it."
    return "problem" if size > PROBLEM else "look", shrinks if whole < 1 else grows


def _number(p: _Profile):
    return dict(value=p.factor, interval=p.interval, exact=p.interval is None)


def _signal(m: Measured, p: _Profile) -> Finding:
    mark, text = _mark(
        m,
        p.whole,
        "The signal vanishes on its way: later layers see next to nothing of the input. Larger weights are needed.",
        "The signal explodes on its way: outputs and gradients are far too large. Smaller weights are needed.",
        "The signal arrives, as it does under He's and Xavier's scaling, where the factor is 1.",
    )
    return Finding(
        "signal by layer",
        mark,
        f"{m.start.where} a layer multiplies the mean square of the signal by {short(p.factor)}, the whole depth of "
        f"{len(m.layers)} layers by {short(p.whole)}. {text}",
        theorem="Weights of mean 0 and variance 2/fan-in keep the mean square of the signal through rectified layers, "
        "1/fan-in through linear ones; any other variance multiplies it layer by layer.",
        claim="landscape.initialisation.he_scaling",
        premises=(*_random(m), m.seen),
        figure=_chart(m),
        headline=f"The signal {'vanishes' if p.whole < 1 else 'explodes'} on its way",
        **_number(p),
    )


def _gradient(m: Measured, p: _Profile) -> Finding:
    mark, text = _mark(
        m,
        p.whole,
        "The gradient vanishes on its way back: the first layers hardly move.",
        "The gradient explodes on its way back: a step that suits the last layers is far too long for the first.",
        "The gradient reaches the first layer.",
    )
    return Finding(
        "gradient by layer",
        mark,
        f"{m.start.where} a layer multiplies the squared gradient by {short(p.factor)} on its way back, the whole "
        f"depth by {short(p.whole)}. {text}",
        theorem="On the way back squared gradients are multiplied by fan-out times the variance of the weights (and "
        "the mean squared slope of the units); where this is not near 1 they vanish or explode with depth.",
        claim="landscape.initialisation.backward_recursion",
        premises=(*_random(m), m.seen),
        headline=f"The gradient {'vanishes' if p.whole < 1 else 'explodes'} on its way back",
        **_number(p),
    )


def _random(m: Measured):
    trained = m.start.kind == "trained"
    said = "these are trained weights, which depend on each other" if trained else "not tested"
    return m.start.premise, Premise("weights independent and of mean zero", False if trained else None, said)


def _reach(m: Measured, forward: _Profile, backward: _Profile | None) -> Finding:
    """The depth over which signals or gradients change a millionfold, from the factor per layer."""
    both = [p for p in (forward, backward) if p is not None]
    worst = max(both, key=lambda p: abs(math.log(p.factor)))
    depth = _layers_to(worst.factor)
    what = "signal" if worst is forward else "gradient"
    number = dict(value=depth, exact=True)
    if worst.interval is not None:
        ends = [_layers_to(f) for f in worst.interval]
        # a factor of 1 inside the interval: no depth is too deep
        high = DEEPEST if worst.interval[0] < 1 < worst.interval[1] else max(ends)
        number = dict(value=depth, interval=(min(ends), high))
    have = len(m.layers)
    near = "problem" if depth <= have else "look" if depth <= 2 * have else "fine"
    mark = "fine" if m.learned else near
    dies = "died (a millionth of its size)" if worst.factor < 1 else "grown beyond use (a million times its size)"
    text = f"more than {short(DEEPEST)}" if depth >= DEEPEST else f"about {short(round(depth))}"
    follows = {
        "fine": "There is room for more depth.",
        "look": "Not much deeper, and this network would not train.",
        "problem": "The network is deeper than that: it will hardly train from here.",
    }[near]
    if m.learned and near != "fine":
        follows = "Training has got over it; a deeper one may not."
    return Finding(
        "depth that can be reached",
        mark,
        f"At this factor per layer, the {what} has {dies} after {text} layers; this network has {have}. {follows}",
        unit="layers",
        theorem="With a constant factor per layer, signals and gradients go like its powers; tanh networks train at "
        "Xavier's variance, and stand still where signals vanish.",
        claim="landscape.propagation.trainability",
        premises=(m.start.premise, Premise("the factor is the same in further layers", None, "extrapolated")),
        headline="It is too deep to train from here" if near == "problem" else "It is nearly too deep to train",
        **number,
    )


def _layers_to(factor) -> float:
    rate = abs(math.log(factor))
    return DEEPEST if rate == 0 else min(DEEPEST, math.log(MILLION) / rate)


def _chart(m: Measured):
    forward = [float(layer.forward) for layer in m.layers]
    backward = [float(layer.backward) for layer in m.layers]
    rows = []
    for name, values, base in (("signal", forward, forward[0]), ("gradient, from the last", backward, backward[-1])):
        for i, (layer, value) in enumerate(zip(m.layers, values, strict=True)):
            ratio = value / base if base > 0 and math.isfinite(value) and math.isfinite(base) else 0.0
            # a logarithmic axis has no zero
            if ratio > 0:
                rows.append({"layer": i + 1, "name": layer.name, "of": name, "ratio": ratio})
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            # layers that agree are not blown up to fill the picture
            y=alt.Y("ratio:Q", title="mean square, relative", **logarithmic([0.5, 2, *(r["ratio"] for r in rows)])),
            color=alt.Color("of:N", title=None, sort=None, legend=alt.Legend(orient="bottom")),
            tooltip=["name:N", "of:N", "ratio:Q"],
        )
    )
    one = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[4, 3], color="#888").encode(y=alt.datum(1))
    return picture(
        "signal and gradient by layer; dashed: He and Xavier", (one + lines).properties(width=320, height=180)
    )


def _input_rank(x) -> float | None:
    """In how many directions the inputs vary: the participation ratio of their covariance; None for words."""
    x = numbers_of(x, 2**23)
    if x is None:
        return None
    x = x - x.mean(0)
    # both products have the same spectrum
    gram = x @ x.T if x.shape[0] < x.shape[1] else x.T @ x
    square = float(np.sum(gram**2))
    return float(np.trace(gram) ** 2 / square) if square > 0 else 0.0
