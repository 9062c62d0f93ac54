r"""Parallel distributed processing: a network as the seven choices that make it one.

(1) units with states of activation, (2) a function that turns a state into an output, (3) a pattern of connectivity,
(4) a rule that propagates outputs along it, (5) a function that turns what arrives into a new state, (6) a rule that
changes the connections with experience, (7) an environment that says what is good. Fill them in and call it: the
perceptron, the Hopfield network and the multilayer network below differ in nothing else.

The units stand in a row: first those that the environment can set, then one that is always on (its connections are the
biases), then the rest. Which units take their new state at a step is the schedule: one row of truth values per step.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._types import Scalar
from corollary._validate import positive, real, whole
from corollary.catalog import implements
from corollary.linear.threshold import sgn, sgn_plus


@implements("E01.22")
class ConnectionistModel(eqx.Module):
    r"""A network in the words of parallel distributed processing.

    `units` are as many states, the first `inputs` of them set by `present`. `weights[i, j]` leads from unit $j$ to unit
    $i$ and is zero outside the pattern of `connections`. With states $a$: outputs $o=$ `output(a)`, what arrives
    $z=$ `propagate(weights, o)`, new states `activate(a, z)`. `environment(a, target)` is a loss.
    `rule(loss, weights, a, target)` is the change of the weights after an example; `loss` maps weights to its loss.
    """

    weights: jax.Array
    connections: jax.Array
    units: int = eqx.field(static=True)
    inputs: int = eqx.field(static=True)
    output: Callable = eqx.field(static=True)
    propagate: Callable = eqx.field(static=True)
    activate: Callable = eqx.field(static=True)
    rule: Callable = eqx.field(static=True)
    environment: Callable = eqx.field(static=True)

    def __init__(
        self,
        weights: Float[ArrayLike, "n n"],
        connections: Bool[ArrayLike, "_ _"],
        *,
        inputs: int,
        output: Callable,
        propagate: Callable,
        activate: Callable,
        rule: Callable,
        environment: Callable,
    ):
        weights, connections = real("weights", weights, "n n", dims := {}), jnp.asarray(connections)
        if connections.shape != weights.shape or connections.dtype != bool:
            raise TypeError(f"connections must be truth values of shape {weights.shape} like weights.")
        given = {"output": output, "propagate": propagate, "activate": activate, "rule": rule}
        for name, function in (given | {"environment": environment}).items():
            if not callable(function):
                raise TypeError(f"{name} must be a function, got {type(function).__name__}.")
        self.units, self.inputs = dims["n"], whole("inputs", inputs, 1, dims["n"] - 1)
        self.weights, self.connections = jnp.where(connections, weights, 0), connections
        self.output, self.propagate, self.activate = output, propagate, activate
        self.rule, self.environment = rule, environment

    def present(self, x: Float[ArrayLike, "inputs"]) -> Float[Array, "_"]:
        """The states in which the environment puts the network: `x` in the input units, the unit that is always on."""
        x = real("x", x, str(self.inputs))
        rest = jnp.zeros(self.units - self.inputs, x.dtype).at[0].set(1)
        return jnp.concatenate([x, rest])

    def step(self, state: Float[ArrayLike, "units"], which: bool = True) -> Float[Array, "..."]:
        """The next states: every unit marked in `which` takes its new one, the others keep theirs."""
        state = real("state", state, str(self.units))
        new = self.activate(state, self.propagate(self.weights, self.output(state)))
        return jnp.where(which, new, state)

    def settle(self, state: Float[ArrayLike, "..."], schedule: Bool[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The states after as many steps as `schedule` (steps, units) has rows."""
        schedule = self._checked(schedule)
        return jax.lax.scan(lambda a, which: (self.step(a, which), None), state, schedule)[0]

    def learn(
        self, x: Float[ArrayLike, "m inputs"], targets: Float[ArrayLike, "..."], schedule: Bool[ArrayLike, "..."]
    ) -> "ConnectionistModel":
        """The network after one pass through the examples `x` (examples, inputs), learning from each in turn."""
        x = real("x", x, f"m {self.inputs}")
        targets, schedule = real("targets", targets), self._checked(schedule)
        if targets.shape[:1] != x.shape[:1]:
            raise ValueError(f"targets must have one entry for each of the {x.shape[0]} examples, got {targets.shape}.")

        def experience(weights, example):
            pattern, target = example

            def loss(weights):
                model = eqx.tree_at(lambda m: m.weights, self, weights)
                return self.environment(model.settle(model.present(pattern), schedule), target)

            model = eqx.tree_at(lambda m: m.weights, self, weights)
            state = model.settle(model.present(pattern), schedule)
            change = self.rule(loss, weights, state, target)
            return weights + jnp.where(self.connections, change, 0), None

        weights, _ = jax.lax.scan(experience, self.weights, (x, targets))
        return eqx.tree_at(lambda m: m.weights, self, weights)

    def _checked(self, schedule):
        schedule = jnp.asarray(schedule)
        if schedule.ndim != 2 or schedule.shape[1] != self.units or schedule.dtype != bool:
            raise TypeError(f"schedule must be truth values of shape (steps, {self.units}), got {schedule.shape}.")
        return schedule


