"""Relative entropy of two Bernoulli laws: inequalities, convexity, conjugacy."""

import jax
import jax.numpy as jnp

from corollary.evidence import Size, at_least, claim, control, equal
from corollary.foundations import (
    bernoulli_entropy,
    binary_cross_entropy,
    cumulant,
    kl_bernoulli,
    tilt,
    tilted_mean,
)


@claim(rows=("M03.06",))
def gibbs_and_pinsker(key, *, pairs: Size = 20_000):
    r"""Relative entropy is zero only for equal laws, and at least twice the squared difference.

    $H(y,y')=y\ln\frac y{y'}+(1-y)\ln\frac{1-y}{1-y'}\ge2(y-y')^2$ (Pinsker), with equality only at $y=y'$; the
    constant 2 is approached at $y,y'\to\frac12$. Cross-entropy and relative entropy differ by the entropy of $y$:
    nothing for hard labels, which is all the text uses, but not nothing for soft ones.
    """
    y, prediction = jax.random.uniform(key, (2, pairs), minval=1e-6, maxval=1 - 1e-6)
    close = 0.5 + jnp.array([[1e-3], [-1e-3]]) * jax.random.uniform(key, (2, pairs), minval=0.5)
    entropy = jax.jit(kl_bernoulli)
    yield at_least("relative entropy", entropy(y, prediction), 2 * (y - prediction) ** 2)
    # H is of the order of 1e-6 here, a difference of terms of order 1
    yield equal("ratio to the bound near one half", entropy(*close) / (2 * (close[0] - close[1]) ** 2), 1.0, rtol=1e-5)
    yield equal("relative entropy of equal laws", entropy(y, y), 0.0, atol=1e-15)
    yield equal(
        "cross-entropy less relative entropy",
        binary_cross_entropy(y, prediction) - entropy(y, prediction),
        bernoulli_entropy(y),
        atol=1e-14,
    )
    hard = (y > 0.5).astype(y.dtype)
    yield equal("hard labels: no difference", binary_cross_entropy(hard, prediction), entropy(hard, prediction))
    yield control(
        "the labels are soft",
        equal("cross-entropy against relative entropy", binary_cross_entropy(y, prediction), entropy(y, prediction)),
    )


@claim(rows=("M03.30",))
def convexity(key, *, triples: Size = 20_000):
    r"""Relative entropy is convex in each argument, and in both together.

    On $(0,1)^2$: $\partial_q^2H(q,p)=\frac1{q(1-q)}\ge4$, $\partial_p^2H(q,p)=\frac q{p^2}+\frac{1-q}{(1-p)^2}$, and
    $H(\frac{a+b}2)\le\frac{H(a)+H(b)}2$ for any two points $a,b$ of the square.
    """
    a, b = jax.random.uniform(key, (2, 2, triples), minval=1e-3, maxval=1 - 1e-3)
    q, p = a

    @jax.jit
    def measure():
        def second(argument):
            return jax.vmap(jax.grad(jax.grad(kl_bernoulli, argument), argument))(q, p)

        joint = (kl_bernoulli(*a) + kl_bernoulli(*b)) / 2
        concave = (bernoulli_entropy(a[0]) + bernoulli_entropy(b[0])) / 2
        return (
            second(0),
            second(1),
            joint,
            kl_bernoulli(*((a + b) / 2)),
            concave,
            bernoulli_entropy((a + b)[0] / 2),
        )

    first, other, joint, middle, concave, top = measure()
    yield equal("second derivative in the first argument", first, 1 / (q * (1 - q)))
    yield equal("second derivative in the second argument", other, q / p**2 + (1 - q) / (1 - p) ** 2)
    yield at_least("curvature in the first argument", first, 4.0)
    yield at_least("mean of the values less value at the mean", joint - middle, 0.0, atol=1e-15)
    yield control(
        "the function is the entropy of one law, not the relative entropy of two",
        at_least("mean of the values less value at the mean", concave - top, 0.0, atol=1e-15),
    )


def _maximum(function, low, high, rounds=120):
    """The greatest value of a concave function on an interval, by golden-section search over all entries at once."""
    golden = (5**0.5 - 1) / 2

    def narrow(_, ends):
        low, high = ends
        left, right = high - golden * (high - low), low + golden * (high - low)
        rises = function(left) < function(right)
        return jnp.where(rises, left, low), jnp.where(rises, high, right)

    low, high = jax.lax.fori_loop(0, rounds, narrow, (low, high))
    return function((low + high) / 2), (low + high) / 2


@claim(rows=("M03.31", "M03.32"))
def conjugacy(key, *, pairs: Size = 2000):
    r"""Relative entropy and the logarithm of the Bernoulli moment generating function are conjugate.

    $$\max_{q\in(0,1)}\{\theta q-H(q,p)\}=\ln(pe^\theta+1-p),\qquad
    \sup_{\theta\in\mathbb R}\{\theta q-\ln(pe^\theta+1-p)\}=H(q,p),$$
    attained at $q=\frac{pe^\theta}{pe^\theta+1-p}$ and $\theta=\ln\frac{q(1-p)}{p(1-q)}$. (Exercise 3.5 asks for the
    second as a maximum over $q$: what it prints is linear in $q$, with the supremum
    $\max(0,\theta)-\ln(pe^\theta+1-p)$, not attained for $\theta\ne0$.)
    """
    theta_key, p_key = jax.random.split(key)
    theta = jax.random.uniform(theta_key, (pairs,), minval=-5.0, maxval=5.0)
    p, q = jax.random.uniform(p_key, (2, pairs), minval=0.02, maxval=0.98)

    @jax.jit
    def measure():
        up = _maximum(lambda s: theta * s - kl_bernoulli(s, p), 0 * p, 0 * p + 1)
        back = _maximum(lambda t: t * q - cumulant(t, p), 0 * q - 20, 0 * q + 20)
        low = _maximum(lambda s: theta * s - kl_bernoulli(s, p), 0 * p, 0 * p + 0.5)
        asked = _maximum(lambda s: theta * s - cumulant(theta, p), 0 * p, 0 * p + 1)
        return up, back, low[0], asked[0]

    (value, where), (other, tilted), low, asked = measure()
    yield equal("maximum over q", value, cumulant(theta, p), atol=1e-12)
    # the place of a maximum is known to the square root of the rounding of its value
    yield equal("where it is attained", where, tilted_mean(theta, p), atol=3e-7)
    yield equal("supremum over θ", other, kl_bernoulli(q, p), atol=1e-12)
    yield equal("where it is attained, θ", tilted, tilt(q, p), atol=3e-6)
    yield equal("Exercise 3.5 as it is asked", asked, jnp.maximum(0, theta) - cumulant(theta, p), atol=1e-12)
    yield control("q is kept below one half", equal("maximum over q", low, cumulant(theta, p), atol=1e-12))
