"""The evidence lower bound: what it is, what it leaves out, and what the texts print of it."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, monotone, printed
from corollary.foundations import gauss_legendre
from corollary.generative import (
    BernoulliDecoder,
    DiagonalGaussian,
    GaussianMixture,
    LatentModel,
    LinearGaussian,
    elbo,
    importance_bound,
    variational_gap,
)


def _linear(key, inputs=3, latents=2):
    """A random linear model, a random normal posterior and a random example."""
    w_key, b_key, s_key, q_key, x_key = jax.random.split(key, 5)
    model = LinearGaussian(
        jax.random.normal(w_key, (inputs, latents)),
        jax.random.normal(b_key, (inputs,)),
        jnp.exp(jax.random.normal(s_key)),
    )
    mean, spread = jax.random.normal(q_key, (2, latents))
    return model, DiagonalGaussian(mean, jnp.exp(0.5 * spread)), 2 * jax.random.normal(x_key, (inputs,))


def _mixture(key, components=6):
    """A random mixture on the line: its latent variable is one of the components."""
    w_key, m_key, c_key = jax.random.split(key, 3)
    return GaussianMixture(
        jax.random.dirichlet(w_key, jnp.ones(components)),
        2 * jax.random.normal(m_key, (components, 1)),
        jnp.exp(jax.random.normal(c_key, (components, 1, 1))),
    )


@claim(rows=("M15.07", "M15.08", "M15.05", "T14.09"), full={"models": 200, "draws": 10_000})
def evidence_is_bound_and_gap(key, *, models: Size = 30, draws: Size = 2000):
    r"""The evidence is the lower bound plus the relative entropy of the posterior that was used to the true one.

    $\ln p(x)=\mathbb E_q[\ln p(x,z)-\ln q(z)]+\mathrm{KL}(q|p(\cdot|x))$, so that the first term is a bound, attained
    only by the posterior. It is also $\mathbb E_q\ln p(x|z)-\mathrm{KL}(q|p(z))$ and $\mathbb E_q\ln p(x,z)$ plus the
    entropy of $q$. Three kinds of models: linear ones with normal posteriors, where evidence, bound and relative
    entropy have closed forms; a binary decoder of one latent variable, by quadrature; a latent variable of six values,
    by summing over them. $q$ must be a law: half of the posterior lies above the evidence.
    """
    network = lambda z: jnp.array([2.0, -1.0, 0.5]) * z[0] + jnp.array([0.3, 0.0, -1.0])  # noqa: E731
    binary, x_binary = LatentModel(BernoulliDecoder(network), 1), jnp.array([1.0, 0.0, 1.0])

    def normal(theta):
        return DiagonalGaussian(theta[:1], jnp.exp(0.5 * theta[1:]))

    def distance(theta):
        """The relative entropy on a rule of its own, Gauss and Legendre's on both sides of the mean of q."""
        q, (t, w) = normal(theta), (jnp.asarray(a) for a in gauss_legendre(300))
        span = 12 * jnp.maximum(q.deviation[0], 1.0)
        z = jnp.concatenate([q.mean[0] - span * t, q.mean[0] + span * t])[:, None]
        w = span * jnp.concatenate([w, w])
        log_q = q.log_prob(z)
        joint = jax.vmap(lambda z: binary.log_joint(x_binary, z))(z)
        # looked at one after the other: mapped together, XLA of JAX 0.11 and 0.12 adds these terms up wrongly on CPUs
        posterior = joint - jax.scipy.special.logsumexp(joint, b=w)
        return w @ (jnp.exp(log_q) * (log_q - posterior))

    @jax.jit
    def measure(key):
        l_key, b_key, m_key, x_key, q_key = jax.random.split(key, 5)

        def linear(key):
            model, q, x = _linear(key)
            joint_form = elbo(model, q, x, how="quadrature", nodes=41)
            exact = elbo(model, model.posterior(x), x, how="closed")
            return (
                model.log_evidence(x),
                elbo(model, q, x, how="closed"),
                joint_form,
                variational_gap(model, q, x),
                exact,
            )

        mixture = _mixture(m_key)
        x = mixture.sample(draws, key=x_key)
        q = jax.random.dirichlet(q_key, jnp.full(6, 0.5), (draws,))

        def component(x, q):
            spread = mixture.covariances[:, 0, 0]
            density = mixture.weights * jnp.exp(-((x - mixture.means[:, 0]) ** 2) / 2 / spread)
            joint = density / jnp.sqrt(2 * jnp.pi * spread)
            posterior = joint / joint.sum()
            with_entropy = jnp.sum(q * jnp.log(joint)) + jnp.sum(jax.scipy.special.entr(q))
            half = elbo(mixture, posterior / 2, x, how="closed")
            bounds = elbo(mixture, q, x, how="closed"), elbo(mixture, posterior, x, how="closed")
            gap = jnp.sum(jax.scipy.special.rel_entr(q, posterior))
            return jnp.log(joint.sum()), *bounds, with_entropy, variational_gap(mixture, q, x), gap, half

        theta = jax.random.normal(b_key, (models, 2))
        bound = jax.vmap(lambda theta: elbo(binary, normal(theta), x_binary, how="quadrature", nodes=400))(theta)
        evidence = binary.log_evidence(x_binary)
        # one after the other: decompositions of matrices in batches can block each other
        lines = jax.lax.map(linear, jax.random.split(l_key, models))
        return lines, (evidence, bound, jax.lax.map(distance, theta)), jax.vmap(component)(x, q)

    (log_p, closed, joint, gap, exact), (evidence, bound, distances), finite = measure(key)
    yield equal("linear: bound and gap against the evidence", closed + gap, log_p, rtol=1e-10)
    yield equal("linear: joint form against reconstruction less entropy", joint, closed, rtol=1e-9, atol=1e-9)
    yield equal("linear: bound of the posterior", exact, log_p, rtol=1e-10)
    yield at_least("linear: least gap of other laws", gap.min(), 1e-4)
    yield equal("binary decoder: bound and gap", bound + distances, jnp.full(models, evidence), rtol=1e-8)
    log_x, below, attained, with_entropy, entropy, by_hand, half = finite
    yield equal("six values: bound and gap", below + entropy, log_x, rtol=1e-11, atol=1e-12)
    yield equal("six values: mean of the joint plus entropy", with_entropy, below, rtol=1e-11, atol=1e-12)
    yield equal("six values: gap against the sum over them", entropy, by_hand, rtol=1e-9, atol=1e-12)
    yield equal("six values: bound of the posterior", attained, log_x, rtol=1e-11, atol=1e-12)
    yield at_most("six values: bound against evidence", below, log_x, atol=1e-12)
    yield control("q is a law: here half of one", at_most("six values: half the posterior", half, log_x))


