"""Gates: what a gated state holds of its past, and the cells that are made of them."""

import equinox as eqx
import jax
import jax.numpy as jnp

from corollary.evidence import Count, Size, at_most, claim, control, equal, printed
from corollary.nets.recurrent import GRU, LSTM, GatedPlant, gated_solution, half_life, retained, unroll


def _plant(key, inputs, units, bias=0.0):
    plant_key, update_key = jax.random.split(key)
    matrix = jax.random.normal(update_key, (units, inputs))
    plant = GatedPlant(inputs, units, lambda x: jnp.tanh(matrix @ x), key=plant_key)
    return eqx.tree_at(lambda p: p.bias, plant, jnp.full(units, bias))


@claim(rows=("M13.17", "E05.11"))
def gated_sum(key, *, inputs: Size = 3, units: Size = 4, steps: Count = 60):
    r"""A gated state is a sum over the past, each term with the product of the gates that came after it.

    $Z_t=\gamma_t\odot Z_{t-1}+f_t$ with gates $\gamma_t=S(WX_t+B)\in(0,1)$ and updates $f_t=\tilde f(X_t)$ has the
    solution $$Z_T=\prod_{t=1}^T\gamma_t\odot Z_0+\sum_{t=1}^T\Big(\prod_{s=t+1}^T\gamma_s\Big)\odot f_t,$$ so that
    $|Z_T|\le|Z_0|+\sum_t|f_t|$ entrywise. For $B\to\infty$ the state adds up, $Z_t=Z_{t-1}+f_t$, for $B\to-\infty$ it
    only knows the last input, $Z_t=f_t$; at $B=\pm30$ the gates differ from 1 and 0 by $e^{-30}\approx10^{-13}$. With
    $f=0$ and a constant gate $g$ the share $g^T$ of the state is left after $T$ steps, half of it after
    $\ln2/(-\ln g)$.
    """

    @jax.jit
    def measure(key):
        x_key, start_key, plant_key = jax.random.split(key, 3)
        xs = jax.random.normal(x_key, (steps, inputs))
        start = jax.random.normal(start_key, (units,))
        plant = _plant(plant_key, inputs, units)
        gates, updates = plant.coefficients(xs)
        states = unroll(plant, xs, start)
        # weights of ordinary size times small inputs do not move a gate with the bias 30
        opened, closed = (unroll(_plant(plant_key, inputs, units, b), xs / 10, start) for b in (30.0, -30.0))
        small = plant.coefficients(xs / 10)[1]
        before = jnp.concatenate([start[None], opened[:-1]])
        # a plant without updates whose gate is open to the degree g, whatever the input
        g = jnp.array([0.5, 0.9, 0.99])
        silent = GatedPlant(1, 3, lambda x: jnp.zeros(3), key=key)
        silent = eqx.tree_at(lambda p: (p.weight, p.bias), silent, (jnp.zeros((3, 1)), jnp.log(g / (1 - g))))
        left = unroll(silent, jnp.zeros((70, 1)), jnp.ones(3))
        # a state that is bent before it is kept
        bent = jax.lax.scan(lambda z, pair: (pair[0] * jnp.tanh(z) + pair[1], None), start, (gates, updates))[0]
        return {
            "states": states,
            "solution": gated_solution(gates, updates, start),
            "bent": bent,
            "bound": jnp.abs(start) + jnp.cumsum(jnp.abs(updates), axis=0),
            "opened": (opened, before + small),
            "closed": (closed, small),
            "left": left.T,
            "predicted": retained(g[:, None], jnp.arange(1, 71)),
            "halves": retained(g, half_life(g)),
        }

    found = measure(key)
    yield equal("last state by the products", found["states"][-1], found["solution"])
    yield at_most("size of the state", jnp.abs(found["states"]).T, found["bound"].T, along="step")
    # each step is off by at most the e^-30 e^1 of the gates times the state, which is below 60
    yield equal("gates open: the state adds up", *found["opened"], atol=1e-10)
    yield equal("gates closed: only the last input", *found["closed"], atol=1e-10)
    yield equal("share left by constant gates 0.5, 0.9, 0.99", found["left"], found["predicted"], along="step")
    yield equal("share left after the half-life", found["halves"], 0.5)
    yield control(
        "the state is kept linearly: here through tanh",
        equal("last state by the products", found["bent"], found["solution"]),
    )


