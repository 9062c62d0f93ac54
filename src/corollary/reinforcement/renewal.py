r"""Learning of values with a target that is renewed every so often: between one that moves along and one that waits.

With the gradients of $Q$ at the transitions as rows of $\Phi$ (at $\xi$) and $\Phi'$ (at $\xi'$, the next state with
its best action), parameters $\theta^*+\Phi^\top c$ near a fixed point move in $k$ steps $\eta$ towards the target that
$\bar c$ makes to
$$c=\Big(I-\frac\eta nK\Big)^k\bar c+\Big(I-\Big(I-\frac\eta nK\Big)^k\Big)K^{-1}\beta K'\bar c,$$
$K=\Phi\Phi^\top$, $K'=\Phi'\Phi^\top$. For $k=1$ it is the step of Q-learning, for $k\to\infty$ (and steps below the
limit $2n/\|K\|$) the iteration of a target that is fitted completely.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import positive, real, whole
from corollary.reinforcement.environment import History
from corollary.reinforcement.stability import transition_kernels
from corollary.reinforcement.values import checked, discount

_LARGEST = 60.0  # logarithm of a growth that nothing turns back


class Renewal(NamedTuple):
    """What an error is multiplied by from one renewal of the target to the next, and per step of the network."""

    radius: Float[Array, ""]
    per_step: Float[Array, ""]
    __repr__ = shown


def target_renewal(
    network: NetworkLike, transitions: History, beta: Scalar, *, step: Scalar, every: int = 1
) -> Renewal:
    r"""How an error of the values grows or shrinks where the target is renewed `every` so many steps of size `step`.

    The update is the mean of $\delta\nabla Q$ over all transitions, linearised as in `td_stability`. Directions that
    neither the steps nor the renewals move are left out, so that 1 is exceeded only by what grows.

    >>> moves = History(x, jnp.zeros(4, int), jnp.ones(4), x[::-1], jnp.zeros(4, bool), jnp.zeros(4, bool))
    >>> bool(target_renewal(network, moves, 0.5, step=0.1, every=10).radius < 1)
    True
    """
    beta, step = discount(beta), positive("step", real("step", step, ""))
    every = whole("every", every)
    moves, actions = checked(network, transitions)
    k, k2 = transition_kernels(network, moves, actions)
    return renewed(k, k2, beta.astype(k.dtype), step.astype(k.dtype), every)


def renewed(k: Array, k2: Array, beta: Scalar, step: Scalar, every: int) -> Renewal:
    """`target_renewal` of the kernels of the transitions."""
    n = k.shape[0]
    eps = jnp.finfo(k.dtype).eps
    sizes, vectors = jnp.linalg.eigh((k + k.T) / 2)
    reached = sizes > n * eps * sizes[-1]
    sizes = jnp.where(reached, sizes, 1)
    left, capped = _power(step * sizes / n, every)
    gone = -left  # 1 - (1 - z)^k, without cancellation
    outer = (vectors.T @ k2 @ vectors) * reached * reached[:, None]
    matrix = jnp.diag(jnp.where(reached, 1 + left, 0)) + (gone / sizes)[:, None] * beta * outer
    values = jnp.linalg.eigvals(matrix)
    # an eigenvalue of 1 up to rounding belongs to a direction that nothing moves
    still = jnp.abs(values - 1) <= n * eps * jnp.maximum(1, jnp.linalg.norm(matrix))
    radius = jnp.max(jnp.where(still, 0, jnp.abs(values)))
    radius = jnp.where(jnp.any(capped & reached), jnp.inf, radius)
    return Renewal(radius, radius ** (1 / every))


def _power(z, every):
    """$(1-z)^k-1$ for each of the z, and whether it is too large to be held."""
    small = z < 0.5
    exponent = every * jnp.log1p(-jnp.where(small, z, 0))
    base = jnp.where(small, 0.5, 1 - z)
    log = every * jnp.log(jnp.maximum(jnp.abs(base), jnp.finfo(z.dtype).tiny))
    capped = ~small & (log > _LARGEST)
    sign = jnp.where((base < 0) & (every % 2 == 1), -1, 1)
    return jnp.where(small, jnp.expm1(exponent), sign * jnp.exp(jnp.minimum(log, _LARGEST)) - 1), capped