@claim(
    rows=("T14.09",),
    erratum="The mean of log p(x) is log p(x), not p(x): the last line of the proof loses a logarithm.",
)
def printed_last_line(key, *, draws: Size = 500):
    r"""The lower bound and its gap add up to p(x).

    As printed, at the end of the proof of Lemma 14.3.1: $\mathbb E_{q(h|x)}\log p(x)=p(x)$, so that the bound plus the
    gap would be $p(x)$. They are $\log p(x)$.
    """

    @jax.jit
    def measure(key):
        m_key, x_key, q_key = jax.random.split(key, 3)
        mixture = _mixture(m_key)
        x, q = mixture.sample(draws, key=x_key), jax.random.dirichlet(q_key, jnp.ones(6), (draws,))
        both = jax.vmap(lambda x, q: elbo(mixture, q, x, how="closed") + variational_gap(mixture, q, x))(x, q)
        return both, jax.vmap(mixture.log_prob)(x)

    both, log_x = measure(key)
    yield printed(equal("bound and gap against p(x)", both, jnp.exp(log_x), rtol=1e-9))
    yield equal("bound and gap against log p(x)", both, log_x, rtol=1e-9, atol=1e-12)


@claim(rows=("M15.06",), no_control="a definition; what a constant encoder misses is among the checks")
def what_an_encoder_can_reach(key, *, n: Size = 200):
    r"""An encoder with linear means closes the gap of a linear model; a constant one leaves what the means vary by.

    The amortised objective is $\frac1M\sum_m\mathrm{KL}(g(z|x_m)|p(z|x_m))$. In a linear model with one latent variable
    the posterior has a mean linear in $x$ and one variance $S$: an encoder of this kind has gap 0. The best law that
    does not look at $x$ is $N(\bar m,S)$, $\bar m$ the mean of the posterior means, with the gap
    $\frac1{2S}\mathrm{Var}(m)$; means and variances around it leave more.
    """

    @jax.jit
    def measure(key):
        m_key, x_key = jax.random.split(key)
        model, _, _ = _linear(m_key, 3, 1)
        _, x = model.sample(n, key=x_key)
        d = model.decoder
        share = d.weights[:, 0] / (d.weights[:, 0] @ d.weights[:, 0] + d.variance)
        variance = d.variance / (d.weights[:, 0] @ d.weights[:, 0] + d.variance)
        means = (x - d.bias) @ share

        def gap(mean, variance):
            """The objective for an encoder with these means."""
            law = lambda m: DiagonalGaussian(m[None], jnp.sqrt(variance)[None])  # noqa: E731
            return jnp.mean(jax.vmap(lambda x, m: variational_gap(model, law(m), x))(x, mean))

        still = jnp.full(n, means.mean())
        around = [gap(still + a, variance * b) for a, b in ((0.1, 1.0), (-0.1, 1.0), (0.0, 1.3), (0.0, 0.8))]
        return gap(means, variance), gap(still, variance), jnp.var(means) / 2 / variance, jnp.stack(around)

    linear, constant, predicted, around = measure(key)
    yield equal("encoder with linear means", linear, 0.0, atol=1e-12)
    yield equal("best constant encoder", constant, predicted, rtol=1e-9)
    yield at_least("other constant encoders", around, predicted)


