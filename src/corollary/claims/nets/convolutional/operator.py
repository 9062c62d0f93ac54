"""Convolution and correlation of sequences and images, exactly on whole numbers."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.nets._pictures import curves
from corollary.claims.nets.convolutional._images import image
from corollary.evidence import Size, claim, control, equal, printed
from corollary.nets.convolutional import convolve, cross_correlate, fft_convolve, flip

# sums of products of small whole numbers have no rounding in floating point
EXACT = {"rtol": 0.0, "atol": 0.0}


def whole_numbers(key, shape):
    return jax.random.randint(key, shape, -9, 10).astype(float)


@claim(rows=("B10.05", "E04.04", "E04.05", "E04.09", "E04.12"))
def commutative_linear_equivariant(key, *, length: Size = 12, taps: Size = 5, side: Size = 6):
    r"""Discrete convolution is the product of polynomials: linear, commutative, associative, and it follows shifts.

    $(f*h)[u]=\sum_th[t]f[u-t]$ for $f,h:\mathbb Z^d\to\mathbb R$ of finite support: the coefficients of the product of
    the polynomials with coefficients $f$ and $h$ (the sum over all $t$ stops where the kernel does). Hence
    $f*h=h*f$, $(f*g)*h=f*(g*h)$, $(\alpha f+\beta g)*h=\alpha f*h+\beta g*h$ and $f_\delta*h=(f*h)_\delta$, in one
    dimension and in two; a kernel $ab^\top$ acts as $a$ along one axis and $b$ along the other. The cross-correlation
    is not commutative ($(h\star f)[u]=(f\star h)[-u]$), and a convolution that is cut to the size of its input follows
    shifts only as long as nothing leaves the picture.
    """
    shifts = jnp.arange(6)

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 7)
        f, g, h = (whole_numbers(keys[i], (n,)) for i, n in enumerate((length, length, taps)))
        plane, second = whole_numbers(keys[3], (2, side, side + 1))
        kernel = whole_numbers(keys[4], (3, 2))
        column, row = whole_numbers(keys[5], (3, 1)), whole_numbers(keys[6], (1, 4))
        pairs = {
            "commutative, one dimension": (convolve(f, h), convolve(h, f)),
            "commutative, two dimensions": (convolve(plane, kernel), convolve(kernel, plane)),
            "associative": (convolve(convolve(f, g), h), convolve(f, convolve(g, h))),
            "linear, one dimension": (convolve(3 * f - 2 * g, h), 3 * convolve(f, h) - 2 * convolve(g, h)),
            "linear, two dimensions": (
                convolve(3 * plane - 2 * second, kernel),
                3 * convolve(plane, kernel) - 2 * convolve(second, kernel),
            ),
            "separable kernel": (convolve(plane, column * row), convolve(convolve(plane, row), column)),
            "correlation with the arguments exchanged": (
                cross_correlate(h, f, "full"),
                cross_correlate(f, h, "full")[::-1],
            ),
        }
        # room for the greatest shift behind the signal
        wide = jnp.pad(f, (0, 5))
        moved = jax.vmap(lambda d: convolve(jnp.roll(wide, d), h))(shifts)
        wanted = jax.vmap(lambda d: jnp.roll(convolve(wide, h), d))(shifts)
        tall = jnp.pad(plane, ((0, 5), (0, 5)))
        plane_moved = jax.vmap(lambda d: convolve(jnp.roll(tall, (d, 5 - d), (0, 1)), kernel))(shifts)
        plane_wanted = jax.vmap(lambda d: jnp.roll(convolve(tall, kernel), (d, 5 - d), (0, 1)))(shifts)
        # the signal fills the picture: what it was convolved with at the ends is cut off
        cut = convolve(jnp.pad(f[:-1], (1, 0)), h, "same"), jnp.pad(convolve(f, h, "same")[:-1], (1, 0))
        correlations = cross_correlate(h, f, "full"), cross_correlate(f, h, "full")
        return pairs, (moved, wanted), (plane_moved, plane_wanted), cut, correlations, (f, h)

    pairs, line, plane, cut, correlations, (f, h) = measure(key)
    product = np.polymul(np.asarray(f)[::-1], np.asarray(h)[::-1])[::-1]
    # the product of polynomials leaves out leading zeros
    measured = np.asarray(convolve(f, h))
    yield equal("coefficients of the product of two polynomials", measured[: product.size], product, **EXACT)
    yield equal("beyond its degree", np.append(measured[product.size :], 0.0), 0.0, **EXACT)
    for name, (left, right) in pairs.items():
        yield equal(name, left, right, **EXACT)
    yield equal("shifts, one dimension", *line, **EXACT)
    yield equal("shifts, two dimensions", *plane, **EXACT)
    yield control(
        "the product is a convolution: here a cross-correlation", equal("arguments exchanged", *correlations, **EXACT)
    )
    yield control("nothing leaves the picture: here it is cut", equal("result for the shifted signal", *cut, **EXACT))


@claim(rows=("E04.10", "B10.08", "M14.05", "M14.06"))
def correlation_flips_the_kernel(key, *, length: Size = 25, taps: Size = 7):
    r"""Cross-correlation is convolution with the reversed kernel.

    $(h\star f)[u]=\sum_th[t]f[u+t]=(\bar h*f)[u]$ with $\bar h[t]=h[-t]$; with $R$ supported on $0..N'-1$ and zeros put
    around $X$, $(R\star X)_n$ is defined for all $n\in\mathbb Z$ and vanishes outside $1-N'\le n\le N-1$. It is
    linear in each argument. It equals the convolution with the kernel itself if the kernel is symmetric about 0, such
    as $\frac1{16}(1,4,6,4,1)$ on $[-2,2]$, and for other kernels it does not.
    """

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        f, g = whole_numbers(keys[0], (length,)), whole_numbers(keys[1], (length,))
        h, k = whole_numbers(keys[2], (taps,)), whole_numbers(keys[3], (taps,))
        smooth = jnp.array([1.0, 4.0, 6.0, 4.0, 1.0])
        edge = jnp.array([-1.0, 0.0, 0.0, 0.0, 1.0])
        wide = jnp.pad(f, 2 * taps)
        return {
            "data": (f, h),
            "valid": cross_correlate(h, f),
            "full": cross_correlate(h, f, "full"),
            "by transforms": fft_convolve(f, flip(h)),
            "wide": cross_correlate(h, wide),
            "in the signal": (
                cross_correlate(h, 3 * f - 2 * g),
                3 * cross_correlate(h, f) - 2 * cross_correlate(h, g),
            ),
            "in the kernel": (
                cross_correlate(3 * h - 2 * k, f),
                3 * cross_correlate(h, f) - 2 * cross_correlate(k, f),
            ),
            "symmetric": (cross_correlate(smooth, f, "same"), convolve(f, smooth, "same")),
            "edge": (cross_correlate(edge, f, "same"), convolve(f, edge, "same")),
        }

    found = measure(key)
    f, h = (np.asarray(a) for a in found["data"])
    yield equal("without padding", found["valid"], np.convolve(f, h[::-1], "valid"), **EXACT)
    yield equal("with zeros around", found["full"], np.convolve(f, h[::-1]), **EXACT)
    # transforms of numbers of size 10² have a rounding of some 1e-14 of that
    yield equal("by transforms", found["by transforms"], np.convolve(f, h[::-1]), rtol=0, atol=1e-10)
    # with 2 N' zeros at each end: N'+1 places before and N'+1 behind are out of reach
    outside = np.r_[found["wide"][: taps + 1], found["wide"][-taps - 1 :]]
    yield equal("where the signals do not meet", outside, 0.0, **EXACT)
    yield equal("the support, 1-N' to N-1", found["wide"][taps + 1 : -taps - 1], found["full"], **EXACT)
    yield equal("linear in the signal", *found["in the signal"], **EXACT)
    yield equal("linear in the kernel", *found["in the kernel"], **EXACT)
    yield equal("symmetric kernel: correlation is convolution", *found["symmetric"], **EXACT)
    left, right = found["edge"]
    yield curves("a kernel (-1, 0, 0, 0, 1)", range(length), {"correlation": left, "convolution": right}, "u")
    yield control("the kernel is symmetric: here not", equal("correlation against convolution", left, right, **EXACT))


@claim(
    rows=("E04.10",),
    erratum="The second star must be a convolution: correlating with the reversed kernel is another thing.",
)
def correlation_with_the_flipped_kernel(key, *, length: Size = 25, taps: Size = 7):
    r"""Cross-correlation with h is cross-correlation with the reversed h.

    The remark after Definition 4.8 as printed, $(h\star f)=(\bar h\star f)$ "with a flipped kernel"; it is
    $(\bar h*f)$.
    """
    f_key, h_key = jax.random.split(key)
    f, h = whole_numbers(f_key, (length,)), whole_numbers(h_key, (taps,))
    found = cross_correlate(h, f, "full")
    yield equal("convolution with the reversed kernel", found, convolve(f, flip(h)), **EXACT)
    yield printed(equal("correlation with the reversed kernel", found, cross_correlate(flip(h), f, "full"), **EXACT))


def _centred(picture, kernel):
    """The book's finite formula, summed over its indices in NumPy: I[i - u0 + u, j - v0 + v] K[u, v]."""
    rows, columns = kernel.shape
    around = np.pad(picture, [(m // 2, m - 1 - m // 2) for m in kernel.shape])
    out = np.zeros(picture.shape)
    for u in range(rows):
        for v in range(columns):
            out += around[u : u + picture.shape[0], v : v + picture.shape[1]] * kernel[u, v]
    return out


@claim(rows=("B10.09", "B10.08"))
def centred_form(key, *, side: Size = 8):
    r"""The centred sum over an image is a cross-correlation: the convolution with the reversed kernel, centred.

    $\sum_{u,v}I[i-u_0+u,\,j-v_0+v]\,K[u,v]$ with $(u_0,v_0)=(\lfloor H_K/2\rfloor,\lfloor W_K/2\rfloor)$ and zeros
    around $I$ is $(K\star I)[i-u_0,j-v_0]$, which is the convolution $I*\bar K$ with the part kept that is as large as
    $I$: for kernels of odd size the one with the kernel's middle at 0.
    """
    shapes = [(3, 3), (3, 2), (4, 3)]
    edge = np.outer([1.0, 2.0, 1.0], [-1.0, 0.0, 1.0])
    square = np.pad(np.ones((6, 6)), [(0, 2), (2, 2)])

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        plane = whole_numbers(keys[0], (side, side + 1))
        kernels = [whole_numbers(k, s) for k, s in zip(keys[1:], shapes, strict=True)]
        runs = [(k, cross_correlate(k, plane, "same"), convolve(plane, flip(k), "same")) for k in kernels]
        return plane, runs, cross_correlate(edge, square), cross_correlate(edge, square[:4, :4])

    plane, runs, sobel, step = measure(key)
    for shape, (kernel, correlation, convolution) in zip(shapes, runs, strict=True):
        wanted = _centred(np.asarray(plane), np.asarray(kernel))
        yield equal(f"kernel {shape[0]} by {shape[1]}: correlation", correlation, wanted, **EXACT)
        yield equal(f"kernel {shape[0]} by {shape[1]}: convolution, kernel reversed", convolution, wanted, **EXACT)
    yield image("a square", square)
    yield image("through Sobel's filter", sobel)
    # the book's sizes: four by four with three by three leaves two by two
    yield equal("a step, 4 by 4, through Sobel's filter, 3 by 3", step, 4 * np.ones((2, 2)), **EXACT)


@claim(
    rows=("B10.09",),
    erratum="The plus signs make it a cross-correlation: the kernel is not reversed.",
)
def centred_form_as_convolution(key, *, side: Size = 8):
    r"""The centred sum over an image is the convolution with the kernel, its middle put at 0.

    The finite formula of section 10.1.2 as printed, $(I*K)[i,j]=\sum_{u,v}I[i-u_0+u,\,j-v_0+v]\,K[u,v]$, with the
    convolution defined above it by $I[i-u,j-v]$. The sum is the convolution with the reversed kernel.
    """
    plane_key, kernel_key = jax.random.split(key)
    plane, kernel = whole_numbers(plane_key, (side, side)), whole_numbers(kernel_key, (3, 3))
    measured = _centred(np.asarray(plane), np.asarray(kernel))
    yield equal("centred sum, kernel reversed", measured, convolve(plane, flip(kernel), "same"), **EXACT)
    yield printed(equal("centred sum", measured, convolve(plane, kernel, "same"), **EXACT))