@claim(rows=("M13.17",), erratum="The inner product must begin one step later, at t'+1.")
def gated_sum_as_printed(key, *, inputs: Size = 3, units: Size = 4, steps: Count = 10):
    r"""The solution of the gated state, with products that begin at the step that adds the term.

    As printed in section 13.7: $Z_t=\prod_{t'=1}^tS(WX_{t'}+B)\odot Z_0+\sum_{t'=1}^t\big(\prod_{t''=t'}^tS(WX_{t''}
    +B)\big)\odot\tilde f(X_{t'})$. Already for $t=1$ this is $\gamma_1\odot(Z_0+f_1)$ instead of
    $\gamma_1\odot Z_0+f_1$. With products that begin at $t''=t'+1$ it is right.
    """

    @jax.jit
    def measure(key):
        x_key, start_key, plant_key = jax.random.split(key, 3)
        xs = jax.random.normal(x_key, (steps, inputs))
        start = jax.random.normal(start_key, (units,))
        plant = _plant(plant_key, inputs, units)
        gates, updates = plant.coefficients(xs)
        after = jnp.stack([jnp.prod(gates[t + 1 :], axis=0) for t in range(steps)])
        kept = jnp.prod(gates, axis=0) * start
        by_products = [kept + jnp.sum(factors * updates, axis=0) for factors in (after, gates * after)]
        return unroll(plant, xs, start)[-1], *by_products

    last, meant, literal = measure(key)
    yield equal("last state by the products, corrected", last, meant)
    yield printed(equal("last state by the products, as printed", last, literal))


@claim(rows=("E05.12", "E05.13", "M13.18", "M13.20"))
def library_cells(key, *, inputs: Size = 3, units: Size = 4, steps: Count = 30):
    r"""The LSTM and the GRU of the texts are those of Equinox, up to where the GRU resets.

    The LSTM (13.12), and that of E with $U=I$, is Equinox's cell with the same matrices. The GRU of both texts resets
    the state before it is multiplied, $\tanh(Vx+U(r\odot z))$, Equinox's and PyTorch's afterwards,
    $\tanh(Vx+r\odot Uz)$: the same if $U$ is diagonal, and only then for all states. The state of a GRU is a convex
    combination of the old one and a candidate in $(-1,1)$: $|z_t|\le\max(|z_{t-1}|,1)$ entrywise, so that it never
    leaves $[-1,1]$. With $u=1$ it copies, with $u=0$ it is the candidate.
    """

    @jax.jit
    def measure(key):
        x_key, cell_key, peer_key = jax.random.split(key, 3)
        xs = 3 * jax.random.normal(x_key, (steps, inputs))

        def alongside(peer, state):
            def body(state, x):
                state = peer(x, state)
                return state, state

            return jax.lax.scan(body, state, xs)[1]

        zero = jnp.zeros(units)
        lstm = eqx.nn.LSTMCell(inputs, units, key=peer_key)
        ours = LSTM(inputs, units, key=cell_key, mixing=True)
        ours = eqx.tree_at(
            lambda c: (c.inputs, c.recurrent, c.bias, c.mixing),
            ours,
            (lstm.weight_ih, lstm.weight_hh, lstm.bias, jnp.eye(units)),
        )
        hidden, memory = alongside(lstm, (zero, zero))

        gru = eqx.nn.GRUCell(inputs, units, key=peer_key)
        diagonal = eqx.tree_at(
            lambda c: (c.weight_hh, c.bias_n),
            gru,
            (gru.weight_hh.at[2 * units :].multiply(jnp.eye(units)), zero),
        )

        def same(cell, peer):
            parts = (peer.weight_ih, peer.weight_hh[: 2 * units], peer.weight_hh[2 * units :], peer.bias)
            return eqx.tree_at(lambda c: (c.inputs, c.gate_recurrent, c.recurrent, c.bias), cell, parts)

        before, after = (GRU(inputs, units, key=cell_key, reset=reset) for reset in ("before", "after"))
        after = eqx.tree_at(lambda c: c.recurrent_bias, same(after, gru), gru.bias_n)
        states = unroll(same(before, gru), xs)
        # a start outside the box, weights large enough to come close to its border
        large = jax.tree.map(lambda a: 10 * a if eqx.is_inexact_array(a) else a, same(before, gru))
        start = 3 * jax.random.normal(cell_key, (units,))
        path = jnp.concatenate([start[None], unroll(large, xs, start)])

        def fixed(bias):
            cell = eqx.tree_at(lambda c: c.bias, same(before, gru), gru.bias.at[units : 2 * units].set(bias))
            states = unroll(cell, xs, start)
            earlier = jnp.concatenate([start[None], states[:-1]])
            return states, jax.vmap(cell.gates)(cell.drive(xs), earlier).candidate

        return {
            "lstm": (unroll(ours, xs), (hidden, memory)),
            "after": (unroll(after, xs), alongside(gru, zero)),
            "diagonal": (unroll(same(before, diagonal), xs), alongside(diagonal, zero)),
            "before": (states, alongside(gru, zero)),
            "path": path,
            "copied": (fixed(60.0)[0], jnp.broadcast_to(start, (steps, units))),
            "replaced": fixed(-60.0),
            "inside": unroll(large, xs),
        }

    found = measure(key)
    (hidden, memory), (peer_hidden, peer_memory) = found["lstm"]
    yield equal("LSTM: hidden state", hidden, peer_hidden, rtol=1e-11)
    yield equal("LSTM: memory", memory, peer_memory, rtol=1e-11)
    yield equal("GRU that resets afterwards", *found["after"], rtol=1e-11)
    yield equal("GRU of the texts, diagonal matrix", *found["diagonal"], rtol=1e-11)
    path = found["path"]
    yield at_most(
        "GRU: size of the next state", jnp.abs(path[1:]).T, jnp.maximum(jnp.abs(path[:-1]), 1).T, along="step"
    )
    yield at_most("GRU from zero: size of the state", jnp.abs(found["inside"]).T, 1.0, along="step")
    # the gate differs from 1 by less than e^-50 in each step
    yield equal("GRU, gate open: the state stays", *found["copied"])
    yield equal("GRU, gate closed: the state is the candidate", *found["replaced"])
    yield control("GRU of the texts, full matrix", equal("state", *found["before"], rtol=1e-6))


