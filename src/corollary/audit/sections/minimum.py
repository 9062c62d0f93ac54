"""Did it find a minimum? The point at which training ended: slope, curvature, kind, margins."""

from functools import partial
from typing import NamedTuple

import altair as alt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import stats

from corollary._engine.cpu_ready import cpu_ready
from corollary.audit import _plan
from corollary.audit._answer import because, by_name, first
from corollary.audit._linear import linear
from corollary.audit._order import curvature
from corollary.audit._sample import interval, quadratic_forms
from corollary.audit.action import advise
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.retrain import steps_of
from corollary.audit.sections import _blind, _class_margins, _expected, _reach, _statistics
from corollary.audit.sections._axes import logarithmic
from corollary.audit.sections._first_steps import SLOW
from corollary.audit.sections._slope import Slope, measure_slope
from corollary.audit.sections._treatments import SAFE, knows_start, retraining, step_times, suited, times
from corollary.evidence import picture

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
# Of 2/η: beyond the first a step overshoots, and from the second on it is at the edge of stability, where healthy
# networks end too: that is marked for linear models alone.
OVER, EDGE = 1.5, 0.9
# Negative curvature, as a share of the largest: how trainings end (docs/calibration.md), and a saddle.
SLIGHT, SADDLE = 0.25, 0.5
# what is drawn of a density at least: a logarithmic axis has no zero
LEAST_SHARE = 1e-7
# how far from a saddle training goes on, relative to the weights
AWAY = 0.05
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
        "sharpness against 2/η": _shorter,
        "least curvature": _away,
        "gradient norm": _on,
        _blind.NAME: _again,
        _expected.NAME: _expected.shuffled,
        _reach.NAME: _reach.set_free,
        _statistics.NAME: _statistics.recompute,
    }
    yield from advise(subject, findings, EXPLAINS, remedies)


def _shorter(subject, finding):
    if not knows_start(subject):
        return None
    factor = 2 * SAFE / (finding.value * subject.learning_rate)
    return retraining(subject, times(factor, "the step"), finding.name, partial(step_times, factor=factor))


def _away(subject, finding):
    """Off the saddle: on from a random point nearby."""
    return retraining(subject, f"train on from a point {AWAY:.0%} of the weights away", finding.name, _nearby)


def _nearby(subject):
    keys = iter(jax.random.split(jax.random.key(0), len(jax.tree.leaves(subject.params))))

    def leaf(a):
        # weights that are all zero have no size of their own
        size = float(jnp.sqrt(jnp.mean(a**2))) or 1.0
        return a + AWAY * size * jax.random.normal(next(keys), a.shape, a.dtype)

    return subject.replaced(initial_params=jax.tree.map(leaf, subject.params))


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

    yield judge_slope(measure_slope(subject, data, budget), subject.batch_size, seen)
    yield _sharpness(subject, largest, _bounds(forms[0], total, ends.residuals[0]), seen)
    bounds = _bounds(forms[-1], total, ends.residuals[-1])
    yield judge_least(measure_least(subject, data, ends, bounds), seen)
    yield _spectrum(operator, density_key, largest, least, seen, plan.steps)
    yield _trace(operator, trace_key, seen, plan)


def _bounds(forms, total, residual):
    """Chance over the examples that were not seen, the residual of Lanczos, and the rounding of a mean."""
    low, high = interval(forms, total)
    error = float(residual) + 16 * float(np.finfo(forms.dtype).eps) * float(np.mean(np.abs(forms)))
    return low - error, high + error


def judge_slope(found: Slope | None, batch: int | None, seen) -> Finding:
    """The gradient against the noise with which the data know it: a slope below that is none that they can see."""
    if found is None:
        return Finding("gradient norm", "not applicable", "One example has no spread: give more training data.")
    (norm, variance, n), noise, still = found, found.noise, found.still
    settled = batch is not None and norm <= np.sqrt(variance / batch)
    if still:
        sentence = (
            f"The gradient ({short(norm)}) is about what chance alone gives for {n:,} examples ({short(noise)}), or "
            "less: training has come to rest as far as these data can tell."
        )
    elif settled:
        sentence = (
            f"The gradient ({short(norm)}) is not zero, but below the noise of a batch of {batch} "
            f"({short(np.sqrt(variance / batch))}): with this batch, only a smaller step would come closer to rest."
        )
    else:
        sentence = (
            f"The gradient ({short(norm)}) is well above what chance alone gives for {n:,} examples ({short(noise)}): "
            "this is not a stationary point of the training loss, and more training would still lower it."
        )
    return Finding(
        "gradient norm",
        "fine" if still or settled else "look",
        sentence,
        norm,
        exact=True,
        theorem="At a minimum the gradient vanishes; a point is ε-stationary if its norm is at most ε.",
        claim="landscape.conditions.second_order_conditions",
        premises=(seen,),
        headline="More training would still lower the loss",
    )


def _sharpness(subject, largest, bounds, seen):
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


class Least(NamedTuple):
    """The least curvature with its bounds, the largest one, and the loss along the direction of the least."""

    least: float
    bounds: tuple[float, float]
    largest: float
    steps: np.ndarray
    values: np.ndarray
    converged: bool
    products: int