@claim(rows=("T14.15",), full={"runs": 4000})
def sampled_bounds(key, *, runs: Count = 400):
    r"""The mean over samples estimates the bound without bias; of several samples at once it lies nearer the evidence.

    $\frac1s\sum_j\ln p(x|z_j)+\ln p(z_j)-\ln q(z_j|x)$ with $z_j\sim q$ has the lower bound as its mean for every $s$.
    For a linear decoder it is, without the constant $-\frac n2\ln2\pi$, the text's
    $-\frac12[\|x-\mu\|^2/\sigma^2+n\ln\sigma^2+\|z\|^2-\|z-\mu_\phi\|^2/\sigma_\phi^2-d\ln\sigma_\phi^2]$. (The text
    sums over the samples and does not divide by $s$.) The logarithm of the mean of $\frac{p(x,z)}{q(z)}$ over $K$
    samples has a mean that grows with $K$, from the lower bound to the evidence.
    """
    counts = (1, 4, 16, 64)

    @jax.jit
    def measure(key):
        m_key, s_key, i_key, z_key = jax.random.split(key, 4)
        model, _, x = _linear(m_key)
        posterior = model.posterior(x)
        spread = jnp.sqrt(jnp.diagonal(posterior.covariance))
        q = DiagonalGaussian(posterior.mean + 0.7 * spread, 1.5 * spread)
        d, sigma = model.decoder, jnp.array(0.8)
        drawn = jax.vmap(lambda key: elbo(model, q, x, how="sample", samples=25, key=key))
        tight = lambda count: jax.vmap(  # noqa: E731
            lambda key: importance_bound(model, q, x, count, key=key)
        )(jax.random.split(jax.random.fold_in(i_key, count), runs * 64 // count))
        law = DiagonalGaussian(q.mean, jnp.full(2, sigma))
        z = law.sample(50, key=z_key)
        apart = jnp.sum((x - z @ d.weights.T - d.bias) ** 2, 1) / d.variance + 3 * jnp.log(d.variance)
        inner = jnp.sum(z**2, 1) - jnp.sum((z - q.mean) ** 2, 1) / sigma**2 - 2 * jnp.log(sigma**2)
        ours = jax.vmap(lambda z: model.log_joint(x, z) - law.log_prob(z))(z)
        tightened = [tight(count) for count in counts]
        means = [jnp.stack([a.mean(), a.std() / jnp.sqrt(a.size)]) for a in tightened]
        bounds = elbo(model, q, x, how="closed"), model.log_evidence(x)
        return drawn(jax.random.split(s_key, runs)), jnp.stack(means, 1), bounds, -(apart + inner) / 2, ours

    drawn, (means, errors), (bound, evidence), formula, ours = measure(key)
    yield estimate("mean over 25 samples", drawn, bound, wrong=evidence)
    yield equal("one sample as the text writes it", formula, ours + 1.5 * np.log(2 * np.pi), rtol=1e-11, atol=1e-12)
    noise = 6 * float(errors.max())  # six standard errors
    yield monotone("bound by the number of samples at once", means, atol=noise, x=np.array(counts), along="samples")
    yield at_most("bounds against the evidence", means, evidence, atol=noise)
    yield at_most("what 64 samples leave over what one leaves", (evidence - means[-1]) / (evidence - bound), 0.5)