@claim(rows=("E05.13",), erratum="The new part of the state must be the candidate, not the reset gate.")
def gru_as_printed(key, *, inputs: Size = 3, units: Size = 4, steps: Count = 30):
    r"""The GRU whose state is mixed with its reset gate.

    As printed: $z_t=\sigma\odot z_{t-1}+(1-\sigma)\odot\zeta_t$ with the reset gate
    $\zeta_t=\sigma(H[z_{t-1},x_t])$. The candidate $\tilde z_t$ that the next line computes is then never used, and a
    state that begins at zero is never negative. Compared with Equinox's GRU, with a diagonal recurrent matrix in the
    candidate; with $\tilde z_t$ in the place of $\zeta_t$ both agree.
    """

    @jax.jit
    def measure(key):
        x_key, peer_key = jax.random.split(key)
        xs = jax.random.normal(x_key, (steps, inputs))
        peer = eqx.nn.GRUCell(inputs, units, use_bias=False, key=peer_key)
        peer = eqx.tree_at(lambda c: c.weight_hh, peer, peer.weight_hh.at[2 * units :].multiply(jnp.eye(units)))

        def gates(x, z):
            return jnp.split(jax.nn.sigmoid((peer.weight_ih @ x + peer.weight_hh @ z)[: 2 * units]), 2)

        def body(states, x):
            literal, meant, true = states
            reset, keep = gates(x, literal)
            literal = keep * literal + (1 - keep) * reset
            reset, keep = gates(x, meant)
            candidate = jnp.tanh(peer.weight_ih[2 * units :] @ x + peer.weight_hh[2 * units :] @ (reset * meant))
            states = literal, keep * meant + (1 - keep) * candidate, peer(x, true)
            return states, states

        return jax.lax.scan(body, (jnp.zeros(units),) * 3, xs)[1]

    literal, meant, true = measure(key)
    yield equal("state with the candidate, corrected", meant, true, rtol=1e-10)
    yield printed(equal("state with the reset gate, as printed", literal, true, rtol=1e-6))
