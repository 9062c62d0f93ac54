"""What models of different kinds make of the same data, and what noise leaves of an image."""

import altair as alt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import digits
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, monotone, picture
from corollary.generative import (
    VAE,
    AffineCoupling,
    GaussianDecoder,
    GaussianEncoder,
    GaussianMixture,
    MixtureDenoiser,
    NormalisingFlow,
    Schedule,
    flow_loss,
    importance_bound,
    noise_path,
    vae_loss,
)
from corollary.nets import train

SIGMA = 0.1


def _ring(key, count):
    """Points of a circle of radius 2, with noise of standard deviation 0.1 along the radius."""
    angle, noise = jax.random.split(key)
    t = jax.random.uniform(angle, (count,), maxval=2 * jnp.pi)
    r = 2 + SIGMA * jax.random.normal(noise, (count,))
    return jnp.stack([r * jnp.cos(t), r * jnp.sin(t)], 1)


def _network(key, inputs, outputs, width=32):
    return eqx.nn.MLP(inputs, outputs, width, 2, activation=jnp.tanh, key=key)


def _outside(x):
    """Whether points are more than three standard deviations off the circle."""
    return jnp.abs(jnp.linalg.norm(x, axis=1) - 2) > 3 * SIGMA


@claim(rows=("T14.21",), full={"steps": 6000})
def vae_against_flow(key, *, n: Size = 1000, steps: Count = 1500, draws: Size = 2000):
    r"""On a ring a flow is sharper than a variational auto-encoder of one variance, and has the higher likelihood.

    Data on a circle with radial noise of 0.1. A coupling flow of six layers and an auto-encoder with two latent
    variables and a Gaussian decoder of one learned variance, networks of the same size, the same steps of Adam. What is
    called blur is measured: the share of samples more than three deviations off the circle, 0.3 % for the law itself,
    and the log-likelihood of new data (for the auto-encoder the bound of 500 importance samples). The
    flow is ahead in both, and neither is above the entropy of the law, which no model exceeds but by the noise of the
    mean. Untrained, the flow is not.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 8)
        x, test = _ring(keys[0], n), _ring(keys[1], draws // 4)
        masks = [np.array([True, False]) ^ (i % 2 == 1) for i in range(6)]
        layers = [
            AffineCoupling(mask, _network(k, 2, 4)) for mask, k in zip(masks, jax.random.split(keys[2], 6), strict=True)
        ]
        start = NormalisingFlow(layers, 2)
        rate_ = optax.cosine_decay_schedule(0.005, steps)
        flow = train(start, flow_loss(), x, optax.adam(rate_), steps=steps, batch_size=128, key=keys[3]).network
        first = VAE(
            GaussianEncoder(_network(keys[4], 2, 4), 2), GaussianDecoder(_network(keys[5], 2, 2), jnp.asarray(0.0))
        )
        vae = train(first, vae_loss(), x, optax.adam(rate_), steps=steps, batch_size=128, key=keys[6]).network
        bound = jax.lax.map(lambda x: importance_bound(vae.model, vae.encoder(x), x, 500, key=keys[7]), test)
        likely = jax.vmap(flow.log_prob)(test), bound, jax.vmap(start.log_prob)(test)
        z_key, e_key = jax.random.split(keys[7])
        latent = jax.random.normal(z_key, (draws, 2))
        from_vae = jax.vmap(lambda z, k: vae.decoder.sample(z, key=k))(latent, jax.random.split(e_key, draws))
        made = flow.sample(draws, key=keys[7]), from_vae, start.sample(draws, key=keys[7])
        # the density: uniform in the angle, normal in the radius, over the radius
        radius = jnp.linalg.norm(test, axis=1)
        exact = (
            -0.5 * ((radius - 2) / SIGMA) ** 2 - jnp.log(SIGMA * jnp.sqrt(2 * jnp.pi)) - jnp.log(2 * jnp.pi * radius)
        )
        return made, likely, exact

    made, likely, exact = measure(key)
    off = [float(_outside(x).mean()) for x in made]
    likely, exact = [np.asarray(a) for a in likely], np.asarray(exact)
    lead = likely[0] - likely[1]
    error = lead.std() / np.sqrt(len(lead))
    # a lead of five standard errors of the paired difference is no chance
    yield at_least("lead of the flow in log-likelihood over its error", lead.mean() / error, 5.0)
    # shares of 2,000 samples are known to 0.02
    yield at_least("share of samples off the ring: auto-encoder less flow", off[1] - off[0], 0.04)
    over = [(a - exact).mean() / ((a - exact).std() / np.sqrt(len(exact))) for a in likely[:2]]
    yield at_most("log-likelihood above that of the law itself, in its errors", over, 5.0)
    yield control(
        "the flow is trained: here it is not",
        at_least("share of samples off the ring: auto-encoder less flow", off[1] - off[2], 0.04),
    )
    names = ("flow", "auto-encoder")
    rows = [
        {"x": float(a), "y": float(b), "of": o}
        for o, x in zip(names, made, strict=False)
        for a, b in np.asarray(x)[:500]
    ]
    square = alt.Scale(domain=[-3, 3])
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_circle(size=8)
        .encode(x=alt.X("x:Q", scale=square), y=alt.Y("y:Q", scale=square), column=alt.Column("of:N", title=None))
    )
    yield picture("samples", points.properties(width=220, height=220))


@claim(rows=("T14.26",))
def noising_and_denoising_an_image(key, *, classes: Size = 10, steps: Count = 40, draws: Size = 400):
    r"""An image is lost in noise step by step, and a denoiser that knows the law of images brings back what is left.

    The law is a mixture of a normal law for each of ten digits of 8 by 8 pixels. Along the noising $x_0\to x_T$ the
    denoised image $\hat x_0=\mathbb E[x_0|x_t]$ of the exact denoiser is off by less than the noise itself and by no
    more than that of the best linear denoiser on the same images, whose mean error is known:
    $\mathrm{tr}\,\Sigma(1-\bar\alpha)(\bar\alpha\Sigma+(1-\bar\alpha)I)^{-1}$ with the covariance $\Sigma$ of all
    images. What is brought back and what is lost are orthogonal:
    $\mathbb E\|x_0-\hat x_0\|^2=\mathbb E\|x_0-\mu\|^2-\mathbb E\|\hat x_0-\mu\|^2$. At the end of the noise nothing is
    left but the mean $\mu$. A denoiser made for another digit only is worse than the linear one.
    """
    data = digits()
    x, y = np.asarray(data.x), np.asarray(data.y)
    weights = np.bincount(y)[:classes] / np.isin(y, range(classes)).sum()
    means = np.stack([x[y == c].mean(0) for c in range(classes)])
    spreads = np.stack([np.cov(x[y == c].T) + 1e-3 * np.eye(64) for c in range(classes)])
    mean = weights @ means
    total = np.einsum("k,kij->ij", weights, spreads) + (means - mean).T @ (weights[:, None] * (means - mean))
    schedule = Schedule.cosine(steps)
    seen = np.linspace(1, steps, 8).astype(int)

    @jax.jit
    def measure(key, weights, means, spreads):
        mixture = GaussianMixture(weights, means, spreads)
        x_key, e_key = jax.random.split(key)
        start = mixture.sample(draws, key=x_key)
        path = noise_path(start, jax.random.normal(e_key, (steps, draws, 64)), schedule)[seen]
        levels = schedule.levels()[seen]

        def brought_back(mixture):
            denoiser = MixtureDenoiser(mixture)

            def one(given):
                x, level = given
                noise = jax.vmap(lambda x: denoiser((x, level)))(x)
                return (x - jnp.sqrt(1 - level) * noise) / jnp.sqrt(level)

            return jax.lax.map(one, (path, levels))

        single = GaussianMixture(jnp.ones(1), means[:1], spreads[:1])
        return start, path, levels, brought_back(mixture), brought_back(single)

    start, path, levels, back, other = (np.asarray(a) for a in measure(key, weights, means, spreads))
    lost = np.sum((back - start) ** 2, -1)  # (levels, draws)
    wrong = np.sum((other - start) ** 2, -1)
    scaled = path / np.sqrt(levels)[:, None, None]
    values, vectors = np.linalg.eigh(total)
    gains = np.sqrt(levels)[:, None] * values / (levels[:, None] * values + 1 - levels[:, None])
    turned = (path - np.sqrt(levels)[:, None, None] * mean) @ vectors
    linear = np.sum(((gains[:, None] * turned) @ vectors.T + mean - start) ** 2, -1)
    expected = np.array([np.sum(values * (1 - a) / (a * values + 1 - a)) for a in levels])
    kept = np.sum((start - mean) ** 2, -1) - np.sum((back - mean) ** 2, -1)
    yield estimate("error of the best linear denoiser over its formula", (linear.T / expected), 1.0, wrong=1.5)

    def ahead(errors):
        """How far errors lie above those of the linear denoiser on the same images, in standard errors of the mean."""
        apart = errors - linear
        return apart.mean(1) / (apart.std(1) / np.sqrt(draws))

    # near the end both bring back the mean, and differ by chance alone: five standard errors
    yield at_most("error above that of the best linear one, in its errors", ahead(lost), 5.0, x=seen, along="step")
    yield at_most("error above that of the best linear one after the first steps", ahead(lost)[:4], -5.0)
    yield at_most("against the noise", lost.mean(1), np.sum((scaled - start) ** 2, -1).mean(1))
    yield monotone("error of the denoised image by step", lost.mean(1))
    variance = np.trace(total)
    yield estimate("lost and brought back make the whole", (lost - kept).T / variance, 0.0, wrong=0.5)
    # ᾱ at the end of the cosine is below 1e-5: the posterior mean moves by √ᾱ
    yield equal("what is left at the end", np.abs(back[-1] - mean).max(), 0.0, rtol=0, atol=0.1)
    yield control(
        "a denoiser of the law of the images: here of one digit",
        at_most("error above that of the best linear one, in its errors", ahead(wrong), 5.0, x=seen, along="step"),
    )
    rows = []
    for strip, images in (("noised", path), ("brought back", back)):
        for t, image in zip(seen, images[:, 0], strict=True):
            rows += [
                {"row": i // 8, "column": i % 8, "value": float(np.clip(v, 0, 1)), "step": int(t), "of": strip}
                for i, v in enumerate(image)
            ]
    cells = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=alt.Color("value:Q", scale=alt.Scale(scheme="greys"), legend=None),
            column=alt.Column("step:O", title=None),
            row=alt.Row("of:N", title=None, sort=["noised", "brought back"]),
        )
    )
    yield picture("an image noised and brought back", cells.properties(width=60, height=60))
