"""Variational auto-encoders where the answer is known: linear networks, which are probabilistic PCA."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_most, claim, control, equal
from corollary.foundations import normal_rule
from corollary.generative import (
    VAE,
    GaussianDecoder,
    GaussianEncoder,
    LinearGaussian,
    elbo,
    vae_loss,
    variational_gap,
)
from corollary.nets import train
from corollary.network import BatchLoss


def _linear_model(vae):
    """The latent model of a decoder that is one linear layer."""
    layer = vae.decoder.network
    return LinearGaussian(layer.weight, layer.bias, jnp.exp(vae.decoder.log_variance))


def _bound(vae, x):
    """The mean of the evidence lower bound over the data, without sampling."""
    model = _linear_model(vae)
    return jnp.mean(jax.vmap(lambda x: elbo(model, vae.encoder(x), x, how="closed"))(x))


def _angle(a, b):
    """The largest principal angle between two column spaces, in degrees."""
    cosines = jnp.linalg.svd(jnp.linalg.qr(a)[0].T @ jnp.linalg.qr(b)[0], compute_uv=False)
    return jnp.degrees(jnp.arccos(jnp.clip(cosines.min(), 0, 1)))


@claim(rows=("M15.15", "T14.11", "T14.16", "M15.09", "M15.13"), full={"steps": 6000})
def linear_networks_are_probabilistic_pca(key, *, n: Size = 200, steps: Count = 2000):
    r"""A trained variational auto-encoder with linear networks reaches the maximum likelihood of probabilistic PCA.

    Data of $x=Wz+b+s\epsilon$ in $\mathbb R^5$ with two latent variables. Encoder, decoder and the decoder's variance
    are trained on samples of the bound by Adam. The posterior of a linear model is normal with a linear mean and one
    covariance, which the encoder can represent where the columns of the decoder are orthogonal; so the maximum of the
    bound is the maximum of the likelihood. It is known: $-\frac52\ln2\pi-\frac12(\sum_{i\le2}\ln\lambda_i+3\ln s^2+5)$
    for a point, with $\lambda_i$ the eigenvalues of the sample covariance and $s^2$ the mean of the last three. The
    trained bound lies below it by at most 0.01 and never above, the decoder's column space is the principal plane
    within two degrees, and the encoder's variances are those of the exact posterior. With one latent variable even the
    best decoder lies below it.
    """
    loadings = jnp.array([[2.0, 0.0], [1.0, 1.0], [0.0, 1.2], [-1.0, 0.5], [0.5, 0.0]])

    @jax.jit
    def measure(key):
        z_key, x_key, e_key, d_key, t_key = jax.random.split(key, 5)
        x = jax.random.normal(z_key, (n, 2)) @ loadings.T + 1.0 + 0.5 * jax.random.normal(x_key, (n, 5))

        vae = VAE(
            GaussianEncoder(eqx.nn.Linear(5, 4, key=e_key), 2), GaussianDecoder(eqx.nn.Linear(2, 5, key=d_key), 0.0)
        )
        run = train(
            vae,
            vae_loss(2),
            x,
            optax.adam(optax.cosine_decay_schedule(0.03, steps)),
            steps=steps,
            key=t_key,
            measure=lambda vae: _bound(vae, x),
            every=steps // 50,
        )
        vae, record = run.network, run.record
        fewer = LinearGaussian.fit(x, 1)
        short = jnp.mean(jax.vmap(fewer.log_evidence)(x))
        values = jnp.linalg.eigvalsh(jnp.cov(x.T, bias=True))[::-1]
        noise = values[2:].mean()
        best = -0.5 * (5 * jnp.log(2 * jnp.pi) + jnp.log(values[:2]).sum() + 3 * jnp.log(noise) + 5)
        model = _linear_model(vae)
        exact = jnp.diagonal(model.posterior(x[0]).covariance)
        law = vae.encoder(x[0])
        gaps = jax.vmap(lambda x: variational_gap(model, vae.encoder(x), x))(x)
        plane = LinearGaussian.fit(x, 2).decoder.weights
        return (
            best,
            record,
            record[-1],
            short,
            _angle(model.decoder.weights, plane),
            noise,
            model.decoder.variance,
            law.deviation**2,
            exact,
            gaps.mean(),
        )

    best, record, reached, short, angle, noise, variance, spread, exact, gap = measure(key)
    # what is left of the noise of the gradient at the end of a cosine of 2,000 steps: a hundredth of a nat is allowed
    yield equal("bound at the end against the maximum of the likelihood", reached, best, rtol=0, atol=0.01)
    yield at_most("bound during training against the maximum of the likelihood", record, best, rtol=1e-12)
    yield at_most("mean gap between posterior and encoder", gap, 0.01)
    yield at_most("angle to the principal plane in degrees", angle, 2.0)
    yield equal("variance of the decoder", variance, noise, rtol=0.03)
    yield equal("variances of the encoder against the posterior", spread, exact, rtol=0.05)
    yield control(
        "as many latent variables as the data have: here one",
        equal("likelihood of the best decoder", short, best, rtol=0, atol=0.01),
    )


@claim(rows=("T14.11",))
def one_variance_for_all(key, *, n: Size = 60, steps: Count = 1500):
    r"""An encoder with one variance for all latent variables leaves a gap where the posterior has different ones.

    For a posterior covariance $S$ in $d$ dimensions the best isotropic normal law has the variance
    $d/\mathrm{tr}\,S^{-1}$ and leaves $\frac12(\ln\det S-d\ln\frac d{\mathrm{tr}\,S^{-1}})$: at
    $S=\mathrm{diag}(1,\frac14)$ the variance 0.4 and 0.2231 nat. A linear decoder with this posterior is held fixed and
    the encoder is trained on the exact bound. With a variance for each latent variable nothing is left.
    """
    noise = 0.3
    loadings = jnp.zeros((4, 2)).at[:, 1].set(jnp.sqrt(3 * noise / 4))  # W'W over the noise is diag(0, 3)

    @jax.jit
    def measure(key):
        x_key, *keys = jax.random.split(key, 3)
        model = LinearGaussian(loadings, jnp.zeros(4), noise)
        _, x = model.sample(n, key=x_key)

        def trained(outputs, key):
            """The mean gap of an encoder with so many outputs, and its variances, after training."""
            encoder = GaussianEncoder(eqx.nn.Linear(4, outputs, key=key), 2)
            bound = lambda encoder, x: jnp.mean(  # noqa: E731
                jax.vmap(lambda x: elbo(model, encoder(x), x, how="closed"))(x)
            )
            loss = BatchLoss(lambda encoder, batch: -bound(encoder, batch))
            rate = optax.cosine_decay_schedule(0.1, steps)
            encoder = train(encoder, loss, x, optax.adam(rate), steps=steps).network
            gap = jnp.mean(jax.vmap(lambda x: variational_gap(model, encoder(x), x))(x))
            return gap, encoder(x[0]).deviation ** 2

        posterior = model.posterior(x[0]).covariance
        return posterior, trained(3, keys[0]), trained(4, keys[1])

    posterior, (gap, variance), (none, _) = measure(key)
    precision = 1 / np.array([1.0, 0.25])
    best = 2 / precision.sum()
    left = -0.5 * (np.log(precision).sum() + 2 * np.log(best))
    yield equal("covariance of the posterior", posterior, np.diag([1.0, 0.25]), atol=1e-12)
    # what 1,500 steps of Adam leave of the distance to the optimum, squared
    yield equal("gap with one variance", gap, left, rtol=0, atol=1e-3)
    yield equal("that variance", variance, best, rtol=0.05)
    yield control("one variance for all: here one for each", equal("gap", none, left, rtol=0, atol=1e-3))


@claim(rows=("T14.14", "T14.16", "M15.15"))
def gradients_of_the_sampled_bound(key, *, points: Size = 12):
    r"""The gradient of the sampled bound is in the mean the gradient of the bound, in all parameters.

    For linear networks with one latent variable the bound has a closed form, and so has its gradient by the parameters
    of encoder and decoder; the gradient of one sample is averaged over $\epsilon\sim N(0,1)$ by quadrature. With
    samples that are taken as given, and do not move with the encoder, its part is wrong.
    """
    node, weight = normal_rule(61, np.dtype("float64"))

    @jax.jit
    def measure(key):
        e_key, d_key, x_key = jax.random.split(key, 3)
        encoder, decoder = eqx.nn.Linear(3, 2, key=e_key), eqx.nn.Linear(1, 3, key=d_key)
        vae = VAE(GaussianEncoder(encoder, 1), GaussianDecoder(decoder, -0.5))
        x = jax.random.normal(x_key, (points, 3))

        def sampled(vae, eps):
            return jnp.mean(jax.vmap(lambda x: vae.elbo(x, eps[None]))(x))

        def still(vae, eps):
            """As above, at samples that do not move."""

            def one(x):
                law = vae.encoder(x)
                z = jax.lax.stop_gradient(law.reparametrise(eps))
                return vae.decoder.log_prob(x, z) - law.kl_to_standard()

            return jnp.mean(jax.vmap(one)(x))

        def averaged(bound):
            slopes = jax.vmap(lambda eps: jax.grad(bound)(vae, eps))(node[:, None])
            return jax.tree.map(lambda a: jnp.tensordot(jnp.asarray(weight), a, 1), slopes)

        return jax.grad(_bound)(vae, x), averaged(sampled), averaged(still)

    exact, found, still = measure(key)
    flat = lambda tree: np.concatenate([np.ravel(a) for a in jax.tree.leaves(tree)])  # noqa: E731
    yield equal("encoder and decoder", flat(found), flat(exact), rtol=1e-8, atol=1e-9)
    yield control("samples move", equal("encoder", flat(still.encoder), flat(exact.encoder), rtol=1e-8, atol=1e-9))
