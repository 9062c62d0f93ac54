"""The steps of the proof of PAC-Bayes bounds: change of measure, the law of errors, and two inequalities."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its stats load slowly, so only when a claim runs

from corollary.evidence import Range, Size, at_most, claim, control, equal
from corollary.foundations import kl, kl_bernoulli
from corollary.generalization import donsker_varadhan


@claim(rows=("B09.04", "T05.41", "T05.35"))
def change_of_measure(key, *, functions: Size = 30, instances: Size = 300, n: Size = 50):
    r"""Donsker and Varadhan: a mean under Q exceeds the logarithm of a moment under P by KL(Q‖P) at most.

    For $Q\ll P$: $E_Q\varphi\le\mathrm{KL}(Q\|P)+\ln E_Pe^\varphi$. What is missing is $\mathrm{KL}(Q\|Q^*)$ with
    $Q^*\propto Pe^\varphi$, so that $Q^*$ alone attains it. With $\varphi=\frac n2\Delta^2$:
    $\frac n2(E_Q\Delta)^2-\mathrm{KL}\le\frac n2E_Q\Delta^2-\mathrm{KL}\le\ln E_Pe^{\frac n2\Delta^2}$ (5.9).
    """
    law_key, gap_key = jax.random.split(key)

    @jax.jit
    def measure(law_key, gap_key):
        weights = jax.random.exponential(law_key, (2, instances, functions)) ** 3
        p, q = weights / weights.sum(-1, keepdims=True)
        gap = jax.random.normal(gap_key, p.shape) / 4
        phi = n / 2 * gap**2
        made = donsker_varadhan(q, p, phi)
        best = donsker_varadhan(made.maximiser, p, phi)
        squared = n / 2 * jnp.sum(q * gap, -1) ** 2 - kl(q, p)
        # the last function is taken out of P and stays in Q; what is left of KL is a sum over the others
        holed = p.at[:, -1].set(0) / (1 - p[:, -1:])
        common = jnp.sum(q[:, :-1] * jnp.log(q[:, :-1] / holed[:, :-1]), -1)
        high = phi.at[:, -1].set(200.0)
        outside = jnp.sum(q * high, -1) - common, jax.nn.logsumexp(high, -1, b=holed)
        return made, kl(q, made.maximiser), best.value, squared, outside

    made, missing, best, squared, (left, right) = measure(law_key, gap_key)
    yield at_most("mean less KL, against the logarithm of the moment", made.value, made.supremum)
    # terms of the order of 10 are added in a sum of 30
    yield equal("what is missing is KL to the tilted law", made.gap, missing, atol=1e-11)
    yield equal("the tilted law attains it", best, made.supremum)
    yield at_most("the square of the mean, against the mean square", squared, made.value)
    yield control("Q has no mass where P has none", at_most("mean less KL on what they share", left, right))


@claim(rows=("B09.05",))
def errors_are_binomial(key, *, n: Annotated[int, Range(2, 8)] = 7):
    r"""The number of errors of a fixed function on n examples is binomial; that of a trained one is not.

    $P(nR_S(f)=k)=\binom nkR(f)^k(1-R(f))^{n-k}$ for independent examples. All $3^n$ samples of a law on three places
    are summed; the trained function is the better one of two on each sample.
    """
    mass = np.asarray(jax.random.uniform(key, (3,), minval=0.5, maxval=1.5))
    mass = mass / mass.sum()
    rows = np.arange(3**n)[:, None] // 3 ** np.arange(n) % 3
    chance = mass[rows].prod(1)
    wrong = np.array([[0, 1, 0], [1, 0, 0]])  # which of two functions errs at which place
    errors = wrong[:, rows].sum(-1)
    counted = np.stack([np.bincount(e, chance, n + 1) for e in (*errors, errors.min(0))])
    risks = wrong @ mass
    k = np.arange(n + 1)
    law = scipy.stats.binom.pmf(k, n, risks[:, None])
    yield equal("probability of k errors, two fixed functions", counted[:2], law, x=k, along="k")
    chosen = np.where(errors[0] <= errors[1], risks[0], risks[1])
    trained = scipy.stats.binom.pmf(k, n, chance @ chosen)
    yield control(
        "the function was fixed before the sample",
        equal("probability of k errors, trained", counted[2], trained, x=k, along="k"),
    )


@claim(rows=("B09.15",))
def jensen_and_markov(key, *, atoms: Size = 12, laws: Size = 300):
    r"""The two steps of the proof: a convex function of a mean is at most the mean, and large values are rare.

    $\Delta(E_QR,E_QR_S)\le E_Q\Delta(R,R_S)$ for a jointly convex $\Delta$, here $\mathrm{kl}$ and the square.
    $P(X\ge E[X]/\epsilon)\le\epsilon$ for $X\ge0$, attained by the law on $\{0,1/\epsilon\}$ with mean 1. A concave
    function of the mean is not below, and an $X$ with both signs is large more often.
    """
    law_key, risk_key, value_key = jax.random.split(key, 3)

    @jax.jit
    def measure(law_key, risk_key, value_key):
        weights = jax.random.exponential(law_key, (laws, atoms))
        q = weights / weights.sum(1, keepdims=True)
        a, b = jax.random.uniform(risk_key, (2, laws, atoms), minval=0.02, maxval=0.98)

        def sides(distance):
            return distance(jnp.sum(q * a, 1), jnp.sum(q * b, 1)), jnp.sum(q * distance(a, b), 1)

        convex = [sides(lambda a, b: kl_bernoulli(b, a)), sides(lambda a, b: 2 * (a - b) ** 2)]
        x = jax.random.exponential(value_key, (laws, atoms)) ** 2
        epsilon = jnp.geomspace(0.05, 1.0, 20)

        def tail(q, x, epsilon):
            # a value that is the level but for rounding counts as reaching it
            return jnp.sum(q * (x >= jnp.sum(q * x) / epsilon * (1 - 1e-12)))

        def tails(x):
            return jax.vmap(lambda q, x: jax.vmap(lambda e: tail(q, x, e))(epsilon))(q, x)

        # on 0 and 1/ε with the mean 1
        attained = jax.vmap(lambda e: tail(jnp.stack([1 - e, e]), jnp.stack([0.0, 1 / e]), e))(epsilon)
        signed = x - 0.9 * jnp.sum(q * x, 1, keepdims=True)
        return convex, sides(lambda a, b: jnp.sqrt(a * b)), tails(x), tails(signed), attained, epsilon

    convex, (above, below), tail, signed, attained, epsilon = measure(law_key, risk_key, value_key)
    for name, (inner, outer) in zip(("kl", "square"), convex, strict=True):
        yield at_most(f"{name} of the means, against the mean", inner, outer)
    allowed = np.broadcast_to(epsilon, tail.shape)
    yield at_most("probability of a value beyond the mean over ε", tail, allowed)
    yield equal("law on two points", attained, epsilon, x=epsilon, along="ε")
    yield control("the function is convex: here √(ab)", at_most("of the means", above, below))
    yield control("X is not negative", at_most("probability of a value beyond the mean over ε", signed, allowed))
