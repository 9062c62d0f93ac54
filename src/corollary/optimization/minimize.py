"""One loop for all methods: a method is a start and a step, a trajectory is one compiled scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import PRNGKeyArray, PyTree

from corollary._engine.trees import squared_norm
from corollary._show import shown
from corollary._validate import one_of, whole
from corollary.optimization._arguments import start_of
from corollary.optimization.problem import Problem

Keep = Literal["path", "values", "end"]


class Method(NamedTuple):
    """One step of a method that needs more of a problem than an Optax transformation is given.

    `init(problem, theta)` makes the state, `step(problem, state, key)` the next one, `point(state)` is the iterate that
    the theorems speak of. What gets by with gradients, at the point or elsewhere, of this batch or of everything, is
    better written for Optax: then it also trains networks, and becomes a `Method` through `of_optax`.
    """

    init: Callable[[Problem, Any], Any]
    step: Callable[[Problem, Any, jax.Array], Any]
    point: Callable[[Any], Any]


class Pointed(NamedTuple):
    """The state of an Optax transformation whose theorems speak of another point than the parameters that it moves."""

    point: Any
    memory: Any


class Path(NamedTuple):
    """A trajectory, start included: iterates (steps + 1, ...), leaf by leaf, values and gradient norms (steps + 1,).

    With `keep="values"` `theta` is the last iterate alone, with `keep="end"` so are `value` and `gradient_norm`.
    """

    theta: Any
    value: jax.Array
    gradient_norm: jax.Array

    __repr__ = shown


def point(params: PyTree, state: PyTree) -> PyTree:
    """The iterate that the theorems speak of, of an Optax transformation in this state at these parameters.

    That is `params`, or what the state carries for it: the mean in `averaged`, the snapshot in `svrg`. In a chain the
    last transformation that carries one counts.
    """
    found = [s for s in jax.tree.leaves(state, is_leaf=_is_pointed) if _is_pointed(s)]
    return found[-1].point if found else params


def of_optax(transformation: optax.GradientTransformation) -> Method:
    """An Optax transformation, fed with what the problem's oracle shows at the current point.

    As extra arguments it gets the `value` there, `gradient_fn(theta)`, what the oracle shows elsewhere in the same step
    (the same batch, the same noise), and `full_gradient_fn(theta)`, the gradient without noise.
    """
    transformation = optax.with_extra_args_support(transformation)

    def init(problem, theta):
        return theta, transformation.init(theta)

    def step(problem, state, key):
        theta, inner = state
        updates, inner = transformation.update(
            problem.oracle(theta, key=key),
            inner,
            theta,
            value=problem.seen(theta, key=key),
            gradient_fn=lambda theta: problem.oracle(theta, key=key),
            full_gradient_fn=problem.gradient,
        )
        return optax.apply_updates(theta, updates), inner

    return Method(init, step, lambda state: point(*state))


def minimize(
    problem: Problem,
    method: Method | optax.GradientTransformation,
    *,
    steps: int,
    key: PRNGKeyArray | None = None,
    start: PyTree | None = None,
    keep: Keep = "path",
) -> Path:
    """Follow `method` on `problem` for `steps` steps; `vmap` it over keys, starts or problems.

    `method` is a `Method` or an Optax transformation. The key feeds the problem's oracle and the draws of a `Method`;
    without noise it may be left out. Step sizes may be traced: build the method inside the function that is mapped.

    `keep` says what is stored: the whole "path", iterates, values and gradient norms, which is for small problems; the
    "values", gradient norms, and the last iterate; or the "end" alone, with its value and gradient norm.

    >>> path = minimize(Problem(lambda w: jnp.sum(w**2), (), jnp.ones(2)), optax.sgd(0.25), steps=2)
    >>> path.value.tolist()
    [2.0, 0.5, 0.125]
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    steps, keep = whole("steps", steps), one_of("keep", keep, ("path", "values", "end"))
    key = jax.random.key(0) if key is None else key
    return _minimize(problem, method_of(method), steps, key, start_of(problem, start), keep)


def method_of(method: Method | optax.GradientTransformation) -> Method:
    """`method` as a `Method`; one sentence for what is neither that nor an Optax transformation."""
    if isinstance(method, optax.GradientTransformation):
        return of_optax(method)
    if not isinstance(method, Method):
        raise TypeError(f"method must be a Method or an Optax transformation, got {type(method).__name__}.")
    return method


@eqx.filter_jit
def _minimize(problem, method, steps, key, start, keep):
    def look(theta):
        return problem(theta), jnp.sqrt(squared_norm(problem.gradient(theta)))

    def advance(state, k):
        state = method.step(problem, state, jax.random.fold_in(key, k))
        theta = method.point(state)
        return state, theta if keep == "path" else look(theta) if keep == "values" else None

    def joined(first, rest):
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rest)

    last, rest = jax.lax.scan(advance, method.init(problem, start), jnp.arange(steps))
    if keep == "path":
        theta = joined(start, rest)
        return Path(theta, *jax.vmap(look)(theta))
    end = method.point(last)
    return Path(end, *(joined(look(start), rest) if keep == "values" else look(end)))


def _is_pointed(state) -> bool:
    return isinstance(state, Pointed)
