r"""What a training point does to the loss of a test point, predicted without training again.

One unit everywhere: `scores[i, j]` is the predicted change of the loss of test point $j$ when training point $i$ is
removed, $\frac1n\nabla\ell(z_j)^\top(H+\lambda I)^{-1}\nabla\ell(x_i)$. Positive: without the point the loss is larger,
so the point helps. The derivative $I(x,z)$ by the weight of the point is $-n$ times that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import ArrayLike, Int, PRNGKeyArray, PyTree

from corollary._show import shown
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import concrete, labels, one_of, real, whole, within
from corollary.attribution._solvers import DIVERGED, Prepared, Solution, Solver, System, checked, inner, prepared
from corollary.attribution._targets import require_labels
from corollary.catalog import implements
from corollary.landscape import Curvature, gauss_newton, hessian
from corollary.network.batches import count, each, pair
from corollary.network.loss import of_examples
from corollary.network.parts import require_network

CURVATURES = ("hessian", "gauss_newton")
# so many derivatives along a direction cost less than all gradients, which have to be written and read
FEW = 32


class InfluencePremises(NamedTuple):
    r"""What the formula presumes, measured: a stationary point, and a curvature that is positive.

    - `gradient_norm`: $\|\nabla\Lambda\|$ on the training data, 0 at a stationary point.
    - `least`, `largest`: the extreme curvatures found, without damping. Exact for `"dense"`; otherwise Ritz values,
      which never lie outside the spectrum: the true `least` can be lower.
    - `drift`: how much the loss of each test point would change if the training were finished by one Newton step, in
      the unit of the scores. Where it is not small beside them, they describe another point than where the network is.
    """

    gradient_norm: jax.Array
    least: jax.Array
    largest: jax.Array
    drift: jax.Array

    __repr__ = shown


class Influence(NamedTuple):
    """Predicted changes of test losses; the relative residual of the system solved for each test point; premises."""

    scores: jax.Array
    residual: jax.Array
    premises: InfluencePremises

    __repr__ = shown


@implements("T10.03", "T10.04")
def influence(
    network: NetworkLike,
    loss: LossLike,
    train: PyTree,
    test: PyTree,
    *,
    solver: str | Solver = "dense",
    damping: Scalar = 0.0,
    penalty: Scalar = 0.0,
    curvature: str = "hessian",
    key: PRNGKeyArray | None = None,
    batch_size: int = 256,
    trainable: Any = None,
) -> Influence:
    r"""The change of every test loss that is predicted for the removal of every training point, (n, m).

    `train` and `test` are pairs `(x, y)`; the network minimises the mean `loss` over `train`, plus
    $\frac c2\|\theta\|^2$ if there was a `penalty` $c$. $H$ is the curvature of that objective, the Hessian or the
    Gauss-Newton matrix, `damping` $\lambda\ge0$ is added to it. `solver` is `"dense"`, `"cg"`, `"lissa"`, `"lanczos"`
    or `"projected"`, or a `Solver` with numbers of its own. At most `batch_size` gradients of training points and as
    many of test points are held at a time.

    Premises, which the result carries with their numbers: the gradient of the objective vanishes, and $H+\lambda I$ is
    positive. Where it is seen not to be, that is an error; inside `jit`, where nothing can be seen, look at `least`.

    >>> found = influence(network, "squared", data, data, damping=1.0, curvature="gauss_newton")
    >>> found.scores.shape, bool(found.residual.max() < 1e-4)
    ((4, 4), True)
    """
    given = _given(network, loss, train, solver, damping, penalty, curvature, key, batch_size, trainable, "influence")
    test = _like(pair("test", test), given)
    return _told(given, _influence(given, test, None, 0))


def group_influence(
    network: NetworkLike,
    loss: LossLike,
    train: PyTree,
    test: PyTree,
    groups: Int[ArrayLike, "n"],
    *,
    solver: str | Solver = "dense",
    damping: Scalar = 0.0,
    penalty: Scalar = 0.0,
    curvature: str = "hessian",
    key: PRNGKeyArray | None = None,
    batch_size: int = 256,
    trainable: Any = None,
) -> Influence:
    r"""The same for groups of training points that are removed together, (g, m), to first order: sums over the members.

    `groups` holds the number of each point's group, from 0. Of larger groups the curvature changes too, and the sum
    underestimates what their removal does.

    >>> group_influence(network, "squared", data, data, [0, 0, 1, 1], damping=5.0).scores.shape
    (2, 4)
    """
    given = _given(
        network, loss, train, solver, damping, penalty, curvature, key, batch_size, trainable, "group_influence"
    )
    test = _like(pair("test", test), given)
    if not concrete(groups):
        raise TypeError("groups must be known, not traced by jit: their number is the shape of the result.")
    groups = labels("groups", groups, None, "n", {"n": count(given.system.data)})
    return _told(given, _influence(given, test, groups, int(np.max(np.asarray(groups))) + 1))


def self_influence(
    network: NetworkLike,
    loss: LossLike,
    train: PyTree,
    *,
    solver: str | Solver = "dense",
    damping: Scalar = 0.0,
    penalty: Scalar = 0.0,
    curvature: str = "hessian",
    key: PRNGKeyArray | None = None,
    batch_size: int = 256,
    trainable: Any = None,
) -> Influence:
    r"""The predicted change of the loss of each training point when it is itself removed, (n,).

    $\frac1n\nabla\ell(x_i)^\top(H+\lambda I)^{-1}\nabla\ell(x_i)\ge0$. Large where a network has learned a point by
    heart, as it must points with a wrong label.

    >>> self_influence(network, "squared", data, damping=5.0).scores.shape
    (4,)
    """
    given = _given(
        network, loss, train, solver, damping, penalty, curvature, key, batch_size, trainable, "self_influence"
    )
    return _told(given, _self_influence(given))


class _Given(NamedTuple):
    """One question, checked."""

    loss: Any
    system: System
    solver: Solver
    penalty: jax.Array


def _given(network, loss, train, solver, damping, penalty, curvature, key, batch_size, trainable, who) -> _Given:
    loss, solver, train = of_examples(loss, who=who), checked(solver), pair("train", train)
    one_of("curvature", curvature, CURVATURES)
    batch_size = whole("batch_size", batch_size)
    damping = within("damping", real("damping", damping, ""), 0.0)
    penalty = within("penalty", real("penalty", penalty, ""), 0.0)
    make = hessian if curvature == "hessian" else gauss_newton
    require_network(network)
    require_labels(network, loss.function, train)
    operator = make(network, loss, train, batch_size=batch_size, trainable=trainable)
    key = jax.random.key(0) if key is None else key
    shift = (damping + penalty).astype(operator.dtype)
    system = System(operator, shift, train, min(batch_size, count(train)), key)
    return _Given(loss.function, system, solver, penalty.astype(operator.dtype))


def _like(test, given: _Given):
    """`test`, if its examples have the shapes of those of the training data, and labels that there are."""
    train, operator = given.system.data, given.system.operator
    shapes = [[a.shape[1:] for a in jax.tree.leaves(data)] for data in (train, test)]
    if jax.tree.structure(train) != jax.tree.structure(test) or shapes[0] != shapes[1]:
        one, other = (", ".join(map(str, s)) for s in shapes)
        raise ValueError(f"test must hold examples of the shapes that train has, {one} for one of them, got {other}.")
    require_labels(eqx.combine(operator.params, operator.fixed), given.loss, test)
    return test


def _told(given: _Given, found: Influence) -> Influence:
    """`found`, unless it is seen that the premises of a solver do not hold."""
    premises, shift = found.premises, given.system.shift
    if not all(map(concrete, (*premises, shift, found.residual))):
        return found
    least, largest, added = float(premises.least), float(premises.largest), float(shift)
    # an eigenvalue that is zero comes out as a few units in the last place of the largest
    rounding = 10 * float(jnp.finfo(given.system.operator.dtype).eps) * max(abs(largest), abs(least))
    if not least + added > rounding:
        raise ValueError(
            f"the curvature must be positive after damping, got the least eigenvalue {least:.3g} and {added:.3g} added "
            f"to it: give a damping above {max(-least, rounding):.3g}, or train to a minimum."
        )
    worst = float(np.max(np.asarray(found.residual)))
    if given.solver.kind == "lissa" and not worst < DIVERGED / 10:
        raise ValueError(
            f"the series of lissa diverges: a residual grew to {worst:.3g} times its gradient before it was stopped; "
            "give Solver('lissa', scale=...) a larger scale, above the largest eigenvalue of every batch."
        )
    return found


@eqx.filter_jit
def _influence(given: _Given, test, groups, number) -> Influence:
    system, way = given.system, prepared(given.solver, given.system)
    slope, n = _slope(given), count(system.data)

    def of_tests(batch):
        solution = way.solve(_rows(given, batch))
        basis, weights = _fewer(solution)

        def of_train(batch):
            return inner(_along(given, batch, basis), weights) / n

        scores = each(of_train, system.data, system.batch_size)
        scores = scores if groups is None else jax.ops.segment_sum(scores, groups, number)
        return scores.T, solution.residual, -solution.weights @ (solution.basis @ slope)

    scores, residual, drift = each(of_tests, test, system.batch_size)
    return Influence(scores.T, residual, _premises(slope, way, drift))


@eqx.filter_jit
def _self_influence(given: _Given) -> Influence:
    system, way = given.system, prepared(given.solver, given.system)
    slope, n = _slope(given), count(system.data)

    def some(batch):
        rows = _rows(given, batch)
        solution = way.solve(rows)
        scores = jnp.sum(inner(rows, solution.basis) * solution.weights, 1) / n
        return scores, solution.residual, -solution.weights @ (solution.basis @ slope)

    scores, residual, drift = each(some, system.data, system.batch_size)
    return Influence(scores, residual, _premises(slope, way, drift))


def _premises(slope, way: Prepared, drift) -> InfluencePremises:
    return InfluencePremises(jnp.linalg.norm(slope), way.least, way.largest, drift)


def _gradients(given: _Given, batch):
    """The gradients of the losses of single examples, a pytree like the parameters with the examples in front."""
    operator: Curvature = given.system.operator

    def one(x, y):
        return jax.grad(lambda p: given.loss(eqx.combine(p, operator.fixed)(x), y))(operator.params)

    return jax.vmap(one)(*batch)


def _rows(given: _Given, batch):
    """The same in rows."""
    return jax.vmap(lambda gradient: ravel_pytree(gradient)[0])(_gradients(given, batch))


def _along(given: _Given, batch, basis):
    """The inner products of the gradients of single examples with the rows of a basis.

    Of few rows they are derivatives of the losses along them, and the gradients need not be made. Of more they are
    sums over the leaves of the parameters, so that the gradients need not be laid end to end.
    """
    operator: Curvature = given.system.operator
    unravel = ravel_pytree(operator.params)[1]
    if basis.shape[0] > FEW:
        flat = lambda a: a.reshape(a.shape[0], -1)  # noqa: E731
        of_leaves = jax.tree.map(
            lambda g, b: inner(flat(g), flat(b)), _gradients(given, batch), jax.vmap(unravel)(basis)
        )
        return sum(jax.tree.leaves(of_leaves))

    def losses(params):
        return jax.vmap(lambda x, y: given.loss(eqx.combine(params, operator.fixed)(x), y))(*batch)

    with jax.default_matmul_precision("highest"):
        push = jax.linearize(losses, operator.params)[1]
        return jax.lax.map(lambda row: push(unravel(row)), basis).T


def _fewer(solution: Solution):
    """The solutions as combinations of fewer rows: those of the basis, or the solutions themselves."""
    weights, basis = solution.weights, solution.basis
    if weights.shape[0] >= weights.shape[1]:
        return basis, weights
    return inner(weights, basis.T), jnp.eye(weights.shape[0], dtype=weights.dtype)


def _slope(given: _Given):
    """The gradient of the objective."""
    operator = given.system.operator
    return ravel_pytree(operator.gradient())[0] + given.penalty * ravel_pytree(operator.params)[0]
