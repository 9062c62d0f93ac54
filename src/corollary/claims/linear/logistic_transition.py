"""Where and how fast a fitted logistic curve rises, and what swapping the labels does."""

import jax
import jax.numpy as jnp

from corollary.data import logistic_data
from corollary.evidence import Size, claim, control, equal, printed
from corollary.linear import fit_newton, location_scale, logistic_function, transition_interval


@claim(rows=("M03.11", "M03.12"))
def width(key, *, curves: Size = 200):
    r"""A logistic curve rises from q to 1 - q within its scale times ln((1 - q)/q) of its location.

    $S(wx+b)=S(\operatorname{sgn}(w)\frac{x-x_c}s)$ with $x_c=-b/w$ and $s=1/|w|$ ($w\ne0$), and it lies between $q$
    and $1-q$ exactly on $(x_c-s\ln\frac{1-q}q,\ x_c+s\ln\frac{1-q}q)$. For $q=0.05$ that is $\pm2.9444\,s$ and 90 %
    of the rise; the central 95 % take $\pm\ln39\,s=\pm3.6636\,s$. The printed fit $w^*=2.22$, $b^*=-15.49$ has
    $x_c=6.9689$ and $s=0.45$ up to the rounding of its digits.
    """
    w_key, b_key, q_key, x_key = jax.random.split(key, 4)
    w = 3 * jax.random.normal(w_key, (curves,))
    b = 3 * jax.random.normal(b_key, (curves,))
    q = jax.random.uniform(q_key, (curves,), minval=0.001, maxval=0.499)
    x = jax.random.normal(x_key, (curves,))
    low, high = transition_interval(w, b, q)
    rising = jnp.where(w > 0, q, 1 - q)
    yield equal("value at the left end", logistic_function(w * low + b), rising)
    yield equal("value at the right end", logistic_function(w * high + b), 1 - rising)
    curve = location_scale(w, b)
    yield equal(
        "location and scale give the same curve",
        logistic_function(curve.sign * (x - curve.location) / curve.scale),
        logistic_function(w * x + b),
    )
    rise = logistic_function(jnp.log(jnp.array([19.0, 39.0]))) - logistic_function(-jnp.log(jnp.array([19.0, 39.0])))
    yield equal("share of the rise within ln 19 and ln 39", rise, jnp.array([0.90, 0.95]))
    # w* is known to half a unit of its second decimal, 0.23 %
    book = location_scale(2.22, -15.49)
    yield equal(
        "location and scale of the printed fit",
        jnp.stack([book.location, book.scale]),
        jnp.array([6.9689, 0.45]),
        rtol=0.0025,
    )
    yield control(
        "the curve is a normal distribution function, not logistic",
        equal("value at the left end", jax.scipy.stats.norm.cdf(w * low + b), rising),
    )


@claim(rows=("M03.12",), erratum="The logarithm of 19 is rounded to 2.95; it is 2.9444, which rounds to 2.94.")
def printed_endpoint(key):
    r"""The logistic function takes the values 0.05 and 0.95 at -2.95 and 2.95.

    As printed: $(\ln\frac{0.05}{0.95},\ln\frac{0.95}{0.05})=(-2.95,2.95)$, to two decimals. To two decimals it is
    $(-2.94,2.94)$.
    """
    _, end = transition_interval(1.0, 0.0, 0.05)
    yield equal("end of the interval, to two decimals: 2.94", end, 2.94, rtol=0, atol=0.005)
    yield printed(equal("end of the interval, to two decimals: 2.95", end, 2.95, rtol=0, atol=0.005))


@claim(rows=("M03.12",), erratum="The rise from 0.05 to 0.95 is called 95 % of the transition; it is 90 %.")
def printed_share(key):
    r"""Ninety-five percent of the rise of the logistic function happen between the values 0.05 and 0.95.

    As printed: "95% of the transition of the logistic function (i.e., from 0.05 to 0.95)". The whole rise is from 0
    to 1, and these are 90 % of it.
    """
    low, high = transition_interval(1.0, 0.0, 0.05)
    share = logistic_function(high) - logistic_function(low)
    yield equal("share of the rise, in whole percent: 90", share, 0.90, rtol=0, atol=0.005)
    yield printed(equal("share of the rise, in whole percent: 95", share, 0.95, rtol=0, atol=0.005))


@claim(rows=("M03.13",))
def label_swap(key, *, n: Size = 200, sets: Size = 8):
    r"""Swapping the two labels negates the fitted parameters and swaps the predictions.

    Since $S(-z)=1-S(z)$, the minimiser for the labels $1-y$ is $-\theta^*$ (data that are not separable, so that it
    exists and is unique). A link without that symmetry, such as $1-e^{-e^z}$, has no such invariance.
    """

    def asymmetric(x, y):
        def loss(t):
            z = t[0] * x + t[1]
            # -ln(1 - e^{-e^z}) for label 1 and e^z for label 0, plus a trace of ridge
            return jnp.mean(jnp.where(y == 1, -jnp.log(-jnp.expm1(-jnp.exp(z))), jnp.exp(z))) + 1e-9 * t @ t

        def newton(_, t):
            return t - jnp.linalg.solve(jax.hessian(loss)(t) + 1e-2 * jnp.eye(2), jax.grad(loss)(t))

        return jax.lax.fori_loop(0, 400, newton, jnp.array([0.0, -0.5]))

    @jax.jit
    def measure(key):
        x, y = logistic_data(jnp.array([1.0, -0.5]), n, key=key)
        there, back = fit_newton(x, y), fit_newton(x, 1 - y)
        probability = logistic_function(there.theta[0] * x + there.theta[1]) + logistic_function(
            back.theta[0] * x + back.theta[1]
        )
        return (
            there.theta,
            back.theta,
            probability,
            there.converged & back.converged,
            asymmetric(x, y),
            asymmetric(x, 1 - y),
        )

    there, back, total, converged, skew, skew_back = jax.vmap(measure)(jax.random.split(key, sets))
    yield equal("both fits converged", converged.sum(), sets, rtol=0, atol=0)
    # Newton stops when no logit moves by more than sqrt(eps)
    yield equal("parameters for swapped labels", back, -there, rtol=1e-7, atol=1e-7)
    yield equal("the two probabilities add up to 1", total, 1.0, rtol=1e-7)
    yield control(
        "the complementary log-log link is not symmetric",
        equal("parameters for swapped labels", skew_back, -skew, rtol=1e-7, atol=1e-7),
    )
