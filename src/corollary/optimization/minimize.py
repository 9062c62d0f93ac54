"""One loop for all methods: a method is a start and a step, a trajectory is one compiled scan."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary._validate import whole
from corollary.optimization.problem import Problem


class Method(NamedTuple):
    """How to go on from where one is.

    `init(problem, theta)` makes the state, `step(problem, state, key)` the next one, `point(state)` is the iterate that
    the theorems speak of. Methods that only need the gradient where they stand are better written for Optax, and
    become a `Method` through `of_optax`.
    """

    init: Callable[[Problem, Any], Any]
    step: Callable[[Problem, Any, jax.Array], Any]
    point: Callable[[Any], jax.Array]


class Path(NamedTuple):
    """A trajectory, start included: iterates (steps + 1, ...), values and gradient norms (steps + 1,)."""

    theta: jax.Array
    value: jax.Array
    gradient_norm: jax.Array


def of_optax(transformation: optax.GradientTransformation) -> Method:
    """An Optax transformation, fed with what the problem's oracle shows at the current point."""

    def init(problem, theta):
        return theta, transformation.init(theta)

    def step(problem, state, key):
        theta, inner = state
        updates, inner = transformation.update(problem.oracle(theta, key), inner, theta)
        return optax.apply_updates(theta, updates), inner

    return Method(init, step, lambda state: state[0])


@eqx.filter_jit
def _minimize(problem, method, steps, key, start):
    def advance(state, k):
        state = method.step(problem, state, jax.random.fold_in(key, k))
        return state, method.point(state)

    _, rest = jax.lax.scan(advance, method.init(problem, start), jnp.arange(steps))
    theta = jnp.concatenate([start[None], rest])
    values = jax.vmap(problem)(theta)
    slopes = jax.vmap(problem.gradient)(theta)
    return Path(theta, values, jnp.sqrt(jnp.sum(slopes.reshape(steps + 1, -1) ** 2, axis=1)))


def minimize(
    problem: Problem, method: Method | optax.GradientTransformation, *, steps: int, key=None, start=None
) -> Path:
    """Follow `method` on `problem` for `steps` steps; `vmap` it over keys, starts or problems.

    `method` is a `Method` or an Optax transformation. The key feeds the problem's oracle and the method's own draws;
    without noise it may be left out. Step sizes may be traced: build the method inside the function that is mapped.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}.")
    if isinstance(method, optax.GradientTransformation):
        method = of_optax(method)
    if not isinstance(method, Method):
        raise TypeError(f"method must be a Method or an Optax transformation, got {type(method).__name__}.")
    steps = whole("steps", steps)
    key = jax.random.key(0) if key is None else key
    start = problem.start if start is None else jnp.asarray(start, problem.start.dtype)
    if start.shape != problem.start.shape:
        raise ValueError(f"start must have shape {problem.start.shape} like the problem's own, got {start.shape}.")
    return _minimize(problem, method, steps, key, start)
