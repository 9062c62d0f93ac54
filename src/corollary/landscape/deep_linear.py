r"""Critical points of deep linear networks under the squared loss, one for each set of principal directions, and their
Hessians in closed form.

Let $M=\Sigma_{yx}\Sigma_{xx}^{-1/2}=\sum_is_iu_iv_i^\top$. In the variables $W_N,\dots,W_2,W_1\Sigma_{xx}^{1/2}$ the
loss is $\frac12\|M-W_N\cdots W_1\|_F^2$ plus a constant. A set $I$ of at most as many directions as the narrowest
hidden layer has units gives a critical point with the product $\sum_{i\in I}s_iu_iv_i^\top$. With $N=2$ and distinct
$s_i>0$ there are no others, up to a change of basis in the hidden layer (Baldi and Hornik 1989). Counts of negative,
zero and positive eigenvalues do not change with the variables (Sylvester), so that they hold for all data.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._show import shown
from corollary._validate import concrete, real, whole, within
from corollary.catalog import implements
from corollary.landscape.conditions import Inertia
from corollary.landscape.linear_network import _data, _invertible, second_moments


class Principal(NamedTuple):
    r"""What a linear network can learn from the data: $\Sigma_{yx}\Sigma_{xx}^{-1}=\sum_is_iu_ir_i^\top$.

    `strengths` $s_i$ (q,) decrease, `outputs` (k, q) has the orthonormal columns $u_i$, `inputs` (q, d) the rows
    $r_i=\Sigma_{xx}^{-1/2}v_i$; `rest` is the loss of the least-squares map, below which no linear network goes.
    """

    outputs: jax.Array
    strengths: jax.Array
    inputs: jax.Array
    rest: jax.Array

    __repr__ = shown


@implements("B06.08")
def principal_directions(x: Float[ArrayLike, "n d"], y: Float[ArrayLike, "n k"]) -> Principal:
    r"""The singular value decomposition of $\Sigma_{yx}\Sigma_{xx}^{-1/2}$ for inputs (n, d) and targets (n, k).

    $\lambda_i=s_i^2$ are the eigenvalues of $\Sigma=\Sigma_{yx}\Sigma_{xx}^{-1}\Sigma_{xy}$.
    """
    x, y = _data(x, y)
    xx, yx, yy = second_moments(x, y)
    _invertible(xx)
    squares, basis = jnp.linalg.eigh(xx)
    whitening = (basis / jnp.sqrt(squares)) @ basis.T
    u, s, vt = jnp.linalg.svd(yx @ whitening, full_matrices=False)
    return Principal(u, s, vt @ whitening, (jnp.trace(yy) - jnp.sum(s**2)) / 2)


def index_sets(directions: int, width: int) -> np.ndarray:
    """All sets of at most `width` of the `directions`, as rows of booleans: the small ones first."""
    directions, width = whole("directions", directions, high=16), whole("width", width)
    sets = [i for r in range(min(width, directions) + 1) for i in combinations(range(directions), r)]
    return np.array([np.isin(np.arange(directions), i) for i in sets])


@implements("B06.08", "B06.11")
def critical_point(
    principal: Principal, chosen: Bool[ArrayLike, "..."], hidden: Sequence[int]
) -> tuple[jax.Array, ...]:
    r"""The balanced critical point with the product $\sum_{i\in I}s_iu_ir_i^\top$; `chosen` (q,) marks the set $I$.

    Each of the first hidden units of every layer carries one of the directions with the weight $s_i^{1/N}$, the others
    carry nothing. `hidden` are the widths of the hidden layers.
    """
    u, s, inputs, chosen, hidden = _marked(principal, chosen, hidden)
    depth, width = len(hidden) + 1, min(min(hidden), s.size)
    order = jnp.argsort(~chosen, stable=True)[:width]
    gain = jnp.where(chosen[order], s[order] ** (1 / depth), 0)
    first = jnp.zeros((hidden[0], inputs.shape[1]), s.dtype).at[:width].set(gain[:, None] * inputs[order])
    last = jnp.zeros((u.shape[0], hidden[-1]), s.dtype).at[:, :width].set(u[:, order] * gain)
    diagonal = np.arange(width)
    middle = (jnp.zeros((m, n), s.dtype).at[diagonal, diagonal].set(gain) for n, m in pairwise(hidden))
    return first, *middle, last


@implements("B06.08", "B06.11")
def critical_value(principal: Principal, chosen: Bool[ArrayLike, "..."]) -> Float[Array, ""]:
    r"""The loss there: that of the least-squares map and $\frac12\sum_{i\notin I}s_i^2$."""
    _, s, _, chosen, _ = _marked(principal, chosen)
    return principal.rest + jnp.sum(jnp.where(chosen, 0, s**2)) / 2


@implements("B06.08", "B06.11")
def hessian_inertia(strengths: Float[ArrayLike, "q"], chosen: Bool[ArrayLike, "..."], sizes: Sequence[int]) -> Inertia:
    r"""The inertia of the Hessian at the critical point of the set $I$, for the `sizes` $(d,n_1,\dots,n_{N-1},k)$.

    With $r=|I|$: a pair $i\notin I$, $j\in I$ gives a negative eigenvalue where $s_i>s_j$ (a stronger direction was
    passed over) and a zero one where $s_i=s_j$. With $N=2$ each of the $p-r$ idle units gives $\rho-r$ of each sign,
    $\rho$ the number of positive $s_i$; with $N\ge3$ it gives zeros only. Of the remaining $r(k+d-r)$ ones all are
    positive. Holds for all data, and after any change of basis in the hidden layers.
    """
    s, chosen, (d, *hidden, k) = _spectral(strengths, chosen, sizes)
    total = sum(n * m for n, m in pairwise((d, *hidden, k)))
    r = jnp.sum(chosen)
    pairs = ~chosen[:, None] & chosen[None, :]
    over, tied = jnp.sum(pairs & (s[:, None] > s)), jnp.sum(pairs & (s[:, None] == s))
    idle = (hidden[0] - r) * jnp.sum(~chosen & (s > 0)) if len(hidden) == 1 else 0
    negative, positive = over + idle, r * (k + d - r) - over - tied + idle
    return Inertia(negative, total - negative - positive, positive)


@implements("B06.08", "B06.11")
def hessian_spectrum(
    strengths: Float[ArrayLike, "q"], chosen: Bool[ArrayLike, "..."], sizes: Sequence[int]
) -> Float[Array, "..."]:
    r"""All eigenvalues of the Hessian at the balanced critical point, increasing, for whitened inputs
    ($\Sigma_{xx}=I$).

    $s_j^{1-2/N}(s_j\pm s_i)$ for $i\notin I$, $j\in I$; $\sum_{l=1}^Ns_i^{2(N-l)/N}s_j^{2(l-1)/N}$ for $i,j\in I$;
    $|k-d|$ times $s_j^{2-2/N}$ for $j\in I$; with $N=2$, as often as there are idle units, $\pm s_i$ for $i\notin I$;
    and zeros.
    """
    s, chosen, (d, *hidden, k) = _spectral(strengths, chosen, sizes)
    total, depth = sum(n * m for n, m in pairwise((d, *hidden, k))), len(hidden) + 1
    t = jnp.where(chosen, s, 0) ** (1 / depth)
    layers = np.arange(depth)[:, None, None]
    both = jnp.sum(t[:, None] ** (2 * (depth - 1 - layers)) * t ** (2 * layers), axis=0)
    pair = ~chosen[:, None] & chosen[None, :]
    gain = jnp.where(chosen, t ** (depth - 2), 0)
    parts = [
        jnp.where(pair, gain * (s + s[:, None]), jnp.where(chosen[:, None] & chosen, both, 0)),
        jnp.where(pair, gain * (s - s[:, None]), 0),
        jnp.repeat(jnp.where(chosen, t ** (2 * depth - 2), 0), abs(k - d)),
        jnp.zeros(total, s.dtype),
    ]
    if depth == 2:
        idle = jnp.where((np.arange(hidden[0]) >= jnp.sum(chosen))[:, None] & ~chosen, s, 0)
        parts += [idle, -idle]
    values = jnp.concatenate([part.ravel() for part in parts])
    # at most `total` of these are not zero
    return jnp.sort(values[jnp.argsort(-jnp.abs(values))[:total]])


@implements("B06.11")
def escape_direction(
    principal: Principal, chosen: Bool[ArrayLike, "..."], hidden: Sequence[int]
) -> tuple[jax.Array, ...]:
    r"""A direction $E$ out of a saddle with an idle unit in every hidden layer, along which the loss is
    $L(W+\epsilon E)=L(W)-s_i\epsilon^N+\frac12\epsilon^{2N}$.

    A chain of idle units carries the strongest direction $i\notin I$. For $N\ge3$ the loss leaves with the power $N$,
    where the Hessian may show no way down. `chosen` must leave out a direction and have less than the narrowest hidden
    layer's units.
    """
    u, s, inputs, chosen, hidden = _marked(principal, chosen, hidden)
    if concrete(chosen) and (chosen.all() or int(chosen.sum()) >= min(hidden)):
        raise ValueError(
            f"chosen must leave out at least one direction and mark fewer than the {min(hidden)} units of the "
            f"narrowest hidden layer, got {int(chosen.sum())} of {chosen.size} directions."
        )
    unit, best = jnp.sum(chosen), jnp.argmin(chosen)
    idle = [jax.nn.one_hot(unit, n, dtype=s.dtype) for n in hidden]
    ends = [inputs[best], *idle, u[:, best]]
    return tuple(jnp.outer(after, before) for before, after in pairwise(ends))


def _marked(principal, chosen, hidden=None):
    if not isinstance(principal, Principal):
        raise TypeError(f"principal must be Principal, got {type(principal).__name__}.")
    dims = {}
    u, s = real("principal.outputs", principal.outputs, "k q", dims), principal.strengths
    s, inputs = real("principal.strengths", s, "q", dims), real("principal.inputs", principal.inputs, "q d", dims)
    hidden = (s.size,) if hidden is None else _widths("hidden", hidden, 1)
    return u, s, inputs, _chosen(chosen, s.size, min(hidden)), hidden


def _spectral(strengths, chosen, sizes):
    s = within("strengths", real("strengths", strengths, "q"), 0.0)
    sizes = _widths("sizes", sizes, 3)
    if s.size != min(sizes[0], sizes[-1]):
        raise ValueError(
            f"strengths must have {min(sizes[0], sizes[-1])} entries, the smaller of the numbers of inputs and "
            f"outputs, got {s.size}."
        )
    return s, _chosen(chosen, s.size, min(sizes[1:-1])), sizes


def _widths(name, widths, low):
    if not isinstance(widths, Sequence) or len(widths) < low:
        raise TypeError(f"{name} must be a sequence of at least {low} integers, got {widths!r}.")
    return tuple(whole(f"{name}[{i}]", n) for i, n in enumerate(widths))


def _chosen(chosen, size, width):
    traced = not concrete(chosen)
    chosen = jnp.asarray(chosen) if traced else np.asarray(chosen)
    if chosen.dtype != bool or chosen.shape != (size,):
        raise ValueError(
            f"chosen must be {size} booleans, one per direction, got {chosen.dtype} of shape {tuple(chosen.shape)}."
        )
    if not traced and chosen.sum() > width:
        raise ValueError(f"chosen must mark at most {width} directions, one per hidden unit, got {int(chosen.sum())}.")
    return chosen
