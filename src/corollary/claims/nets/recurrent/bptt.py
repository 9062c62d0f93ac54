"""Gradients through time: forward, backward, untied; cut off; and taken online."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.claims._drawn import drawn
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, printed
from corollary.nets import identity, tanh
from corollary.nets.recurrent import (
    Elman,
    bptt,
    bptt_blocks,
    bptt_window,
    labelling_loss,
    online_sgd,
    online_step,
    rtrl,
    run_untied,
    sensitivities,
    untie,
)


def _flat(tree):
    return ravel_pytree(eqx.filter(tree, eqx.is_inexact_array))[0]


def _instance(key, units, steps):
    """A network with tanh at its output too, and data: all derivatives are of the order of one."""

    def parts(key):
        return Elman(2, units, 1, tanh, tanh, key=key, start=0.1), jnp.zeros((steps, 2)), jnp.zeros((steps, 1))

    return drawn(parts, key)


def _pieces(model, xs, ys):
    r"""Per step: the derivatives of the loss by parameters and state, and the immediate ones of the state by both."""
    params, static = eqx.partition(model, eqx.is_inexact_array)
    theta, form = ravel_pytree(params)
    states = model.run(xs).states
    before = jnp.concatenate([model.cell.initial()[None], states[:-1]])

    def step(theta, x, z):
        return eqx.combine(form(theta), static).cell(x, z)

    def loss(theta, z, y):
        return jnp.sum((eqx.combine(form(theta), static).readout(z) - y) ** 2) / len(xs)

    own, by_state = jax.vmap(lambda z, y: jax.grad(loss, (0, 1))(theta, z, y))(states, ys)
    immediate, inner = jax.vmap(lambda x, z: jax.jacrev(step, (0, 2))(theta, x, z))(xs, before)
    misread = jax.vmap(lambda x, z: jax.jacrev(step)(theta, x, z))(xs, states)
    return own, by_state, immediate, inner, misread


@claim(rows=("M13.07", "M13.09", "M13.10", "M13.49", "E05.04"))
def four_ways(key, *, units: Size = 4, steps: Count = 20):
    r"""Forward sensitivities, back-propagation through time and the sum over untied copies are one gradient.

    For $Z_t=m_Z(X_t,Z_{t-1};\theta)$, $Y_t=m_Y(Z_t;\theta)$ and $\Lambda=\frac1T\sum_t\ell_t$: with
    $D_t=\partial_Z\ell_t+D_{t+1}\partial_Zm_Z$, $D_{T+1}=0$, the gradient is
    $\sum_t\partial_\theta\ell_t+D_t\,\partial^+_\theta Z_t$, where $\partial^+$ holds $Z_{t-1}$ fixed; it is
    $\sum_t\partial_\theta\ell_t+\partial_Z\ell_t\,d_\theta Z_t$ with the total derivatives that run forward
    (real-time recurrent learning); and it is the sum of the gradients by the parameters of $T$ separate layers, which
    have $T$ times as many parameters. Both sums with the other derivative are wrong: $D_t$ with total derivatives
    counts paths twice, $\partial_Z\ell_t$ with immediate ones forgets the past.
    """

    @jax.jit
    def measure(key):
        model, xs, ys = _instance(key, units, steps)
        params, static = eqx.partition(model, eqx.is_inexact_array)
        copies, rest = eqx.partition(untie(model, steps), eqx.is_inexact_array)

        def untied(copies):
            return jnp.sum((run_untied(eqx.combine(copies, rest), xs).outputs - ys) ** 2) / steps

        # the copy of the last step is another network
        changed = jax.tree.map(lambda a: a.at[-1].multiply(0.5), copies)
        back, forward = bptt(model, xs, ys), rtrl(model, xs, ys)
        total = sensitivities(model, xs)
        twice = jax.tree.map(lambda s: jnp.tensordot(back.adjoints, s, 2), total)
        return {
            "automatic": _flat(jax.grad(lambda p: labelling_loss(eqx.combine(p, static), xs, ys))(params)),
            "backward": _flat(back.gradient),
            "forward": _flat(forward.gradient),
            "untied": _flat(jax.tree.map(lambda g: g.sum(0), jax.grad(untied)(copies))),
            "changed": _flat(jax.tree.map(lambda g: g.sum(0), jax.grad(untied)(changed))),
            "twice": _flat(eqx.tree_at(lambda m: m.cell, back.gradient, twice)),
            "forgetful": _flat(bptt_window(model, xs, ys, 1).gradient),
            "losses": jnp.stack([back.loss, forward.loss, untied(copies)]),
            "loss": labelling_loss(model, xs, ys),
            "sizes": jnp.array([_flat(copies).size, steps * _flat(params).size]),
        }

    m = jax.device_get(measure(key))
    # rounding of a sum over the steps, of numbers of the order of one
    exact = {"rtol": 1e-10, "atol": 1e-13}
    yield equal("backward", m["backward"], m["automatic"], **exact)
    yield equal("forward", m["forward"], m["automatic"], **exact)
    yield equal("sum over untied copies", m["untied"], m["automatic"], **exact)
    yield equal("loss", m["losses"], m["loss"], rtol=1e-13)
    yield equal("parameters when untied", m["sizes"][0], m["sizes"][1])
    size = np.abs(m["automatic"]).max()
    for name, wrong in (("total derivatives sent back", "twice"), ("immediate derivatives forward", "forgetful")):
        yield at_least(f"{name}: largest difference", np.abs(m[wrong] - m["automatic"]).max() / size, 1e-3)
    yield control(
        "all copies have the same parameters: here the last one has others",
        equal("sum over untied copies", m["changed"], m["automatic"], **exact),
    )


@claim(
    rows=("M13.10",),
    erratum="In (13.10) the loss of a step does not reach its own state, and the cell is taken at a wrong state.",
)
def formula_as_printed(key, *, units: Size = 4, steps: Count = 12):
    r"""As printed: formula (13.10), with partial derivatives, is the gradient through time.

    $\delta_T=0$, $\delta_t=2(Y^m_{t+1}-Y_{t+1})\frac{dm_Y}{dZ_t}+\delta_{t+1}\frac{\partial m_Z}{\partial Z_t}$ and
    $\nabla\Lambda=\frac1T\sum_t2(Y^m_t-Y_t)\frac{\partial m_Y(X_t,Z_t)}{\partial\theta}+\frac1T\sum_{t<T}\delta_t
    \frac{\partial m_Z(X_t,Z_t)}{\partial\theta}$. This $\delta_t$ is of later losses only, so that the first derivative
    has to include the way through $Z_t$; and the second belongs at $Z_{t-1}$. With both it is right.
    """

    @jax.jit
    def measure(key):
        model, xs, ys = _instance(key, units, steps)
        params, static = eqx.partition(model, eqx.is_inexact_array)
        own, by_state, immediate, inner, misread = _pieces(model, xs, ys)

        def back(delta, step):
            # what comes to the state of time t from all later losses
            source, factor = step
            delta = (source + delta) @ factor
            return delta, delta

        _, deltas = jax.lax.scan(back, jnp.zeros(units), (by_state[1:], inner[1:]), reverse=True)
        return {
            "automatic": _flat(jax.grad(lambda p: labelling_loss(eqx.combine(p, static), xs, ys))(params)),
            "literal": own.sum(0) + jnp.einsum("tz,tzp->p", deltas, misread[:-1]),
            "meant": (own + jnp.einsum("tz,tzp->tp", by_state, immediate)).sum(0)
            + jnp.einsum("tz,tzp->p", deltas, immediate[:-1]),
        }

    m = jax.device_get(measure(key))
    yield equal("gradient, corrected", m["meant"], m["automatic"], rtol=1e-10, atol=1e-13)
    yield printed(equal("gradient, as printed", m["literal"], m["automatic"], rtol=1e-3))


@claim(rows=("M13.11", "M13.48"))
def truncation_bias(key, *, runs: Size = 3000, steps: Count = 64):
    r"""Truncated back-propagation is biased: a window forgets a share w to the 2τ, blocks a share of the order 1/τ.

    For $Z_t=wZ_{t-1}+X_t$ with independent normal inputs, a stationary start and the loss $\frac1T\sum_tZ_t^2$ the
    error that goes back through $\tau$ steps contributes $2w\frac{1-w^{2\tau}}{(1-w^2)^2}$ to the expected gradient.
    With a sliding window every step $t$ contributes that of $\min(t,\tau)$, with blocks the $p$-th step of a block that
    of $p$. In every single run what the window leaves out of the derivative of $Z_t$ is
    $w^\tau\,\partial_wZ_{t-\tau}$. In two steps from $z_0$ with inputs $\pm1$ and the loss $Z_2^2$, cutting after one
    step leaves $2w^3z_0^2$ out of the mean.
    """
    w = 0.8
    lengths = [1, 4]
    model = Elman.of(w, 1.0, None, 1.0, None, identity)
    slope = lambda found: found.gradient.cell.recurrent[0, 0]  # noqa: E731
    t = np.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        draws = jax.random.normal(key, (runs, steps + 1, 1))
        nothing = jnp.zeros((steps, 1))

        @jax.vmap
        def one(draws):
            start, xs = draws[0] / jnp.sqrt(1 - w**2), draws[1:]
            window = jnp.stack([slope(bptt_window(model, xs, nothing, n, start)) for n in lengths])
            block = jnp.stack([slope(bptt_blocks(model, xs, nothing, n, start)) for n in lengths])
            # inputs of the same variance, each alike the one before it
            alike = (xs + draws[:-1]) / jnp.sqrt(2.0)
            tied = jnp.stack([slope(bptt_blocks(model, alike, nothing, n, start)) for n in lengths])
            # the same left out of the forward sensitivities, tau steps late
            states = model.run(xs, start).states[:, 0]
            carried = sensitivities(model, xs, start).recurrent[:, 0, 0, 0]
            late = jnp.stack([jnp.concatenate([jnp.zeros(n), carried[:-n]]) for n in lengths])
            rest = 2 / steps * w ** jnp.array(lengths) * (late @ states)
            return slope(bptt(model, xs, nothing, start)), window, block, rest, tied

        start, corners = jnp.array([0.7]), jnp.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])[..., None]
        # the target is the weight of a step: only the second counts, twice because of the mean
        weighted = {"loss": lambda z, y: jnp.sum(y * z**2)}
        counts = jnp.array([[0.0], [2.0]])
        ways = jax.vmap(
            lambda xs: (
                slope(bptt(model, xs, counts, start, **weighted)),
                slope(bptt_blocks(model, xs, counts, 1, start, **weighted)),
            )
        )(corners)
        return one(draws), jnp.mean(ways[0] - ways[1])

    (full, window, block, rest, tied), corner = jax.device_get(measure(key))

    def expected(depth):
        return 2 * w * (1 - w ** (2 * depth)) / (1 - w**2) ** 2

    whole = expected(t).mean()
    windows = np.stack([expected(np.minimum(t, n)).mean() for n in lengths])
    blocks = np.stack([expected(np.arange(1, n + 1)).mean() for n in lengths])
    # relative to the size of the numbers that cancel
    yield equal("what a window leaves out of one run", full[:, None] - window, rest, rtol=1e-9, atol=1e-11)
    yield estimate("whole gradient", full, whole, wrong=windows[-1])
    yield estimate("windows of 1 and 4 steps", window, windows, wrong=whole)
    yield estimate("blocks of 1 and 4 steps", block, blocks, wrong=whole)
    yield equal("two steps, all inputs: bias", corner, 2 * w**3 * 0.7**2, rtol=1e-12)
    yield control(
        "the inputs are independent: here neighbours are correlated",
        estimate("blocks of 1 and 4 steps", tied, blocks, wrong=whole),
    )


@claim(rows=("M13.12",))
def online_learning(key, *, units: Size = 10, stream: Count = 8000):
    r"""Algorithm 1 takes the gradient of one step with the memory held fixed, and learns a teacher from a stream.

    One turn moves the parameters by $-\eta$ times the gradient of $\frac12(Y^m_k-Y_k)^2$ with $Z_k$ a constant; for the
    loss $(Y^m_k-Y_k)^2$ the factor is $2\eta$. On a stream from a teacher with a recurrence of spectral radius 0.5
    and noise of variance $s^2$ the mean loss of the last quarter is below twice $\frac12s^2$, what the noise alone
    costs; it is not before the network has learned.
    """
    rate, noise = 0.05, 0.1

    def parts(key):
        network = Elman(2, units, 1, key=key)
        return network, Elman(2, 2, 1, key=key), jnp.zeros((stream, 1, 2)), jnp.zeros((stream, 1))

    @jax.jit
    def measure(key):
        model, teacher, xs, ys = drawn(parts, key)
        xs, noises = xs[:, 0] * 2**0.5, ys
        turn = 0.5 * jnp.array([[0.6, -0.8], [0.8, 0.6]])
        teacher = eqx.tree_at(lambda e: e.cell.recurrent, teacher, turn)
        ys = teacher(xs) + noise * noises
        state = xs[0, 0] * jnp.ones(units)
        params, static = eqx.partition(model, eqx.is_inexact_array)

        def loss(params):
            network = eqx.combine(params, static)
            return 0.5 * jnp.sum((network.readout(network.cell(xs[1], state)) - ys[1]) ** 2)

        moved = _flat(online_step(model, state, xs[1], ys[1], rate).network) - _flat(model)
        return moved, _flat(jax.grad(loss)(params)), online_sgd(model, xs, ys, rate).losses

    moved, slope, losses = jax.device_get(measure(key))
    yield equal("one turn", moved, -rate * slope, rtol=1e-9, atol=1e-15)
    parts_of_stream = losses.reshape(4, -1).mean(1)
    floor = 0.5 * noise**2
    yield at_most("last quarter of the stream: mean loss over the noise", parts_of_stream[-1] / floor, 2.0)
    yield control(
        "the network has learned: here in its first fifty turns",
        at_most("first fifty: mean loss over the noise", losses[:50].mean() / floor, 2.0),
    )


@claim(
    rows=("M13.12",),
    erratum="Algorithm 1 states the loss with a half but moves by twice its gradient, and the output bias once a unit.",
)
def algorithm_as_printed(key, *, units: Size = 4):
    r"""As printed: a turn of Algorithm 1 is a gradient step for the loss that it states.

    Line 8 has $\Lambda_k=\frac12(Y^m_k-Y_k)^2$, lines 11 to 15 move by $-2\eta_k(Y^m_k-Y_k)$ times the derivatives of
    $Y^m_k$, and line 11, inside the loop over the $N$ units, moves $b_o$ as often. With $-\eta_k$ and line 11 outside
    it is the gradient step. As it is, it takes twice that step, and $2N$ times for $b_o$.
    """
    rate = 0.1

    @jax.jit
    def measure(key):
        model, x, y = drawn(lambda key: (Elman(2, units, 1, key=key), jnp.zeros(2), jnp.zeros(1)), key)
        state = jnp.linspace(-0.5, 0.5, units)
        params, static = eqx.partition(model, eqx.is_inexact_array)

        def loss(params):
            network = eqx.combine(params, static)
            return 0.5 * jnp.sum((network.readout(network.cell(x, state)) - y) ** 2)

        after = online_step(model, state, x, y, 2 * rate)
        offset = after.network.readout.bias + (units - 1) * (after.network.readout.bias - model.readout.bias)
        literal = eqx.tree_at(lambda e: e.readout.bias, after.network, offset)
        once = online_step(model, state, x, y, rate).network
        flat = lambda m: jnp.concatenate([_flat(m.cell), _flat(m.readout)])  # noqa: E731
        return flat(literal) - flat(model), flat(once) - flat(model), -rate * flat(jax.grad(loss)(params))

    moved, corrected, meant = jax.device_get(measure(key))
    yield equal("all parameters, corrected", corrected, meant, rtol=1e-9, atol=1e-15)
    yield equal("all but the output bias: twice the step", moved[:-1], 2 * meant[:-1], rtol=1e-9)
    yield equal("output bias: twice the step for every unit", moved[-1], 2 * units * meant[-1], rtol=1e-9)
    yield printed(equal("all but the output bias, as printed", moved[:-1], meant[:-1], rtol=1e-9, atol=1e-15))
    yield printed(equal("output bias, as printed", moved[-1], meant[-1], rtol=1e-9, atol=1e-15))
