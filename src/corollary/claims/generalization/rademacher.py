"""Rademacher complexities as sums over all signs: linear classes, contraction, and kernels."""

from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, printed
from corollary.generalization import (
    Intervals,
    Thresholds,
    ball_complexity,
    ball_supremum,
    dichotomies,
    interval_supremum,
    kernel_ball_supremum,
    label_energy,
    list_supremum,
    ntk_complexity,
    rademacher,
    threshold_supremum,
)

Few = Annotated[int, Range(2, 14)]


@claim(rows=("B08.17", "T05.14"))
def complexity_of_lists(key, *, m: Few = 8, functions: Size = 12):
    r"""The complexity of one function is 0, that of all signs is 1, and it only sees the shape of a class.

    $\hat R(\mathcal F)=E_\sigma\sup_f\frac1m\sum\sigma_if(z_i)$: $\hat R(c\mathcal F)=|c|\hat R$, adding one function
    to all of the class changes nothing, a mean of functions of the class may be added to it, and (Massart)
    $\hat R\le\max_f\|f\|\sqrt{2\ln N}/m$. Thresholds and intervals have the complexity of the list of their
    dichotomies. Draws of signs find the value within their interval.
    """
    value_key, shift_key, line_key, draw_key = jax.random.split(key, 4)
    values = jax.random.normal(value_key, (m, functions))
    shift, x = jax.random.normal(shift_key, (m, 1)), jax.random.normal(line_key, (m,))
    everything = jnp.asarray(1.0 - 2 * (np.arange(2**m)[:, None] >> np.arange(m) & 1)).T
    of = partial(rademacher, list_supremum)
    value = of(values).value
    yield equal("one function, and all signs", [of(shift).value, of(everything).value], [0.0, 1.0])
    mixed = jnp.concatenate([values, values @ jnp.full((functions, 1), 1 / functions)], 1)
    same = [of(-3 * values).value / 3, of(values + shift).value, of(mixed).value]
    yield equal("scaled by -3, shifted, with a mean of functions", jnp.stack(same), value)
    massart = jnp.max(jnp.linalg.norm(values, axis=0)) * np.sqrt(2 * np.log(functions)) / m
    yield at_most("random functions, against Massart", value, massart)
    lines = [rademacher(threshold_supremum, x).value, rademacher(interval_supremum, x).value]
    listed = [of(dichotomies(cls, x).T.astype(float)).value for cls in (Thresholds(), Intervals())]
    yield equal("thresholds and intervals, against their dichotomies", lines, listed)
    drawn = rademacher(list_supremum, values, key=draw_key, draws=4000)
    # 4.9 standard errors hold in all but one of a million runs, 3.29 in all but one of a thousand
    yield at_most(
        "distance of the drawn value, in standard errors", 3.29 * abs(drawn.value - value) / _half(drawn), 4.9
    )
    twice = of(jnp.concatenate([values, 2 * shift + values], 1)).value
    yield control("one function is added to all: here to a copy of the class", equal("complexity", twice, value))


def _half(drawn):
    low, high = drawn.interval
    return (high - low) / 2


@claim(rows=("B08.20", "T05.16"))
def linear_ball(key, *, m: Few = 12, d: Size = 3, radius: Annotated[float, Range(0.1, 10)] = 2.0):
    r"""Linear functions with weights of bounded length have the complexity of the mean length of a random sum.

    $\hat R=\frac Wm E\|\sum\sigma_ix_i\|\le\frac Wm\sqrt{\sum\|x_i\|^2}\le\frac{WD}{\sqrt m}$ for $\|w\|\le W$ and
    $\|x_i\|\le D$, and at least $1/\sqrt2$ of the middle one (Khintchine). Orthonormal points attain the upper bounds,
    two equal points the lower one. For weights with entries of size $W$ at most it is larger than the bound.
    """
    x = jax.random.normal(key, (m, d))
    of = partial(rademacher, partial(ball_supremum, radius=radius))
    exact, middle = of(x).value, radius * jnp.linalg.norm(x) / m
    yield at_most("complexity", exact, middle)
    yield at_least("complexity, against 1/√2 of the bound", exact, middle / np.sqrt(2))
    yield at_most("bound, against that by the longest point", middle, radius * _longest(x) / np.sqrt(m))
    signs = jax.random.rademacher(key, (1000, m), float)
    weights = radius * (signs @ x) / jnp.linalg.norm(signs @ x, axis=1, keepdims=True)
    reached = jnp.sum(signs * (weights @ x.T), 1)
    yield equal("the supremum is reached", ball_supremum(signs, x, radius=radius), reached)
    sizes = (2, 4, 8)
    yield equal(
        "orthonormal points", [of(np.eye(k)).value for k in sizes], [radius / np.sqrt(k) for k in sizes], along="m"
    )
    yield equal("two equal points", of(np.array([[3.0, 4.0]] * 2)).value, radius * np.sqrt(50) / 2 / np.sqrt(2))
    cube = rademacher(partial(ball_supremum, radius=radius, norm="linf"), jnp.asarray(np.hstack([np.eye(m)] * 2))).value
    yield control(
        "the length of the weights is bounded: here their largest entry",
        at_most("complexity", cube, radius * np.sqrt(2 * m) / m),
    )