def layer_schedule(*sizes: int) -> Bool[Array, "_ _"]:
    """One layer after the other, for input units, the unit that is always on, then layers of these `sizes` after it."""
    sizes = [whole("sizes", size) for size in sizes]
    if len(sizes) < 2:
        raise ValueError(f"sizes must give the inputs and at least one layer, got {len(sizes)} number(s).")
    layer = jnp.repeat(
        jnp.arange(len(sizes)), jnp.array([sizes[0] + 1, *sizes[1:]]), total_repeat_length=sum(sizes) + 1
    )
    return layer == jnp.arange(1, len(sizes))[:, None]


@implements("E01.22")
def connectionist_perceptron(features: int) -> ConnectionistModel:
    r"""The perceptron: one unit $\operatorname{sgn}$ above the inputs; a mistake on $(x,y)$ adds $y(x,1)$ to it."""
    features = whole("features", features)
    last = features + 1

    def rule(loss, weights, state, target):
        return jnp.zeros_like(weights).at[last].set(jnp.where(state[last] != target, target * state, 0))

    return ConnectionistModel(
        jnp.zeros((last + 1, last + 1)),
        jnp.zeros((last + 1, last + 1), bool).at[last, :last].set(True),
        inputs=features,
        output=lambda state: state,
        propagate=jnp.matmul,
        activate=lambda state, arriving: sgn(arriving),
        rule=rule,
        environment=lambda state, target: (state[last] != target).astype(state.dtype),
    )


@implements("E01.22")
def connectionist_hopfield(n: int) -> ConnectionistModel:
    r"""The Hopfield network: $n$ units $\pm1$, each joined to all others; a pattern $\xi$ adds $\xi\xi^\top/n$ (Hebb).

    The weight from the unit that is always on is minus the threshold. The environment charges for every wrong unit.
    """
    n = whole("n", n, 2)
    others = ~jnp.eye(n + 1, dtype=bool)

    def rule(loss, weights, state, target):
        return jnp.zeros_like(weights).at[:n, :n].set(jnp.outer(target, target) / n)

    return ConnectionistModel(
        jnp.zeros((n + 1, n + 1)),
        others.at[n].set(False),
        inputs=n,
        output=lambda state: state,
        propagate=jnp.matmul,
        activate=lambda state, arriving: sgn_plus(arriving),
        rule=rule,
        environment=lambda state, target: jnp.mean((state[:n] != target).astype(state.dtype)),
    )


@implements("E01.22")
def connectionist_mlp(
    w1: Float[ArrayLike, "h d"],
    b1: Float[ArrayLike, "h"],
    w2: Float[ArrayLike, "k h"],
    b2: Float[ArrayLike, "k"],
    *,
    step: Scalar,
    activation: Callable = jnp.tanh,
) -> ConnectionistModel:
    r"""One hidden layer, $W_2\,\varphi(W_1x+b_1)+b_2$, that learns by gradient descent on $\frac12\|\cdot-y\|^2$."""
    dims = {}
    w1, b1 = real("w1", w1, "h d", dims), real("b1", b1, "h", dims)
    w2, b2 = real("w2", w2, "k h", dims), real("b2", b2, "k", dims)
    step = positive("step", real("step", step, ""))
    d, h, k = dims["d"], dims["h"], dims["k"]
    units = d + 1 + h + k
    hidden, last = slice(d + 1, d + 1 + h), slice(d + 1 + h, units)

    def blocks(first, first_bias, second, second_bias, dtype):
        full = jnp.zeros((units, units), dtype)
        full = full.at[hidden, :d].set(first).at[hidden, d].set(first_bias)
        return full.at[last, hidden].set(second).at[last, d].set(second_bias)

    def activate(state, arriving):
        return arriving.at[hidden].set(activation(arriving[hidden]))

    return ConnectionistModel(
        blocks(w1, b1, w2, b2, w1.dtype),
        blocks(True, True, True, True, bool),
        inputs=d,
        output=lambda state: state,
        propagate=jnp.matmul,
        activate=activate,
        rule=lambda loss, weights, state, target: -step * jax.grad(loss)(weights),
        environment=lambda state, target: jnp.sum((state[last] - target) ** 2) / 2,
    )
