"""Recurrent networks as plants with observers: what follows from their form alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import drawn
from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate
from corollary.nets.recurrent import (
    Bidirectional,
    DeepTransitionCell,
    ElmanCell,
    Plant,
    Recurrent,
    Stacked,
    future_influence,
    linear_solution,
    rescale_to_radius,
    unroll,
)


@claim(rows=("M13.02", "E05.01"))
def linear_plant(key, *, units: Size = 3, steps: Count = 60):
    r"""A linear plant is an autoregressive process driven by its inputs.

    For $Z_t=AZ_{t-1}+BX_t$ and the observer $Y_t=CZ_t$: $Z_t=A^tZ_0+\sum_{s\le t}A^{t-s}BX_s$, and least squares of
    $Z_t$ on $(Z_{t-1},X_t)$ gives back $(A,B)$ exactly. A plant $Z_t=\tanh(3(AZ_{t-1}+BX_t))$ is no such process. The
    state is all that is carried on: a sequence continued from a stored state is the whole sequence.
    """
    cut = steps // 3

    @jax.jit
    def measure(key):
        def parts(_):
            return (
                jnp.zeros((units, units)),
                jnp.zeros((units, 2)),
                jnp.zeros((2, units)),
                jnp.zeros(units),
                jnp.zeros((steps, 2)),
            )

        a, b, c, start, xs = drawn(parts, key)
        a = rescale_to_radius(a, 0.9)

        def plant(gain, squash):
            model = Recurrent(Plant(lambda z, x: squash(gain * (a @ z + b @ x)), start), lambda z: c @ z)
            states, outputs = model.run(xs)
            before = jnp.concatenate([jnp.concatenate([start[None], states[:-1]]), xs], axis=1)
            # the normal equations, solved: a few dozen rows of unit size, so their condition costs few digits
            found = jnp.linalg.solve(before.T @ before, before.T @ states)
            rest = jnp.sqrt(jnp.mean((before @ found - states) ** 2))
            first = model.run(xs[:cut])
            whole = jnp.concatenate([first.outputs, model(xs[cut:], first.states[-1])])
            return states, outputs, found.T, rest, whole

        return plant(1.0, lambda z: z), plant(3.0, jnp.tanh), a, b, c, linear_solution(a, xs @ b.T, start)

    (states, outputs, found, rest, whole), (_, bent_outputs, _, bent_rest, bent_whole), a, b, c, solution = (
        jax.device_get(measure(key))
    )
    yield equal("states", states.T, solution.T, rtol=1e-10, atol=1e-12, along="time")
    yield equal("outputs", outputs, solution @ c.T, rtol=1e-10, atol=1e-12)
    yield equal("regression gives the matrices", found, np.concatenate([a, b], axis=1), rtol=0, atol=1e-10)
    yield equal("residual of the regression", rest, 0.0, atol=1e-10)
    yield control("a plant with tanh", equal("residual of the regression", bent_rest, 0.0, atol=1e-2))
    yield equal("continued from a stored state", whole, outputs, rtol=1e-14, atol=1e-14)
    yield equal("continued, tanh", bent_whole, bent_outputs, rtol=1e-14, atol=1e-14)


@claim(rows=("M13.01", "M13.22", "E05.01", "E05.03", "E05.08", "E05.09", "E05.10"))
def causality(key, *, units: Size = 4, steps: Count = 10):
    r"""Recurrent networks are causal to the last bit, unless they also run backwards; deep ones contain Elman's.

    With Elman cells, stacked cells or a deep transition, $Y_t$ does not change when inputs after $t$ do. A
    bidirectional network sees the whole sequence: it is not causal, and reversed inputs with its two cells swapped
    give the reversed output. A stack computes the same step by step and layer by layer; a deep transition without
    hidden layers is the Elman cell on $(z,x)$.
    """

    def parts(key):
        cells = ElmanCell(2, units, key=key), ElmanCell(2, units, key=key)
        deep = DeepTransitionCell(2, units, (5,), key=key), DeepTransitionCell(2, units, key=key)
        return *cells, Stacked.elman(2, units, 2, key=key), *deep, jnp.zeros((steps, 2))

    @jax.jit
    def measure(key):
        noise_key, key = jax.random.split(key)
        cell, back, stack, deep, joined, xs = drawn(parts, key)
        both = Bidirectional(cell, back)
        models = {
            "Elman": lambda xs: unroll(cell, xs),
            "stacked": lambda xs: stack.layers(xs)[-1],
            "deep transition": lambda xs: unroll(deep, xs),
            "bidirectional": both,
        }
        joined = eqx.tree_at(
            lambda d: (d.network.layers[0].weight, d.network.layers[0].bias),
            joined,
            (jnp.concatenate([cell.recurrent, cell.inputs], axis=1), cell.bias),
        )
        mirrored = Bidirectional(back, cell)(xs[::-1])[::-1]
        return (
            {name: future_influence(model, xs, key=noise_key) for name, model in models.items()},
            (both(xs), jnp.roll(mirrored, units, axis=1), both(xs[::-1])[::-1]),
            (jnp.stack(unroll(stack, xs)), jnp.stack(stack.layers(xs))),
            (unroll(joined, xs), unroll(cell, xs)),
        )

    future, (both, mirrored, kept), (by_steps, by_layers), (joined, elman) = jax.device_get(measure(key))
    causal = np.stack([future[name] for name in ("Elman", "stacked", "deep transition")])
    yield equal("change by later inputs: Elman, stacked, deep transition", causal, 0.0, rtol=0, atol=0)
    yield control("running backwards too", equal("change by later inputs", future["bidirectional"], 0.0, atol=1e-3))
    # the same operations, which a compiler may round differently forwards and backwards
    yield equal("inputs reversed, cells swapped", mirrored, both, rtol=1e-13, atol=1e-14)
    yield control("inputs reversed only", equal("output", kept, both, atol=1e-3))
    yield equal("stack by steps and by layers", by_steps, by_layers, rtol=1e-13, atol=1e-14)
    yield equal("deep transition without hidden layers", joined, elman, rtol=1e-13, atol=1e-14)


@claim(rows=("E05.08", "M13.22"))
def looking_ahead(key, *, units: Size = 16, training: Size = 400, tests: Size = 500):
    r"""A label that is a later input is guessed by causal networks and known to bidirectional ones.

    Inputs are independent signs, the label at $t$ is $x_{t+3}$. It is independent of the inputs until $t$, so that
    every causal network is right with probability $\frac12$, trained or not. Of a bidirectional network of the same
    size already a linear readout, fitted by least squares to the states of random cells, gives it.
    """
    length, at, ahead = 9, 3, 3

    def parts(key):
        return Bidirectional(ElmanCell(1, units, key=key), ElmanCell(1, units, key=key))

    @jax.jit
    def measure(key):
        cell_key, data_key = jax.random.split(key)
        cells = drawn(parts, cell_key)
        xs = jax.random.rademacher(data_key, (training + tests, length), dtype=float)[..., None]
        # small inputs keep the units where they are nearly linear
        states, labels = jax.vmap(cells)(0.2 * xs)[:, at], xs[:, at + ahead, 0]
        # one position of every sequence: the labels are independent of each other

        def right(sees_future):
            shown = states * jnp.repeat(jnp.array([1.0, sees_future]), units)
            shown = jnp.concatenate([shown, jnp.ones((len(shown), 1))], axis=1)
            known, asked = shown[:training], shown[training:]
            # a ridge at the rounding: some of the units are off
            gram = known.T @ known + 1e-10 * jnp.eye(2 * units + 1)
            weights = jnp.linalg.solve(gram, known.T @ labels[:training])
            return jnp.sign(asked @ weights) == labels[training:]

        return right(0.0), right(1.0)

    causal, both = (right.astype(float) for right in measure(key))
    yield estimate("causal: right answers", causal, 0.5, wrong=0.99)
    yield at_least("bidirectional: right answers", both.mean(), 0.99)
    yield control("causal", at_least("right answers", causal.mean(), 0.99))
