"""Activation functions: slopes, limits, and what follows from them for the units that use them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets._pictures import curves
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.nets import (
    ACTIVATIONS,
    MLP,
    arctan,
    leaky_relu,
    logistic,
    logistic_derivative,
    logistic_to_tanh,
    relu,
    softplus,
    tanh,
    tanh_to_logistic,
    train,
)
from corollary.network import Network

SMOOTH = ("identity", "logistic", "tanh", "arctan")


@claim(rows=("M05.19", "E02.10", "E02.03", "B02.13"))
def slopes_and_limits(key, *, points: Size = 4001, order: Count = 8):
    r"""Derivatives, Lipschitz constants and limits of the common activation functions.

    The derivative of each function, and its largest slope: identity 1, logistic $\frac14$, tanh 1, arctan 1, ReLU 1,
    Softplus 1; $\sup|\sigma''|=\frac1{6\sqrt3}$. Limits: $0$ and $1$ for the logistic function, $\pm1$ for tanh,
    $\pm\frac\pi2$ for arctan. Every derivative of the logistic function is a polynomial in it:
    $p_0(s)=s$, $p_{k+1}(s)=p_k'(s)\,s(1-s)$. Measured by automatic differentiation, and by Cauchy's integral formula.
    """
    z = jnp.linspace(-8.0, 8.0, points) + 1e-3 * jax.random.uniform(key)  # no grid point is a kink
    functions = {name: ACTIVATIONS[name] for name in (*SMOOTH, "relu")} | {"softplus(2)": softplus(2.0)}

    @jax.jit
    def measure(z):
        slopes = {n: jax.vmap(jax.grad(phi))(z) for n, phi in functions.items()}
        formulas = {n: phi.prime(z) for n, phi in functions.items()}
        curvatures = {n: jax.vmap(jax.grad(jax.grad(phi)))(z) for n, phi in functions.items()}
        second = {n: phi.second(z) for n, phi in functions.items()}
        peaks = jnp.stack([jnp.abs(phi.prime(jnp.append(z, 0.0))).max() for phi in functions.values()])
        return slopes, formulas, curvatures, second, peaks, _derivatives_by_contour(z[::50], order)

    slopes, formulas, curvatures, second, peaks, contour = measure(z)
    for name in functions:
        yield equal(f"slope of {name}", slopes[name], formulas[name], x=z, along="z")
    yield equal("second derivatives", jnp.stack([*curvatures.values()]), jnp.stack([*second.values()]), atol=1e-11)
    lipschitz = [phi.lipschitz for phi in functions.values()]
    # at infinity Softplus has the slope 1 of ReLU, reached here up to e^-16
    yield equal("largest slope", peaks, lipschitz, atol=2e-7)
    yield equal(
        "largest |σ''|", jnp.abs(second["logistic"]).max(), 1 / (6 * 3**0.5), rtol=1e-4
    )  # second order in the grid
    polynomials = jnp.stack([logistic_derivative(z[::50], k) for k in range(order + 1)])
    # both lose up to a factor of k! to cancellation
    allowed = 1e-14 * math.factorial(order)
    yield equal("derivatives of σ as polynomials in σ", contour, polynomials, atol=allowed)
    far = jnp.array([-50.0, 50.0])
    bounded = (logistic, tanh)
    yield equal("limits of logistic and tanh at ±50", [phi(far) for phi in bounded], [phi.limits for phi in bounded])
    yield equal("limits of arctan at ±1e13", arctan(1e13 * far / 50), arctan.limits)
    yield equal("σ(-z) = 1 - σ(z), also at ±1000", logistic(-1000 * z), 1 - logistic(1000 * z), atol=1e-15)
    yield equal(
        "σ of its inverse", logistic(logistic.inverse(jnp.linspace(0.01, 0.99, 99))), jnp.linspace(0.01, 0.99, 99)
    )
    yield at_most("slope of the logistic function", slopes["logistic"], 0.25, x=z, along="z")
    yield control(
        "the function is the logistic one, not tanh",
        at_most("slope", slopes["tanh"], 0.25, x=z, along="z"),
    )


def _derivatives_by_contour(z, order):
    """The derivatives of the logistic function at real `z`, from its values on circles of radius 2.

    The nearest poles are at a distance of at least π: with 128 points the error is of the order of (2/π)^128.
    """
    circle = 2 * jnp.exp(2j * jnp.pi * jnp.arange(128) / 128)
    values = 1 / (1 + jnp.exp(-(z[:, None] + circle)))
    coefficients = jnp.fft.fft(values, axis=1).real[:, : order + 1].T / 128
    k = jnp.arange(order + 1)[:, None]
    return coefficients * jnp.exp(jax.scipy.special.gammaln(k + 1.0)) / 2.0**k


@claim(
    rows=("M05.19",),
    erratum="arctan and tanh are said to have the derivative 1/4 at 0; it is 1, and 1/4 that of the logistic function.",
)
def quarter_slope_at_zero(key):
    r"""arctan and tanh have the derivative 1/4 at zero.

    As printed in section 5.4: "both arctan and tanh have derivative 1/4 at the origin". Both have the slope 1 there;
    $\frac14$ is that of the logistic function.
    """
    slopes = [jax.grad(phi)(0.0) for phi in (jnp.arctan, jnp.tanh, jax.nn.sigmoid)]
    yield equal("slope of arctan, tanh and the logistic function at 0", slopes, [1.0, 1.0, 0.25])
    yield printed(equal("slope of arctan and tanh at 0", slopes[:2], 0.25))


@claim(rows=("M05.20", "B02.14"))
def tanh_is_a_logistic_function(key, *, units: Size = 12, points: Size = 100):
    r"""Logistic and tanh networks of one shape represent the same functions.

    $\tanh z=2\sigma(2z)-1$, that is $\sigma(z)=\frac12(1+\tanh\frac z2)$. In a network the inner factor goes into the
    weights and biases before the activation, which are halved, the outer ones into those after it: weights halved, and
    half their row sums added to the biases. For example $5\sigma(6x+8)+7=\frac52\tanh(3x+4)+\frac{19}2$.
    """
    net_key, x_key = jax.random.split(key)
    x = jax.random.normal(x_key, (points, 3))
    shapes = [(3, *[units] * depth, 2) for depth in (1, 2, 4)]
    nets = [MLP(s, logistic, key=k) for s, k in zip(shapes, jax.random.split(net_key, 3), strict=True)]

    @jax.jit
    def measure(nets):
        out = [jax.vmap(n)(x) for n in nets]
        converted = [jax.vmap(logistic_to_tanh(n))(x) for n in nets]
        back = [jax.vmap(tanh_to_logistic(logistic_to_tanh(n)))(x) for n in nets]
        # the factors without the constants: every row sum stays forgotten
        careless = [jax.vmap(_without_constants(n))(x) for n in nets]
        return tuple(map(jnp.stack, (out, converted, back, careless)))

    out, converted, back, careless = measure(nets)
    z = jnp.linspace(-20.0, 20.0, 2001)
    yield equal("tanh z", jnp.tanh(z), 2 * logistic(2 * z) - 1, rtol=0, atol=1e-15, x=z, along="z")
    yield equal("tanh networks of depth 2, 3 and 5", converted, out)
    yield equal("and back again", back, out)
    t = jnp.linspace(-5, 5, 101)
    yield equal("5 σ(6x+8) + 7", 5 * logistic(6 * t + 8) + 7, 2.5 * jnp.tanh(3 * t + 4) + 9.5, x=t, along="x")
    yield control("half the row sums are added to the biases: here not", equal("tanh networks", careless, out))


def _without_constants(network):
    converted = logistic_to_tanh(network)
    biases = [0.5 * layer.bias for layer in network.layers[:-1]] + [network.layers[-1].bias]
    layers = [(c.weight, b) for c, b in zip(converted.layers, biases, strict=True)]

    def apply(x):
        for i, (weight, bias) in enumerate(layers):
            x = weight @ x + bias
            x = jnp.tanh(x) if i < len(layers) - 1 else x
        return x

    return apply


@claim(
    rows=("M05.20",),
    erratum="At x = -4/3 the left side is 9.5 and the right side 2; it should be 2.5 tanh(3x+4) + 9.5.",
)
def worked_line_of_equivalence(key, *, points: Size = 101):
    r"""5 S(6x+8) + 7 equals 10 tanh(3x+4) + 2.

    As printed in section 5.4. The factor 5 must be halved, not doubled, and half of it goes into the constant:
    $\frac52\tanh(3x+4)+\frac{19}2$.
    """
    x = jnp.linspace(-5.0, 5.0, points)
    left, bend = 5 * logistic(6 * x + 8) + 7, jnp.tanh(3 * x + 4)
    yield equal("5 S(6x+8) + 7, corrected", left, 2.5 * bend + 9.5, x=x, along="x")
    yield printed(equal("5 S(6x+8) + 7, as printed", left, 10 * bend + 2, x=x, along="x"))


@claim(rows=("M05.21",))
def arctan_against_scaled_tanh(key, *, points: Size = 200_001):
    r"""arctan lies below the scaled tanh of the same slope and limits, by at most 0.2569.

    $\frac\pi2\tanh(\frac2\pi x)$ has the slope 1 at 0 and the limits $\pm\frac\pi2$ of $\arctan x$, and is larger in
    modulus everywhere else. The largest difference is 0.25689, at $|x|=2.7006$.
    """
    x = jnp.linspace(0.0, 40.0, points)
    scaled = jnp.pi / 2 * jnp.tanh(2 / jnp.pi * x)
    gap = scaled - jnp.arctan(x)
    slope = jax.grad(lambda x: jnp.pi / 2 * jnp.tanh(2 / jnp.pi * x))
    yield equal("slope at 0", slope(0.0), jax.grad(jnp.arctan)(0.0))
    yield at_least("difference in modulus", gap, 0.0, atol=1e-15)
    # printed to five and four decimals; the spacing of the grid is 2e-4 in x
    yield equal("largest difference", gap.max(), 0.25689, rtol=0, atol=5e-6)
    yield equal("where", x[jnp.argmax(gap)], 2.7006, rtol=0, atol=5e-5 + 40 / points)
    yield control(
        "tanh is scaled to the limits of arctan: here not",
        at_least("difference in modulus", jnp.tanh(x) - jnp.arctan(x), 0.0, atol=1e-15),
    )
    t = np.linspace(-10, 10, 201)
    yield curves(
        "arctan and scaled tanh", t, {"arctan x": np.arctan(t), "(π/2) tanh(2x/π)": np.pi / 2 * np.tanh(2 * t / np.pi)}
    )


@claim(rows=("M05.22",))
def dead_units(key, *, points: Size = 40, steps: Count = 400):
    r"""A ReLU unit whose pre-activations are all negative on the data never moves again.

    The derivative of ReLU is the Heaviside function. If $w\cdot x_m+b<0$ for every datapoint, the gradient of the loss
    in $(w,b)$ is exactly zero, so that gradient descent leaves them where they are forever. A unit with Softplus
    or a leaky slope has a gradient everywhere, and recovers.
    """
    x = jax.random.uniform(key, (points,), minval=0.0, maxval=1.0)
    y = 1.0 + x
    start = jnp.array([1.0, -3.0])  # w x + b is at most -2
    optimiser = optax.sgd(0.1)

    def run(phi):
        unit = Network(lambda theta, x: phi(theta[0] * x + theta[1]), start)
        return train(unit, lambda f, y: (f - y) ** 2, (x, y), optimiser, steps=steps, measure=lambda unit: unit.params)

    dead, soft, leaky, alive = run(relu), run(softplus(1.0)), run(leaky_relu(0.1)), run(_shifted_relu)
    yield at_most("largest pre-activation at the start", start[0] * x + start[1], -1.0)
    yield equal("parameters of the dead unit", dead.record, start, rtol=0, atol=0)
    yield equal("loss of the dead unit", dead.losses, dead.losses[0], rtol=0, atol=0)
    recovered = jnp.stack([soft.losses[-1], leaky.losses[-1]]) / dead.losses[0]
    yield at_most("loss left by Softplus and leaky ReLU", recovered, 0.1)
    yield control(
        "all pre-activations are negative: here shifted above zero",
        equal("parameters", alive.record, start, rtol=0, atol=0),
    )
    names = {"ReLU, dead": dead, "Softplus": soft, "leaky ReLU": leaky}
    yield curves(
        "loss on the way", np.arange(steps), {n: np.asarray(r.losses) for n, r in names.items()}, "iteration", "loss"
    )


def _shifted_relu(z):
    return relu(z + 3.0)


@claim(rows=("M05.23",))
def softplus_bound(key, *, points: Size = 20_001):
    r"""Softplus lies above ReLU by at most ln 2 / β, attained at zero.

    $\mathrm{Softplus}_\beta(x)-\mathrm{ReLU}(x)=\frac1\beta\ln(1+e^{-\beta|x|})\in(0,\frac{\ln2}\beta]$, with its
    maximum at 0; the slope is $S(\beta x)>0$.
    """
    betas = 2.0 ** jnp.arange(-2, 6)
    x = jnp.linspace(-10.0, 10.0, 2 * (points // 2) + 1)  # holds 0

    @jax.jit
    def measure(x):
        gaps = jnp.stack([softplus(b)(x) - relu(x) for b in np.asarray(betas).tolist()])
        slopes = jnp.stack([jax.vmap(jax.grad(softplus(b)))(x) for b in np.asarray(betas).tolist()])
        swish = jnp.stack([x * logistic(b * x) - relu(x) for b in betas])
        return gaps, slopes, swish

    gaps, slopes, swish = measure(x)
    # the difference of two numbers up to 10 is rounded at their eps
    yield equal(
        "difference",
        gaps,
        jnp.log1p(jnp.exp(-betas[:, None] * jnp.abs(x))) / betas[:, None],
        atol=1e-14,
        x=x,
        along="x",
    )
    yield equal("largest difference", gaps.max(1), jnp.log(2) / betas, rtol=1e-14, x=betas, along="β")
    yield equal("where it is largest", x[jnp.argmax(gaps, axis=1)], 0.0)
    yield rate("largest difference against β", betas, gaps.max(1), -1.0, tolerance=0.01, along="β")
    yield equal("slope", slopes, logistic(betas[:, None] * x), x=x, along="x")
    yield control(
        "the smooth function is Softplus, not x S(βx)", at_least("difference", swish, 0.0, atol=1e-14, x=x, along="x")
    )
    t = np.linspace(-2, 2, 161)
    shown = {"ReLU": np.maximum(t, 0)} | {f"β = {b}": np.log1p(np.exp(b * t)) / b for b in (1, 2, 5, 10)}
    yield curves("Softplus for four β", t, shown)
