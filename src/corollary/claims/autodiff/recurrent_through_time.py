"""Back-propagation through time: tied copies, truncation, exploding and vanishing."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from corollary.autodiff import RNN, bptt_by_hand, clip_gradient, sequence_loss
from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal
from corollary.nets.recurrent import LSTMCell, LSTMState


def _flat(tree):
    return ravel_pytree(tree)[0]


@claim(rows=("T04.12", "T04.10"))
def unrolled(key, *, steps: Annotated[int, Range(4, 64)] = 10, units: Size = 6):
    r"""The gradient of a recurrent network is the sum over the copies of its unrolled network.

    For $h_t=\tanh(Wh_{t-1}+Ux_t+b)$ back-propagation through time is the gradient of the loss of the network with $T$
    layers that share their weights: the sum of the gradients by $T$ weights of their own, taken where they are equal.
    Cut off after $k$ steps it is the same exactly if $k\ge T$.
    """
    net_key, x_key, y_key = jax.random.split(key, 3)
    rnn = RNN(2, units, 3, key=net_key)
    xs, ys = jax.random.normal(x_key, (steps, 2)), jax.random.normal(y_key, (steps, 3))

    @jax.jit
    def measure(rnn, xs, ys):
        def untied(copies):
            h, loss = jnp.zeros(units), 0.0
            for t in range(steps):
                h = jnp.tanh(copies[t] @ h + rnn.inputs @ xs[t] + rnn.bias)
                loss += jnp.sum((rnn.readout @ h + rnn.offset - ys[t]) ** 2) / (2 * steps)
            return loss

        ours = bptt_by_hand(rnn, xs, ys)
        return {
            "bptt": _flat(ours),
            "automatic": _flat(jax.grad(sequence_loss)(rnn, xs, ys)),
            "recurrent": ours.recurrent,
            "copies": jax.grad(untied)(jnp.broadcast_to(rnn.recurrent, (steps, units, units))).sum(0),
            "windows": jnp.stack([_flat(bptt_by_hand(rnn, xs, ys, window)) for window in (steps, 2 * steps)]),
            "short": _flat(bptt_by_hand(rnn, xs, ys, steps // 2)),
        }

    m = measure(rnn, xs, ys)
    yield equal("through time", m["bptt"], m["automatic"], atol=1e-13)
    yield equal("sum over the copies", m["copies"], m["recurrent"], atol=1e-13)
    yield equal("cut off after all steps or later", m["windows"], m["automatic"], atol=1e-13)
    yield control(
        "the gradient is cut off after half the steps", equal("through time", m["short"], m["automatic"], atol=1e-13)
    )


@claim(rows=("T04.12", "T04.13"), full={"training": 3000, "units": 32})
def delayed_copy(key, *, units: Size = 16, training: Count = 400, batch: Size = 16):
    r"""Trained through time, with clipped gradients, a recurrent network learns to repeat bits after a delay.

    For delays from 1 to 5: after training the output has the sign of the bit seen that many steps before in at least
    95 of 100 cases, on fresh sequences. A network without recurrence has no way to know it.
    """
    delays, length, tests = jnp.array([1, 2, 3, 4, 5, 5]), 16, 200
    memory = jnp.array([1.0, 1, 1, 1, 1, 0])

    @jax.jit
    @jax.vmap
    def train(key, delay, memory):
        net_key, run_key, test_key = jax.random.split(key, 3)
        optimiser = optax.adam(1e-2)
        seen = (jnp.arange(length) >= delay)[:, None]

        def sequences(key, n):
            bits = jax.random.rademacher(key, (n, length), dtype=float)
            return bits[..., None], jnp.roll(bits, delay, axis=1)[..., None]

        def limited(rnn):
            return eqx.tree_at(lambda r: r.recurrent, rnn, memory * rnn.recurrent)

        def advance(carry, key):
            rnn, state = carry
            xs, ys = sequences(key, batch)
            # before the first bit comes back the network is asked for its own output: no error there
            ys = jnp.where(seen, ys, jax.vmap(rnn)(xs))
            gradient = jax.tree.map(lambda g: g.mean(0), jax.vmap(lambda x, y: bptt_by_hand(rnn, x, y))(xs, ys))
            updates, state = optimiser.update(clip_gradient(gradient, 1.0), state)
            return (limited(optax.apply_updates(rnn, updates)), state), None

        rnn = limited(RNN(1, units, 1, key=net_key))
        (rnn, _), _ = jax.lax.scan(advance, (rnn, optimiser.init(rnn)), jax.random.split(run_key, training))
        xs, ys = sequences(test_key, tests)
        right = (jnp.sign(jax.vmap(rnn)(xs)) == ys) & seen
        return right.sum() / (seen.sum() * tests)

    right = train(jax.random.split(key, 6), delays, memory)
    yield at_least("right answers", right[:5], 0.95, x=delays[:5], along="delay")
    yield control("without recurrence, delay 5", at_least("right answers", right[5], 0.95))


@claim(rows=("T04.13",))
def exploding_and_vanishing(key, *, units: Size = 8, steps: Annotated[int, Range(10, 400)] = 100):
    r"""Through a linear recurrence gradients go like powers of the spectral radius; an open LSTM keeps them.

    For $h_t=Wh_{t-1}$ with diagonalisable $W=Q\Lambda Q^{-1}$ of spectral radius $\rho$: $\rho^T\le\|\partial
    h_T/\partial h_0\|\le\|Q\|\|Q^{-1}\|\rho^T$. An orthogonal $W$ keeps every norm. An LSTM whose forget gate is 1
    and whose output is not fed back has $\partial c_T/\partial c_0=1$.
    """
    w_key, cell_key, x_key = jax.random.split(key, 3)
    raw = jax.random.normal(w_key, (units, units))
    values, vectors = jnp.linalg.eig(raw)
    raw, condition = raw / jnp.abs(values).max(), jnp.linalg.cond(vectors)
    radii = jnp.array([0.8, 1.0, 1.2])
    forgetful = LSTMCell(2, units, key=cell_key)
    forget = slice(units, 2 * units)
    keeper = eqx.tree_at(
        lambda c: (c.recurrent, c.inputs, c.bias),
        forgetful,
        # sigmoid(40) is 1 in float64
        (0 * forgetful.recurrent, forgetful.inputs.at[forget].set(0.0), forgetful.bias.at[forget].set(40.0)),
    )
    xs = jax.random.normal(x_key, (steps, 2))

    @jax.jit
    def measure(raw, xs, keeper, forgetful):
        def linear(w):
            """Norms of the derivatives of all states by the first one."""
            states = lambda h: jax.lax.scan(lambda h, _: (w @ h, w @ h), h, length=steps)[1]  # noqa: E731
            return jax.vmap(lambda d: jnp.linalg.norm(d, 2))(jax.jacobian(states)(jnp.zeros(units)))

        def memory(cell):
            def cells(c):
                start = LSTMState(jnp.zeros(units), c)
                return jax.lax.scan(lambda s, x: (cell(s, x), cell(s, x).memory), start, xs)[1]

            return jax.jacobian(cells)(jnp.zeros(units))

        def saturating(w):
            states = lambda h: jax.lax.scan(lambda h, _: (jnp.tanh(w @ h),) * 2, h, length=steps)[1]  # noqa: E731
            return jax.vmap(lambda d: jnp.linalg.norm(d, 2))(jax.jacobian(states)(jnp.ones(units)))

        return (
            saturating(radii[2] * raw),
            jax.vmap(lambda rho: linear(rho * raw))(radii),
            linear(jnp.linalg.qr(raw)[0]),
            memory(keeper),
            memory(forgetful),
        )

    bounded, growth, kept, memory, forgotten = measure(raw, xs, keeper, forgetful)
    time = jnp.arange(1, steps + 1)
    ratio = growth / radii[:, None] ** time
    # the rounding of a product of many matrices, as far as the eigenvectors amplify it
    rounding = float(1e-13 * condition * steps)
    yield at_least("norm over ρ to the t", ratio, 1.0, atol=rounding, along="time lag")
    yield at_most("norm over ρ to the t, from above", ratio, condition * (1 + rounding), along="time lag")
    yield equal("orthogonal recurrence", kept, 1.0, atol=1e-12, along="time lag")
    yield equal("memory of the LSTM", memory, jnp.broadcast_to(jnp.eye(units), memory.shape), rtol=0, atol=0)
    yield control("the forget gate is not 1", equal("memory", forgotten[-1], jnp.eye(units), rtol=0, atol=1e-3))
    yield control(
        "the units saturate: the recurrence is not linear",
        at_least("norm over ρ to the t", bounded / radii[2] ** time, 1.0, atol=rounding, along="time lag"),
    )
    names = [f"ρ = {float(rho):g}" for rho in radii] + ["LSTM, open memory"]
    lines = [*growth, jax.vmap(lambda d: jnp.linalg.norm(d, 2))(memory)]
    yield curves(
        "gradient against time lag",
        time,
        dict(zip(names, lines, strict=True)),
        titles=("time lag", "norm of the derivative"),
        log="y",
    )


@claim(rows=("T04.13", "M15.34"))
def clipping(key, *, trees: Size = 100, dim: Size = 6):
    r"""Clipping shortens long gradients to the given length and leaves direction and short gradients alone.

    $g\leftarrow g\min(1,c/\|g\|)$ with the norm over all parameters together.
    """
    scales = 10.0 ** jnp.linspace(-3, 3, trees)
    most = 2.0

    @jax.jit
    def measure(key):
        draws = scales[:, None] * jax.random.normal(key, (trees, dim + 1))
        gradients = {"weights": draws[:, :dim], "bias": draws[:, dim]}
        clipped = jax.vmap(lambda g: clip_gradient(g, most))(gradients)
        apart = jax.vmap(lambda g: jax.tree.map(lambda leaf: clip_gradient(leaf, most), g))(gradients)
        return draws, *(jnp.concatenate([g["weights"], g["bias"][:, None]], 1) for g in (clipped, apart))

    draws, clipped, apart = measure(key)
    before, after = jnp.linalg.norm(draws, axis=1), jnp.linalg.norm(clipped, axis=1)
    yield equal("length", after, jnp.minimum(before, most), rtol=1e-13, x=before, along="length before")
    cosine = jnp.sum(draws * clipped, 1) / before / after
    yield equal("cosine with the gradient", cosine, 1.0, rtol=0, atol=1e-13, x=before, along="length before")
    separate = jnp.sum(draws * apart, 1) / before / jnp.linalg.norm(apart, axis=1)
    yield control(
        "every leaf is clipped by itself",
        equal("cosine with the gradient", separate, 1.0, rtol=0, atol=1e-13, x=before, along="length before"),
    )
