"""The memory of an LSTM: a weighted sum over the past, and a path that gradients survive."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets.attention._pictures import matrices
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal
from corollary.nets.recurrent import LSTM, ElmanCell, LSTMState, lstm_memory_weights, unroll
from corollary.nets.recurrent.lstm import realised_preactivations, split_gates


def _gates(cell, xs, state):
    return split_gates(realised_preactivations(cell, xs, state))


@claim(rows=("M13.21",))
def memory_as_weighted_sum(key, *, inputs: Size = 3, units: Size = 4, steps: Count = 30):
    r"""The memory of an LSTM is a weighted sum of its candidates, with weights like those of attention.

    With $M_{k,t}=g_k\odot\prod_{\ell=k+1}^tf_\ell$, where $f$ are the gates that keep, $g$ those that write and $r$ the
    candidates of (13.12), $$Z_t=\Big(\prod_{\ell=1}^tf_\ell\Big)\odot Z_0+\sum_{k=1}^tM_{k,t}\odot r_k.$$ This is exact
    for any gates, also for those that depend on the hidden state. All $M_{k,t}\ge0$ and $\sum_kM_{k,t}\le t$; for
    coupled gates, $g=1-f$, $\sum_kM_{k,t}=1-\prod_{\ell\le t}f_\ell$. (The text starts at $k=0$, with $g_0\odot r_0$ in
    the place of $Z_0$.)
    """

    @jax.jit
    def measure(key):
        cell_key, x_key, hidden_key, memory_key = jax.random.split(key, 4)
        cell = LSTM(inputs, units, key=cell_key)
        cell = jax.tree.map(lambda a: 2 * a, cell)  # gates that move
        xs = jax.random.normal(x_key, (steps, inputs))
        start = LSTMState(*(jax.random.normal(k, (units,)) for k in (hidden_key, memory_key)))
        states, weights, gates = unroll(cell, xs, start), lstm_memory_weights(cell, xs, start), _gates(cell, xs, start)
        rebuilt = weights.start * start.memory + jnp.einsum("tkn,kn->tn", weights.candidates, gates.candidate)
        # the candidates of one run with the weights of another
        other = lstm_memory_weights(cell, xs[::-1], start)
        mixed = other.start * start.memory + jnp.einsum("tkn,kn->tn", other.candidates, gates.candidate)
        # coupled: the pre-activation of the writing gate is minus that of the keeping one
        blocks = lambda a: a.at[:units].set(-a[units : 2 * units])  # noqa: E731
        coupled = eqx.tree_at(
            lambda c: (c.inputs, c.recurrent, c.bias),
            cell,
            tuple(map(blocks, (cell.inputs, cell.recurrent, cell.bias))),
        )
        both, keep = lstm_memory_weights(coupled, xs, start), _gates(coupled, xs, start).keep
        # gates that are wide open come close to the bound t
        open = eqx.tree_at(lambda c: c.bias, cell, cell.bias.at[: 2 * units].set(12.0))
        most = lstm_memory_weights(open, xs, start).candidates.sum(1)
        return {
            "memory": (rebuilt, states.memory),
            "mixed": (mixed, states.memory),
            "least": weights.candidates,
            "sums": jnp.concatenate([weights.candidates.sum(1), most], axis=1).T,
            "coupled": (both.candidates.sum(1), 1 - jnp.cumprod(keep, axis=0)),
            "kept": weights.candidates[..., 0],
        }

    found = measure(key)
    yield equal("memory rebuilt from the weights", *found["memory"])
    yield at_least("weights", found["least"].ravel(), 0.0)
    yield at_most("sum of the weights of a step", found["sums"], np.arange(1, steps + 1), along="step")
    yield equal("coupled gates: sum of the weights", *found["coupled"])
    yield control(
        "the weights are those of the run: here of the inputs in reverse",
        equal("memory rebuilt from the weights", *found["mixed"]),
    )
    yield matrices(
        "weight of the candidate of step k in the memory of step t, first unit",
        {"LSTM": found["kept"]},
        across="k",
        down="t",
        size=220,
    )


@claim(rows=("E05.12", "M13.19", "M13.20"))
def memory_path(key, *, inputs: Size = 2, units: Size = 3, steps: Count = 40, long: Count = 1000):
    r"""Along the memory the gradient of an LSTM is the product of the gates that keep, and nothing else.

    If the gates do not see the hidden state, the Jacobian $\partial Z_T/\partial Z_0$ is diagonal,
    $\mathrm{diag}\prod_{t\le T}f_t$, and the LSTM is a linear recurrence that a parallel scan computes. With gates that
    do ($U\ne0$), the same holds for gates held at their values, and not for the full Jacobian. Where the gates that
    keep are at least $S(b-c)$ nothing vanishes faster than $S(b-c)^T$: with the bias 5 an Elman network of the same
    size, with weights of norm $\frac12$, is left far behind. With $f\approx1$ and $g\approx0$ the memory stays.
    Always $|Y_t|<1$ and $|Z_t|\le|Z_0|+t$.
    """

    @jax.jit
    def measure(key):
        cell_key, x_key, hidden_key, memory_key = jax.random.split(key, 4)
        xs = jax.random.normal(x_key, (steps, inputs))
        start = LSTMState(*(jax.random.normal(k, (units,)) for k in (hidden_key, memory_key)))

        def jacobian(cell, start):
            return jax.jacrev(lambda z: unroll(cell, xs, LSTMState(start.hidden, z)).memory[-1])(start.memory)

        alone = LSTM(inputs, units, key=cell_key, recurrent=False, keep_bias=5.0)
        full = LSTM(inputs, units, key=cell_key, keep_bias=5.0)
        kept, kept_full = (jnp.diag(jnp.prod(_gates(c, xs, start).keep, axis=0)) for c in (alone, full))
        gates = _gates(full, xs, start)

        def held(z):
            step = lambda z, g: (g.keep * z + g.write * g.candidate, None)  # noqa: E731
            return jax.lax.scan(step, z, gates)[0]

        elman = ElmanCell(inputs, units, key=cell_key)
        elman = eqx.tree_at(lambda c: c.recurrent, elman, elman.recurrent / 2)
        of_elman = jax.jacrev(lambda z: unroll(elman, xs, z)[-1])(jnp.zeros(units))
        one, other = unroll(alone, xs, start), alone.parallel(xs, start)
        # the scan for gates that see the hidden state, as if that were zero
        blind = eqx.tree_at(lambda c: (c.recurrent, c.bias), full, (None, full.bias)).parallel(xs, start)
        shut = eqx.tree_at(lambda c: c.bias, full, full.bias.at[:units].set(-30.0).at[units : 2 * units].set(30.0))
        still = unroll(shut, jnp.tile(xs, (long // steps + 1, 1))[:long] / 10, start).memory
        states = unroll(full, xs, start)
        # preactivations of the gates that keep are at least the bias minus the largest that inputs and state can do
        away = jnp.abs(full.drive(xs)[:, units : 2 * units] - 5.0).max() + jnp.abs(full.recurrent).sum(1).max()
        return {
            "alone": (jacobian(alone, start), kept),
            "full": (jacobian(full, start), kept_full),
            "held": (jax.jacrev(held)(start.memory), kept_full),
            "scan": ((one.hidden, one.memory), (other.hidden, other.memory)),
            "blind": (blind.memory, states.memory),
            "least": (jnp.diag(kept_full), jax.nn.sigmoid(5.0 - away) ** steps),
            "elman": (jnp.linalg.norm(of_elman, 2), 0.5**steps),
            "still": (still, jnp.broadcast_to(start.memory, still.shape)),
            "hidden": states.hidden,
            "memory": (jnp.abs(states.memory), jnp.abs(start.memory)),
        }

    found = measure(key)
    yield equal("gates that see the input: Jacobian of the memory", *found["alone"])
    yield equal("gates held at their values: Jacobian of the memory", *found["held"])
    (hidden, memory), (other_hidden, other_memory) = found["scan"]
    yield equal("parallel scan: hidden state", hidden, other_hidden)
    yield equal("parallel scan: memory", memory, other_memory)
    yield at_least("bias 5: what is kept of the memory", *found["least"])
    yield at_most("Elman: norm of the Jacobian", *found["elman"])
    yield at_least("what the LSTM keeps, over what Elman keeps", found["least"][0] / found["elman"][0], 1e6)
    # 1000 steps of relative size e^-30 e^1, with a memory of the order of one
    yield equal("gates shut: the memory after many steps", *found["still"], atol=1e-8)
    yield at_most("size of the hidden state", jnp.abs(found["hidden"]).T, 1.0, along="step")
    size, first = found["memory"]
    yield at_most("size of the memory", size.T, (first + np.arange(1, steps + 1)[:, None]).T, along="step")
    yield control("gates that see the hidden state", equal("Jacobian of the memory", *found["full"], rtol=1e-6))
    yield control("gates that see the hidden state", equal("parallel scan without it", *found["blind"], rtol=1e-6))


@claim(rows=("E05.14", "M13.20"))
def training_signal(key, *, lag: Count = 100, units: Size = 8):
    r"""What there is to learn from before training: the slope of a state in an input far back.

    To learn that the answer depends on the first of $T$ inputs, gradient descent needs $\partial z_T/\partial x_1$ not
    to vanish. In an Elman network with $|\phi'|\le1$ and $\sigma_1(U)=s$ it is at most $s^{T-1}\|V\|$. Along the memory
    of an LSTM whose gates that keep begin at $S(b)$ it falls like $S(b)^T$: by half in every step for $b=0$, which is
    why such an LSTM does not learn long lags either, and by $1-1/(T+1)$ for the bias $b=\ln T$, of which after $T$
    steps more than $1/e$ is left.
    """
    b = float(np.log(lag))

    @jax.jit
    def measure(key):
        cell_key, x_key = jax.random.split(key)
        first = jnp.zeros((lag, 1)).at[0].set(1.0)
        noise = 0.1 * jax.random.normal(x_key, (lag, 1)) + first

        def slopes(cell, xs):
            states = jax.jvp(lambda x: unroll(cell, x), (xs,), (first,))[1]
            return jnp.linalg.norm(getattr(states, "memory", states), axis=-1)

        def lstm(bias, recurrent):
            return LSTM(1, units, key=cell_key, keep_bias=bias, recurrent=recurrent)

        elman = ElmanCell(1, units, key=cell_key)
        elman = eqx.tree_at(lambda c: c.recurrent, elman, elman.recurrent / 2)
        # silence after the first input: the gates then stay at the values of their biases
        silent = jax.vmap(lambda bias: slopes(lstm(bias, False), first))(jnp.array([0.0, b]))
        noisy = jax.vmap(lambda bias: slopes(lstm(bias, True), noise))(jnp.array([0.0, b]))
        return slopes(elman, noise), jnp.linalg.norm(elman.inputs), silent, noisy

    elman, size, silent, noisy = measure(key)
    lags = np.arange(lag)
    yield at_most("Elman: slope in the first input", elman, size * 0.5**lags, along="step")
    keep = np.array([0.5, lag / (lag + 1)])
    predicted = silent[:, :1] * keep[:, None] ** lags
    # relative errors: the slope itself falls to the size of 2^-T
    yield equal("gates at one half and at 1 - 1/(T+1): slope", silent / predicted, 1.0, along="step")
    yield at_least("gates at 1 - 1/(T+1): share left", silent[1] / silent[1, 0], 1 / np.e, along="step")
    yield at_least("with noise and recurrent gates: slope over that of Elman", noisy[1, -1] / elman[-1], 1e10)
    yield control("gates at one half", at_least("share left", silent[0] / silent[0, 0], 1 / np.e, along="step"))
