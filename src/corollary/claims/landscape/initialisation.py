"""How random weights change the variance of signals and gradients, and the scalings that keep it (M section 19.2)."""

from itertools import pairwise
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, estimate, monotone, printed, rate
from corollary.landscape import (
    delta_method_variance,
    he_variance,
    layer_variance_bound,
    linear_layer_variances,
    product_variance,
    signal_propagation,
    variance_profile,
    xavier_variance,
)
from corollary.nets import FullyConnected, glorot_normal, glorot_uniform, identity, relu, tanh

HERMITE = np.polynomial.hermite_e.hermegauss(120)


def _normal_mean(f):
    """The expectation of f(Z) for standard normal Z, along a new last axis of nodes."""
    nodes, weights = HERMITE
    return f(nodes) @ (weights / weights.sum())


@claim(rows=("M19.01",))
def delta_method(key):
    r"""The variance of a smooth function is the squared slope times the variance, up to the fourth power of the spread.

    For $X=\mu+sZ$, $\mathbb EZ=0$, $\mathrm{Var}Z=1$: $\mathrm{Var}\,g(X)=g'(\mu)^2s^2+s^3g'(\mu)g''(\mu)\,\mathbb
    EZ^3+O(s^4)$. So the error of $g'(\mu)^2\mathrm{Var}X$ is of the order $s^4$ for symmetric $Z$ and $s^3$ for
    skewed ones with $g'(\mu)g''(\mu)\ne0$. Without smoothness it is of the order of the variance itself.
    """
    s = 2.0 ** -np.arange(5, 10)
    functions = {"tanh": (np.tanh, jnp.tanh), "exp": (np.exp, jnp.exp)}
    laguerre, weights = np.polynomial.laguerre.laggauss(60)

    def errors(f, g, mu, z, w):
        values = f(mu + s[:, None] * z)
        exact = (values - (values @ w)[:, None]) ** 2 @ w
        return np.abs(exact - np.array([float(delta_method_variance(g, mu, v)) for v in s**2]))

    nodes, normal = HERMITE
    normal = normal / normal.sum()
    for name, (f, g) in functions.items():
        for mu in (0.0, 0.7):
            found = errors(f, g, mu, nodes, normal)
            yield rate(f"{name} at {mu:g}, normal", s, found, 4.0, tolerance=0.1, along="s")
    skewed = errors(np.exp, jnp.exp, 0.0, laguerre - 1, weights)
    yield rate("exp, exponential law", s, skewed, 3.0, tolerance=0.2, along="s")
    kinked = errors(np.abs, jnp.abs, 0.0, nodes, normal)
    yield control(
        "a smooth function: here the absolute value at its kink", rate("|x|, normal", s, kinked, 4.0, tolerance=0.1)
    )


