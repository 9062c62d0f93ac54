"""Adversarial networks with exact expectations: the best discriminator, and what his loss tells."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.claims.generative._shift import Line, Shift, exact_loss, newton, on_tables
from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.foundations import jensen_shannon, kl, panels
from corollary.generative import GAN, optimal_discriminator, optimal_value
from corollary.network import LOSSES

LN4 = np.log(4)


def _laws(key, size):
    """Two laws on as many outcomes, none of them below a tenth of the average."""
    raw = jax.random.exponential(key, (2, size)) + 0.1
    return raw / raw.sum(1, keepdims=True)


def _best_line(a, theta, sigma=1.0):
    """The best discriminator of slope and offset between N(a, 1) and N(theta, sigma²), and his loss."""

    def loss(v):
        return exact_loss(Line(v[0], v[1]), Shift(theta, sigma), a)

    best = newton(loss, jnp.zeros(2))
    return best, loss(best)


def _normal_divergence(a, theta, sigma=1.0):
    """Of Jensen and Shannon, between N(a, 1) and N(theta, sigma²), by a rule of quadrature and SciPy's densities."""
    x, w = (np.asarray(side) for side in panels(np.linspace(min(a, theta) - 12, max(a, theta) + 12, 81), 12))
    p, q = stats.norm.logpdf(x, a, 1), stats.norm.logpdf(x, theta, sigma)
    middle = np.logaddexp(p, q) - np.log(2)
    return float(w @ (np.exp(p) * (p - middle) + np.exp(q) * (q - middle)) / 2)


@claim(rows=("M15.20", "T16.10", "M15.19", "M15.40"))
def best_discriminator(key, *, outcomes: Size = 12):
    r"""The best discriminator is p / (p + q), and his loss tells the divergence of Jensen and Shannon.

    For laws $p$ and $q$ that charge every outcome the loss $-\mathbb E_p\ln m-\mathbb E_q\ln(1-m)$ over all $m$ is
    least at $m=\frac p{p+q}$, where its second variation is $\frac p{m^2}+\frac q{(1-m)^2}$; its value there is
    $\ln4-2\,\mathrm{JS}(p,q)$, and that of the game $\mathrm{KL}(p|\frac{p+q}2)+\mathrm{KL}(q|\frac{p+q}2)-2\ln2$. The
    logit of $m$ is $\ln\frac pq$, with the means $\mathrm{KL}(p|q)$ and $-\mathrm{KL}(q|p)$. Found by Newton's method
    over one free logit for each outcome. For $N(a,1)$ and $N(\theta,1)$ the logit is a line, so that logistic
    regression attains it; for other variances it is not, and a line does not.
    """
    a, theta, sigma = 1.3, -0.4, 0.5

    @jax.jit
    def measure(key):
        law_key, way_key = jax.random.split(key)
        p, q = _laws(law_key, outcomes)
        logits = newton(lambda b: -on_tables(b, p, q), jnp.zeros(outcomes))
        m, h = jax.nn.sigmoid(logits), 1e-4
        way = jax.random.normal(way_key, (outcomes,)) * m * (1 - m)
        beside = jax.vmap(lambda e: -on_tables(jax.scipy.special.logit(m + e * way), p, q))(jnp.array([-h, 0, h]))
        curvature = (beside[0] - 2 * beside[1] + beside[2]) / h**2
        line, loss = _best_line(a, theta)
        return p, q, logits, m, beside[1], way, curvature, line, loss, _best_line(a, theta, sigma)[1]

    p, q, logits, m, loss, way, curvature, line, line_loss, wide_loss = (np.asarray(v) for v in measure(key))
    yield equal("the best discriminator", m, optimal_discriminator(p, q), rtol=1e-10)
    yield equal("the least loss", loss, LN4 - 2 * jensen_shannon(p, q), rtol=1e-12)
    yield equal("the value of the game", -loss, optimal_value(p, q), rtol=1e-12)
    yield equal("means of the logit", [p @ logits, q @ logits], [kl(p, q), -kl(q, p)], rtol=1e-10)
    # central differences with a step of 1e-4: 1e-8 of the truth, and a rounding of 1e-16 over 1e-8
    yield equal("second variation", curvature, np.sum(way**2 * (p / m**2 + q / (1 - m) ** 2)), rtol=1e-5)
    yield equal("logistic regression of two normal laws", line, [a - theta, (theta**2 - a**2) / 2], rtol=1e-9)
    yield equal("its loss", line_loss, LN4 - 2 * _normal_divergence(a, theta), rtol=1e-10)
    yield control(
        "any discriminator: here a line, where the best logit is a parabola",
        equal("its loss", wide_loss, LN4 - 2 * _normal_divergence(a, theta, sigma), rtol=1e-10),
    )


