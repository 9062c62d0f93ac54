r"""RMSProp: AdaGrad that forgets. The recursion of the texts is Optax's; the names are theirs."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float

from corollary._types import Scalar
from corollary._validate import positive, real, within
from corollary.catalog import implements
from corollary.optimization._arguments import decay_of, offset_of, step_of


@implements("M18.28", "T02.33")
def rmsprop(
    step: Scalar | Callable, *, delta: Scalar = 0.9, eps: Scalar = 1e-8, initial: Scalar = 0.0, eps_inside: bool = True
) -> optax.GradientTransformation:
    r"""$u_{k+1}=\delta u_k+(1-\delta)g_k\odot g_k$, $\theta_{k+1}=\theta_k-\eta(\epsilon+u_{k+1})^{-1/2}\odot g_k$.

    $u_0$ is `initial`. With `eps_inside` false the divisor is $\sqrt{u_{k+1}}+\epsilon$, as in T.
    """
    step, delta = step_of(step), decay_of("delta", delta)
    eps, initial = offset_of("eps", eps), offset_of("initial", initial)
    return optax.rmsprop(step, delta, eps, initial, eps_in_sqrt=bool(eps_inside))


@implements("M18.30")
def rmsprop_amplitude(
    step: Float[ArrayLike, "..."], eps: Float[ArrayLike, "..."], curvature: Float[ArrayLike, "..."] = 1.0
) -> Array:
    r"""Where RMSProp with a constant step ends on $\frac h2\theta^2$: the 2-cycle $\pm\sqrt{\eta^2/4-\epsilon/h^2}$.

    It converges, with amplitude zero, exactly when $\eta h<2\sqrt\epsilon$, so never with $\epsilon=0$ (`eps` inside
    the root).
    """
    step = positive("step", real("step", step))
    eps, curvature = within("eps", real("eps", eps), 0.0), positive("curvature", real("curvature", curvature))
    return jnp.sqrt(jnp.maximum(step**2 / 4 - eps / curvature**2, 0))
