"""Discriminators that are small against the number of examples do not see a law of small support; large ones do."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import relu
from scipy import stats

from corollary.evidence import (
    Probability,
    Size,
    at_least,
    at_most,
    claim,
    control,
    equal,
    estimate,
    frequency_at_most,
    printed,
    rate,
)
from corollary.generative import (
    birthday_test,
    discriminator_samples,
    memorising_discriminator,
    memorising_generator,
)


def _aligned_units(x, y):
    """ReLU networks of one unit per row of x, 1 on the rows of x and 0 on those of y where these are nearly orthogonal.

    Unit i is ReLU((x_i · z - b_i) / (|x_i|² - b_i)), with b_i above the products with all of y; 1 - ReLU(1 - sum).
    """
    square, largest = jnp.sum(x**2, 1), jnp.max(x @ y.T, 1)
    bias = (square + largest) / 2
    return lambda z: 1 - relu(1 - jnp.sum(relu((x @ z - bias) / (square - bias))))


@claim(rows=("T16.12",), full={"dim": 12, "runs": 400})
def two_samples_of_one_law(key, *, dim: Size = 10, wide: Size = 100, runs: Size = 100):
    r"""A network somewhat larger than two samples of the same normal law tells them apart; a small one cannot.

    $d^3$ examples of $N(0,I_d)$ each. A unit per example of the first makes $\max_i\mathrm{ReLU}(1-\|x-x_i\|^2/\tau)$:
    1 on all of it and 0 on all of the other, a gap of 1, which is next to nothing on fresh examples. In $d=100$, where
    examples are nearly orthogonal, an ordinary network with one hidden layer does the same. The best linear function
    of norm 1 has the gap $\|\bar x-\bar y\|$, with $\frac n2\mathbb E\|\bar x-\bar y\|^2=d$. With units for half of the
    examples only the gap is a half.
    """
    n = dim**3

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 3)
        x, y, fresh, other = jax.random.normal(keys[0], (4, n, dim))
        known = memorising_discriminator(x, y)
        half = memorising_discriminator(x[: n // 2], y)
        mean = lambda d, rows: jnp.mean(jax.lax.map(d, rows))  # noqa: E731
        gaps = mean(known, x) - mean(known, y), mean(half, x) - mean(half, y)
        seen = jnp.stack([mean(known, fresh), mean(known, other)])
        u, v = jax.random.normal(keys[1], (2, n, wide))
        units = _aligned_units(u, v)
        samples = jax.random.normal(keys[2], (runs, 2, n, dim))
        linear = n / 2 * jnp.sum(jnp.diff(samples.mean(2), axis=1)[:, 0] ** 2, -1)
        return gaps, seen, mean(units, u) - mean(units, v), linear

    (gap, half), seen, plain, linear = measure(key)
    yield equal("gap of the network that knows the first sample", gap, 1.0, rtol=0, atol=1e-12)
    # a fresh example is nearer to the first sample than all of the second as often as any of their ranks: k of n fresh
    # ones with probability 2^-k at most
    yield at_most("its mean on fresh examples", seen, 20 / n)
    yield equal("gap of one hidden layer where examples are nearly orthogonal", plain, 1.0, rtol=0, atol=1e-12)
    yield estimate("squared gap of the best linear function", linear, dim, wrong=2 * dim)
    yield control("a unit for each example: here for half", equal("gap", half, 1.0, rtol=0, atol=1e-12))


def _cells(key, n, cells, runs):
    """Shares of n examples in equally likely cells, (runs, cells)."""
    at = jax.random.randint(key, (runs, n), 0, cells)
    return jax.lax.map(lambda row: jnp.bincount(row, length=cells) / n, at)


def _largest_gap(shares):
    r"""$\sup_\theta|\hat{\mathbb E}D_\theta-\mathbb ED_\theta|$ over functions of the cell with values in [0, 1]."""
    return 0.5 * jnp.sum(jnp.abs(shares - 1 / shares.shape[-1]), -1)


def _mean_gap(n, cells):
    r"""$\frac d2\mathbb E|\frac kN-p|$ for binomial $k$ and $p=\frac1d$.

    By de Moivre $\mathbb E|k-Np|=2\nu(1-p)\Pr[k=\nu]$ with $\nu=\lfloor Np\rfloor+1$.
    """
    p = 1 / cells
    above = np.floor(n * p) + 1
    return cells / 2 * 2 * above * (1 - p) * stats.binom.pmf(above, n, p) / n


def _cell_discriminator(theta, cell):
    r"""$D_\theta=\frac12+\frac12\sqrt d\,\theta_k$ in cell $k$, cut off at 0 and 1: $\frac12\sqrt d$-Lipschitz in θ."""
    return jnp.clip(0.5 + 0.5 * jnp.sqrt(theta.size) * theta[cell], 0, 1)


@claim(rows=("T16.13",), full={"runs": 5000})
def discriminators_generalise(key, *, cells: Size = 16, epsilon: Probability = 0.25, runs: Size = 1500):
    r"""With d parameters some d/ε² examples suffice for all discriminators to do on the sample as on the law.

    $D_\theta\in[0,1]$ is $C$-Lipschitz in $\theta\in\mathbb R^d$, $\|\theta\|\le L$. With
    $N\ge\frac2{\epsilon^2}(d\ln(1+\frac{8CL}\epsilon)+\ln\frac2\delta)$ independent examples
    $\sup_\theta|\hat{\mathbb E}D_\theta-\mathbb ED_\theta|\le\epsilon$ but for a probability $\delta$. Discriminators
    with one parameter for each of $d$ equally likely cells, $C=\frac12\sqrt d$ and $L=1$, reach every function of the
    cell with values 0 and 1, so that the supremum is the total variation of the shares, whose mean is known exactly. It
    falls as $N^{-1/2}$ and grows as $d^{1/2}$. A discriminator with a unit for each example has a gap of 1 with as many
    of them.
    """
    delta = 0.05
    needed = int(np.ceil(discriminator_samples(cells, epsilon, lipschitz=np.sqrt(cells) / 2, radius=1.0, delta=delta)))
    sizes, dims = 2 ** np.arange(8, 14), 2 ** np.arange(4, 9)

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 5)
        patterns = (jnp.arange(2**6)[:, None] >> jnp.arange(6)) & 1
        theta = (2 * patterns - 1) / jnp.sqrt(6)  # of norm 1
        drawn = jax.random.randint(keys[0], (50,), 0, 6)
        on_sample = jax.vmap(lambda t: jnp.mean(_cell_discriminator(t, drawn)))(theta)
        on_law = jax.vmap(lambda t: jnp.mean(_cell_discriminator(t, jnp.arange(6))))(theta)
        searched = jnp.max(jnp.abs(on_sample - on_law)), _largest_gap(jnp.bincount(drawn, length=6) / 50)
        by_size = [_largest_gap(_cells(keys[1], int(n), cells, 400)) for n in sizes]
        by_dim = [_largest_gap(_cells(keys[2], 2**14, int(d), 400)) for d in dims]
        enough = _largest_gap(_cells(keys[3], needed, cells, runs))
        x, fresh = jax.random.normal(keys[4], (2, needed, 10))
        by_heart = memorising_discriminator(x, fresh)
        gap = jnp.mean(jax.lax.map(by_heart, x)) - jnp.mean(jax.lax.map(by_heart, fresh))
        return searched, jnp.stack(by_size, 1), jnp.stack(by_dim, 1), enough, gap

    (searched, exact), by_size, by_dim, enough, by_heart = measure(key)
    gaps = np.concatenate([by_size, by_dim], 1)
    means = np.concatenate([_mean_gap(sizes, cells), _mean_gap(2**14, dims)])
    yield equal("largest gap over all 64 patterns against the variation", searched, exact, rtol=1e-12)
    yield estimate("largest gap over its exact mean, by examples and by parameters", gaps / means, 1.0, wrong=1.1)
    # of the exact means; those of the binomial law are below their limit by shares of d/N and 1/d
    yield rate("mean of the largest gap", sizes, by_size.mean(0), -0.5, tolerance=0.1, along="examples")
    yield rate("mean of the largest gap by parameters", dims, by_dim.mean(0), 0.5, tolerance=0.1, along="parameters")
    yield frequency_at_most("largest gap above ε", np.asarray(enough) > epsilon, delta)
    yield control(
        "parameters fixed beforehand: here a unit for each example",
        at_most("gap of the network that knows the sample", by_heart, epsilon),
    )


@claim(rows=("T16.13",), erratum="The norm L stands where the number of parameters d belongs.")
def printed_sample_size(key, *, runs: Size = 50):
    r"""The number of examples grows with the number of parameters, not with their norm.

    As printed, $\Omega(\frac L{\epsilon^2}\log\frac C\epsilon)$ examples suffice, $L$ being a bound of the norm of
    $\theta\in\mathbb R^d$. Discriminators with one parameter for each of $d$ equally likely cells have $L=1$ and
    $C=\frac12\sqrt d$. With the constant that leaves half of $\epsilon=0.2$ at $d=16$ the largest gap is above
    $\epsilon$ at $d=64$ to 1,024 and still grows; with $\frac d{16}$ for $L$, so the same number at $d=16$, it stays
    below.
    """
    dims, epsilon = 4 ** np.arange(2, 6), 0.2
    shape = lambda d: np.log(np.sqrt(d) / 2 / epsilon) / epsilon**2  # noqa: E731
    # the mean gap of 16 cells is about 0.4 √(16/N), which is half of ε at N = 256
    constant = 256 / shape(16)
    counts = np.ceil(constant * shape(dims)).astype(int)
    corrected = np.ceil(constant * dims / 16 * shape(dims)).astype(int)

    @jax.jit
    def measure(key):
        def each(ns):
            pairs = zip(ns, dims, strict=True)
            return jnp.stack([_largest_gap(_cells(key, int(n), int(d), runs)).mean() for n, d in pairs])

        return each(counts), each(corrected)

    gap, right = measure(key)
    yield printed(at_most("largest gap with the norm", gap[1:], epsilon, x=dims[1:], along="parameters"))
    yield at_most("largest gap with the number of parameters", right, epsilon, x=dims, along="parameters")
    yield at_least("growth of the gap with the norm from 16 to 1,024 parameters", gap[-1] / gap[0], 4.0)


def _layers(generator):
    """The generator as three layers of weights and biases; inputs are the seed and the noise, ReLU between them."""
    m, d = generator.places.size, generator.first.size
    first = np.zeros((m + 2 * d, 1 + d))
    first[:m, 0] = float(generator.slope)
    first[m:, 1:] = np.concatenate([np.eye(d), -np.eye(d)])
    first_bias = np.concatenate([-float(generator.slope) * np.asarray(generator.places), np.zeros(2 * d)])
    second = np.diag(np.concatenate([-np.ones(m), np.ones(2 * d)]))
    second_bias = np.concatenate([np.ones(m), np.zeros(2 * d)])
    rises, sigma = np.asarray(generator.rises), float(generator.noise)
    last = np.concatenate([-rises.T, sigma * np.eye(d), -sigma * np.eye(d)], 1)
    last_bias = np.asarray(generator.first) + rises.sum(0)
    return (first, first_bias), (second, second_bias), (last, last_bias)


@claim(rows=("T16.15",), full={"count": 200})
def recitation(key, *, count: Size = 40, dim: Size = 8, cells: Size = 250):
    r"""A ReLU network of some 2md parameters makes m given examples of d numbers, each equally often.

    From a uniform seed and normal noise $z$: steps of width $w$ at $\frac im$ switch from one example to the next. But
    for a share $(m-1)w$ of the seeds the output is one of the examples, up to $\sigma z$; each has the share $\frac1m$
    of the seeds. It is a network of two hidden layers, whose weights and biases are written out and counted: at most
    $2md$ of them are not zero for $d\ge8$, fewer than the $md^2$ that the text allows. With steps for half of the
    examples the other half never comes.
    """
    width = 1e-3
    x_key, z_key = jax.random.split(key)
    examples = jax.random.normal(x_key, (count, dim))
    generator = memorising_generator(examples, width=width, noise=0.1)
    half = memorising_generator(examples[: count // 2], width=width)
    # midpoints of cells, none of them on a step, which takes a share of 1e-3 of an interval at its beginning
    seeds = (np.arange(count * cells) + 0.5) / (count * cells)

    @jax.jit
    def measure(generator, half, z):
        quiet = jax.vmap(lambda u: generator(u, jnp.zeros(dim)))(seeds)
        near = jnp.sum((quiet[:, None] - examples) ** 2, -1)
        other = jax.vmap(lambda u: half(u, jnp.zeros(dim)))(seeds)
        beside = jnp.sum((other[:, None] - examples) ** 2, -1)
        shares = lambda d: jnp.mean(d < 1e-18, 0, dtype=float)  # noqa: E731
        return shares(near), shares(beside), jax.vmap(generator)(seeds[: len(z)], z), quiet[: len(z)]

    z = jax.random.normal(z_key, (500, dim))
    shares, fewer, noisy, quiet = (np.asarray(a) for a in measure(generator, half, z))
    yield equal("share of the seeds of each example", shares, 1 / count, rtol=0, atol=1e-12)
    layers = _layers(generator)
    h = np.concatenate([seeds[: len(z), None], np.asarray(z)], 1)
    for i, (weight, bias) in enumerate(layers):
        h = h @ weight.T + bias
        h = np.maximum(h, 0) if i < 2 else h
    # slopes of m/w times the rounding of a seed
    yield equal("the network written out, against the generator", h, noisy, rtol=0, atol=1e-9)
    size = sum(np.count_nonzero(a) for layer in layers for a in layer)
    yield at_most("weights and biases that are not zero", size, 2 * count * dim)
    yield estimate("squared noise", (noisy - quiet) ** 2, 0.01, wrong=0.02)
    yield control(
        "a step for each example: here for half",
        equal("share of the seeds of each example", fewer, 1 / count, rtol=0, atol=1e-12),
    )


def _hermite(x, features):
    """The first functions of these that are orthonormal under N(0, I): coordinates, products, squares."""
    i, j = np.triu_indices(x.shape[-1], 1)
    all_of_them = jnp.concatenate([x, x[..., i] * x[..., j], (x**2 - 1) / jnp.sqrt(2)], -1)
    return all_of_them[..., :features]


@claim(rows=("T16.14", "T16.16"), full={"runs": 400})
def mode_collapse(key, *, dim: Size = 20, runs: Size = 60, size: Size = 1200):
    r"""A law of m examples is invisible to discriminators of fewer than m parameters, and plain to two other looks.

    $P$ is $N(0,I_{20})$ and $Q$ uniform on $m$ independent samples of it. Discriminators $D_\theta=\theta\cdot\phi$
    with $\|\theta\|\le1$ on $p$ functions that are orthonormal under $P$ (linear and quadratic ones) have the largest
    gap $\|\mathbb E_Q\phi\|$, with $\mathbb E\|\mathbb E_Q\phi\|^2=\frac pm$: it falls as $m^{-1/2}$, and the $m$ from
    which on it is below $\frac14$ grows linearly in $p$. At the same time no sample of $P$ is one of $Q$: a
    discriminator with a unit for each of the $m$ examples has a gap of nearly 1, and the birthday test finds $m$ within
    a factor 2. Examples have to be independent samples of $P$: of those with a positive first coordinate the gap stays.
    """
    counts, features = 2 ** np.arange(7, 13), np.array([10, 20, 40, 80, 160])

    @jax.jit
    def measure(key):
        x = jax.random.normal(key, (runs, counts[-1], dim))

        def running(x):
            """Squared gaps by number of examples and of functions, and the linear gap of one half of the space."""
            phi = _hermite(x, features[-1])
            means = jnp.stack([phi[:m].mean(0) for m in counts])
            squares = jnp.cumsum(means**2, 1)[:, features - 1]
            folded = x.at[:, 0].set(jnp.abs(x[:, 0]))
            half = jnp.stack([jnp.sum(folded[:m].mean(0) ** 2) for m in counts])
            return squares, half

        return jax.lax.map(running, x)

    squares, half = (np.asarray(a) for a in measure(key))
    predicted = features / counts[:, None]
    yield estimate("squared gap over p/m", squares / predicted, 1.0, wrong=2.0)
    gaps = np.sqrt(squares.mean(0))
    # of 60 runs the mean square of 40 functions is known to 3 %
    yield rate("largest gap, 40 functions", counts, gaps[:, 2], -0.5, tolerance=0.05, along="examples")
    # on each line of gaps against m the place where it is a quarter
    crossing = [np.exp(np.interp(np.log(4.0), -np.log(g), np.log(counts))) for g in gaps.T]
    yield rate("examples from which on the gap is below a quarter", features, crossing, 1.0, tolerance=0.3, along="p")

    m, x_key = 1000, jax.random.fold_in(key, 1)
    examples, real, fresh = jnp.split(jax.random.normal(x_key, (3 * m, dim)), 3)
    known = memorising_discriminator(examples, real)
    seen = [np.asarray(jax.jit(lambda rows: jax.lax.map(known, rows))(rows)).mean() for rows in (examples, fresh)]
    # k of m fresh examples are nearer than all of those that the width was taken from with probability 2^-k
    yield at_least("gap of a unit for each example, on fresh examples of P", seen[0] - seen[1], 1 - 20 / m)
    recited = memorising_generator(examples, noise=1e-4).sample
    found = birthday_test(recited, size, key=key).support
    yield at_most("factors of two between m and the birthday test", np.abs(np.log2(float(found) / m)), 1.0)
    yield control(
        "samples of P: here with a positive first coordinate",
        rate("largest gap of linear functions", counts, np.sqrt(half.mean(0)), -0.5, tolerance=0.05),
    )
