r"""What the mean update of value learning does to a network on its transitions, predicted and run.

In double precision where the network allows it: rates that show after thousands of steps are below the rounding of
single precision.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.network.parts import is_real, split
from corollary.reinforcement import History, TDStability, residual_gradient, semi_gradient
from corollary.reinforcement.renewal import renewed
from corollary.reinforcement.stability import spectrum_of, transition_kernels
from corollary.reinforcement.values import chosen_values, value_target

#: steps of the short run; it covers so many renewals of the target where it can
UPDATES, RENEWALS, MOST_UPDATES = 200, 4, 8192
#: what is divided by is at least this; growth beyond its inverse is that much
LEAST = 1e-12
#: the rarest renewal that is tried
RAREST = 2**16


class Kernels(NamedTuple):
    """Tangent kernels of the transitions that were looked at, and these."""

    k: np.ndarray
    k2: np.ndarray
    network: Any
    moves: History
    eps: float


class Measured(NamedTuple):
    """What was measured on `n` of `total` transitions.

    `zero` have a value without a gradient, `tied` of `pairs` different pairs of a state and an action have the gradient
    of another one up to a factor. `growth` is the logarithm of what an error is multiplied by per step, `limit` the
    largest stable step, `renewal` the least number of steps between renewals that is stable (None: not looked for or
    not found). `run` is the error after `updates` steps against that before, beside what the kernels `promised`.
    """

    n: int
    total: int
    zero: int
    tied: int
    pairs: int
    spectrum: TDStability
    frozen: TDStability
    step: float
    limit: float
    growth: float
    renewal: int | None
    updates: int
    promised: float
    run: float
    cosine: float | None


def kernels(subject, budget, key) -> Kernels:
    """The kernels, in the precision that the network allows."""
    most = int(max(_plan.FEWEST, min(budget.kernel, budget.memory // (2 * subject.size))))
    moves = some(subject.transitions, most, key)
    with jax.enable_x64(True):
        network, moves64 = _doubled((subject.network, moves))
        # a network that rounds on its way has the precision of what it rounds to
        arrays, rest = eqx.partition(network, eqx.is_array)
        one = jax.tree.map(lambda a: a[0], moves64.observation)
        program = str(jax.make_jaxpr(lambda arrays, one: eqx.combine(arrays, rest)(one))(arrays, one))
        if "f32" not in program and "f16" not in program:
            return _kernels(network, moves64, subject.actions)
    return _kernels(subject.network, moves, subject.actions)


def _kernels(network, moves, actions):
    k, k2 = transition_kernels(network, moves, actions)
    return Kernels(np.asarray(k), np.asarray(k2), network, moves, float(jnp.finfo(k.dtype).eps))


def _doubled(tree):
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float64) if is_real(a) else a, tree)


def without_gradient(found: Kernels) -> np.ndarray:
    """Which transitions have a value that no step changes."""
    sizes = np.diag(found.k)
    return sizes <= len(sizes) * found.eps * sizes.max(initial=0)


def measure(subject, budget, key) -> Measured:
    """All numbers of the section."""
    found = kernels(subject, budget, key)
    n = len(found.k)
    zero = without_gradient(found)
    double = found.eps < 1e-10
    with jax.enable_x64(double):
        k, k2, beta = (jnp.asarray(a, found.k.dtype) for a in (found.k, found.k2, subject.beta))
        plain, frozen = (jax.tree.map(np.asarray, spectrum_of(k, k2, beta, frozen=f)) for f in (False, True))
        every = subject.target_every
        limit = float(plain.largest_step if every == 1 else frozen.largest_step)
        half = (limit or float(frozen.largest_step)) / 2
        step = subject.learning_rate or (half if np.isfinite(half) else 1.0)  # any, where nothing moves
        growth = _growth(k, k2, beta, step, every)
        renewal = _renewal(k, k2, beta, step) if growth > 0 else None
        passes = 2 * _plan.GRADIENT * n * _plan.forward(subject)
        wanted = min(max(UPDATES, RENEWALS * every), MOST_UPDATES)
        updates = int(min(wanted, budget.work / passes))
        promised, run = _runs(found, k, k2, beta, step, every, updates)
        cosine = _cosine(found, subject.beta)
    tied, pairs = _tied(found, ~zero)
    return Measured(
        n,
        subject.count(),
        int(zero.sum()),
        tied,
        pairs,
        plain,
        frozen,
        step,
        limit,
        growth,
        renewal,
        updates,
        promised,
        run,
        cosine,
    )


def _growth(k, k2, beta, step, every) -> float:
    factor = float(renewed(k, k2, beta, step, every).per_step)
    return float(np.log(factor)) if factor > 0 else -np.inf


def _renewal(k, k2, beta, step) -> int | None:
    """The first power of two at which renewals are stable, and doubled once more, so that they are not at the edge."""
    every = 2
    while every <= RAREST:
        if _growth(k, k2, beta, step, every) < 0:
            return 2 * every
        every *= 2
    return None


def _runs(found, k, k2, beta, step, every, updates):
    """What the kernels promise for the root mean square of δ after the steps against that before, and what it is."""
    start = value_target(found.network, found.moves, beta) - chosen_values(
        found.network, found.moves.observation, found.moves.action
    )
    step = jnp.asarray(step, k.dtype)
    promised = _foretold(k, k2, beta, step, start.astype(k.dtype), every, updates)
    return _ratio(promised), _ratio(_trained(split(found.network), found.moves, beta, step, every, updates))


def _ratio(course) -> float:
    first, last = np.asarray(course, float)
    if first <= LEAST:
        return 1.0 if last <= LEAST else 1 / LEAST
    return float(min(last / first, 1 / LEAST)) if np.isfinite(last) else 1 / LEAST


@eqx.filter_jit
def _foretold(k, k2, beta, step, start, every, updates):
    """The first and the last size of δ where the kernels stay and no other action becomes the best."""
    n = start.shape[0]

    def onward(i, carry):
        c, held = carry
        held = jnp.where(i % every == 0, c, held)
        return c + step / n * (start + beta * k2 @ held - k @ c), held

    c, _ = jax.lax.fori_loop(0, updates, onward, (jnp.zeros_like(start), jnp.zeros_like(start)))
    return _size(start), _size(start + beta * k2 @ c - k @ c)


@eqx.filter_jit
def _trained(parts, moves, beta, step, every, updates):
    """The first and the last size of δ of the network itself."""

    def delta(params, held):
        now = chosen_values(parts.join(params), moves.observation, moves.action)
        return value_target(parts.join(held), moves, beta) - now

    def onward(i, carry):
        params, held = carry
        held = jax.tree.map(lambda h, p: jnp.where(i % every == 0, p, h), held, params)
        slope = jax.grad(lambda p: jnp.mean(delta(p, held) ** 2) / 2)(params)
        return jax.tree.map(lambda p, g: (p - step * g).astype(p.dtype), params, slope), held

    params, _ = jax.lax.fori_loop(0, updates, onward, (parts.params, parts.params))
    return _size(delta(parts.params, parts.params)), _size(delta(params, params))


def _size(delta):
    return jnp.sqrt(jnp.mean(delta**2))


def _cosine(found, beta) -> float | None:
    """Between the update and the steepest way down half the squared error; None where there is no update."""
    trees = (f(found.network, found.moves, beta) for f in (semi_gradient, residual_gradient))
    a, b = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in trees)
    sizes = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / sizes) if sizes > 0 else None


def _tied(found, kept) -> tuple[int, int]:
    """How many different pairs have a gradient parallel to that of another one, and how many different pairs there are.

    The gradient of equal pairs is the same: only the first of them counts.
    """
    leaves = [np.asarray(a, float).reshape(len(kept), -1) for a in jax.tree.leaves(found.moves.observation)]
    rows = np.concatenate([*leaves, np.asarray(found.moves.action, float)[:, None]], 1)
    _, first = np.unique(rows, axis=0, return_index=True)
    first = first[kept[first]]
    k = found.k[np.ix_(first, first)]
    sizes = np.sqrt(np.diag(k))
    cosines = np.abs(k / sizes / sizes[:, None]) - 2 * np.eye(len(first))
    # sums of products: a few roundings
    return int((cosines.max(1, initial=-1) >= 1 - 64 * found.eps).sum()), len(first)
