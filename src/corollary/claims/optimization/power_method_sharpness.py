"""The local sharpness: how it is measured, and where gradient descent drives it."""

from typing import Annotated

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from corollary.autodiff import hessian_operator
from corollary.evidence import Positive, Range, Size, at_least, at_most, claim, control, rate
from corollary.nets import MLP
from corollary.optimization import power_method


@claim(rows=("T02.38",))
def power_method_rate(
    key,
    *,
    dim: Size = 50,
    ratio: Annotated[float, Range(0.5, 0.99)] = 0.9,
    steps: Annotated[int, Range(130, 1000)] = 140,
):
    r"""The power method finds the eigenvalue of largest modulus at the rate of the squared ratio to the next.

    For symmetric $H$ with $|\lambda_1|>|\lambda_2|\ge\dots$ and a start that is not orthogonal to the first
    eigenvector, $|u_t^\top Hu_t-\lambda_1|\sim c\,(\lambda_2/\lambda_1)^{2t}$. If $\lambda_1=-\lambda_2$ it does not
    converge.
    """

    @jax.jit
    def measure(key):
        axes_key, start_key = jax.random.split(key)
        rotation = jnp.linalg.qr(jax.random.normal(axes_key, (dim, dim)))[0]
        # the rest of the spectrum is far below the second eigenvalue, so that the rate is clean from the start
        spectrum = jnp.concatenate([jnp.array([-1.0, ratio]), jnp.linspace(-0.3, 0.3, dim - 2)])
        hessian = (rotation * spectrum) @ rotation.T
        balanced = (rotation * spectrum.at[1].set(1.0)) @ rotation.T
        # as much of the first two eigenvectors as of each other, and any amount of the rest
        start = rotation @ jax.random.normal(start_key, (dim,)).at[:2].set(1.0)
        return (
            power_method(lambda u: hessian @ u, start, steps),
            power_method(lambda u: balanced @ u, start, steps),
            jnp.linalg.eigvalsh(hessian)[0],
        )

    found, stuck, exact = measure(key)
    t = jnp.arange(40, 130)  # late enough to be asymptotic, before the error drowns in rounding
    error = jnp.abs(found.quotients - exact)[t]
    yield rate(
        "error of the Rayleigh quotient",
        t,
        error,
        2 * jnp.log(ratio),
        tolerance=0.05 * abs(2 * float(jnp.log(ratio))),
        axes="semi-log",
        along="iteration",
    )
    yield at_most("last error against the residual", jnp.abs(found.quotients[-1] - exact), found.residual)
    yield control("two eigenvalues of largest modulus with opposite signs", at_most("residual", stuck.residual, 0.1))


@claim(rows=("T02.37",), full={"width": 50, "time": 800.0})
def edge_of_stability(key, *, width: Size = 30, points: Size = 20, time: Positive = 600.0):
    r"""Gradient descent on a network drives the sharpness to two over the step, and holds it there.

    A tanh network 1-w-w-1 fits the Chebyshev polynomial $T_4$ on 20 points with full-batch gradient descent. For
    $\eta\in\{0.2,0.1\}$ the largest eigenvalue of the Hessian ends at $2/\eta$, within a few percent (an observation,
    not a theorem), and the loss, though no longer monotone, ends below where it first got there. At a step ten times
    smaller the sharpness stays well below $2/\eta$ over the same time.
    """
    x = jnp.linspace(-1.0, 1.0, points)
    y = 8 * x**4 - 8 * x**2 + 1
    snapshots = 40

    @jax.jit
    def measure(key):
        params, rebuild = ravel_pytree(MLP((1, width, width, 1), jnp.tanh, key=key))

        def loss(flat):
            return 0.5 * jnp.mean((jax.vmap(rebuild(flat))(x[:, None])[:, 0] - y) ** 2)

        def run(eta, steps):
            def stretch(state, _):
                flat, direction = state
                flat = jax.lax.fori_loop(0, steps // snapshots, lambda _, t: t - eta * jax.grad(loss)(t), flat)
                # the top eigenvector moves slowly: a few products from the last one are enough
                top = power_method(hessian_operator(loss, flat), direction, 30)
                return (flat, top.vector), (loss(flat), top.quotients[-1] * eta / 2)

            start = params, jax.random.normal(jax.random.key(1), params.shape)
            return jax.lax.scan(stretch, start, length=snapshots)[1]

        return run(0.2, int(time / 0.2)), run(0.1, int(time / 0.1)), run(0.01, int(time / 0.1))

    (loss_a, sharp_a), (loss_b, sharp_b), (_, slow) = measure(key)
    sharp, losses = jnp.stack([sharp_a, sharp_b]), jnp.stack([loss_a, loss_b])
    late = jnp.median(sharp[:, -snapshots // 4 :], axis=1)
    yield at_least("sharpness over 2/η, median of the last quarter", late, 0.95)
    yield at_most("the same, not far above", late, 1.07)
    first = jnp.argmax(sharp > 0.95, axis=1)
    yield at_most(
        "final loss over the loss when the edge was reached", losses[:, -1] / losses[jnp.arange(2), first], 1.0
    )
    yield control("a step ten times smaller, as many steps", at_least("sharpness over 2/η at the end", slow[-1], 0.95))
