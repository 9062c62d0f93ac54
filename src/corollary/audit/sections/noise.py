"""Does the batch suit the noise? Its noise scale, the spectrum of its covariance, and what SGD can promise with it."""

from typing import NamedTuple

import altair as alt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary import landscape
from corollary.audit import _plan
from corollary.audit._answer import because, by_name
from corollary.audit._order import curvature
from corollary.audit._sample import some
from corollary.audit.action import advise
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._treatments import retraining
from corollary.evidence import picture
from corollary.network.batches import each

TITLE = "Does the batch suit the noise?"
EXPLAINS: dict[str, tuple[str, ...]] = {}
NOT_GIVEN = "The batch size was not given"
EIGENVALUES = 10
# a batch so many times below or above the noise scale is all noise, or repeats itself
BELOW, ABOVE = 100.0, 10.0


def findings(subject, budget, key):
    sample_key, part_key, top_key = jax.random.split(key, 3)
    if (long := _plan.too_long(subject, budget)) is not None:
        yield Finding("noise scale", "not applicable", long)
        return
    # two passes, each with a gradient of every example
    examples = _plan.examples_for(subject, budget, 2 * _plan.GRADIENT, least=2 * _plan.FEWEST)
    data = some(subject.train, examples, sample_key)
    n, total = _plan.looked_at(subject, data)
    if n < 2:
        yield Finding("noise scale", "not applicable", "One example has no spread: give more training data.")
        return
    batch_size = _plan.gradients_at_once(subject, budget)
    noise = landscape.gradient_noise(
        subject.network, subject.loss, data, batch_size=batch_size, trainable=subject.trainable
    )
    seen = Premise("measured on all training data", n == total, f"{n:,} of {total:,} examples")
    yield judge_scale(noise, subject.batch_size, seen)
    yield judge_spread(measure_spread(subject, data, budget, part_key), subject.size, seen)
    plan = _plan.curvature(subject, budget, sample_key)
    yield judge_promise(subject, measure_promise(subject, noise, plan, top_key), seen)


def answer(findings) -> str:
    scale = by_name(findings)["noise scale"]
    if scale.mark == "not applicable" or NOT_GIVEN in scale.sentence:
        return because("Cannot tell", scale.sentence)
    return because("Yes" if scale.mark == "fine" else "No", scale.sentence)


def actions(subject, findings):
    yield from advise(subject, findings, EXPLAINS, {"noise scale": _other_batch})


def _other_batch(subject, finding):
    """A batch of the size of the noise scale, of examples that there are."""
    size = int(min(max(round(finding.value), 1), subject.count()))
    what = f"take batches of {size} examples"
    return retraining(subject, what, finding.name, lambda s: s.replaced(batch_size=size))


def judge_scale(noise, batch: int | None, seen) -> Finding:
    """The noise scale, numbers of `landscape.gradient_noise`, against the batch."""
    scale, (low, high) = float(noise.noise_scale), map(float, noise.interval)
    facts = dict(
        theorem="The mean gradient of a batch of B examples, drawn at random, has the variance tr Σ / B; at B equal to "
        "the noise scale tr Σ / |G|² noise and gradient are equally large.",
        claim="optimization.sgd_noise.minibatch_gradient",
        premises=(seen, Premise("examples are drawn independently", None)),
    )
    if not np.isfinite(scale):
        return Finding(
            "noise scale", "not applicable", "The gradient is exactly zero, so everything is noise.", **facts
        )
    reach = f"{short(scale)} examples" if np.isfinite(high) else f"{short(scale)} examples or more"
    if batch is None:
        text = f"A batch needs about {reach} for its gradient to stand out from its noise. {NOT_GIVEN}: batch_size=."
        return Finding("noise scale", "fine", text, scale, (low, high), unit="examples", **facts)
    if batch < low / BELOW:
        mark = "look"
        text = (
            f"The batch of {batch} is more than a hundred times below the noise scale ({reach}): a single step here is "
            "almost all noise, and progress comes only from averaging over many."
        )
    elif batch > ABOVE * high:
        mark = "look"
        text = (
            f"The batch of {batch} is far above the noise scale ({reach}): most of its work repeats itself, and a "
            "smaller batch would do as well per step."
        )
    else:
        mark = "fine"
        text = (
            f"The noise scale is {reach}; the batch of {batch} is within the range where both noise and signal count."
        )
    facts["headline"] = f"The batch is {'too small for its noise' if batch < low else 'larger than it need be'}"
    return Finding("noise scale", mark, text, scale, (low, high), unit="examples", **facts)


class Spread(NamedTuple):
    """The largest eigenvalues of the covariance of `count` gradients, as shares of its trace."""

    shares: np.ndarray
    count: int