@claim(rows=("M19.02",))
def deterministic_weights(key, *, layers: Size = 50, width: Annotated[int, Range(4, 60)] = 12):
    r"""With small fixed weights variances shrink from layer to layer, with large ones units saturate.

    For uncorrelated inputs, $H_j=\sigma(Z_j)$, $Z=WH'+b$ and $|\sigma'|\le C$: $\sum_j\mathrm{Var}(H_j)^2\le
    C^4\sum w_{ji}^4\sum_i\mathrm{Var}(H'_i)^2$ (Cauchy and Schwarz); for linear units
    $\mathrm{Var}H_j=\sum_iw_{ji}^2\mathrm{Var}H'_i$. For a logistic unit with input of standard deviation $\alpha$ the
    mean slope falls like $1/\alpha$.
    """
    w_key, v_key = jax.random.split(key)
    weights = np.asarray(jax.random.normal(w_key, (layers, width, width)))
    variances = np.asarray(jax.random.uniform(v_key, (layers, width)))
    spread = np.stack([linear_layer_variances(w, v) for w, v in zip(weights, variances, strict=True)])
    covariance = np.einsum("lji,li,lki->ljk", weights, variances, weights)
    yield equal("linear units", spread, np.einsum("ljj->lj", covariance))
    bounds = {"tanh": (np.tanh, 1.0), "logistic": (lambda z: 1 / (1 + np.exp(-z)), 0.25), "sine": (np.sin, 1.0)}
    for name, (f, slope) in bounds.items():
        # normal inputs: every Z is normal, and the variance of a unit an integral of one variable
        z = np.sqrt(spread)[..., None]
        second = _normal_mean(lambda n, f=f, z=z: f(z * n) ** 2)
        first = _normal_mean(lambda n, f=f, z=z: f(z * n))
        left = np.sum((second - first**2) ** 2, axis=1)
        right = np.array([layer_variance_bound(w, v, slope) for w, v in zip(weights, variances, strict=True)])
        yield at_most(f"sum of squared variances, {name}", left, right)
    one = np.zeros((1, 3, 3))
    one[0, 0, 0] = 1.0  # a single connection: attained by a linear unit
    attained = np.sum(np.asarray(linear_layer_variances(one[0], np.array([0.7, 0.0, 0.0]))) ** 2)
    yield equal("one connection: attained", attained, layer_variance_bound(one[0], np.array([0.7, 0.0, 0.0])))
    alphas = 10.0 ** np.arange(-1, 4)
    # the mean slope of a logistic unit: a sum over a fine grid of the pre-activation, exact to many digits
    t = np.linspace(-40, 40, 8001)
    slopes = np.exp(-t) / (1 + np.exp(-t)) ** 2
    saturated = np.array(
        [np.sum(slopes * np.exp(-((t / a) ** 2) / 2)) * (t[1] - t[0]) / (a * np.sqrt(2 * np.pi)) for a in alphas]
    )
    yield monotone("mean slope of a logistic unit", saturated, "decreasing", strict=True, x=alphas, along="α")
    large = 10.0 ** np.linspace(1.5, 3, 6)
    means = np.array(
        [np.sum(slopes * np.exp(-((t / a) ** 2) / 2)) * (t[1] - t[0]) / (a * np.sqrt(2 * np.pi)) for a in large]
    )
    yield rate("mean slope, large weights", large, means, -1.0, tolerance=0.05, along="α")
    # all inputs one and the same, all weights positive: the variance is that of the sum of the weights
    same = np.abs(weights).sum(2) ** 2 * 0.5
    right = np.array([layer_variance_bound(w, np.full(width, 0.5)) for w in weights])
    yield control(
        "uncorrelated inputs: here perfectly correlated", at_most("sum of squared variances", np.sum(same**2, 1), right)
    )


def _networks(keys, sizes, variances, activation, x):
    """Forward mean squares and backward squared gradients of random networks, with a loss linear in the output."""

    def one(key):
        draws = jax.random.normal(key, (sum(m * n for n, m in pairwise(sizes)),))
        layers, at = [], 0
        for n, m, v in zip(sizes[:-1], sizes[1:], variances, strict=True):
            layers.append(FullyConnected.of(v**0.5 * draws[at : at + m * n].reshape(m, n), activation=activation))
            at += m * n
        found = signal_propagation(layers, lambda out, _: jnp.sum(out) / out.size**0.5, (x, x))
        return found.forward, found.backward

    return jax.vmap(one)(keys)