@claim(
    rows=("M15.20",),
    erratum="ln 4 is said to be the least loss over the laws of the generator, and is the greatest.",
)
def printed_least_loss(key, *, shifts: Size = 8):
    r"""Over all laws of the generator the least loss of a discriminator is greatest, ln 4, at the real law.

    As printed (Lemma 15.4): the global minimum is achieved if and only if $p_\mu=p_\nu$, in which case the loss is
    $\ln4$. For $\mu=N(a,1)$ and $\nu=N(\theta,1)$ the least losses lie below $\ln4$ for $\theta\ne a$.
    """

    @jax.jit
    def measure(key):
        a = jax.random.uniform(key, (), minval=-1.0, maxval=1.0)
        gaps = jnp.linspace(0.0, 4.0, shifts)
        return gaps, jax.vmap(lambda gap: _best_line(a, a + gap)[1])(gaps)

    gaps, losses = measure(key)
    yield printed(at_least("least loss", losses[1:], LN4, x=gaps[1:], along="shift"))
    yield at_most("least loss, from above", losses, LN4, rtol=1e-12, x=gaps, along="shift")
    yield equal("least loss where both laws are one", losses[0], LN4, rtol=1e-12)


@claim(rows=("T16.10",), erratum="The optimum of (16.3) is given without the summand -2 log 2.")
def printed_jensen_shannon(key, *, outcomes: Size = 12):
    r"""With f = ln the best discriminator raises the objective to two relative entropies less 2 ln 2.

    As printed: the optimum of $\mathbb E_\mu\ln D+\mathbb E_\nu\ln(1-D)$ over all $D$ is
    $\mathrm{KL}(\mu|\frac{\mu+\nu}2)+\mathrm{KL}(\nu|\frac{\mu+\nu}2)$, which is never negative, where the objective is
    never positive. Found by Newton's method over a free logit for each outcome, on random laws.
    """

    @jax.jit
    def measure(key):
        p, q = _laws(key, outcomes)
        return p, q, on_tables(newton(lambda b: -on_tables(b, p, q), jnp.zeros(outcomes)), p, q)

    p, q, value = measure(key)
    entropies = kl(p, (p + q) / 2) + kl(q, (p + q) / 2)
    yield printed(equal("optimum of the objective", value, entropies, rtol=1e-10))
    yield equal("optimum of the objective, with the summand", value, entropies - LN4, rtol=1e-10)


