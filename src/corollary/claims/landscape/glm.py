"""A single neuron: noise that does not matter, gradients that point the right way, a convex surrogate."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal
from corollary.landscape import (
    GLM,
    glm_correlation,
    glm_gradient,
    glm_loss,
    glm_tron,
    matching_loss,
    secant_rate,
    span_quadrature,
)
from corollary.nets import identity, leaky_relu, logistic, relu
from corollary.optimization import Problem, minimize


@claim(rows=("T06.11", "T06.12"))
def noise_decomposition(key, *, dim: Size = 5, points: Size = 20):
    r"""Noise of mean zero adds its variance to the loss of a neuron and nothing to the gradient.

    Let $y=\sigma(w_*^\top x)+\varepsilon$ with $\mathbb E[\varepsilon\mid x]=0$. Then $L(w)=\frac12\mathbb
    E(y-\sigma(w^\top x))^2=\frac12\mathbb E\varepsilon^2+\frac12\mathbb E(\sigma(w_*^\top x)-\sigma(w^\top
    x))^2$ and $\nabla L(w)=\mathbb E[(\sigma(w^\top x)-\sigma(w_*^\top x))\sigma'(w^\top x)x]$, also if the
    size of the noise depends on $x$. Measured with Gaussian $x$ by quadrature, $\varepsilon=\pm s(x)$ with
    equal chances and $s(x)=0.3+0.2|w_*^\top x|$; the gradient by automatic differentiation of the loss with
    noise. If the mean of the noise follows $x$, both fail.
    """

    @jax.jit
    def measure(key):
        v_key, w_key = jax.random.split(key)
        model = GLM(logistic, 0.8 * jax.random.normal(v_key, (dim,)) / jnp.sqrt(dim))

        def one(w, bias):
            x, weights = span_quadrature(w, model.w_star, 60)
            u = x @ model.w_star
            size = 0.3 + 0.2 * jnp.abs(u)
            clean = model.mean(x)
            # every point twice, with the noise of either sign
            both, half = jnp.concatenate([x, x]), jnp.concatenate([weights, weights]) / 2
            noise = jnp.concatenate([size, -size]) + bias * jnp.concatenate([u, u])
            y = jnp.concatenate([clean, clean]) + noise
            value, slope = jax.value_and_grad(lambda w: glm_loss(logistic, w, both, y, half))(w)
            parts = 0.5 * half @ noise**2, glm_loss(logistic, w, x, clean, weights)
            return value, jnp.stack(parts), slope, glm_gradient(logistic, w, x, clean, weights)

        w = jax.random.normal(w_key, (points, dim)) / jnp.sqrt(dim)
        return jax.vmap(lambda w: one(w, 0.0))(w), jax.vmap(lambda w: one(w, 0.2))(w)

    (value, parts, slope, clean), (biased, apart, bent, straight) = measure(key)
    yield equal("loss: half the variance and the distance of the neurons", value, parts.sum(1), rtol=1e-12)
    yield equal("gradient: that without noise", slope, clean, atol=1e-12)
    yield at_least("share of the noise in the loss", parts[:, 0] / value, 0.1)
    yield control(
        "noise of mean zero: here its mean follows the input", equal("loss", biased, apart.sum(1), rtol=1e-12)
    )
    yield control("noise of mean zero: here its mean follows the input", equal("gradient", bent, straight, atol=1e-12))


@claim(rows=("T06.13",))
def gradient_points_away_from_the_truth(key, *, dim: Size = 5, points: Size = 400, steps: Count = 300):
    r"""The gradient of a neuron's loss is correlated with the way from the truth: restricted secants hold.

    $\langle\nabla L(w),w-w_*\rangle=\mathbb E[\sigma'(\xi)\sigma'(w^\top x)((w-w_*)^\top x)^2]\ge0$ with
    $\xi$ between $w^\top x$ and $w_*^\top x$. If $\sigma'\ge\gamma>0$ there and $\mathbb E
    xx^\top\succeq\lambda I$, the restricted secant inequality holds with $\mu=\gamma^2\lambda$: for the leaky
    ReLU with $\gamma$ its slope; for the logistic function with $\|x\|\le R$, $\|w\|,\|w_*\|\le B$ and
    $\gamma=\sigma'(BR)$. It is attained by $\sigma(u)=u$ with $\mathbb E xx^\top=\lambda I$. So descent is
    geometric. ReLU has $\gamma=0$: where all $w^\top x<0$ the gradient vanishes away from the truth.
    """
    leaky, slope = leaky_relu(0.3), 0.3
    k = jnp.arange(1, steps + 1)

    @jax.jit
    def measure(key):
        x_key, v_key, w_key, s_key = jax.random.split(key, 4)
        v = jax.random.normal(v_key, (dim,)) / jnp.sqrt(dim)
        away = jax.random.normal(w_key, (points, dim))
        w = v + away * jnp.exp(jax.random.uniform(s_key, (points, 1), minval=-3.0, maxval=1.5))
        x = jax.random.normal(x_key, (200, dim))
        narrow = x * jnp.linspace(1.0, 0.3, dim)

        def ratio(activation, w, v, x):
            """The secant ratio through the gradient, and the form of the mean value theorem."""
            inner = glm_gradient(activation, w, x, activation(x @ v)) @ (w - v)
            square = jnp.sum((w - v) ** 2)
            return jnp.stack([inner, glm_correlation(activation, w, v, x)]) / square

        def least(x):
            return jnp.linalg.eigvalsh(x.T @ x / x.shape[0])[jnp.array([0, -1])]

        def table(activation, w, v, x):
            return jax.vmap(lambda w: ratio(activation, w, v, x))(w)

        ball = lambda a: a / jnp.maximum(jnp.linalg.norm(a, axis=-1, keepdims=True), 1.0)  # noqa: E731
        inside, bounded = 1.5 * ball(away), 2.0 * ball(x)
        # an orthonormal set of inputs, so that their second moments are round
        white = jnp.linalg.qr(x)[0] * jnp.sqrt(200 * 0.7)
        low, high = least(narrow)
        problem = Problem(
            lambda w, x, v: glm_loss(leaky, w, x, leaky(x @ v)), (narrow, v), w[0], minimiser=v, minimum=jnp.zeros(())
        )
        mu = slope**2 * low
        # slopes are at most 1 and leaky ReLU is linear between kinks, where the gradient has no jump in the mean: the
        # gradient grows at most like high |w - v|, which is what the rate needs of smoothness
        path = jax.vmap(lambda s: minimize(problem, optax.sgd(mu / high**2), steps=steps, start=s).theta)(w[:8])
        dead = -jnp.abs(jnp.ones(dim))
        positive = jnp.abs(x)
        return {
            "leaky, round": (table(leaky, w, v, x), slope**2 * least(x)[0]),
            "leaky, narrow": (table(leaky, w, v, narrow), mu),
            "logistic, bounded": (
                table(logistic, inside, 1.5 * ball(v[None])[0], bounded),
                logistic.prime(jnp.array(3.0)) ** 2 * least(bounded)[0],
            ),
            "linear": table(identity, w, v, white),
            "path": (jnp.sum((path - v) ** 2, -1), mu, high),
            "dead": ratio(relu, dead, jnp.abs(v), positive),
            "alive": slope**2 * least(positive)[0],
        }

    found = measure(key)
    for name in ("leaky, round", "leaky, narrow", "logistic, bounded"):
        ratios, bound = found[name]
        yield equal(f"{name}: gradient against the mean value form", ratios[:, 0], ratios[:, 1], rtol=1e-9)
        yield at_least(f"{name}: correlation over squared distance", ratios[:, 0], bound)
    yield equal("linear and round: attained", found["linear"][:, 0], 0.7)
    square, mu, L = found["path"]
    bound = secant_rate(L, mu, jnp.sqrt(square[:, :1]), k)
    yield at_most("leaky: squared distance along descent", square[:, 1:], bound, x=k, along="iteration")
    yield control(
        "a slope above zero: here ReLU with no unit active",
        at_least("correlation over squared distance", found["dead"][0], 1e-6),
    )


@claim(rows=("T06.14",), no_control="an algorithm; the squared loss, not convex, is among the checks")
def matching_loss_is_convex(key, *, dim: Size = 5, n: Size = 400, points: Size = 50, steps: Count = 600):
    r"""The matching loss of a neuron is convex where the squared loss is not, and descent on it is not held up.

    $g(w)=\mathbb E[\tau(w^\top x)-y\,w^\top x]$ with $\tau'=\sigma$ has the gradient $\mathbb
    E[(\sigma(w^\top x)-y)x]$, which is 0 at $w_*$, and the Hessian $\mathbb E[\sigma'(w^\top
    x)xx^\top]\succeq0$. The squared loss has the factor $\sigma'(w^\top x)$ in its gradient: far out on the
    wrong side it is flat. For the logistic function $\tau$ is softplus and $g$ is the cross-entropy.
    """

    @jax.jit
    def measure(key):
        x_key, v_key, w_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, dim))
        v = jax.random.normal(v_key, (dim,))
        v = v / jnp.linalg.norm(v)
        model = GLM(logistic, v)
        y = model.mean(x)
        w = 4 * jax.random.normal(w_key, (points, dim))
        smooth = lambda w: matching_loss(jax.nn.softplus, w, x, y)  # noqa: E731
        square = lambda w: glm_loss(logistic, w, x, y)  # noqa: E731
        least = lambda f: jax.lax.map(lambda w: jnp.linalg.eigvalsh(jax.hessian(f)(w))[0], w)  # noqa: E731
        slopes = jax.vmap(jax.grad(smooth))(w)
        by_hand = jax.vmap(lambda w: jnp.mean((logistic(x @ w) - y)[:, None] * x, 0))(w)
        cross = jax.vmap(lambda w: -jnp.mean(y * jax.nn.log_sigmoid(x @ w) + (1 - y) * jax.nn.log_sigmoid(-x @ w)))(w)
        begin = -20 * v
        tron = glm_tron(logistic, x, y, begin, step=4.0, steps=60)
        problem = Problem(lambda w, x, y: glm_loss(logistic, w, x, y), (x, y), begin)
        slow = jax.vmap(lambda eta: minimize(problem, optax.sgd(eta), steps=steps).theta)(jnp.array([4.0, 16.0]))
        return {
            "slopes": (slopes, by_hand),
            "cross": (jax.vmap(smooth)(w), cross),
            "least": (least(smooth), least(square)),
            "truth": (jax.grad(smooth)(v), jax.grad(square)(v)),
            "first": jnp.argmax(jnp.linalg.norm(tron - v, axis=-1) < 0.1),
            "end": jnp.linalg.norm(tron[-1] - v),
            "slow": jnp.linalg.norm(slow - v, axis=-1),
        }

    found = measure(key)
    yield equal("gradient: mean of the residual times the input", *found["slopes"], atol=1e-12)
    yield equal("logistic: the cross-entropy", *found["cross"], rtol=1e-11)
    convex, other = found["least"]
    yield at_least("matching loss: least curvature", convex, 0.0, atol=1e-14)
    yield at_most("squared loss: least curvature over the points", other.min(), -1e-4)
    yield equal("both are stationary at the truth", jnp.stack(found["truth"]), 0.0, atol=1e-14)
    first, slow = int(found["first"]), np.asarray(found["slow"])
    yield at_most("matching loss: steps from distance 21 to 0.1", first, 30)
    yield at_most("matching loss: distance after 60 steps", found["end"], 0.01)
    # steps of 4, like those above, and four times as long: on the plateau the squared loss has hardly begun to move
    late = min(20 * first, steps)
    yield at_least("squared loss: distance after 20 times as many steps", slow[:, late], 1.0)