@claim(rows=("M19.03",))
def forward_recursion(key, *, networks: Size = 64, width: Annotated[int, Range(50, 400)] = 128):
    r"""The variance of the activations is multiplied by the fan-in times the variance of the weights in every layer.

    For independent weights of mean 0, no biases and $\sigma$ odd with $\sigma'(0)=1$: $\mathrm{Var}H^\ell\approx
    N_{\ell-1}\mathrm{Var}(w)\mathrm{Var}H^{\ell-1}$, which rests on
    $\mathrm{Var}(UV)=(EU)^2\mathrm{Var}V+(EV)^2\mathrm{Var}U+\mathrm{Var}U\mathrm{Var}V$ for independent factors. It is
    exact for linear units; for tanh it neglects $2v^2$ a layer, and wide networks follow $v_\ell=\mathbb
    E\tanh^2(\sqrt{cv_{\ell-1}}Z)$: even at $c=N\mathrm{Var}w=1$ they decay, like $\frac1{2\ell}$.
    """
    depth = 5

    @jax.jit
    def measure(key):
        x = jnp.full((1, width), 0.5**0.5)
        return _networks(jax.random.split(key, networks), [width] * (depth + 1), [1 / width] * depth, tanh, x)[0]

    forward = measure(key)
    profile = variance_profile(jnp.tanh, 1.0, 0.5, depth)
    # the rule of thumb says that nothing changes
    yield estimate("tanh, mean square by layer", forward[:, 1:], profile[1:], wrong=0.5)
    small = 10.0 ** -np.arange(1.5, 4.1, 0.5)
    loss = np.array([(v - float(variance_profile(jnp.tanh, 1.0, v, 1)[1])) / v**2 for v in small])
    # tanh² z = z² - 2 z⁴/3 + 17 z⁶/45 - ...: 2 v² less 17 v³/3, and so on
    yield equal("what the rule neglects, over v²", loss[2:], 2.0, rtol=0.01, x=small[2:], along="v")
    long = variance_profile(jnp.tanh, 1.0, 0.5, 2000)
    yield equal("decay like 1/(2ℓ)", 2 * 2000 * long[-1], 1.0, rtol=0.01)
    u, p = np.array([1.0, 2.0, -1.0]), np.array([0.2, 0.5, 0.3])
    v, q = np.array([0.5, 3.0]), np.array([0.4, 0.6])
    joint, weights = np.outer(u, v), np.outer(p, q)
    exact = np.sum(weights * joint**2) - np.sum(weights * joint) ** 2
    means = (u @ p, v @ q)
    spreads = (u**2 @ p - means[0] ** 2, v**2 @ q - means[1] ** 2)
    yield equal("variance of a product", exact, product_variance(means[0], spreads[0], means[1], spreads[1]))
    dependent = u**4 @ p - (u**2 @ p) ** 2
    yield control(
        "independent factors: here U = V",
        equal("variance of a product", dependent, product_variance(means[0], spreads[0], means[0], spreads[0])),
    )


@claim(rows=("M19.04", "M19.05"))
def backward_recursion(key, *, networks: Size = 600):
    r"""Gradients are multiplied by the fan-out times the variance; no variance keeps signals and gradients at once.

    For linear units with independent weights, $\mathrm{Var}(\partial\Lambda/\partial
    Z^{\ell-1})=N_\ell\mathrm{Var}(w^\ell)\mathrm{Var}(\partial\Lambda/\partial Z^\ell)$. On a widening network the
    forward choice $\frac1{N_{\ell-1}}$ makes gradients grow by $\frac{N_\ell}{N_{\ell-1}}$ a layer, the backward choice
    $\frac1{N_\ell}$ makes signals shrink by its inverse; Xavier's $\frac2{N_\ell+N_{\ell-1}}$ shares the damage:
    the two factors multiply to $\frac{4N_\ell N_{\ell-1}}{(N_\ell+N_{\ell-1})^2}\le1$.
    """
    sizes = (16, 32, 64, 128)
    pairs = list(pairwise(sizes))
    choices = {
        "forward": [1 / n for n, _ in pairs],
        "backward": [1 / m for _, m in pairs],
        "Xavier": [xavier_variance(n, m) for n, m in pairs],
    }

    @jax.jit
    def measure(key):
        keys, x = jax.random.split(key, networks), jnp.ones((1, sizes[0]))
        return {name: _networks(keys, sizes, v, identity, x) for name, v in choices.items()}

    fans = np.array(sizes, float)
    kept = {}
    for name, (forward, backward) in measure(key).items():
        variances = np.array(choices[name])
        ahead = np.cumprod(fans[:-1] * variances)
        yield estimate(f"mean square of the signals, {name} choice", forward[:, 1:], ahead, wrong=1.5 * ahead)
        # per unit: the squared norm over the width, relative to the output's
        back = np.cumprod((fans[1:] * variances)[::-1])[::-1]
        measured = backward[:, :-1] / fans[:-1] * fans[-1]
        yield estimate(f"mean square of the gradients, {name} choice", measured, back, wrong=1.5 * back)
        if name == "Xavier":
            both = ahead[-1] * back[0]
            yield equal("both factors together", both, np.prod([4 * n * m / (n + m) ** 2 for n, m in pairs]))
            yield at_most("both factors together: a loss", both, 1.0)
        kept[name] = forward[:, 1:], measured
    yield control(
        "variance 1/fan-out: here 1/fan-in",
        estimate("mean square of the gradients", kept["forward"][1], 1.0, wrong=0.0),
    )
    yield control(
        "variance 1/fan-in: here 1/fan-out", estimate("mean square of the signals", kept["backward"][0], 1.0, wrong=0.0)
    )


