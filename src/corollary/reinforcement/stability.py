r"""Whether temporal-difference learning with a given network is stable, on given transitions.

The mean update $\dot\theta=\frac1n\sum_i\big(r_i+\beta Q(\xi_i')-Q(\xi_i)\big)\nabla_\theta Q(\xi_i)$, with $\xi=(x,a)$
and $\xi'$ the next state with its best action, has at a fixed point (all of the brackets zero) the linear part
$-\frac1n\Phi^\top(\Phi-\beta\Phi')$ with the gradients as rows of $\Phi$ and $\Phi'$. Its eigenvalues other than zero
are those of $-\frac1n(\Phi-\beta\Phi')\Phi^\top=-\frac1n(K(\xi,\xi)-\beta K(\xi',\xi))$, with the tangent kernel $K$: a
matrix with a row for each transition, however many parameters there are. For a wide network, whose kernel stays, it is
the linear part everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from corollary._show import shown
from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete
from corollary.catalog import implements
from corollary.kernels import empirical_ntk
from corollary.reinforcement._crossing import first_crossing
from corollary.reinforcement.environment import History
from corollary.reinforcement.values import checked, discount, values_of

_PARTS = 8  # of the interval of discounts, each looked at for the first unstable one
_BLOCK = 64  # sizes of reduced matrices are multiples of it, so that few programs are compiled


class TDStability(NamedTuple):
    r"""The spectrum of the linearised update, and what follows from it.

    `eigenvalues` (n,) are those of $\frac1n(K(\xi,\xi)-\beta K(\xi',\xi))$; zeros, directions that nothing moves, do
    not count. `abscissa` is the largest growth rate, the largest $-\operatorname{Re}\lambda$: negative if learning is
    stable. `critical_beta` is the least discount in [0, 1] with a positive abscissa, infinite if none was found: it is
    looked for at eighths, and in the first of them that ends unstable. `largest_step` is the least
    $2\operatorname{Re}\lambda/|\lambda|^2$: plain steps below it are stable; 0 if none are.

    With a frozen target the eigenvalues are those of the outer iteration, $\beta K(\xi',\xi)K(\xi,\xi)^+$; `abscissa`
    is the logarithm of its spectral radius, `critical_beta` the discount at which that is 0, and `largest_step` that
    of the inner problem.
    """

    eigenvalues: Complex[Array, "n"]
    abscissa: Float[Array, ""]
    critical_beta: Float[Array, ""]
    largest_step: Float[Array, ""]

    __repr__ = shown

    @property
    def stable(self) -> Any:
        """Whether what is started near the fixed point comes nearer."""
        return self.abscissa < 0

    @property
    def radius(self) -> Float[Array, ""]:
        """The largest modulus of an eigenvalue: with a frozen target, the factor per outer iteration."""
        return jnp.max(jnp.abs(self.eigenvalues))


@implements("M21.27")
def td_stability(network: NetworkLike, transitions: History, beta: Scalar, *, frozen: bool = False) -> TDStability:
    r"""Whether learning of values with this network, on these transitions and with the discount `beta`, is stable.

    `network(x)` gives the values of all actions in a state. The next action is the best by these values. The update
    that is looked at is the mean one, with steps small enough to follow it; noise of batches and memory of an optimiser
    are left out. With `frozen` a target network stays fixed until the network has fitted it completely, and then is
    replaced. Rates below rounding times the number of transitions times the norm of the matrix count as zero: in
    float64 much smaller ones are seen.

    >>> moves = History(x, jnp.zeros(4, int), jnp.ones(4), x[::-1], jnp.zeros(4, bool), jnp.zeros(4, bool))
    >>> bool(td_stability(network, moves, 0.0).stable)
    True
    """
    if not isinstance(frozen, bool | np.bool_):
        raise TypeError(f"frozen must be True or False, got {frozen!r}.")
    beta = discount(beta)
    moves, actions = checked(network, transitions)
    k, k2 = transition_kernels(network, moves, actions)
    return spectrum_of(k, k2, beta.astype(k.dtype), frozen=frozen)


class _Chosen(eqx.Module):
    """The value of one pair of state and action, the action as a row of weights."""

    network: Any

    def __call__(self, pair):
        state, weights = pair
        return self.network(state) @ weights


def transition_kernels(network, moves: History, actions: int) -> tuple[Array, Array]:
    r"""$K(\xi,\xi)$ and $K(\xi',\xi)$, each (n, n), of checked transitions; after the end of an episode $\xi'$ is 0."""
    values = values_of(network, moves.next_observation)
    dtype = values.dtype
    best = jax.nn.one_hot(jnp.argmax(values, 1), actions, dtype=dtype)
    now = (moves.observation, jax.nn.one_hot(moves.action, actions, dtype=dtype))
    then = (moves.next_observation, best * ~moves.terminated[:, None])
    chosen = _Chosen(network)
    return empirical_ntk(chosen, now), empirical_ntk(chosen, then, now)


def spectrum_of(k: Array, k2: Array, beta: Array, *, frozen: bool = False) -> TDStability:
    """`td_stability` of the kernels of the transitions."""
    return (_frozen if frozen else _flowing)(k, k2, beta)


def _flowing(k, k2, beta) -> TDStability:
    n = k.shape[0]
    basis = _basis(k, k2)
    a, b = (basis.T @ m @ basis / n for m in (k, k2))
    values, abscissa, step, critical = _search(a, b, beta, n)
    return TDStability(jnp.pad(values, (0, n - values.size)), abscissa, critical, step)


def _basis(k, k2):
    """Orthonormal columns; across them both matrices vanish up to rounding, when applied from the left.

    Then the eigenvalues of the matrices between these columns are those of the matrices, less zeros, which rounding
    would move: by its square root where learning is about to break. A random combination of rows is orthogonalised,
    which puts the large directions first; what is left behind any number of them is measured. Columns that are not
    needed are 0, and cut off where numbers can be looked at.
    """
    n = k.shape[0]
    basis, left = _ordered(k, k2)
    needed = left > 4 * n * jnp.finfo(k.dtype).eps * left[0]
    if concrete(left):
        rank = max(int(np.sum(np.asarray(needed))), 1)
        kept = min(n, -(-rank // _BLOCK) * _BLOCK)
        basis, needed = basis[:, :kept], needed[:kept]
    return basis * needed


@jax.jit
def _ordered(k, k2):
    rows = jnp.concatenate([k, k2])
    mixed = rows.T @ jax.random.normal(jax.random.key(0), rows.shape, rows.dtype)
    basis, _ = jnp.linalg.qr(mixed)
    sizes = jnp.sum((rows @ basis) ** 2, 0)
    return basis, jnp.sqrt(jnp.cumsum(sizes[::-1])[::-1])


@jax.jit
def _search(a, b, beta, n):
    """Eigenvalues, abscissa and largest step at `beta`, and the first unstable discount of [0, 1]."""
    neutral = n * jnp.finfo(a.dtype).eps * (jnp.linalg.norm(a) + jnp.linalg.norm(b))

    def spectrum(beta):
        return jnp.linalg.eigvals(a - beta * b)

    def fastest(beta):
        values = spectrum(beta)
        at = jnp.argmin(values.real)
        return -values.real[at] - neutral, values[at]

    values = spectrum(beta)
    counts = jnp.abs(values.real) > neutral
    abscissa = jnp.max(jnp.where(counts, -values.real, -jnp.inf))
    steps = 2 * values.real / jnp.where(counts, jnp.abs(values) ** 2, 1)
    largest = jnp.maximum(jnp.min(jnp.where(counts, steps, jnp.inf)), 0)

    # part by part to the first end that is unstable; without a discount the kernel is symmetric and nothing grows
    def onward(found):
        part, *_ = found
        return part + 1, *fastest((part + 1) / _PARTS)

    def scanning(found):
        part, excess, _ = found
        return (part < _PARTS) & (excess <= 0)

    start = jnp.zeros((), a.dtype), jnp.zeros((), a.dtype), jnp.zeros_like(values[0])
    part, excess, value = jax.lax.while_loop(scanning, onward, start)

    unstable = excess > 0
    right = part / _PARTS
    # an interval of length 0 where there is nothing to look for
    left = jnp.where(unstable, right - 1 / _PARTS, right)
    critical = first_crossing(fastest, a, b, neutral, left, right, value)
    return values, abscissa, largest, jnp.where(unstable, critical, jnp.inf)


def _frozen(k, k2, beta) -> TDStability:
    n = k.shape[0]
    sizes, vectors = jnp.linalg.eigh((k + k.T) / 2)
    reached = sizes > n * jnp.finfo(k.dtype).eps * sizes[-1]
    if concrete(k) and concrete(k2):
        rank = min(n, -(-max(int(np.sum(np.asarray(reached))), 1) // _BLOCK) * _BLOCK)
        sizes, vectors, reached = sizes[n - rank :], vectors[:, n - rank :], reached[n - rank :]
    outer = vectors.T @ k2 @ vectors * jnp.where(reached, 1 / jnp.where(reached, sizes, 1), 0)
    # the discount only scales this spectrum
    values = jnp.linalg.eigvals(outer)
    radius = jnp.max(jnp.abs(values))
    critical = jnp.where(radius > 0, 1 / jnp.where(radius > 0, radius, 1), jnp.inf)
    return TDStability(
        jnp.pad(beta * values, (0, n - values.size)), jnp.log(beta * radius), critical, 2 * n / sizes[-1]
    )
