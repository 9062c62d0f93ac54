"""Laws of a family that are nearest to one with two humps."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import at_least, at_most, claim, control, equal, monotone, picture
from corollary.foundations import normal_rule
from corollary.generative import (
    DiagonalGaussian,
    GaussianDecoder,
    GaussianMixture,
    LatentModel,
    kl_projection,
    score_gradient,
)


def _one(theta):
    """A normal law: mean and logarithm of the deviation."""
    return DiagonalGaussian(theta[:1], jnp.exp(theta[1:]))


def _two(theta):
    """A mixture of two: logits of the weights, means, logarithms of the deviations."""
    logits, means, logs = theta
    return GaussianMixture(jax.nn.softmax(logits), means[:, None], jnp.exp(2 * logs)[:, None, None])


@claim(rows=("M15.03",))
def projections_of_two_humps(key):
    r"""Of the normal laws the nearest to two humps sits on one of them, ln 2 away; the other way round it covers both.

    For $\nu=\frac12N(-a,1)+\frac12N(a,1)$: $\mathrm{KL}(q|\nu)$ over normal $q$ has a minimum at each hump, of a value
    that tends to $\ln2$ as $a$ grows. $\mathrm{KL}(\nu|q)$ is least at the mean and variance of $\nu$, $N(0,1+a^2)$.
    Along families that contain each other, normal laws of variance 1, all normal laws, mixtures of two, the least
    value does not grow, and in the last it is 0. Humps that are near each other are covered by one.
    """
    shifts = jnp.array([2.0, 3.0, 4.0, 6.0])

    @jax.jit
    def measure(key):
        start = 0.1 * jax.random.normal(key, (2,))

        def target(a):
            return lambda z: (
                jnp.logaddexp(-((z[0] - a) ** 2) / 2, -((z[0] + a) ** 2) / 2) - jnp.log(2 * jnp.sqrt(2 * jnp.pi))
            )

        def near(place):
            a, begin = place
            found = kl_projection(target(a), _one, start + jnp.stack([begin, 0.0]), steps=20)
            return found.values[-1], found.law.mean[0], found.law.deviation[0]

        # one program for the right humps, the left ones, and humps that are half a deviation from 0
        places = jnp.concatenate([shifts, shifts, jnp.array([0.5])]), jnp.concatenate([shifts, -shifts, jnp.zeros(1)])
        found = jnp.stack(jax.lax.map(near, places))
        a = shifts[1]
        begin = jnp.array([0.5, -0.5]), jnp.array([-1.0, 2.0]) + start, jnp.array([0.3, 0.0])
        both = kl_projection(target(a), _two, begin, steps=60, nodes=60)
        eps, weights = normal_rule(200, np.dtype("float64"))

        def forward(theta):
            """KL(ν|q): the mean over both humps."""
            z = jnp.concatenate([a + eps, -a + eps])[:, None]
            w = jnp.concatenate([weights, weights]) / 2
            return w @ (jax.vmap(target(a))(z) - jax.vmap(_one(theta).log_prob)(z))

        moments = jnp.array([0.0, jnp.log(1 + a**2) / 2])
        around = jax.vmap(forward)(moments + 0.1 * jax.random.normal(key, (20, 2)))

        def reverse(m):
            """KL(q|ν) of the normal law with this mean and variance 1."""
            z = (m + eps)[:, None]
            return weights @ (_one(jnp.stack([m, 0.0])).log_prob(z) - jax.vmap(target(a))(z))

        # the least over a grid of means
        grid = jnp.linspace(0, 2 * a, 201)
        unit = jax.vmap(lambda m: reverse(m))(grid)
        nested = jnp.stack([unit.min(), found[0, 1], both.values[-1]])
        return found, nested, forward(moments), jax.grad(forward)(moments), around

    found, nested, forward, slope, around = measure(key)
    right, left, close = found[:, :4], found[:, 4:8], found[0, 8]
    yield equal("value at the left hump as at the right", left[0], right[0], rtol=1e-8)
    yield equal("means of both", left[1], -right[1], rtol=1e-4)
    # of the other hump, 2a away, a share of e^(-2a²) and less is left within a deviation or two
    yield monotone("distance of the value from ln 2 by a", jnp.abs(right[0] - np.log(2)), "decreasing")
    yield equal("value at a = 6", right[0][-1], np.log(2), rtol=1e-6)
    yield equal("mean and deviation at a = 6", jnp.stack([right[1][-1], right[2][-1]]), [6.0, 1.0], rtol=1e-4)
    yield monotone("least value of three nested families", nested, "decreasing", atol=1e-9)
    yield equal("mixtures of two", nested[2], 0.0, atol=1e-6)
    yield equal("the other way round: slope at the moments", slope, 0.0, atol=1e-10)
    yield at_least("the other way round: values around", around, forward)
    yield control("humps far apart: here half a deviation from 0", equal("value", close, np.log(2), rtol=1e-2))


@claim(rows=("M15.18",))
def two_humped_posterior(key):
    r"""A normal encoder misses a posterior with two humps by ln 2; a mixture of two closes the gap.

    $z\sim N(0,1)$, $x|z\sim N(z^2,s^2)$ and $x=4$: the posterior has a hump at either sign of $z$. The best normal law
    sits on one of them and its bound stays $\ln2$ below the evidence as $s\to0$, 0.693 within 0.02 at $s=0.1$. The
    best mixture of two comes nearer by exactly that: what is left is how far one hump is from normal. It is the family
    that is too small and not the reparametrisation. The weights of the mixture, from 0.9 and 0.1, are found by the
    score. At $x=-1$ the posterior has one hump and a normal law leaves next to nothing.
    """
    widths = jnp.array([0.4, 0.2, 0.1, 0.05])

    @jax.jit
    def measure(key):
        start = 0.01 * jax.random.normal(key, (2,))

        def gaps(s, x):
            model = LatentModel(GaussianDecoder(lambda z: z**2, 2 * jnp.log(s)), 1)
            joint = lambda z: model.log_joint(x, z)  # noqa: E731
            evidence = model.log_evidence(x, nodes=8001)
            place = jnp.sqrt(jnp.maximum(x[0], 0.0))
            one = kl_projection(joint, _one, jnp.stack([place, jnp.log(s / 3)]) + start, steps=30)
            begin = jnp.array([0.3, -0.3]), jnp.stack([-place, place]) + start, jnp.log(s / 3) + start
            two = kl_projection(joint, _two, begin, steps=60, nodes=60)
            return evidence + one.values[-1], evidence + two.values[-1], two.law, one.law

        def weights(s, law):
            """The logits by ascent along the score, the mean taken over both humps by quadrature."""
            model = LatentModel(GaussianDecoder(lambda z: z**2, 2 * jnp.log(s)), 1)
            eps, w = normal_rule(60, np.dtype("float64"))
            family = lambda logits: GaussianMixture(jax.nn.softmax(logits), law.means, law.covariances)  # noqa: E731
            z = (law.means + jnp.sqrt(law.covariances[:, 0]) * eps).reshape(-1, 1)

            def ascend(logits, _):
                q = family(logits)
                f = lambda z: model.log_joint(jnp.array([4.0]), z) - q.log_prob(z)  # noqa: E731
                share = (q.weights[:, None] * w).ravel()
                return logits + 0.5 * score_gradient(f, family, logits, z, weights=share), q.weights[0]

            begin = jnp.log(jnp.array([0.9, 0.1]))
            return jax.lax.scan(ascend, begin, length=80)[1]

        # one program for all widths at x = 4, and x = -1 at the widest
        places = jnp.append(widths, widths[0]), jnp.array([4.0, 4.0, 4.0, 4.0, -1.0])[:, None]
        one, two, law, normal = jax.lax.map(lambda place: gaps(*place), places)
        path = weights(widths[2], jax.tree.map(lambda a: a[2], law))
        return one[:4], two[:4], path, one[4], (law.means[0], law.covariances[0]), (normal.mean[0], normal.deviation[0])

    one, two, path, single, mixture, normal = measure(key)
    yield equal("gap of the best normal law at s = 0.1", one[2], np.log(2), rtol=0, atol=0.02)
    yield monotone("its distance from ln 2 as s falls", jnp.abs(one - np.log(2)), "decreasing", x=widths, along="s")
    yield equal("what the mixture gains", (one - two)[1:], np.log(2), rtol=1e-5)
    yield at_most("gap of the mixture at s = 0.1", two[2], 0.01)
    yield equal("weight found by the score", path[-1], 0.5, atol=1e-6)
    yield control("two humps: here one", equal("gap of the best normal law", single, np.log(2), rtol=0, atol=0.1))
    z = np.linspace(-3, 3, 301)
    means, spreads = (np.asarray(a).ravel() for a in mixture)
    bump = lambda m, s: np.exp(-((z - m) ** 2) / 2 / s**2) / s / np.sqrt(2 * np.pi)  # noqa: E731
    exact = np.exp(-(z**2) / 2 - (4 - z**2) ** 2 / 2 / float(widths[0]) ** 2)
    curves = {
        "posterior": exact / exact.sum() / (z[1] - z[0]),
        "best normal law": bump(float(normal[0][0]), float(normal[1][0])),
        "best mixture": sum(bump(m, np.sqrt(s)) for m, s in zip(means, spreads, strict=True)) / 2,
    }
    rows = [
        {"z": float(a), "density": float(v), "law": name}
        for name, values in curves.items()
        for a, v in zip(z, values, strict=True)
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line().encode(x="z:Q", y="density:Q", color="law:N")
    yield picture("posterior at x = 4, s = 0.4", chart.properties(width=300, height=190))
