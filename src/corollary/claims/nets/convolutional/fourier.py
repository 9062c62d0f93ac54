"""Convolution by Fourier transforms: the theorem for finite signals, and what it saves."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.autodiff import multiplications
from corollary.claims.nets._pictures import curves
from corollary.evidence import Size, at_least, claim, control, equal, rate
from corollary.nets.convolutional import (
    convolve,
    dft_matrix,
    fft_convolution_cost,
    fft_convolve,
    radix2_fft,
    toeplitz_matrix,
)

EXACT = {"rtol": 0.0, "atol": 0.0}


@claim(rows=("E04.06", "B10.16", "B10.03"))
def convolution_theorem(key, *, prime: Size = 13, taps: Size = 5):
    r"""The discrete Fourier transform turns circular convolution into a product, and needs zeros for any other.

    For $f,h\in\mathbb R^N$: $F(f\circledast h)=Ff\cdot Fh$ entrywise, for every $N$, primes included, and in two
    dimensions; $F/\sqrt N$ is unitary. The convolution of signals of $N$ and $M$ entries on $\mathbb Z$ is obtained by
    filling both up with zeros to $N+M-1$. Without them its tail is added to its head:
    $(f\circledast h)[u]=\sum_k(f*h)[u+kN]$.
    """
    n, m = prime, taps

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 4)
        f, h = jax.random.normal(keys[0], (n,)), jax.random.normal(keys[1], (m,))
        plane, kernel = jax.random.normal(keys[2], (5, 6)), jax.random.normal(keys[3], (5, 6))
        matrix, longer = dft_matrix(n), dft_matrix(n + m - 1)
        short = jnp.pad(h, (0, n - m))
        around, whole = convolve(f, h, "circular"), convolve(f, h)
        spectrum = longer @ jnp.pad(f, (0, m - 1)) * (longer @ jnp.pad(h, (0, n - 1)))
        five, six = dft_matrix(5), dft_matrix(6)
        return {
            "theorem": (matrix @ around, (matrix @ f) * (matrix @ short)),
            "plane": (
                five @ convolve(plane, kernel, "circular") @ six,
                (five @ plane @ six) * (five @ kernel @ six),
            ),
            "unitary": matrix @ matrix.conj().T / n,
            "padded": (whole, (longer.conj() @ spectrum).real / (n + m - 1)),
            "around": around,
            "fast": (fft_convolve(f, h), fft_convolve(f, h, "circular")),
        }

    found = jax.tree.map(np.asarray, measure(key))
    # sums of at most 30 terms of size 10
    close = {"rtol": 1e-10, "atol": 1e-11}
    for name, words in (("theorem", "circular convolution"), ("plane", "two dimensions")):
        left, right = found[name]
        yield equal(f"{words}: real part", left.real, right.real, **close)
        yield equal(f"{words}: imaginary part", left.imag, right.imag, **close)
    yield equal("F F* / N, distance to the identity", np.abs(found["unitary"] - np.eye(n)), 0.0, atol=1e-12)
    whole, by_transforms = found["padded"]
    yield equal("filled up with zeros", by_transforms, whole, **close)
    yield equal("by the fast transform", found["fast"][0], whole, **close)
    yield equal("circular, by the fast transform", found["fast"][1], found["around"], **close)
    wrapped = whole[:n] + np.pad(whole[n:], (0, 2 * n - whole.size))
    yield equal("without zeros: the tail on the head", found["around"], wrapped, **close)
    yield curves(
        "with and without zeros",
        range(n),
        {"without": found["around"], "with": whole[:n], "difference": found["around"] - whole[:n]},
    )
    yield control("no zeros", equal("convolution", found["around"], whole[:n], **close))


@claim(rows=("E04.07", "B10.17"))
def cost_of_the_fast_transform(key, *, length: Size = 500):
    r"""Convolution by fast Fourier transforms takes of the order of n log n products, the direct sum n squared.

    Halving costs $\frac n2\log_2n$ complex products for a transform of $n=2^k$ numbers, so that two signals of $n$
    entries are convolved with three transforms of $2n$ and $2n$ products: $3n\log_2(2n)+2n$, against $n^2$ directly and
    $n^2$ for one transform by its matrix. The fast way pays from $n=32$ on, for kernels as long as the signal; for a
    kernel of three entries, the usual size in networks, it never does: $3n$ products are fewer for every $n$.
    """
    sizes = 2 ** np.arange(4, 14)
    small = 2 ** np.arange(2, 7)
    spent = []

    def transform(x):
        values, products = radix2_fft(x)
        spent.append(products)  # the count is known while tracing: nothing is computed
        return values

    def both(f, h):
        a, b = (transform(jnp.pad(v, (0, v.size))) for v in (f, h))
        spent.append(a.size)
        return transform((a * b).conj())

    def counted(f, *arguments):
        spent.clear()
        jax.eval_shape(f, *arguments)
        return sum(spent)

    def vector(n):
        return jax.ShapeDtypeStruct((int(n),), float)

    one = [counted(transform, vector(n)) for n in sizes]
    fast = np.array([counted(both, vector(n), vector(n)) for n in sizes])

    @jax.jit
    def measure(key):
        ones = 1 + jax.random.uniform(key, (small.max(),))
        direct = [jnp.count_nonzero(toeplitz_matrix(ones[:n], int(n))) for n in small]
        f, h = jax.random.normal(key, (2, length))
        f16, h16 = jax.random.normal(key, (2, 16))
        halved = both(f16, h16).conj().real / 32
        return fft_convolve(f, h), convolve(f, h), halved, convolve(f16, h16), jnp.stack(direct)

    by_fft, summed, halved, wanted, direct = measure(key)
    # an absolute error of eps log n times the size of the result, which is of the order of the root of n
    yield equal("result of the fast way", by_fft, summed, rtol=0, atol=1e-11)
    yield equal("result by halving", halved[:-1], wanted, rtol=0, atol=1e-12)
    yield equal("products of one transform", one, sizes / 2 * np.log2(sizes), x=sizes, along="n", **EXACT)
    yield equal("products of a fast convolution", fast, [fft_convolution_cost(int(n)) for n in sizes], x=sizes, **EXACT)
    yield equal("products of the direct sum", direct, small.astype(float) ** 2, x=small, along="n", **EXACT)
    yield rate("products of the direct sum", small, direct, 2.0, tolerance=0.02, along="n")
    # n log n has the slope 1 + 1/ln(2n) and a little less: from 1.3 to 1.1 over these sizes
    yield rate("products of a fast convolution", sizes, fast, 1.1, tolerance=0.1, along="n")
    cheaper = sizes[fast < sizes.astype(float) ** 2]
    yield equal("least power of two for which the fast way pays", cheaper.min(), 32, **EXACT)
    yield at_least("kernel of three entries: fast against direct", fast, 3 * sizes, x=sizes, along="n")
    table = [jax.ShapeDtypeStruct((int(n), int(n)), complex) for n in sizes]
    dense = [multiplications(jnp.matmul, f, vector(n)) for f, n in zip(table, sizes, strict=True)]
    yield control("a transform by its matrix", rate("products", sizes, dense, 1.1, tolerance=0.1, along="n"))
    shown = {"direct": np.log10(sizes**2), "fast": np.log10(fast), "direct, 3 entries": np.log10(3 * sizes)}
    yield curves("products, powers of ten", np.log2(sizes), shown, "log2 of n", "log10 of the products")
