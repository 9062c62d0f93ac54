"""Minima and saddles of networks: wide ones have no bad minima, linear ones wait at saddles for known times."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Positive, Size, at_least, at_most, claim, control, equal, monotone, rate
from corollary.optimization import (
    Problem,
    gradient_flow,
    linear_network_loss,
    mode_strength,
    mode_times,
)


@claim(rows=("B05.23",))
def width_and_local_minima(key, *, starts: Size = 24, steps: Count = 500, n: Size = 16, dim: Size = 3):
    r"""The wider the network, the less it matters where descent starts; with a unit an example no minimum is bad.

    Networks $\sum_ja_j\tanh(w_j\cdot x+b_j)$ of 2, 5, 20 and 100 units learn $n$ outputs of one with two units, from
    random starts, by Adam with a rate that falls to zero. With $\Phi$ (n, m) the outputs of the hidden units, the
    gradient in $a$ alone gives $\|\nabla f\|^2\ge\frac2n\lambda_{\min}(\Phi\Phi^\top)f$ for
    $f=\frac1{2n}\|\Phi a-y\|^2$: where $\Phi$ has rank $n$, which needs $m\ge n$ units, a stationary point is a global
    minimum, and $f\le\frac{n\|\nabla f\|^2}{2\lambda_{\min}}$ everywhere. The spread of the final losses shrinks with
    the width. Narrow networks end in minima that are not global, and so do wide ones whose units all start equal, since
    then $\Phi$ has rank one for ever.
    """
    widths = np.array([2, 5, 20, 100])
    most = int(widths[-1])

    @jax.jit
    def measure(key):
        x_key, t_key, s_key = jax.random.split(key, 3)
        x, teacher = jax.random.normal(x_key, (n, dim)), 2 * jax.random.normal(t_key, (2, dim))
        y = jnp.tanh(x @ teacher[0]) - jnp.tanh(x @ teacher[1])

        def features(theta):
            return jnp.tanh(x @ theta[:dim] + theta[dim])

        def one(key, width, alike):
            units = jnp.arange(most) < width  # the others are not there
            scale = jnp.append(jnp.ones(dim + 1), width**-0.5)[:, None]
            start = scale * jax.random.normal(key, (dim + 2, most))
            start = jnp.where(alike, start[:, :1], start)

            def loss(theta):
                return 0.5 * jnp.mean((features(theta) @ (units * theta[-1]) - y) ** 2)

            adam = optax.adam(optax.cosine_decay_schedule(0.05, steps))

            def advance(state, _):
                theta, memory = state
                move, memory = adam.update(jax.grad(loss)(theta), memory)
                return (theta + move, memory), None

            (end, _), _ = jax.lax.scan(advance, (start, adam.init(start)), length=steps)
            ends = jnp.stack([start, end])
            values, slopes = jax.vmap(jax.value_and_grad(loss))(ends)
            return values, jnp.sum(slopes**2, axis=(1, 2)), jax.vmap(features)(ends) * units

        kinds = jnp.repeat(jnp.asarray([*widths, most]), starts)
        alike = jnp.repeat(jnp.array([False] * 4 + [True]), starts)
        value, square, phi = jax.vmap(one)(jax.random.split(s_key, 5 * starts), kinds, alike)
        wide = phi[2 * starts : 4 * starts].reshape(-1, n, most)
        least = jax.lax.map(lambda p: jnp.linalg.eigvalsh(p @ p.T)[0], wide).reshape(2 * starts, 2)
        return value.reshape(5, starts, 2), square[2 * starts : 4 * starts], least, 0.5 * jnp.mean(y**2)

    value, square, least, first = (np.asarray(a) for a in measure(key))
    yield at_least("20 and 100 units: least eigenvalue of the outputs, at start and end", least, 1e-9)
    bound = n * square / (2 * least)
    yield at_most("20 and 100 units: loss, at start and end", value[2:4].reshape(-1, 2), bound, rtol=1e-6)
    final = value[..., 1] / first
    yield monotone(
        "spread of the final losses", final[:4].std(axis=1), "decreasing", strict=True, x=widths, along="units"
    )
    yield at_most("100 units: worst final loss, of the loss at zero", final[3].max(), 1e-3)
    yield control(
        "fewer units than examples, two", at_most("worst final loss, of the loss at zero", final[0].max(), 1e-3)
    )
    yield control("100 units that start equal", at_most("worst final loss, of the loss at zero", final[4].max(), 1e-3))


@claim(rows=("B05.23",))
def modes_one_after_another(key, *, starts: Size = 8, hidden: Size = 5, weights: Positive = 1e-5):
    r"""A linear network of two layers learns one singular value after the other, at times that the start determines.

    Gradient flow on $\frac12\|W_2W_1-A\|_F^2$, $A$ with singular values $s_i=4,2,1$. Layers that start aligned with $A$
    and equally large have the singular values $\frac{s_i}{1+(s_i/u_0-1)e^{-2s_it}}$ at time $t$. From any small weights
    the loss comes down in stairs $\frac12\sum_{j>i}s_j^2$, the values of the saddles of rank $i$; the $i$-th singular
    value is half grown at $\frac1{2s_i}\ln(\frac{s_i}{u_i}-1)$, where $u_i$ is the squared length of
    $\frac12(W_1v_i+W_2^\top u_i)$ without the hidden directions of those before it, up to an error of the order of the
    weights. There is no other minimum than the global one. One layer has no such stairs: all its singular values are
    half grown at $\frac{\ln2}{s_i}$, however small the start.
    """
    strengths = jnp.array([4.0, 2.0, 1.0])
    times = jnp.linspace(0.0, 20.0, 1001)[1:]
    scales = weights * 10.0 ** jnp.array([2.0, 1.5, 1.0, 0.5, 0.0])

    @jax.jit
    def measure(key):
        u_key, v_key, h_key, w_key = jax.random.split(key, 4)
        u = jnp.linalg.qr(jax.random.normal(u_key, (4, 4)))[0][:, :3]
        v = jnp.linalg.qr(jax.random.normal(v_key, (3, 3)))[0]
        target = (u * strengths) @ v.T

        def strength(products):
            return jnp.einsum("ik,tij,jk->tk", u, products, v)

        def follow(theta):
            flow = gradient_flow(linear_network_loss(target, theta), times, substeps=4)
            return strength(jnp.einsum("thi,thj->tij", flow.theta[..., :4], flow.theta[..., 4:])), flow.value

        def half(strength):
            """When each has grown half, by the line through its logit, which a logistic curve is."""
            logit = jnp.log(jnp.abs(strength / (strengths - strength)))
            after = jnp.argmax(strength > strengths / 2, axis=0)
            low, high = (jnp.take_along_axis(logit, (after - i)[None], axis=0)[0] for i in (1, 0))
            return times[after] - high / (high - low) * (times[1] - times[0])

        spread = jnp.linalg.qr(jax.random.normal(h_key, (hidden, 3)))[0]
        aligned = 0.03 * jnp.concatenate([spread @ u.T, spread @ v.T], axis=1)
        begin = jax.random.normal(w_key, (starts, hidden, 7))
        sizes = jnp.repeat(scales, starts)[:, None, None]
        grown, loss = jax.vmap(follow)(sizes * jnp.tile(begin, (len(scales), 1, 1)))
        found = jax.vmap(half)(grown).reshape(len(scales), starts, 3)
        modes = jax.lax.map(lambda w: mode_times(target, w), begin * scales[-1])
        predicted = modes.time
        curves = jax.vmap(lambda u: mode_strength(strengths, u, times[:, None]))(modes.start)
        stairs = 0.5 * jnp.sum((strengths - curves) ** 2, axis=-1)
        # and from weights that are not small
        large = 0.1 * begin
        late = jax.vmap(lambda w: half(follow(w)[0]))(large), jax.lax.map(lambda w: mode_times(target, w).time, large)
        # a smaller start by a factor c is later by ln(c) / s
        delay = jnp.log(scales[:, None, None] / scales[-1]) / strengths
        # one layer, from the product of the two
        one = Problem(lambda w, a: 0.5 * jnp.sum((w - a) ** 2), (target,), jnp.zeros((4, 3)))
        tiny = scales[-1] ** 2 * jnp.einsum("rhi,rhj->rij", begin[..., :4], begin[..., 4:])
        single = jax.vmap(lambda w: half(strength(gradient_flow(one, times, start=w, substeps=4).theta)))(tiny)
        return follow(aligned)[0], found, predicted[None] - delay, predicted, (loss[-starts:], stairs), single, late

    aligned, found, predicted, last, (loss, stairs), single, (late, early) = measure(key)
    exact = mode_strength(strengths, 0.03**2, times[:, None])
    # fourth order with steps of 0.005 and rates up to 8: (0.04)^4 of the growth, over many steps
    yield equal("aligned start: logistic curves", aligned, exact, rtol=1e-6, atol=1e-9)
    error = jnp.abs(found - predicted).max((1, 2))
    # of the order of the weights; the factor leaves room for starts that have little of a singular value
    yield at_most("half grown: largest error of the predicted time", error[-1], 50 * weights)
    yield rate("half grown: error against the size of the start", scales, error, 1.0, tolerance=0.25, along="weights")
    # an error in time costs at most the steepest slope of the loss, s^3 / 2 or so, in the loss
    yield equal("loss at all times: stairs", loss, stairs, rtol=0.0, atol=50 * weights * 32, x=times, along="t")
    # half way between two rises
    at = jnp.round((last[:, :-1] + last[:, 1:]) / 2 / (times[1] - times[0])).astype(int) - 1
    rest = jnp.take_along_axis(loss, at, axis=1)
    yield equal("loss between the rises: saddles of rank one and two", rest, jnp.array([2.5, 0.5]), rtol=0.05)
    yield equal("loss at the beginning: the saddle at zero", loss[:, 0], 10.5, rtol=0.01)
    yield control("one layer in place of two", equal("half grown", single, last, rtol=0.05))
    yield control(
        "weights that are not small, 0.1",
        at_most("half grown: largest error of the predicted time", jnp.abs(late - early).max(), 50 * weights),
    )