@claim(rows=("M19.05",))
def xavier_laws(key, *, fan_in: Size = 300, fan_out: Size = 100):
    r"""Xavier's initialisation as a normal or as a uniform law, of the same variance.

    $N(0,\frac2{N_\ell+N_{\ell-1}})$, or uniform on $[-a,a]$ with $a=\sqrt{\frac6{N_\ell+N_{\ell-1}}}$, since the
    variance of the latter is $a^2/3$.
    """
    normal_key, uniform_key = jax.random.split(key)
    variance = xavier_variance(fan_in, fan_out)
    normal = glorot_normal(normal_key, (fan_out, fan_in), jnp.float64).ravel()
    uniform = glorot_uniform(uniform_key, (fan_out, fan_in), jnp.float64).ravel()
    yield estimate("normal law, square of a weight", normal**2, variance, wrong=1 / fan_in)
    yield estimate("uniform law, square of a weight", uniform**2, variance, wrong=1 / fan_in)
    a = np.sqrt(6 / (fan_in + fan_out))
    yield at_most("uniform law, largest weight", jnp.abs(uniform).max(), a)
    # of n uniform weights the largest is below (1 - e) a with probability (1 - e)^n, here 1e-13
    yield at_least("uniform law, largest weight: no less", jnp.abs(uniform).max(), (1 - 30 / uniform.size) * a)


@claim(rows=("M19.05",), erratum="The bound of the uniform law has the fan-in twice, where fan-in and fan-out belong.")
def printed_uniform(key, *, fan_in: Size = 300, fan_out: Size = 100):
    r"""The uniform law on an interval that depends on the fan-in alone has Xavier's variance.

    As printed: "if $w_{ij}$ are uniform, then we are led to choose" the law on $[-a,a]$ with
    $a=\sqrt{6/(N_{\ell-1}+N_{\ell-1})}$, from $\frac{a^2}3=\frac2{N_\ell+N_{\ell-1}}$. Its variance is
    $\frac1{N_{\ell-1}}$, which is not that unless the layer is square; with $a=\sqrt{6/(N_\ell+N_{\ell-1})}$ it is.
    """
    unit = jax.random.uniform(key, (20_000,), minval=-1.0, maxval=1.0)
    variance = xavier_variance(fan_in, fan_out)
    yield printed(estimate("square of a weight, fan-in twice", 6 / (fan_in + fan_in) * unit**2, variance, wrong=0.0))
    yield estimate(
        "square of a weight, fan-in and fan-out", 6 / (fan_in + fan_out) * unit**2, variance, wrong=1 / fan_in
    )


@claim(rows=("M19.06",))
def he_scaling(key, *, networks: Size = 200, width: Annotated[int, Range(20, 200)] = 64):
    r"""Rectified units pass half of the mean square on: twice the variance keeps it.

    For symmetric independent weights without biases and ReLU units, $\mathbb
    E(H^\ell)^2=\frac12N_{\ell-1}\mathrm{Var}(w)\,\mathbb E(H^{\ell-1})^2$ exactly. With He's variance
    $\frac2{N_{\ell-1}}$ it stays, with $\frac1{N_{\ell-1}}$ it halves in every layer.
    """
    depth = 6

    @jax.jit
    def measure(key):
        keys, x = jax.random.split(key, networks), jnp.ones((1, width))
        variances = he_variance(width, width), 1 / width
        return [_networks(keys, [width] * (depth + 1), [v] * depth, relu, x)[0] for v in variances]

    forward, half = measure(key)
    halves = 0.5 ** np.arange(1, depth + 1)
    yield estimate("mean square by layer, He", forward[:, 1:], 1.0, wrong=halves)
    yield estimate("mean square by layer, variance 1/N", half[:, 1:], halves, wrong=1.0)
    yield control("variance 2/N: here 1/N", estimate("mean square by layer", half[:, 1:], 1.0, wrong=0.0))
