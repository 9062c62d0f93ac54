"""Divergences: what bounds what, what adds up, and the relative entropy of normal laws."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.foundations import (
    Gaussian,
    f_divergence,
    gaussian_kl,
    hellinger,
    jensen_shannon,
    kl,
    normal_rule,
    renyi,
    total_variation,
)


def _laws(key, shape, outcomes):
    """Laws of all shapes: from flat ones to such that have nearly all mass on one outcome."""
    return jax.random.dirichlet(key, jnp.full(outcomes, 0.5), shape)


@claim(rows=("M15.04", "M15.01", "T16.04"), full={"pairs": 50_000})
def divergences_bound_each_other(key, *, pairs: Size = 4000, outcomes: Size = 5):
    r"""Total variation, Hellinger's distance, Rényi's divergences and relative entropy bound each other.

    For laws on a finite set: $\mathrm{TV}\le\sqrt{\mathrm{KL}/2}$ (Pinsker), $H^2\le\mathrm{TV}\le H\sqrt{2-H^2}$,
    $\mathrm{JS}\le\ln2\,\mathrm{TV}$, and $R_\alpha$ does not fall in $\alpha$ and is KL at 1. Total variation is the
    largest difference of probabilities over all events. The relative entropy is 0 for equal laws only, is left alone by
    renaming the outcomes, and is not symmetric. Laws on two points attain the upper bound of TV by Hellinger's distance
    if one is the mirror image of the other. Of numbers that do not sum to 1 the relative entropy can be negative.
    """
    orders = (0.1, 0.5, 0.99, 1.0, 1.01, 2.0, 10.0, np.inf)

    @jax.jit
    def measure(key):
        p_key, q_key, o_key, t_key = jax.random.split(key, 4)
        p, q = _laws(p_key, (pairs,), outcomes), _laws(q_key, (pairs,), outcomes)
        events = (jnp.arange(2**outcomes)[:, None] >> jnp.arange(outcomes)) % 2.0
        order = jax.random.permutation(o_key, outcomes)
        a = jax.random.uniform(t_key, (pairs,))
        mirror = jnp.stack([a, 1 - a], -1)
        return (
            total_variation(p, q),
            hellinger(p, q),
            kl(p, q),
            jensen_shannon(p, q),
            jnp.stack([renyi(p, q, r) for r in orders], -1),
            jnp.max(jnp.abs((p - q) @ events.T), -1),
            kl(p[:, order], q[:, order]),
            kl(q, p),
            kl(p, p),
            (total_variation(mirror, mirror[:, ::-1]), hellinger(mirror, mirror[:, ::-1])),
            jnp.sum(jax.scipy.special.rel_entr(0.2 * q, p), -1),
        )

    variation, h, entropy, jensen, by_order, events, renamed, back, same, (two, two_h), negative = measure(key)
    yield at_most("total variation against relative entropy", variation, jnp.sqrt(entropy / 2))
    yield at_least("total variation against Hellinger, from below", variation, h**2)
    yield at_most("total variation against Hellinger, from above", variation, h * jnp.sqrt(2 - h**2))
    yield equal("two points in mirror image", two, two_h * jnp.sqrt(2 - two_h**2), atol=1e-8)
    yield at_most("Jensen-Shannon against total variation", jensen, np.log(2) * variation)
    yield monotone("Rényi's divergence by order", by_order, atol=1e-12)
    # the derivative in the order at 1 is half the variance of ln p/q: between orders 0.99 and 1.01 a hundredth of it
    yield equal("Rényi's divergence at 1", by_order[:, 3], entropy, rtol=0, atol=1e-15)
    yield equal("largest difference over all events", events, variation, atol=1e-14)
    yield equal("relative entropy after renaming", renamed, entropy, rtol=1e-12)
    yield equal("relative entropy of equal laws", same, 0.0, atol=1e-15)
    yield at_least("largest difference of both directions", jnp.max(jnp.abs(entropy - back)), 1.0)
    yield control("laws sum to 1: here to 0.2", at_least("relative entropy", negative, 0.0))


@claim(rows=("T16.01", "T16.02"), full={"pairs": 50_000})
def f_divergences(key, *, pairs: Size = 4000, outcomes: Size = 5):
    r"""An f-divergence is zero or more, and zero only between equal laws; relative entropy is one of them.

    $D_f(P\|Q)=\sum_iq_if(p_i/q_i)\ge0$ for convex $f$ with $f(1)=0$ (Jensen). $f(t)=t\ln t$ gives the relative entropy,
    $f(t)=\frac12|t-1|$ the total variation $\frac12\sum|p_i-q_i|$, $\frac12(\sqrt t-1)^2$ Hellinger's distance squared,
    $\frac12(t\ln t-(t+1)\ln\frac{t+1}2)$ the Jensen-Shannon divergence. The text leaves out $f(1)=0$, without which
    equal laws are $f(1)$ apart; without convexity there are negative values.
    """
    generators = {
        "relative entropy": (lambda t: t * jnp.log(t), kl),
        "total variation": (lambda t: jnp.abs(t - 1) / 2, total_variation),
        "squared Hellinger": (lambda t: (jnp.sqrt(t) - 1) ** 2 / 2, lambda p, q: hellinger(p, q) ** 2),
        "Jensen-Shannon": (lambda t: (t * jnp.log(t) - (t + 1) * jnp.log((t + 1) / 2)) / 2, jensen_shannon),
    }

    @jax.jit
    def measure(key):
        p_key, q_key = jax.random.split(key)
        p, q = _laws(p_key, (pairs,), outcomes), _laws(q_key, (pairs,), outcomes)
        found = jnp.stack([f_divergence(p, q, f) for f, _ in generators.values()])
        exact = jnp.stack([direct(p, q) for _, direct in generators.values()])
        same = jnp.stack([f_divergence(p, p, f) for f, _ in generators.values()])
        lifted = f_divergence(p, p, lambda t: t * jnp.log(t) + 1)
        concave = f_divergence(p, q, lambda t: jnp.sqrt(t) - 1)
        return found, exact, same, lifted, concave, jnp.sum((p - q) ** 2, -1)

    found, exact, same, lifted, concave, apart = measure(key)
    for i, name in enumerate(generators):
        yield equal(name, found[i], exact[i], rtol=1e-10, atol=1e-13)
    yield equal("equal laws", same, 0.0, atol=1e-14)
    # convexity is strict at 1, or has a kink there: laws that differ are apart
    yield at_least("least divergence of laws that differ", found[:, apart > 1e-3].min(1), 1e-5)
    yield control("f is 0 at 1: here 1", equal("equal laws", lifted, 0.0, atol=1e-14))
    yield control("f is convex: here √t - 1", at_least("divergence", concave, 0.0, atol=1e-14))


@claim(
    rows=("T16.02",),
    erratum="The f-divergence of |t - 1|/2 is half of the integral of |P - Q|, not the integral.",
)
def printed_variation(key, *, pairs: Size = 1000, outcomes: Size = 5):
    r"""The f-divergence of |t - 1|/2 is the integral of |P - Q|.

    As printed: for $f(t)=\frac12|t-1|$ "the $f$-divergence is" $|P-Q|_1=\int|P(x)-Q(x)|dx$. It is half of it, the total
    variation.
    """

    @jax.jit
    def measure(key):
        p_key, q_key = jax.random.split(key)
        p, q = _laws(p_key, (pairs,), outcomes), _laws(q_key, (pairs,), outcomes)
        return f_divergence(p, q, lambda t: jnp.abs(t - 1) / 2), jnp.sum(jnp.abs(p - q), -1)

    found, integral = measure(key)
    yield printed(equal("divergence against the integral", found, integral, rtol=1e-12))
    yield equal("divergence against half the integral", found, integral / 2, rtol=1e-12)


def _by_quadrature(mean, deviation, log_ratio):
    """The mean of ln of a ratio of densities under a normal law."""
    eps, weights = normal_rule(200, np.dtype("float64"))
    return weights @ log_ratio(mean + deviation * eps)


def _log_normal(z, mean, deviation):
    return -0.5 * ((z - mean) / deviation) ** 2 - jnp.log(deviation) - 0.5 * jnp.log(2 * jnp.pi)


@claim(rows=("M15.36", "M15.16", "M15.01"))
def relative_entropy_of_normal_laws(key, *, pairs: Size = 500):
    r"""The relative entropy of two normal laws in closed form, and that it does not depend on the units.

    $\mathrm{KL}(N(\mu_x,\sigma_x^2)|N(\mu_y,\sigma_y^2))=\ln\frac{\sigma_y}{\sigma_x}+\frac{\sigma_x^2+(\mu_x-\mu_y)^2}
    {2\sigma_y^2}-\frac12$, to $N(0,1)$ it is $\frac12(\sigma^2+\mu^2-1-\ln\sigma^2)$: against quadrature of the mean of
    the logarithm of the ratio of densities. Both laws may be mapped by the same affine bijection. A law that is not
    normal, here one with the same mean and variance on two humps, has another one.
    """

    @jax.jit
    def measure(key):
        m_key, s_key, a_key = jax.random.split(key, 3)
        mean = jax.random.normal(m_key, (2, pairs))
        spread = jnp.exp(0.7 * jax.random.normal(s_key, (2, pairs)))
        scale, shift = jax.random.normal(a_key, (2, pairs))
        scale = jnp.where(jnp.abs(scale) < 0.1, 1.0, scale)

        def one(m, s):
            ratio = lambda z: _log_normal(z, m[0], s[0]) - _log_normal(z, m[1], s[1])  # noqa: E731
            return _by_quadrature(m[0], s[0], ratio)

        def humps(m, s):
            # half of the mass a standard deviation to either side, so narrow that both moments are those of the law
            narrow = 0.2
            wide = jnp.sqrt(1 - narrow**2)

            def law(z):
                left, right = (_log_normal(z, m[0] + side * wide * s[0], narrow * s[0]) for side in (-1, 1))
                return jnp.logaddexp(left, right) - jnp.log(2)

            ratio = lambda z: law(z) - _log_normal(z, m[1], s[1])  # noqa: E731
            sides = [_by_quadrature(m[0] + side * wide * s[0], narrow * s[0], ratio) for side in (-1, 1)]
            return (sides[0] + sides[1]) / 2

        closed = lambda m, s: gaussian_kl(  # noqa: E731
            m[0][:, None], s[0][:, None] ** 2, m[1][:, None], s[1][:, None] ** 2
        )
        standard = jnp.stack([mean[0], 0 * mean[1]]), jnp.stack([spread[0], 1 + 0 * spread[1]])
        return (
            closed(mean, spread),
            jax.vmap(one, 1)(mean, spread),
            closed(scale * mean + shift, jnp.abs(scale) * spread),
            jax.vmap(one, 1)(*standard),
            (mean[0], spread[0] ** 2),
            jax.vmap(humps, 1)(mean, spread),
        )

    closed, integral, mapped, standard, (mu, square), humps = measure(key)
    yield equal("closed form against quadrature", closed, integral, rtol=1e-10, atol=1e-11)
    yield equal("after an affine map of both laws", mapped, closed, rtol=1e-9, atol=1e-12)
    formula = (square + mu**2 - 1 - jnp.log(square)) / 2
    yield equal("to the standard law, quadrature against the formula", standard, formula, rtol=1e-10, atol=1e-11)
    yield control("the laws are normal: here two humps", equal("quadrature", humps, closed, rtol=1e-10, atol=1e-11))


@claim(rows=("M15.16",), erratum="The logarithm of the variance has a factor 2 too many; 2 log σ would be right.")
def printed_entropy_to_the_standard_law(key, *, steps: Size = 400):
    r"""The relative entropy of N(μ, σ²) to N(0, 1) is half of σ² + μ² - 1 - 2 log σ².

    As printed: $\frac12(\sigma^2+\mu^2-1-2\log\sigma^2)$. At $\mu=0$, $\sigma^2=2$ it is $-0.193$, and no relative
    entropy is negative; an encoder that only has this term to lower ends at $\sigma^2=2$, with the right one at the
    prior's own 1.
    """
    right = lambda m, v: (v + m**2 - 1 - jnp.log(v)) / 2  # noqa: E731
    wrong = lambda m, v: (v + m**2 - 1 - 2 * jnp.log(v)) / 2  # noqa: E731

    @jax.jit
    def measure(key):
        start = jax.random.normal(key, (2,))

        def end(formula):
            slope = jax.grad(lambda t: formula(t[0], jnp.exp(t[1])))
            return jnp.exp(jax.lax.fori_loop(0, steps, lambda _, t: t - 0.3 * slope(t), start)[1])

        exact = _by_quadrature(
            0.0, jnp.sqrt(2.0), lambda z: _log_normal(z, 0.0, jnp.sqrt(2.0)) - _log_normal(z, 0.0, 1.0)
        )
        return exact, end(right), end(wrong)

    exact, end, wrong_end = measure(key)
    yield printed(equal("entropy at variance 2, by quadrature", exact, float(wrong(0.0, 2.0)), rtol=1e-9))
    yield equal("entropy at variance 2, with one logarithm", exact, float(right(0.0, 2.0)), rtol=1e-9)
    yield equal("variance of an encoder that only pays the entropy", end, 1.0, rtol=1e-6)
    yield equal("where the printed term leads", wrong_end, 2.0, rtol=1e-6)


@claim(rows=("M15.17", "M15.38"), full={"laws": 5000})
def relative_entropy_of_products(key, *, laws: Size = 300, outcomes: Size = 4):
    r"""The relative entropy of independent coordinates is the sum of theirs.

    $\mathrm{KL}(\prod_kg_k|\prod_kp_k)=\sum_k\mathrm{KL}(g_k|p_k)$: three factors on a finite set by going through all
    outcomes, and normal laws in three dimensions with covariance matrices. If the coordinates depend on each other
    under the first law it is larger, by exactly their mutual information.
    """

    @jax.jit
    def measure(key):
        g_key, p_key, m_key, s_key, j_key = jax.random.split(key, 5)
        g, p = _laws(g_key, (laws, 3), outcomes), _laws(p_key, (laws, 3), outcomes)
        together = lambda a: jnp.einsum("ni,nj,nk->nijk", a[:, 0], a[:, 1], a[:, 2]).reshape(laws, -1)  # noqa: E731
        mean, prior = jax.random.normal(m_key, (2, laws, 3))
        spread, width = jnp.exp(jax.random.normal(s_key, (2, laws, 3)))
        full = jax.lax.map(
            lambda a: Gaussian(a[0], jnp.diag(a[1])).kl(Gaussian(a[2], jnp.diag(a[3]))), (mean, spread, prior, width)
        )
        one = jnp.stack([gaussian_kl(*(a[:, k, None] for a in (mean, spread, prior, width))) for k in range(3)])
        joint = _laws(j_key, (laws,), outcomes**2).reshape(laws, outcomes, outcomes)
        sides = joint.sum(2), joint.sum(1)
        outer = lambda a, b: jnp.einsum("ni,nj->nij", a, b).reshape(laws, -1)  # noqa: E731
        flat = joint.reshape(laws, -1)
        dependent = kl(flat, outer(p[:, 0], p[:, 1]))
        parts = kl(sides[0], p[:, 0]) + kl(sides[1], p[:, 1])
        entropy = lambda a: jnp.sum(jax.scipy.special.entr(a), -1)  # noqa: E731
        information = entropy(sides[0]) + entropy(sides[1]) - entropy(flat)
        return kl(together(g), together(p)), kl(g, p).sum(-1), full, one.sum(0), dependent, parts, information

    joint, parts, full, ones, dependent, sides, information = measure(key)
    yield equal("three factors, over all outcomes", joint, parts, rtol=1e-10, atol=1e-12)
    yield equal("normal laws with covariance matrices", full, ones, rtol=1e-10, atol=1e-12)
    yield equal("dependent coordinates: entropies and their information", dependent, sides + information, rtol=1e-9)
    yield control("independent coordinates", equal("sum of the entropies", dependent, sides, rtol=1e-9))
