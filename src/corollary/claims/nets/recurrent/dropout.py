"""Dropout in recurrent networks: when the rule for testing is the mean, and what survives."""

import itertools
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Probability, Range, Size, claim, control, equal, estimate
from corollary.nets.recurrent import LSTM, ElmanCell, LinearSystem, LSTMDropout, StateDropout, unroll


@claim(rows=("M13.25",))
def mean_over_masks(key, *, keep: Probability = 0.7):
    r"""For a linear cell with fresh masks the rule for testing is the mean over all masks; otherwise it is not.

    $Z_t=m(X_t,\gamma_t\odot Z_{t-1})$ with independent entries of $\gamma_t$, 1 with probability $p$ and 0 otherwise;
    the rule for testing is $Z_t=m(X_t,pZ_{t-1})$. If $m$ is linear in the state and $\gamma_t$ is drawn in every step,
    this is $\mathbb EZ_t$ exactly. With one $\gamma$ for the whole sequence it is not, since $\mathbb E\gamma^t=p\ne
    p^t$: for $Z_t=w\gamma Z_{t-1}$ the mean is $pw^tZ_0$ where the rule has $p^tw^tZ_0$. For a curved cell it is a
    mean-field approximation, off already with fresh masks. All $2^{NT}$ masks are enumerated.
    """
    units, steps = 2, 4
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=units * steps))).reshape(-1, steps, units)
    ones = masks.sum((1, 2))
    chance = keep**ones * (1 - keep) ** (units * steps - ones)
    once = np.array(list(itertools.product((0.0, 1.0), repeat=units)))
    chance_once = keep ** once.sum(1) * (1 - keep) ** (units - once.sum(1))

    @jax.jit
    def measure(key):
        a_key, b_key, x_key, z_key, cell_key = jax.random.split(key, 5)
        xs, start = jax.random.normal(x_key, (steps, 2)), jax.random.normal(z_key, (units,))
        linear = LinearSystem(jax.random.normal(a_key, (units, units)), jax.random.normal(b_key, (units, 2)))
        curved = ElmanCell(2, units, key=cell_key)
        curved = jax.tree.map(lambda a: 2 * a, curved)
        scalar = LinearSystem(1.3 * jnp.eye(units), jnp.zeros((units, 2)))

        def mean(cell, masks, chance):
            dropped = StateDropout(cell, keep)
            states = jax.vmap(lambda m: unroll(dropped, (xs, m), start))(jnp.asarray(masks))
            return jnp.einsum("m,mtn->tn", chance, states), unroll(dropped, (xs, dropped.expected(steps)), start)

        same = np.repeat(once[:, None], steps, axis=1)
        by_formula = keep * 1.3 ** jnp.arange(1, steps + 1)[:, None] * start
        return (
            mean(linear, masks, chance),
            mean(linear, same, chance_once),
            mean(curved, masks, chance),
            (mean(scalar, same, chance_once)[0], by_formula),
        )

    linear, same, curved, scalar = measure(key)
    yield equal("linear cell, fresh masks: mean of the states", *linear)
    yield equal("one mask, a number at a time: mean of the states", *scalar)
    yield control("one mask for the sequence", equal("mean of the states", *same, rtol=1e-6))
    yield control("a curved cell", equal("mean of the states", *curved, rtol=1e-6))


@claim(rows=("M13.26", "M13.27", "M13.28"))
def what_survives(key, *, keep: Probability = 0.9, steps: Annotated[int, Range(3, 1000)] = 50, runs: Size = 2000):
    r"""Dropout of what is written to memory leaves alone what is already there; dropout of the state does not.

    In an LSTM that keeps everything ($f=1$) and whose gates see the input alone, a value written in the first step is
    kept for good if dropout multiplies the candidate, $Z_t=f_t\odot Z_{t-1}+g_t\odot\gamma_t\odot r_t$, once it has
    been written; if it multiplies the state, it survives $t-1$ further steps with probability $p^{t-1}$. For such
    gates the mean over the masks is the rule for testing, $p$ times the update, exactly. Masks of the product
    $UY_{t-1}$ in the gates (where $U=0$ they do nothing) are drawn for each of the four in every step, or once for all
    steps.
    """
    units, later = 2, min(14, steps - 1)  # after many more steps hardly any run has the value left to count

    @jax.jit
    def measure(key):
        cell_key, mask_key, state_key = jax.random.split(key, 3)
        cell = LSTM(1, units, key=cell_key)
        # keep everything, write where the input is positive: one value in the first step, silence afterwards
        cell = eqx.tree_at(
            lambda c: (c.inputs, c.recurrent, c.bias),
            cell,
            (
                jnp.zeros((4 * units, 1)).at[:units].set(80.0).at[2 * units : 3 * units].set(1.0),
                jnp.zeros((4 * units, units)),
                jnp.zeros(4 * units).at[:units].set(-40.0).at[units : 2 * units].set(60.0),
            ),
        )
        xs = jnp.zeros((steps, 1)).at[0].set(1.0)
        update, state = LSTMDropout(cell, keep, "update"), StateDropout(cell, keep)

        def kept(dropped, key):
            return jax.vmap(lambda k: unroll(dropped, (xs, dropped.masks(steps, key=k))).memory[:, 0])(
                jax.random.split(key, runs)
            )

        def masks(mode):
            dropped = LSTMDropout(cell, keep, mode)
            return jax.vmap(lambda k: dropped.masks(steps, key=k))(jax.random.split(mask_key, 200))

        by_step, once = masks("per_step"), masks("per_sequence")
        return {
            "update": kept(update, mask_key),
            "state": kept(state, state_key),
            "test": unroll(update, (xs, update.expected(steps))).memory[:, 0],
            "frequencies": by_step.mean((1, 2)),
            "varies": (jnp.abs(jnp.diff(once, axis=1)).max(), jnp.abs(jnp.diff(by_step, axis=1)).max()),
        }

    found = measure(key)
    value = float(np.tanh(1.0))
    # later writes are of the size e^-40 each
    written = found["update"][found["update"][:, 0] > 0]
    yield equal("dropped updates: what was written, at the end", written[:, -1], value, rtol=1e-12)
    yield estimate("dropped updates: share of runs with the value", found["update"][:, -1] / value, keep, wrong=1.0)
    survived = (found["state"][:, later] > value / 2).astype(float)
    yield estimate("dropped states: share of runs with the value", survived, keep**later, wrong=keep)
    yield equal("rule for testing: mean of the update", found["test"], keep * value, rtol=1e-12)
    yield estimate("share of ones in the masks of every step", found["frequencies"], keep, wrong=1.0)
    yield equal("one mask a sequence: change between steps; fresh ones", found["varies"], [0.0, 1.0])
    yield control("dropped states", equal("what was written, at the end", found["state"][:, -1], value, rtol=1e-6))
