"""Memories with energies of higher order, and the continuous network that is attention."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, monotone, picture
from corollary.memory import (
    dense_capacity,
    dense_energy,
    dense_field,
    dense_half_load,
    dense_recall,
    modern_energy,
    modern_path,
    modern_step,
    random_signs,
    stable_loads,
)


@claim(rows=("E01.35",))
def energy_comparison(key, *, instances: Count = 200, n: Size = 20, s: Size = 15):
    r"""In a dense memory too, each unit goes where the energy is lower, and the whole comes to rest.

    $E(X)=-\sum_tF(x_t^\top X)$ with $F(z)=z^p$ or $e^z$. Unit $i$ takes the sign of
    $\sum_t[F(a_{t,i}+x_{t,i})-F(a_{t,i}-x_{t,i})]$, $a_{t,i}$ the overlap without it: the difference of the
    energies. For $p=2$ this is the Hopfield network with Hebbian weights, up to a factor and a constant.
    """
    keys = jax.random.split(key, 3)
    patterns = random_signs((instances, s, n), key=keys[0])
    starts = random_signs((instances, n), key=keys[1])
    degrees = (2, 3, 4, None)

    @jax.jit
    @jax.vmap
    def measure(patterns, x):
        def one(degree):
            def energy(x):
                return dense_energy(patterns, x, degree)

            up, down = (x * (1 - jnp.eye(n)) + side * jnp.eye(n) for side in (1.0, -1.0))
            gain = jax.vmap(energy)(down) - jax.vmap(energy)(up)
            unit = jnp.exp(1.0 * n) if degree is None else 1.0 * n**degree
            end = dense_recall(patterns, x, degree)
            flips = jax.vmap(energy)(end.state * (1 - 2 * jnp.eye(n)))
            drop = (energy(end.state) - energy(x)) / unit
            return dense_field(patterns, x, degree), gain / unit, end.at_rest, drop, (flips - energy(end.state)) / unit

        pairs = dense_field(patterns, x, 2) * n**2 / 4
        hebb = patterns.T @ (patterns @ x) - s * x
        return [one(degree) for degree in degrees], pairs, hebb

    found, pairs, hebb = measure(patterns, starts)
    for degree, (field, gain, at_rest, drop, flips) in zip(degrees, found, strict=True):
        name = "exponential" if degree is None else f"degree {degree}"
        # energies are sums of s terms of size one in these units, from numbers up to s times larger
        yield equal(f"difference of the energies, {name}", field, gain, atol=1e-15 * s * n)
        yield equal(f"runs that come to rest, {name}", at_rest, 1, rtol=0, atol=0)
        yield at_most(f"energy at rest less energy at the start, {name}", drop, 0.0, atol=1e-15 * s * n)
        yield at_least(f"energy gained by any flip at rest, {name}", flips, 0.0, atol=1e-15 * s * n)
    yield equal("degree 2: n times the Hebbian field", pairs, hebb)
    yield control("the degree is 3, not 2", equal("n times the Hebbian field", found[1][0] * n**2 / 4, hebb))


@claim(rows=("E01.35",), full={"sets": 1000, "growth": 2})
def dense_storage(key, *, sets: Count = 256, growth: Size = 1, patterns: Size = 20_000):
    r"""The capacity of a dense memory grows with a higher power of its size.

    With $F(z)=z^p$ a memory of $n$ units holds about $\frac{n^{p-1}}{2(2p-3)!!\ln n}$ random patterns before they
    become unstable, and with $F(z)=e^z$ exponentially many. Measured as the load at which half of the patterns are
    stable: within a factor 3 of the formula, and growing like the value that the noise at size $n$ predicts (normal
    noise, a Poisson number of unstable units).
    """
    sizes = {2: (30, 50, 80, 130, 200), 3: (16, 24, 32, 44, 60), 4: (12, 16, 20, 26, 34)}
    sizes = {p: [growth * n for n in ns] for p, ns in sizes.items()}
    most = {p: 3 * int(dense_capacity(ns[-1], p)) + 4 for p, ns in sizes.items()}
    plan = [(p, n) for p in sizes for n in sizes[p]]

    @jax.jit
    def measure(key):
        def curves(p):
            """The share of stable patterns at every load, for all sizes of one degree."""
            n = sizes[p][-1]
            keys = jax.random.split(jax.random.fold_in(key, p), sets)
            pool = jax.vmap(lambda k: random_signs((most[p], n), key=k))(keys)

            def one(size):
                small = pool * (jnp.arange(n) < size)
                return jax.vmap(lambda patterns: stable_loads(patterns, p))(small).mean(0)

            return jax.lax.map(one, jnp.array(sizes[p]))

        return [curves(p) for p in sizes]

    @jax.jit
    def correlated(key):
        """Pairs, with patterns of which three entries in four are +1."""
        n = sizes[2][-1]
        draws = jax.random.uniform(key, (sets, most[2], n))
        return jax.vmap(lambda patterns: stable_loads(patterns, 2))(jnp.where(draws < 0.75, 1.0, -1.0)).mean(0)

    @jax.jit
    def exponential(key):
        return jax.vmap(lambda k: stable_loads(random_signs((patterns, 60), key=k))[-1])(jax.random.split(key, 8))

    curves = [np.asarray(c) for group in measure(key) for c in group]
    halves = [_half(c) for c in curves]
    # a share of 1/2 is known to 1/(2√sets), and falls by about 0.7 when the load grows by a factor e; the noise is not
    # quite normal: powers of a normal have heavy tails, which move the half-load by up to a fifth at these sizes
    allowed = 0.2 + 5 * 0.5 / sets**0.5 / 0.7
    for p in sizes:
        mine = np.array([halves[i] for i, row in enumerate(plan) if row[0] == p])
        leading = np.array([float(dense_capacity(n, p)) for n in sizes[p]])
        finite = np.array([float(dense_half_load(n, p)) for n in sizes[p]])
        yield at_least(f"half-load over the formula, degree {p}", mine / leading, 1 / 3, x=sizes[p], along="n")
        yield at_most(f"half-load over the formula, degree {p}", mine / leading, 3.0, x=sizes[p], along="n")
        name = f"half-load over its value at size n, degree {p}"
        yield equal(name, mine / finite, 1.0, rtol=0, atol=allowed, x=sizes[p], along="n")
    yield equal(f"{patterns} patterns in 60 units with the exponential: stable", exponential(key), 1, rtol=0, atol=0)
    alike = _half(np.asarray(correlated(jax.random.fold_in(key, 1)))) / float(dense_half_load(sizes[2][-1], 2))
    yield control(
        "the patterns are not independent of each other",
        equal("half-load over its value at size n, degree 2", alike, 1.0, rtol=0, atol=allowed),
    )
    rows = [
        {"load": i + 1, "stable": float(v), "memory": f"degree {p}, n = {n}"}
        for (p, n), c in zip(plan, curves, strict=True)
        if n == sizes[p][-1]
        for i, v in enumerate(c)
        if i % max(1, len(c) // 60) == 0
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line()
    yield picture(
        "stable patterns against load",
        chart.encode(
            alt.X("load:Q", title="patterns stored", scale=alt.Scale(type="log")),
            alt.Y("stable:Q", title="share that is stable"),
            alt.Color("memory:N", title=None),
        ).properties(width=300, height=190),
    )


def _half(curve):
    """The load at which a falling curve over the loads 1, 2, ... crosses one half, between two of them."""
    i = int(np.argmax(curve < 0.5))
    above, below = curve[i - 1], curve[i]
    return i + (above - 0.5) / (above - below)


@claim(rows=("E01.36",))
def attention_step(key, *, dim: Size = 64, stored: Size = 50, queries: Count = 64):
    r"""The update of the modern Hopfield network is attention, lowers its energy, and retrieves for large β.

    $E(\xi)=-\beta^{-1}\log\sum_te^{\beta x_t^\top\xi}+\frac12\|\xi\|^2$ and
    $\xi'=\sum_t\operatorname{softmax}(\beta x_t^\top\xi)_tx_t$. Then $\xi'$ is one step of attention with query $\xi$,
    keys and values $x_t$ and scale $\beta$, and $E(\xi')\le E(\xi)-\frac12\|\xi'-\xi\|^2$: the first term is concave in
    $\xi$ and the step minimises what is left when it is replaced by its tangent. For unit patterns and small $\beta$
    all states go to the mean of the patterns, for large $\beta$ to the nearest one.
    """
    x_key, q_key, noise_key = jax.random.split(key, 3)
    patterns = jax.random.normal(x_key, (stored, dim))
    unit = patterns / jnp.linalg.norm(patterns, axis=1, keepdims=True)
    xi = jax.random.normal(q_key, (queries, dim))
    which = jnp.arange(queries) % stored
    noisy = unit[which] + 0.3 / dim**0.5 * jax.random.normal(noise_key, (queries, dim))
    betas = jnp.array([1e-3, 1.0, 8.0, 64.0, 512.0])

    @jax.jit
    def measure(patterns, unit, xi, noisy):
        scale = 1 / dim**0.5
        steps = jax.vmap(lambda q: modern_step(patterns, q, scale))(xi)
        scores = jnp.exp(xi @ patterns.T / dim**0.5)  # attention as it is written down
        formula = (scores / scores.sum(1, keepdims=True)) @ patterns
        library = jax.nn.dot_product_attention(xi[:, None], patterns[:, None], patterns[:, None])[:, 0]
        path = jax.vmap(lambda q: modern_path(patterns, q, scale, 8))(xi)
        energy = jax.vmap(jax.vmap(lambda q: modern_energy(patterns, q, scale)))
        beyond = jax.vmap(lambda a, b: modern_energy(patterns, b + 3 * (b - a), scale))(path[:, 0], path[:, 1])
        gap = jnp.sum((path[:, 1:] - path[:, :-1]) ** 2, -1)
        recall = jax.vmap(lambda b: jax.vmap(lambda q: modern_path(unit, q, b, 3)[-1])(noisy))(betas)
        error = jnp.linalg.norm(recall - unit[which], axis=-1).mean(1)
        to_mean = jnp.linalg.norm(recall[0] - unit.mean(0), axis=-1).max()
        return steps, formula, library, energy(path), gap, beyond, error, to_mean

    steps, formula, library, energy, gap, beyond, error, to_mean = measure(patterns, unit, xi, noisy)
    yield equal("one step and softmax(QK/√d)V", steps, formula, atol=1e-12)
    # the library takes its softmax in single precision: 2^-24 of values of size one, summed over the patterns
    yield equal("one step and a library's attention", steps, library, rtol=0, atol=stored * 2**-24)
    yield monotone("energy along the steps", energy, "decreasing", atol=1e-12 * dim, along="step")
    drop = energy[:, :-1] - energy[:, 1:]
    yield at_least("energy lost, at least half the squared step", drop, gap / 2, atol=1e-12 * dim)
    yield control(
        "four times the step of the update",
        at_most("energy after the step", beyond, energy[:, 0] - 8 * gap[:, 0]),
    )
    yield monotone("retrieval error against β", error, "decreasing", atol=1e-12, x=jnp.log2(betas), along="log β")
    # softmax weights of the others are below exp(-β gap), and the gap of unit patterns in 64 dimensions exceeds 0.3
    yield at_most("retrieval error at β = 512", error[-1], 1e-12 * dim)
    # at scale β every weight is off 1/s by a relative 2β at most
    yield at_most("distance to the mean of the patterns at β = 0.001", to_mean, 4e-3)
