"""The slopes of both players of an adversarial game: their formulas, when they vanish, and whom they weigh."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary.claims.generative._shift import NODES, WEIGHTS, Line, Shift
from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.generative import GAN


@claim(rows=("M15.24", "M15.40", "T16.09"))
def gradient_formulas(key, *, n: Size = 20, dim: Size = 2, width: Size = 5):
    r"""The gradients of both players are means of slopes of D, weighted by f' of what the discriminator says.

    By $\theta_D$: $-\mathbb E[f'(D(x))\partial D(x)]+\mathbb E[f'(1-D(G))\partial D(G)]$, by $\theta_G$:
    $-\mathbb E[f'(1-D(G))\partial_xD\,\partial G]$, for seeds whose law does not depend on the generator. With
    $f=\ln$ these are $-\frac1M\sum\frac{\partial m}m+\mathbb E\frac{\partial m}{1-m}$ and so on, with the identity the
    updates of Problem 16.2.1. For $m=S(b)$ the first is $-\mathbb E[(1-m)\partial b]+\mathbb E[m\,\partial b]$. Against
    automatic derivatives of the losses of random networks. If the spread of the seeds is learned too, the formula
    misses a part.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        x, z = jax.random.normal(keys[0], (n, dim)), jax.random.normal(keys[1], (n, dim))
        judge = eqx.nn.MLP(dim, "scalar", width, 1, jnp.tanh, key=keys[2], dtype=float)
        maker = eqx.nn.MLP(dim, dim, width, 1, jnp.tanh, key=keys[3], dtype=float)

        def flat(tree):
            return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))])

        def both(f, saturating):
            gan = GAN(maker, judge, f, latents=dim)
            by_judge = eqx.filter_grad(lambda d: GAN(maker, d, f, latents=dim).discriminator_loss(x, z))(judge)
            by_maker = eqx.filter_grad(
                lambda g: GAN(g, judge, f, latents=dim).generator_loss(z, saturating=saturating)
            )(maker)
            formulas = gan.discriminator_gradient(x, z), gan.generator_gradient(z, saturating=saturating)
            return [flat(t) for t in formulas], [flat(by_judge), flat(by_maker)]

        found = [both(f, s) for f in ("log", "identity") for s in (True, False)]

        def logistic(x, sign):
            m = jax.nn.sigmoid(judge(x))
            return flat(jax.tree.map(lambda g: (m if sign else m - 1) * g, eqx.filter_grad(lambda d: d(x))(judge)))

        fake = jax.vmap(maker)(z)
        by_logit = sum(jnp.mean(jax.vmap(lambda x, s=s: logistic(x, s))(a), 0) for a, s in ((x, 0), (fake, 1)))

        def spread(s):  # the seeds have the deviation e^s, and so has what is made of them
            return GAN(maker, judge, latents=dim).generator_loss(jnp.exp(s) * z, saturating=True)

        return found, by_logit, jax.grad(spread)(0.0)

    found, by_logit, by_spread = measure(key)
    names = [f"{f}, {s}" for f in ("f = ln", "f = identity") for s in ("saturating", "not saturating")]
    for name, (formulas, slopes) in zip(names, found, strict=True):
        yield equal(f"gradient of the discriminator, {name}", slopes[0], formulas[0], rtol=1e-9, atol=1e-13)
        yield equal(f"gradient of the generator, {name}", slopes[1], formulas[1], rtol=1e-9, atol=1e-13)
    yield equal("gradient of a logistic discriminator", found[0][1][0], by_logit, rtol=1e-9, atol=1e-13)
    yield control(
        "seeds of a law that is given: here their spread is learned, which the formula does not see",
        equal("gradient of the generator by the spread", by_spread, 0.0),
    )