def _longest(x):
    return jnp.max(jnp.linalg.norm(x, axis=1))


@claim(
    rows=("B08.20",), erratum="The supremum is printed inside the sum over the examples: there it does not fall with m."
)
def supremum_inside_the_sum(key, *, m: Few = 12, d: Size = 3):
    r"""The complexity of the linear class is the mean of a sum of suprema.

    As printed, $\hat R=\frac1mE_\sigma\sum_i\sup_w\sigma_iw\cdot x_i$, which is $\frac Wm\sum\|x_i\|$ whatever $m$. The
    supremum stands outside: one $w$ has to fit all signs, and $\frac Wm E\|\sum\sigma_ix_i\|$ falls like $1/\sqrt m$.
    """
    x = jax.random.normal(key, (m, d))
    # each example by itself is a class of one point
    alone = jnp.mean(jax.vmap(lambda row: rademacher(ball_supremum, row[None]).value)(x))
    outside = rademacher(ball_supremum, x).value
    yield at_most("supremum outside, against the square root", outside, jnp.linalg.norm(x) / m)
    yield at_most("supremum outside, against inside", outside, alone)
    yield printed(equal("supremum outside, and inside as printed", outside, alone))


SMOOTH = {
    "ReLU": (lambda t: jnp.maximum(t, 0), 1.0),
    "tanh": (jnp.tanh, 1.0),
    "modulus": (jnp.abs, 1.0),
    "clipped": (lambda t: jnp.clip(t, 0, 1), 1.0),
    "3 sin": (lambda t: 3 * jnp.sin(t), 3.0),
}


@claim(rows=("B08.21", "B08.28"))
def contraction(key, *, m: Annotated[int, Range(2, 10)] = 7, functions: Size = 6, classes: Size = 200):
    r"""A Lipschitz function of every member does not raise the complexity by more than its constant.

    $\hat R(\phi\circ\mathcal F)\le L\hat R(\mathcal F)$ if $|\phi(s)-\phi(t)|\le L|s-t|$, one example after the other:
    each that is put through $\phi$ lowers the complexity, or leaves it. For $\phi(t)=at+b$ it is $|a|\hat R$. For a
    step it fails; and with $|\sum|$ in place of the sum it fails for $\phi=1$ and the class of the function 0.
    """

    @jax.jit
    def measure(key):
        values = 2 * jax.random.normal(key, (classes, m, functions))
        of = jax.vmap(lambda v: rademacher(list_supremum, v).value)
        through = jnp.stack([of(phi(values)) for phi, _ in SMOOTH.values()])
        some = (jnp.arange(m) < jnp.arange(m + 1)[:, None])[:, None, :, None]
        steps = jax.vmap(of)(jnp.where(some, 3 * jnp.sin(values), 3 * values))
        small = 0.1 * values
        return of(values), through, steps, of(1 - 2 * values), of(jnp.sign(small)), of(small)

    plain, through, steps, affine, stepped, small = measure(key)
    constants = np.array([constant for _, constant in SMOOTH.values()])
    yield at_most("complexity after φ", through, constants[:, None] * plain)
    step = steps[1:] - steps[:-1]
    # complexities of the order of 1 are rounded
    yield at_most("change by one more example through φ", step, 0.0, atol=1e-12)
    yield equal("complexity after 1 - 2t", affine, 2 * plain)
    yield control("φ is Lipschitz: here a step", at_most("complexity after φ", stepped, small))
    ones = rademacher(partial(_with_modulus, list_supremum), jnp.ones((m, 1))).value
    zeros = rademacher(partial(_with_modulus, list_supremum), jnp.zeros((m, 1))).value
    yield control("no absolute value: here with one", at_most("complexity of φ = 1 after 0", ones, zeros))