@claim(rows=("M15.22", "M15.41", "M15.21", "M15.19"))
def loss_is_a_cross_entropy(key, *, n: Size = 50, dim: Size = 3):
    r"""The loss of the discriminator is twice the cross entropy of telling real from generated examples.

    On $\mathcal D_1\times\{1\}\cup\mathcal D_0\times\{0\}$, with as many examples of both, the mean of the binary cross
    entropy is half of $-\frac1n\sum\ln m(x)-\frac1n\sum\ln(1-m(g(z)))$. For one unit, $m=S(w\cdot x+b)$, the loss is
    $\frac1n\sum\ln(1+e^{-(w\cdot x+b)})+\frac1n\sum\ln(1+e^{w\cdot g(z)+b})$, exact too where $w\cdot x$ is a thousand.
    Minus the loss is the value of the game. With twice as many generated examples the mean is something else.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 5)
        x, z, more = (jax.random.normal(k, (n, dim)) for k in keys[:3])
        judge = eqx.nn.MLP(dim, 1, 8, 1, key=keys[3], dtype=float)
        maker = eqx.nn.Linear(dim, dim, key=keys[4], dtype=float)
        gan = GAN(maker, judge, latents=dim)
        of_logit = LOSSES["binary_cross_entropy"]

        def labelled(z):
            logits = jax.vmap(lambda x: judge(x)[0])(jnp.concatenate([x, jax.vmap(maker)(z)]))
            return jnp.mean(jax.vmap(of_logit)(logits, jnp.concatenate([jnp.ones(n), jnp.zeros(len(z))])))

        line = GAN(maker, eqx.nn.Linear(dim, 1, key=keys[4], dtype=float), latents=dim)
        b = jax.vmap(lambda x: line.discriminator(x)[0])
        longer = jnp.concatenate([z, more])
        return (
            labelled(z),
            gan.discriminator_loss(x, z),
            gan.value(x, z),
            line.discriminator_loss(x, z),
            jnp.mean(jnp.log1p(jnp.exp(-b(x)))) + jnp.mean(jnp.log1p(jnp.exp(b(jax.vmap(maker)(z))))),
            exact_far(1000.0),
            labelled(longer),
            gan.discriminator_loss(x, longer),
        )

    def exact_far(slope):
        gan = GAN(Shift(jnp.zeros(())), Line(jnp.asarray(slope), jnp.zeros(())))
        return gan.discriminator_loss(jnp.array([[-1.0]]), jnp.array([[2.0]]))

    mean, loss, value, of_line, unit, far, uneven, uneven_loss = measure(key)
    yield equal("mean cross entropy", mean, loss / 2, rtol=1e-12)
    yield equal("value of the game", value, -2 * mean, rtol=1e-12)
    yield equal("loss of one unit", of_line, unit, rtol=1e-12)
    yield equal("loss of one unit that is sure and wrong", far, 3000.0, rtol=1e-14)
    yield control(
        "as many real examples as generated ones: here half as many",
        equal("mean cross entropy", uneven, uneven_loss / 2, rtol=1e-12),
    )


@claim(rows=("T16.06",))
def measuring_functions(key, *, outcomes: Size = 8):
    r"""With f the identity the best discriminator reaches 1 plus the total variation; equal laws leave 2 f(1/2).

    $\max_D\mathbb E_{real}D+\mathbb E(1-D)$ over $D\in[0,1]$ is attained where all values are 0 or 1: all such tables
    are tried. It is no distance of transport, for which the slope of $D$ would have to be bounded. Where both laws are
    the same and $D=\frac12$ the value is $2f(\frac12)$: $-\ln4$ for the logarithm, 1 for the identity. With one of two
    values left out the maximum is lower.
    """
    tables = (np.arange(2**outcomes)[:, None] >> np.arange(outcomes)) % 2

    @jax.jit
    def measure(key):
        p, q = _laws(key, outcomes)
        values = jax.lax.map(lambda table: on_tables(80.0 * table - 40.0, p, q, "identity"), jnp.asarray(tables))
        halves = [on_tables(jnp.zeros(outcomes), p, p, f) for f in ("log", "identity", jnp.sqrt)]
        return p, q, values, jnp.stack(halves)

    p, q, values, halves = (np.asarray(v) for v in measure(key))
    apart = np.abs(p - q).sum() / 2
    # logits of 40 are probabilities within 5e-18 of 0 and 1
    yield equal("largest value of all tables", values.max(), 1 + apart, rtol=1e-12)
    yield equal("the same as a function", optimal_value(p, q, "identity"), values.max(), rtol=1e-12)
    yield equal("value at one half", halves, [-LN4, 1.0, 2 * np.sqrt(0.5)], rtol=1e-12)
    judged = tables[:, np.argmax(np.abs(p - q))] == (p < q)[np.argmax(np.abs(p - q))]
    yield control(
        "any discriminator: here wrong where the laws differ most",
        equal("largest value of all tables", values[judged].max(), 1 + apart, rtol=1e-12),
    )