@claim(rows=("M15.26",))
def vanishing_generator_gradient(key, *, gaps: Size = 10):
    r"""Against the best discriminator the slope of the generator dies out in the game, and grows with the other loss.

    Real data are $N(a,1)$, the generator is at $N(0,1)$. With the overlap $\omega=2\Phi(-\frac a2)$ of the two laws the
    slope of $\mathbb E\ln(1-D(G))$ by the shift lies between $\frac a2\omega$ and $a\omega$, that of
    $-\mathbb E\ln D(G)$ between $a(1-\omega)$ and $a(1-\frac\omega2)$, and both together are $a$. At $a=1,2,4,6,8$ they
    are .398, .450, .137, .0125, .00039 and .602, 1.550, 3.863, 5.988, 8.000. Against a discriminator who only guesses
    neither vanishes.
    """

    @jax.jit
    def measure(key):
        more = jax.random.uniform(key, (gaps,), minval=0.3, maxval=8.0)
        a = jnp.concatenate([jnp.array([1.0, 2.0, 4.0, 6.0, 8.0]), jnp.sort(more)])

        def slopes(a, share):
            judge = Line(share * a, -share * a**2 / 2)

            def loss(theta, saturating):
                gan = GAN(Shift(theta), judge)
                return gan.generator_loss(NODES[:, None], saturating=saturating, z_weights=WEIGHTS)

            return -jax.grad(loss)(0.0, True), -jax.grad(loss)(0.0, False)

        return a, jax.vmap(lambda a: slopes(a, 1.0))(a), jax.vmap(lambda a: slopes(a, 0.05))(a)

    a, (dying, lasting), (unsure, _) = (jax.tree.map(np.asarray, part) for part in measure(key))
    overlap = 2 * stats.norm.cdf(-a / 2)
    # to the digits that are given
    yield equal("saturating slopes", dying[:5], [0.398, 0.450, 0.137, 0.0125, 0.00039], rtol=0, atol=6e-4)
    yield equal("other slopes", lasting[:5], [0.602, 1.550, 3.863, 5.988, 8.000], rtol=0, atol=6e-4)
    yield equal("sum of both slopes", dying + lasting, a, rtol=1e-9)
    yield at_most("saturating slope, from above", dying, a * overlap, rtol=1e-9)
    yield at_least("saturating slope, from below", dying, a * overlap / 2, rtol=1e-9)
    yield at_least("other slope, from below", lasting, a * (1 - overlap), rtol=1e-9)
    yield at_most("other slope, from above", lasting, a * (1 - overlap / 2), rtol=1e-9)
    yield control(
        "the best discriminator: here one who is hardly sure", at_most("saturating slope", unsure, a * overlap)
    )


@claim(rows=("T16.08",), erratum="With (16.3) as written a generated example weighs 1 / (1 - D), and not 1 / D.")
def printed_weight(key, *, n: Size = 30):
    r"""In the game a generated example counts most for the generator where the discriminator already believes it.

    As printed: with $f=\ln$ much more importance is given to synthetic data where the discriminator outputs very low
    values, because the derivative of $\ln x$ is $\frac1x$. In (16.3) the part of the generator is $f(1-D(G(h)))$, whose
    slope in a generated example is $\frac1{1-D}$ times that of $D$: nearly 1 for all that is found out. The weight
    $\frac1D$ belongs to a generator that raises $\mathbb E\ln D(G(h))$. With the identity all weigh the same.
    """

    @jax.jit
    def measure(key):
        z = jax.random.normal(key, (n, 1))
        judge = Line(jnp.asarray(2.0), jnp.asarray(-1.0))

        def weights(f, saturating):
            """Slopes of the generator's loss in each generated example, over those of D."""

            def loss(moves):
                gan = GAN(lambda z: z, judge, f)
                return n * gan.generator_loss(z + moves, saturating=saturating)

            d = jax.vmap(jax.grad(lambda x: GAN(Shift(0.0), judge).probability(x)))(z)
            return -(jax.grad(loss)(jnp.zeros_like(z)) / d)[:, 0]

        d = jax.vmap(GAN(Shift(0.0), judge).probability)(z)
        return d, weights("log", True), weights("log", False), weights("identity", True)

    d, game, other, identity = (np.asarray(v) for v in measure(key))
    yield printed(equal("weight in (16.3)", game, 1 / d))
    yield equal("weight in (16.3), corrected", game, 1 / (1 - d))
    yield equal("weight with the loss that does not saturate", other, 1 / d)
    yield equal("weight with the identity", identity, np.ones(n))
