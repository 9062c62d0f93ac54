"""Convolution of functions on the line and in the plane, by quadrature against closed forms."""

import jax
import jax.numpy as jnp

from corollary.claims.nets._pictures import curves
from corollary.evidence import Size, claim, control, equal, printed
from corollary.nets.convolutional import convolve_functions, fourier_transform, integral_operator


def gaussian(t, variance):
    return jnp.exp(-(t**2) / (2 * variance)) / jnp.sqrt(2 * jnp.pi * variance)


def box(t):
    return jnp.where(jnp.abs(t) < 0.5, 1.0, 0.0)


@claim(rows=("E04.01", "E04.02", "E04.03", "B10.03", "B10.04", "B10.09"))
def closed_forms(key, *, points: Size = 12):
    r"""The Fourier transform and the convolution are integral operators, with known values on known functions.

    $(Tf)(u)=\int_{t_1}^{t_2}H(u,t)f(t)\,dt$ is linear in $f$ wherever the integrals exist. With $H=e^{-2\pi itu}$ it is
    the Fourier transform: $e^{-\pi t^2}\mapsto e^{-\pi u^2}$, the box of width 1 $\mapsto\frac{\sin\pi u}{\pi u}$,
    $e^{-|t|}\mapsto\frac2{1+4\pi^2u^2}$, $f(\cdot+\delta)\mapsto e^{2\pi i\delta u}\mathcal Ff$, and
    $\int|f|^2=\int|\mathcal Ff|^2$. With $H=h(u-t)$ it is the convolution: densities of normal laws with variances $a$
    and $b$ give that of $a+b$, in the plane too, and two boxes give the triangle $\max(0,1-|u|)$.
    """
    triangle_at = jnp.arange(-6, 7) / 4

    @jax.jit
    def measure(key):
        u_key, ab_key, plane_key, delta_key, c_key = jax.random.split(key, 5)
        u = jax.random.uniform(u_key, (points,), minval=-3.0, maxval=3.0)
        a, b = jax.random.uniform(ab_key, (2,), minval=0.3, maxval=1.5)
        at = jax.random.uniform(plane_key, (4, 2), minval=-2.0, maxval=2.0)
        delta = jax.random.uniform(delta_key, minval=-1.0, maxval=1.0)
        alpha, beta = jax.random.normal(c_key, (2,))

        def bell(t):
            return jnp.exp(-jnp.pi * t**2)

        def smooth(t):
            return (1 + t) * bell(t - 0.3)

        def line(f):
            return fourier_transform(f, u, -6.0, 6.0, panels=24)

        # the kinks of both functions fall between two pieces of length 1/2
        boxed = fourier_transform(box, u, -2.0, 2.0, panels=8)
        tent = fourier_transform(lambda t: jnp.exp(-jnp.abs(t)), u, -40.0, 40.0, panels=80)
        parts = line(bell), line(smooth)
        pairs = {
            "Gaussian": (parts[0], bell(u)),
            "box": (boxed, jnp.sinc(u)),
            "two-sided exponential": (tent, 2 / (1 + 4 * jnp.pi**2 * u**2)),
            "shifted function": (line(lambda t: smooth(t + delta)), jnp.exp(2j * jnp.pi * delta * u) * parts[1]),
            "linear combination": (
                line(lambda t: alpha * bell(t) + beta * smooth(t)),
                alpha * parts[0] + beta * parts[1],
            ),
        }
        power = integral_operator(lambda v, t: v * smooth(t), smooth, jnp.ones(1), -6.0, 6.0, panels=24)[0]
        spectrum = integral_operator(
            lambda v, t: v,
            lambda s: jnp.abs(fourier_transform(smooth, s[None], -6.0, 6.0, panels=24)[0]) ** 2,
            jnp.ones(1),
            -6.0,
            6.0,
            panels=24,
        )[0]
        sums = convolve_functions(lambda t: gaussian(t, a), lambda t: gaussian(t, b), u, -20.0, 20.0, panels=40)
        corner = 12 * jnp.ones(2)
        plane = convolve_functions(
            lambda t: gaussian(t[0], a) * gaussian(t[1], b),
            lambda t: gaussian(t[0], b) * gaussian(t[1], 1.0),
            at,
            -corner,
            corner,
            panels=8,
        )
        # steps of u and lengths of the pieces are 1/4, so that no jump falls inside a piece
        triangle = convolve_functions(box, box, triangle_at, -2.0, 2.0, panels=16)
        other = fourier_transform(lambda t: jnp.exp(-(t**2)), u, -8.0, 8.0, panels=32)
        closed = gaussian(u, a + b), gaussian(at[:, 0], a + b) * gaussian(at[:, 1], b + 1)
        return pairs, (power, spectrum), (sums, plane), closed, triangle, (other, jnp.exp(-(u**2)))

    pairs, (power, spectrum), (sums, plane), closed, triangle, (other, itself) = measure(key)
    for name, (found, wanted) in pairs.items():
        gap = jnp.abs(found - wanted)
        # sums of a few hundred terms of size 1: an absolute rounding of some 1e-15
        yield equal(f"{name}: transform minus closed form", gap, 0.0, atol=1e-12)
    yield equal("total power of the transform", spectrum, power)
    yield equal("two normal densities convolved", sums, closed[0], atol=1e-13)
    yield equal("two normal densities in the plane convolved", plane, closed[1], atol=1e-13)
    yield equal("two boxes convolved", triangle, jnp.maximum(0, 1 - jnp.abs(triangle_at)), x=triangle_at, along="u")
    yield control(
        "the Gaussian is exp(-π t²): exp(-t²) is not its own transform",
        equal("transform minus the function itself", jnp.abs(other - itself), 0.0, atol=1e-12),
    )


