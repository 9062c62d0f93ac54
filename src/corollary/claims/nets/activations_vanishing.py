"""Gradients that vanish with depth and by saturation (M section 8.4)."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._pictures import curves
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, monotone, printed, rate
from corollary.nets import logistic, relu, tanh

FIXED = 0.5708793  # H = S(H/2)


def _chain(depth, y, x=1.0, weight=0.5, bias=0.0):
    """The scalar chain of Example 8.2: output, derivatives by H (1..L) and by the weights (1..L)."""

    def loss(nudges, weights):
        def layer(h, step):
            w, nudge = step
            return logistic(w * h + bias) + nudge, None

        last, _ = jax.lax.scan(layer, jnp.asarray(x), (weights, nudges))
        return (y - weight * last) ** 2, weight * last

    (by_h, by_w), out = jax.grad(loss, (0, 1), has_aux=True)(jnp.zeros(depth), jnp.full(depth, weight))
    return out, by_h, by_w


@claim(rows=("M08.07",))
def scalar_chain_vanishes(key, *, depth: Annotated[int, Range(10, 200)] = 60):
    r"""Along a chain of logistic units with weights one half the sensitivities vanish exponentially in the depth.

    $H^0=1$, $H^\ell=S(\frac12H^{\ell-1})$, $m=\frac12H^L$, $\lambda=(y-m)^2$. Then $0<H^\ell\le S(\frac12)<1$,
    $\delta^\ell=-2(y-m)W^{L+1}\prod_{j=\ell+1}^LS'(Z^j)W^j$ and, from $S'\le1$,
    $|\partial_{W^\ell}\lambda|\le|\delta^\ell|\le|y-m|2^{-(L-\ell)}$ (8.2). Since $S'\le\frac14$ even $8^{-(L-\ell)}$.
    The factor per layer tends to $\frac12H^*(1-H^*)=0.12249$ where $H^*=S(\frac12H^*)=0.57088$. With weights 8 and
    biases -4, where every unit takes $\frac12$ to $\frac12$, the sensitivities double from layer to layer.
    """
    y = jax.random.uniform(key, (), minval=-1.0, maxval=0.0)
    far = depth - jnp.arange(1, depth + 1)

    @jax.jit
    def measure(y):
        return _chain(depth, y), _chain(20, 0.0), _chain(depth, y, 0.5, 8.0, -4.0)

    (out, by_h, by_w), (m20, h20, w20), (steep_out, steep, _) = measure(y)
    h = [1.0]
    for _ in range(depth):
        h.append(float(1 / (1 + np.exp(-0.5 * h[-1]))))
    slopes = np.array([v * (1 - v) for v in h[1:]])  # at Z^1..Z^L
    products = np.array([np.prod(slopes[ell:] / 2) for ell in range(1, depth + 1)])
    yield equal("sensitivities, against the product", by_h, -2 * (y - out) * 0.5 * products, rtol=1e-12, atol=0)
    yield at_most("hidden values", np.array(h[1:]), 1 / (1 + np.exp(-0.5)), along="layer")
    # layer L itself, where both bounds are attained trivially, is left out
    bound, below, n = jnp.abs(y - out), jnp.abs(by_h[:-1]), far[:-1]
    yield at_most("sensitivities, base 2", below, bound * 2.0**-n, x=n, along="layers above")
    yield at_most("sensitivities, base 8", below, bound * 8.0**-n, x=n, along="layers above")
    yield at_most("derivatives by the weights", jnp.abs(by_w), jnp.abs(by_h), along="layer")
    star = FIXED * (1 - FIXED) / 2
    # seven digits of the fixed point are known
    middle = slice(depth // 3, -1)
    yield equal("factor per layer", (by_h[:-1] / by_h[1:])[middle], star, rtol=1e-6, along="layer")
    yield equal("output for 20 layers", m20, 0.2854396608, rtol=1e-9)
    yield equal("factor at layer 5 of 20", h20[4] / h20[5], 0.12248796, rtol=1e-7)
    yield equal("derivative by the first weight of 20, label 0", w20[0], 3.1513e-19, rtol=1e-4, atol=0)
    yield control(
        "weights 8 and biases -4",
        at_most(
            "sensitivities, base 2", jnp.abs(steep), jnp.abs(y - steep_out) * 2.0**-far, x=far, along="layers above"
        ),
    )


@claim(
    rows=("M08.07",),
    erratum="The display drops the factors between: one step down from the top is taken for the whole way.",
)
def sensitivity_as_printed(key, *, depth: Annotated[int, Range(3, 60)] = 6):
    r"""The sensitivity of layer l in one step from the top.

    As printed in Example 8.2, for $1\le\ell<L$: $\delta^\ell=\delta^{L+1}\sigma'(Z^{L+1})W^{L+1}$, where $\ell+1$ is
    meant in place of $L+1$. Read with the output, which is linear, as layer $L+1$: $\sigma'=1$ and
    $\delta^{L+1}=-2(y-m)$.
    """
    out, by_h, _ = _chain(depth, 0.0)
    one_step = 2 * out * 0.5
    states = [1.0]
    for _ in range(depth):
        states.append(float(1 / (1 + np.exp(-0.5 * states[-1]))))
    factors = np.array([0.5 * h * (1 - h) for h in states[1:]])  # at the layers 1 to L
    whole_way = [np.prod(factors[ell:]) for ell in range(1, depth)]
    yield equal("layer L", by_h[-1], one_step)
    yield equal("layers 1 to L - 1, with all factors between", by_h[:-1], one_step * np.array(whole_way))
    yield printed(equal("layers 1 to L - 1, as printed", by_h[:-1], one_step))


def _draw(key, most, width, inputs, classes):
    """Standard normal numbers for the first layer, `most` - 1 hidden ones and the last; one draw compiles faster."""
    sizes = [width * inputs, (most - 1) * width * width, classes * width]
    first, rest, last = jnp.split(jax.random.normal(key, (sum(sizes),)), np.cumsum(sizes)[:-1])
    return first.reshape(width, inputs), rest.reshape(most - 1, width, width), last.reshape(classes, width)


def _scaled(draws, variance):
    """The draws with the variance that an initialisation gives to (outputs, inputs)."""
    return tuple(a * variance(*a.shape[-2:]) ** 0.5 for a in draws)


def _loss(parameters, activation, depth, x, y):
    """The mean cross-entropy of the network that uses the first `depth` hidden layers."""
    first, rest, last = parameters

    def layer(h, step):
        w, i = step
        return jnp.where(i < depth, activation(h @ w.T), h), None

    h, _ = jax.lax.scan(layer, activation(x @ first.T), (rest, jnp.arange(1, rest.shape[0] + 1)))
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h @ last.T), y[:, None], axis=1))


@claim(rows=("M08.06",), full={"networks": 64, "steps": 500})
def lower_layers(key, *, networks: Size = 8, most: Annotated[int, Range(6, 40)] = 12, steps: Count = 40):
    r"""The gradient by the first layer shrinks exponentially with the number of logistic layers above it.

    Layers of 50 logistic units without biases, Glorot's weights, cross-entropy of 5 classes: each further layer
    multiplies $\|\partial_{W^1}\lambda\|$ by about $\sqrt{\mathbb E S'(Z)^2}\lesssim\frac14$, a slope of about
    $-\ln4$ in the logarithm, and after equally many steps of SGD the first layer has moved the less the deeper the
    network. With rectified units and He's weights it does not shrink so.
    """
    width, inputs, classes, n = 50, 20, 5, 64
    depths = jnp.arange(1, most + 1)

    @jax.jit
    def measure(key):
        net_key, x_key, y_key = jax.random.split(key, 3)
        x, y = jax.random.normal(x_key, (n, inputs)), jax.random.randint(y_key, (n,), 0, classes)
        draws = jax.vmap(lambda k: _draw(k, most, width, inputs, classes))(jax.random.split(net_key, networks))
        glorot = jax.vmap(lambda d: _scaled(d, lambda m, n: 2 / (m + n)))(draws)
        he = jax.vmap(lambda d: _scaled(d, lambda m, n: 2 / n))(draws)

        def norms(parameters, activation):
            def one(p, depth):
                return jnp.linalg.norm(jax.grad(_loss)(p, activation, depth, x, y)[0])

            every = jax.vmap(lambda p: jax.vmap(lambda depth: one(p, depth))(depths))(parameters)
            return jnp.exp(jnp.log(every).mean(0))

        def moved(depth):
            start = jax.tree.map(lambda a: a[0], glorot)

            def advance(p, _):
                return jax.tree.map(lambda a, g: a - 0.5 * g, p, jax.grad(_loss)(p, logistic, depth, x, y)), None

            end, _ = jax.lax.scan(advance, start, length=steps)
            return jnp.linalg.norm(end[0] - start[0]) / jnp.linalg.norm(start[0])

        return norms(glorot, logistic), norms(he, relu), jax.vmap(moved)(jnp.array([1, 3, 5]))

    shrinking, kept, moved = measure(key)
    # S' is between 0.2 and 1/4 for what these layers hand on: a slope between -1.6 and -1.39
    yield rate("gradient by the first layer", depths, shrinking, -1.45, tolerance=0.2, axes="semi-log", along="depth")
    yield at_most("how far the first layer moves: 3 and 5 layers over 1 and 3", moved[1:] / moved[:-1], 0.25)
    yield control(
        "rectified units with He's weights",
        rate("gradient by the first layer", depths, kept, -1.45, tolerance=0.2, axes="semi-log", along="depth"),
    )
    lines = {"logistic, Glorot": np.log10(shrinking), "ReLU, He": np.log10(kept)}
    yield curves("gradient by the first layer", depths, lines, "hidden layers", "log10 of its norm")


@claim(rows=("M08.08",))
def saturation(key, *, points: Size = 400, networks: Size = 2048):
    r"""The slope of the logistic function vanishes exponentially, so that large inputs stop the gradient.

    $S'(z)=S(z)(1-S(z))=\frac{e^{-|z|}}{(1+e^{-|z|})^2}$, so $\frac14e^{-|z|}\le S'(z)\le e^{-|z|}$, and the upper bound
    is attained in the limit. In a network whose first weights are scaled by $s$ the gradient by them eventually falls
    to nothing, while ever more units are saturated. A rectified unit has slope one however large its input.
    """
    z = jnp.linspace(-30.0, 30.0, points)
    # at the largest scale some fifty of all the units are not saturated: enough for a mean to be known to a sixth
    scales = 2.0 ** jnp.arange(3, 11)

    @jax.jit
    def measure(key):
        def one(key):
            w_key, x_key, c_key = jax.random.split(key, 3)
            w, x, c = (jax.random.normal(k, s) for k, s in ((w_key, (20, 5)), (x_key, (5,)), (c_key, (20,))))

            def slope(scale):
                loss = lambda w: (c @ logistic(w @ x) - 1.0) ** 2  # noqa: E731
                return jnp.linalg.norm(jax.grad(loss)(scale * w)), jnp.mean(logistic.prime(scale * w @ x) < 0.01)

            return jax.vmap(slope)(scales)

        norms, shares = jax.vmap(one)(jax.random.split(key, networks))
        return norms.mean(0), shares.mean(0)

    norms, shares = measure(key)
    prime, bound = logistic.prime(z), jnp.exp(-jnp.abs(z))
    yield at_most("slope of the logistic function", prime, bound, x=z, along="z")
    yield at_least("slope, from below", prime, bound / 4, x=z, along="z")
    yield equal("slope over the bound, at 30", prime[-1] / bound[-1], 1.0)
    yield equal("slope, against the difference of values", prime, logistic(z) * logistic(-z))
    yield monotone("share of units with a slope below 0.01", shares, x=scales, along="scale")
    yield monotone("gradient by the scaled weights", norms, "decreasing", x=scales, along="scale")
    yield at_most("gradient at the largest scale over that at the least", norms[-1] / norms[0], 0.1)
    yield control("a rectified unit", at_most("slope", relu.prime(z), bound, x=z, along="z"))
    lines = {"logistic": np.log10(prime), "tanh": np.log10(tanh.prime(z))}
    yield curves("slopes on a logarithmic axis", z, lines, "z", "log10 slope")


@claim(
    rows=("M08.08",),
    erratum="At plus infinity the logistic function tends to 1, not to 0; its slope tends to 0 at both ends.",
)
def limit_as_printed(key):
    r"""The logistic function tends to zero for large arguments of either sign.

    As printed: $\lim_{\|z\|\to\infty}\sigma(z)\to0$, from which the text concludes $\sigma'(z)\to0$. The slope does:
    $\sigma'(z)\le e^{-|z|}$. The value does to the left, and rises to 1 to the right: $1-\sigma(z)\le e^{-z}$.
    """
    z = (1 + jax.random.uniform(key)) * 2.0 ** jnp.arange(6)
    yield at_most("slope at both ends", logistic.prime(jnp.stack([-z, z])), jnp.exp(-z), x=z, along="|z|")
    yield at_most("value to the left", logistic(-z), jnp.exp(-z), x=z, along="|z|")
    # 1 is rounded at 1.1e-16
    yield at_most("distance from 1 to the right", 1 - logistic(z), jnp.exp(-z), atol=2e-16, x=z, along="z")
    yield printed(monotone("value, ever further to the right", logistic(z), "decreasing", x=z, along="z"))