def measure_least(subject, data, ends, bounds) -> Least:
    vector = jnp.asarray(np.asarray(ends.vectors)[-1])
    size = float(np.sqrt(sum(float(np.sum(np.asarray(p, float) ** 2)) for p in jax.tree.leaves(subject.params))))
    steps = np.linspace(-0.05, 0.05, 41) * max(size, 1e-12)
    values = np.asarray(_along(subject.objective, subject.params, data, vector, jnp.asarray(steps, subject.dtype)))
    extremes = float(ends.values[-1]), bounds, float(ends.values[0])
    return Least(*extremes, steps, values, bool(ends.converged), int(ends.products))


def judge_least(found: Least, seen) -> Finding:
    steps, values = found.steps, found.values
    falls = float(values[20] - values.min())
    relative = -found.least / max(found.largest, 1e-30)
    down = found.bounds[1] < 0
    if not down:
        mark = "fine"
        sentence = "No direction of negative curvature was found: as far as second derivatives tell, this is a minimum."
    elif relative < SLIGHT:
        mark = "fine"
        sentence = (
            f"There is a direction of negative curvature, but a slight one, {short(relative)} of the largest: "
            f"following it lowers the loss by {short(falls)} at most. This is how training usually ends."
        )
    else:
        mark = "problem" if relative > SADDLE else "look"
        sentence = (
            f"There is a direction of clearly negative curvature, {short(relative)} of the largest: this is a saddle "
            f"or a slope, and following it lowers the loss by {short(falls)} within 5 % of the weights' norm."
        )
    rows = [{"distance": float(s), "loss": float(v)} for s, v in zip(steps, values, strict=True)]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line()
        .encode(
            x=alt.X("distance:Q", title="distance along the direction"), y=alt.Y("loss:Q", scale=alt.Scale(zero=False))
        )
    )
    return Finding(
        "least curvature",
        mark,
        sentence,
        found.least,
        found.bounds,
        theorem="A point with vanishing gradient and a direction of negative curvature is a strict saddle, from which "
        "noise escapes; without one it is second-order stationary.",
        claim="landscape.escape.finds_second_order_point",
        premises=(seen, Premise("Lanczos has converged", found.converged, f"{found.products} products")),
        figure=picture("loss along the direction of least curvature", chart.properties(width=320, height=180)),
        headline="It ended on a saddle or a slope",
    )


@eqx.filter_jit
def _along(objective, params, data, vector, steps):
    vector = ravel_pytree(params)[1](vector)

    def value(t):
        return objective(jax.tree.map(lambda p, v: p + (t * v).astype(p.dtype), params, vector), data)

    return jax.lax.map(cpu_ready(value), steps)


def _spectrum(operator, key, largest, least, seen, steps):
    found = operator.density(key=key, probes=4, steps=min(steps, operator.size))
    nodes, weights = np.ravel(found.nodes), np.ravel(found.weights) / found.nodes.shape[0]
    # the share of directions whose curvature is below a thousandth of the largest
    flat = float(weights[np.abs(nodes) < 1e-3 * max(abs(largest), abs(least))].sum())
    shares = np.asarray(
        [
            w[np.abs(n) < 1e-3 * max(abs(largest), abs(least))].sum()
            for n, w in zip(np.asarray(found.nodes), np.asarray(found.weights), strict=True)
        ]
    )
    spread = 1.96 * shares.std(ddof=1) / np.sqrt(len(shares))
    edges = np.linspace(least - 0.05 * (largest - least), largest + 0.05 * (largest - least), 60)
    mass, _ = np.histogram(nodes, edges, weights=weights)
    rows = [
        {"curvature": float(a), "end": float(b), "share": float(max(m, LEAST_SHARE))}
        for a, b, m in zip(edges[:-1], edges[1:], mass, strict=True)
    ]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("curvature:Q", title="eigenvalue of the Hessian"),
            x2="end:Q",
            y=alt.Y("share:Q", title="share of all directions", **logarithmic([LEAST_SHARE, 1.0])),
            y2=alt.datum(LEAST_SHARE),
        )
    )
    return Finding(
        "flat directions",
        "fine",
        f"{short(100 * flat)} % of all directions are flat, their curvature below a thousandth of the largest: "
        "the loss hardly depends on them.",
        flat,
        (max(0.0, flat - spread), min(1.0, flat + spread)),
        theorem="The spectral density is the mean over random directions of the quadrature that Lanczos' steps give.",
        claim="landscape.operator_curvature.spectrum_from_products",
        premises=(seen, Premise("as many steps as there are directions", steps >= operator.size, f"{steps} steps")),
        figure=picture("spectral density of the Hessian", chart.properties(width=320, height=180)),
    )


def _trace(operator, key, seen, plan):
    found = operator.trace(key=key, probes=plan.probes, method=plan.method)
    value, error = float(found.value), float(found.error)
    # Hutch++ samples with a third of its products
    samples = max(2, plan.probes // 3) if plan.method == "hutch++" else plan.probes
    quantile = float(stats.t.ppf(0.975, samples - 1))
    mean = value / operator.size
    return Finding(
        "trace of the Hessian",
        "fine",
        f"The curvatures of all {operator.size:,} directions add up to {short(value)}, {short(mean)} each on average.",
        value,
        (value - quantile * error, value + quantile * error),
        theorem="The expectation of zᵀHz over random signs z is the trace of H.",
        claim="landscape.operator_curvature.spectrum_from_products",
        premises=(seen, Premise("an estimate from random directions", None, f"{plan.probes} products")),
    )