def _wavelet(c):
    """A smooth function without symmetry that dies out fast: a random cubic times a Gaussian."""
    return lambda t: jnp.polyval(c, t) * jnp.exp(-(t**2))


@claim(rows=("E04.04", "E04.05", "E04.06"))
def commutes_with_shifts_and_factors(key, *, points: Size = 9):
    r"""Convolution of functions is commutative, commutes with shifts, and becomes a product by the Fourier transform.

    For integrable $f$ and $h$: $f*h=h*f$; with $f_\delta(t)=f(t+\delta)$, $f_\delta*h=(f*h)_\delta$; and
    $\mathcal F(f*h)=\mathcal Ff\cdot\mathcal Fh$, without any factor because $2\pi$ stands in the exponent: with
    $\frac1{\sqrt{2\pi}}\int e^{-itu}f(t)\,dt$ instead there is the factor $\sqrt{2\pi}$. The cross-correlation
    $\int h(t)f(u+t)\,dt$ is not commutative, and multiplication by a function does not commute with shifts.
    """

    @jax.jit
    def measure(key):
        f_key, h_key, u_key, delta_key = jax.random.split(key, 4)
        f, h = _wavelet(jax.random.normal(f_key, (4,))), _wavelet(jax.random.normal(h_key, (4,)))
        u = jnp.sort(jax.random.uniform(u_key, (points,), minval=-3.0, maxval=3.0))
        delta = jax.random.uniform(delta_key, minval=0.5, maxval=1.5)

        def product(f, h, u):
            return convolve_functions(f, h, u, -9.0, 9.0, panels=9)

        def correlation(f, h):
            return integral_operator(lambda v, t: f(v + t), h, u, -9.0, 9.0, panels=9)

        def transform(f, unit=2 * jnp.pi):
            return integral_operator(lambda v, t: jnp.exp(-1j * unit * t * v), f, u, -12.0, 12.0, panels=24)

        # a function with a jump: its support is the range of integration
        def jumping(v):
            return convolve_functions(lambda t: jnp.exp(-t), h, v[None], 0.0, 36.0, panels=36)[0]

        jump = fourier_transform(jumping, u, -10.0, 40.0, panels=50)
        both = transform(lambda v: product(f, h, v[None])[0])
        # the other convention: the same integrals at u / 2π, each divided by √(2π)
        plain = [transform(g, 1.0) / jnp.sqrt(2 * jnp.pi) for g in (lambda v: product(f, h, v[None])[0], f, h)]
        return {
            "there": product(f, h, u),
            "back": product(h, f, u),
            "of the shifted": product(lambda t: f(t + delta), h, u),
            "shifted": product(f, h, u + delta),
            "transforms": (both, transform(f) * transform(h)),
            "with a jump": (jump, transform(h) / (1 + 2j * jnp.pi * u)),
            "plain": (plain[0], plain[1] * plain[2]),
            "correlations": (correlation(f, h), correlation(h, f)),
            "gains": (jnp.cos(u) * f(u + delta), jnp.cos(u + delta) * f(u + delta)),
        }

    found = measure(key)
    # both sides are sums of some hundred terms of size up to 10
    close = {"rtol": 1e-10, "atol": 1e-12}
    yield equal("f * h against h * f", found["there"], found["back"], **close)
    yield equal("convolution of the shifted function", found["of the shifted"], found["shifted"], **close)
    for name in ("transforms", "with a jump"):
        left, right = found[name]
        yield equal(f"{name}: real part", left.real, right.real, rtol=1e-9, atol=1e-11)
        yield equal(f"{name}: imaginary part", left.imag, right.imag, rtol=1e-9, atol=1e-11)
    left, right = (v.real for v in found["plain"])
    yield equal("other convention: the factor", left, jnp.sqrt(2 * jnp.pi) * right, rtol=1e-9, atol=1e-11)
    yield control(
        "the product is a convolution: here a cross-correlation",
        equal("f ⋆ h against h ⋆ f", *found["correlations"], **close),
    )
    yield control(
        "the map is a convolution: here a product with a cosine",
        equal("result for the shifted function", *found["gains"], **close),
    )


