"""The least curvature where training ended: whether there is a way down that the gradient does not show."""

from typing import NamedTuple

import altair as alt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary._engine.cpu_ready import cpu_ready
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._treatments import retraining
from corollary.evidence import picture

# Negative curvature, as a share of the largest: how trainings end (docs/calibration.md), and a saddle.
SLIGHT, SADDLE = 0.25, 0.5
# how far from a saddle training goes on, relative to the weights
AWAY = 0.05


class Least(NamedTuple):
    """The least curvature with its bounds, the largest one, and the loss along the direction of the least."""

    least: float
    bounds: tuple[float, float]
    largest: float
    steps: np.ndarray
    values: np.ndarray
    converged: bool
    products: int


def measure(subject, data, ends, bounds) -> Least:
    vector = jnp.asarray(np.asarray(ends.vectors)[-1])
    size = float(np.sqrt(sum(float(np.sum(np.asarray(p, float) ** 2)) for p in jax.tree.leaves(subject.params))))
    steps = np.linspace(-0.05, 0.05, 41) * max(size, 1e-12)
    values = np.asarray(_along(subject.objective, subject.params, data, vector, jnp.asarray(steps, subject.dtype)))
    extremes = float(ends.values[-1]), bounds, float(ends.values[0])
    return Least(*extremes, steps, values, bool(ends.converged), int(ends.products))


def judge(found: Least, seen) -> Finding:
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


def away(subject, finding):
    """Off the saddle: on from a random point nearby."""
    return retraining(subject, f"train on from a point {AWAY:.0%} of the weights away", finding.name, _nearby)


def _nearby(subject):
    keys = iter(jax.random.split(jax.random.key(0), len(jax.tree.leaves(subject.params))))

    def leaf(a):
        # weights that are all zero have no size of their own
        size = float(jnp.sqrt(jnp.mean(a**2))) or 1.0
        return a + AWAY * size * jax.random.normal(next(keys), a.shape, a.dtype)

    return subject.replaced(initial_params=jax.tree.map(leaf, subject.params))