def measure_spread(subject, data, budget, key) -> Spread | None:
    """How many directions the noise has, on as many examples as can be held; None if all gradients are equal."""
    room, n = _plan.vectors(subject, budget), _plan.looked_at(subject, data)[0]
    # a thirty-second part of the memory where that is eight gradients or more, half of it at the most
    count = min(n, max(room // 32, min(8, max(4, room // 2))))
    part = some(data, count, key)
    k = min(EIGENVALUES, subject.size, count - 1)
    batch_size = _plan.gradients_at_once(subject, budget)
    # the covariance has the eigenvalues of the inner products of the deviations
    products = np.asarray(_products(subject.objective, subject.params, part, batch_size), float) / count
    trace, values = float(np.trace(products)), np.maximum(np.linalg.eigvalsh(products)[::-1][:k], 0)
    return Spread(values / trace, count) if trace > 0 else None


def judge_spread(found: Spread | None, size: int, seen) -> Finding:
    name = "share of the noise in its largest direction"
    if found is None:
        return Finding(name, "not applicable", "All gradients are equal.")
    shares, count = found
    k = len(shares)
    rows = [{"direction": i + 1, "share": float(s)} for i, s in enumerate(shares)]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("direction:O", title="direction, the noisiest first", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="share of the variance", scale=alt.Scale(domain=[0, max(0.1, shares.max())])),
        )
    )
    first = float(shares[0])
    # the largest of n deviations alone would have 1/n: chance makes the estimate too large by about that
    chance = 1.96 * np.sqrt(2 / count) * first + 1 / count
    return Finding(
        name,
        "fine",
        f"{short(100 * first)} % of the variance of a gradient lies along one direction, "
        f"{short(100 * shares.sum())} % in {k} of {size:,}: the noise is far from equal in all directions."
        if shares.sum() > 10 * k / size
        else f"The {k} noisiest directions of {size:,} hold {short(100 * shares.sum())} % of the variance.",
        first,
        (max(0.0, first - chance), min(1.0, first + chance)),
        theorem="SGD's noise is that of a diffusion with the covariance Σ of the per-example gradients.",
        claim="optimization.diffusion.weak_order",
        premises=(seen, Premise("eigenvalues of a covariance estimated from few examples", None, f"{count} examples")),
        figure=picture("spectrum of the gradient noise", chart.properties(width=320, height=180)),
    )


@eqx.filter_jit
def _products(objective, params, data, batch_size):
    """The inner products of the deviations of the examples' gradients from their mean."""

    def gradient(one):
        return ravel_pytree(jax.grad(objective)(params, jax.tree.map(lambda a: a[None], one)))[0]

    rows = each(jax.vmap(gradient), data, batch_size)
    rows = rows - rows.mean(0)
    return jnp.matmul(rows, rows.T, precision=jax.lax.Precision.HIGHEST)


class Change(NamedTuple):
    """The bound on the change of the loss in one step, its error, the longest step that lowers it, the curvature."""

    change: float
    error: float
    longest: float
    sharpness: float


def measure_promise(subject, noise, plan, key) -> Change | None:
    """What a step of SGD promises; None where step or batch are not known."""
    eta, batch = subject.learning_rate, subject.batch_size
    if eta is None or batch is None:
        return None
    operator = curvature(subject, subject.params, plan)
    top = operator.top(1, products=min(60, plan.products), basis=plan.basis, tolerance=1e-3, key=key)
    sharp = max(float(top.values[0]), 1e-12)
    promised = landscape.sgd_promise(noise, sharp, subject.mean_loss(), step=eta, batch_size=batch, steps=1)
    second = float(noise.gradient_norm) ** 2 + float(noise.batch_variance(batch))
    error = float(top.residuals[0]) * eta**2 / 2 * second
    return Change(float(promised.change), error, float(promised.decreasing_step), sharp)


def judge_promise(subject, found: Change | None, seen) -> Finding:
    eta, batch = subject.learning_rate, subject.batch_size
    name = "expected change of the loss in one step"
    facts = dict(
        theorem="If the loss is L-smooth, a step of SGD changes it in expectation by at most "
        "-η|G|² + Lη²/2 (|G|² + tr Σ / B).",
        claim="optimization.sgd_step.expected_change",
    )
    if found is None:
        missing = " and ".join(w for w, v in (("learning rate", eta), ("batch size", batch)) if v is None)
        return Finding(name, "not applicable", f"The {missing} of the training was not given.", **facts)
    change, error, longest, sharp = found
    noisy = change > 0
    text = (
        f"With step {short(eta)} and batch {batch} the bound lets the loss rise by {short(change)} per step: noise and "
        f"curvature outweigh the gradient, and training is at its noise floor. A step below {short(longest)} "
        "would still lower the loss."
        if noisy
        else f"With step {short(eta)} and batch {batch} a step still lowers the loss by {short(-change)} on average; "
        f"so it does up to a step of {short(longest)}."
    )
    return Finding(
        name,
        "fine",
        text,
        change,
        (change - error, change + error),
        premises=(
            seen,
            Premise("the curvature does not grow along the step", None, f"L taken as {short(sharp)}"),
            Premise("plain SGD, batches drawn with replacement", None),
        ),
        **facts,
    )