@claim(
    rows=("E04.05",),
    erratum="The proof starts from f(t-δ), which is the function shifted the other way; it must be f(t+δ), v = t+δ.",
)
def shift_as_in_the_proof(key, *, points: Size = 60):
    r"""The integral of h(u-t) f(t-δ) over t is (f * h)(u + δ).

    As in the printed proof of Lemma 4.5, which begins with $(f_\delta*h)(u)=\int h(u-t)f(t-\delta)\,dt$ for
    $f_\delta(t)=f(t+\delta)$ and ends with $(f*h)(u+\delta)$. The integral is $(f*h)(u-\delta)$; with $f(t+\delta)$ it
    is what it should be.
    """

    @jax.jit
    def measure(key):
        f_key, h_key = jax.random.split(key)
        f, h = _wavelet(jax.random.normal(f_key, (4,))), _wavelet(jax.random.normal(h_key, (4,)))
        u, delta = jnp.linspace(-4, 4, points), 0.8
        integrals = [convolve_functions(lambda t, d=d: f(t + d), h, u, -9.0, 9.0, panels=9) for d in (-delta, delta)]
        shifted = [convolve_functions(f, h, u + d, -9.0, 9.0, panels=9) for d in (-delta, delta)]
        return u, integrals, shifted

    u, (integral, meant), (back, ahead) = measure(key)
    yield curves("the integral and what it should be", u, {"integral": integral, "printed": ahead}, "u")
    # both sides are sums of some hundred terms of size up to 10
    close = {"rtol": 1e-10, "atol": 1e-12, "x": u, "along": "u"}
    yield equal("integral of h(u-t) f(t+δ): the convolution at u + δ", meant, ahead, **close)
    yield equal("integral of h(u-t) f(t-δ): the convolution at u - δ", integral, back, **close)
    yield printed(equal("integral of h(u-t) f(t-δ): the convolution at u + δ", integral, ahead, **close))