@claim(rows=("B08.27",))
def sums_of_classes(key, *, m: Few = 7, functions: Size = 5):
    r"""The complexity of all sums of two classes is the sum of their complexities.

    $\hat R(\mathcal F+\mathcal F')\le\hat R(\mathcal F)+\hat R(\mathcal F')$, with equality, because the two members of
    a sum are chosen apart. If they are chosen together, as in $\{f_j+f_j'\}$, it is less.
    """
    first, second = jax.random.normal(key, (2, m, functions))
    of = partial(rademacher, list_supremum)
    total = of(first).value + of(second).value
    every = (first[:, :, None] + second[:, None]).reshape(m, -1)
    yield equal("all sums", of(every).value, total)
    pairs = of(first + second).value
    yield at_most("sums in pairs", pairs, total)
    yield control("members are chosen apart: here in pairs", equal("sums", pairs, total))


def _with_modulus(supremum, signs, points):
    return jnp.maximum(supremum(signs, points), supremum(-signs, points))


@claim(
    rows=("T05.17", "T05.43"),
    erratum="The complexity of the kernel classifier is printed with G where its inverse belongs.",
)
def kernel_classifier(key, *, n: Few = 10, d: Size = 3):
    r"""The complexity of the kernel classifier is at most the root of 2 y·Gy tr G over n.

    As printed for the interpolant of the labels $y$ with the matrix $G$ of a kernel. The norm of that function is
    $B=\sqrt{y^\top G^{-1}y}$, and the ball of that radius has the complexity
    $\frac BnE\sqrt{\sigma^\top G\sigma}\le\frac1n\sqrt{y^\top G^{-1}y\operatorname{tr}G}$, and at least $1/\sqrt2$ of
    it. A kernel scaled by $c$ has the same interpolant and the same complexity, where the printed number is scaled by
    $c$ and falls below it. A loss that is 1-Lipschitz in the prediction does not raise it: here $|f-y|$ and the hinge
    loss over functions drawn from the ball.
    """
    x_key, y_key, ball_key = jax.random.split(key, 3)
    scales = np.array([1e-4, 1e-2, 1.0, 1e2])

    @jax.jit
    def measure(x_key, y_key, ball_key):
        x, y = jax.random.normal(x_key, (n, d)), jnp.sign(jax.random.normal(y_key, (n,)))
        gram = jnp.exp(-jnp.sum((x[:, None] - x) ** 2, -1) / 2)

        def at(scale):
            g = scale * gram
            radius = jnp.sqrt(label_energy(g, y))
            exact = radius * rademacher(kernel_ball_supremum, g).value
            return exact, ball_complexity(g, radius), ntk_complexity(g, y), jnp.sqrt(2 * y @ g @ y * jnp.trace(g)) / n

        # functions of the ball: values G a with a·G a = B²
        a = jax.random.normal(ball_key, (400, n))
        size = jnp.sqrt(jnp.sum((a @ gram) * a, 1, keepdims=True))
        values = (jnp.sqrt(label_energy(gram, y)) * (a @ gram) / size).T
        losses = jnp.stack([jnp.abs(values - y[:, None]), jnp.maximum(1 - values * y[:, None], 0)])
        return jax.lax.map(at, scales), jnp.stack([rademacher(list_supremum, v).value for v in losses])

    (exact, sharp, slack, wrong), losses = measure(x_key, y_key, ball_key)
    yield at_most("complexity, against the bound with the inverse", exact, sharp, x=scales, along="scale of the kernel")
    yield at_least("complexity, against 1/√2 of it", exact, sharp / np.sqrt(2), x=scales, along="scale of the kernel")
    yield equal("bound with the inverse, at every scale", slack, slack[0], x=scales, along="scale of the kernel")
    yield at_most("complexity of two losses", losses, slack[2])
    yield printed(at_most("complexity, against what is printed", exact, wrong, x=scales, along="scale of the kernel"))
