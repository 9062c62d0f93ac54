"""When the limit kernel is positive definite, so that wide networks fit everything (M, Corollary 19.6)."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np

from corollary.dynamics import distinct_directions, draw_shallow, limit_kernel, limit_parts, shallow_sgd
from corollary.evidence import Count, at_least, at_most, claim, control, equal, estimate, rate
from corollary.kernels import Linear, Monomial, flow_predictions

SIZES = (3, 4, 6, 8, 12)


@claim(rows=("M19.20", "M19.21", "M19.22", "M19.34"))
def positive_definite(key, *, repetitions: Count = 40_000):
    r"""The limit kernel is positive definite for inputs in distinct directions and an activation that is no polynomial.

    $z^\top Kz=\mathbb E[(\sum_mz_m\sigma(W\cdot x_m))^2]+\mathbb E[C^2\|\sum_mz_m\sigma'(W\cdot x_m)x_m\|^2]$, of
    which the first is positive for $z\ne0$ if $\sigma$ is bounded, continuous and no polynomial, the law of $W$ charges
    every open set, and no two $x_m$ lie on one line through the origin. (M also asks that the law of $(C,W)$ charge
    every set of positive volume, which its own bounded $C$ does not; nothing is needed of $C$.) So $\lambda_{\min}(K)$
    is at least the smallest eigenvalue of the part of the outer weights. Sufficient, not necessary: $x$ and $2x$ may
    both be there.
    Broken by $x$ and $-x$ for odd $\sigma$, by a point at the origin, by $\sigma(z)=z$ (rank at most $d$) and $z^2$
    (at most $\frac{d(d+1)}2$). With a bias, $x\to(1,x)$, distinct points are enough.
    """

    @jax.jit
    def measure(key):
        angle_key, unit_key = jax.random.split(key)
        # directions at least 0.7 π/M apart on half a circle
        j = np.concatenate([np.arange(m) / m for m in SIZES])
        gap = np.concatenate([np.full(m, 1 / m) for m in SIZES])
        angle = jnp.pi * (j + 0.3 * gap * jax.random.uniform(angle_key, j.shape))
        x = jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)
        first = x[:1]
        x = jnp.concatenate([x, -first, 2 * first, jnp.zeros((1, 2))])
        net = draw_shallow(repetitions, 2, key=unit_key)
        z = net.inner @ x[3:7].T
        features = jax.lax.erf(z), net.outer[:, None] * 2 / jnp.sqrt(jnp.pi) * jnp.exp(-(z**2))
        outer, inner = limit_parts(x)
        polynomials = tuple(limit_kernel(x, activation=a) for a in (Linear(), Monomial(2)))
        return x, outer, outer + inner, limit_kernel(x, bias=True), polynomials, features

    x, outer, kernel, biased, (linear, square), (values, slopes) = map(_arrays, measure(key))
    ends = np.cumsum((0, *SIZES))
    sets = [np.arange(a, b) for a, b in pairwise(ends)]
    opposite, double, origin = (np.append(sets[0], ends[-1] + i) for i in range(3))

    def smallest(k, at):
        return np.linalg.eigvalsh(k[np.ix_(at, at)])[0] / np.trace(k[np.ix_(at, at)])

    # far below any of these eigenvalues and far above the rounding of the kernel, 1e-16
    positive = 1e-10
    found = [smallest(kernel, at) for at in sets]
    yield at_least("smallest eigenvalue over the trace", found, [positive] * len(sets), x=SIZES, along="directions")
    lowest = [np.linalg.eigvalsh(k[np.ix_(at, at)])[0] for k in (kernel, outer) for at in sets]
    yield at_least("both layers against the outer one", lowest[: len(sets)], lowest[len(sets) :], rtol=1e-9, atol=1e-14)
    four = sets[1]
    value, z = (a[..., 0] for a in np.linalg.eigh(kernel[np.ix_(four, four)]))
    form = (values @ z) ** 2 + np.sum((slopes * z @ x[four]) ** 2, 1)
    yield estimate("the quadratic form at the last eigenvector", form, value, wrong=0.0)
    yield at_least("x and 2x: smallest eigenvalue", smallest(kernel, double), positive)
    null = kernel[np.ix_(opposite, opposite)] @ np.array([1.0, 0, 0, 1])
    yield equal("x and -x: a null vector", null, 0.0, atol=1e-14)
    flags = [float(distinct_directions(x[at])) for at in (*sets, opposite, double, origin)]
    yield equal("distinct directions", flags, [1.0] * len(sets) + [0.0] * 3)
    ranks = [np.linalg.matrix_rank(k[: ends[-1], : ends[-1]], tol=1e-9) for k in (linear, square)]
    yield equal("rank for the identity and the square", ranks, [2, 3])
    for name, at in {"here x and -x": opposite, "here one is the origin": origin}.items():
        yield control(f"distinct directions: {name}", at_least("smallest eigenvalue", smallest(kernel, at), positive))
    for name, k in {"the identity": linear, "the square": square}.items():
        yield control(
            f"an activation that is no polynomial: here {name}",
            at_least("smallest eigenvalue", smallest(k, four), positive),
        )
    for name, at in {"x and -x": opposite, "the origin": origin}.items():
        yield at_least(f"with a bias, {name}: smallest eigenvalue", smallest(biased, at), positive)


def _arrays(a):
    return tuple(map(np.asarray, a)) if isinstance(a, tuple) else np.asarray(a)


@claim(rows=("M19.22", "M19.34"))
def limit_with_bias(key, *, repetitions: Count = 300):
    r"""With biases the limit of SGD is the same, with every input extended by a coordinate 1.

    $m(x)=N^{-1/2}\sum_nC^n\sigma(W^n\cdot x+b^n)$, $b$ trained too: the kernel of the limit is that of $(1,x)$,
    $\langle\sigma(w\cdot x+b)\sigma(w\cdot x'+b)+c^2\sigma'(w\cdot
    x+b)\sigma'(w\cdot x'+b)(1+x\cdot x'),\mu_0\rangle$. From the realised start the error is of the order $N^{-1/2}$;
    $\mathbb E|b_k^n|$ stays bounded, uniformly in $k\le NT$ and $N$. Opposite points can be fitted to any labels.
    Networks without biases do not come near this limit.
    """
    widths, eta = np.array([16.0, 24, 32, 48, 64, 96, 128]), 2.0

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        x = 1.5 * jax.random.orthogonal(data_key, 2)
        x, y = jnp.concatenate([x, -x[:1]]), jnp.array([1.0, -1.0, 1.0])

        def run(key, width, bias):
            net_key, order_key = jax.random.split(key)
            net = draw_shallow(128, 2, key=net_key, width=width, bias=bias)
            order = jax.random.randint(order_key, (128,), 0, 3)
            steps = jnp.round(width * jnp.arange(5) / 4).astype(int)

            def observe(net):
                return net(x), net.measure.pair(lambda c, w: jnp.abs(w[0]))

            return shallow_sgd(net, x, y, eta, order, steps, observe=observe)[0]

        def runs(keys, bias):
            each = lambda a: jax.vmap(lambda k: run(k, a[1], bias))(a[0])  # noqa: E731
            return jax.lax.map(each, (keys, jnp.asarray(widths)))

        keys = jax.random.split(run_key, (len(widths), repetitions))
        paths, biases = runs(keys, True)
        plain, _ = runs(keys[:, : repetitions // 4], False)

        def away(paths):
            start = paths[:, :, 0].reshape(-1, 3).T
            labels = jnp.broadcast_to(y[:, None], start.shape)
            k = limit_kernel(x, bias=True)
            end = flow_predictions(k, labels, jnp.array([eta]), start=start, reduction="mean").train[0]
            return paths[:, :, -1] - end.T.reshape(paths[:, :, -1].shape)

        return away(paths), away(plain), jnp.mean(biases, 1), jnp.linalg.norm(paths[:, :, 0] - y, axis=-1)

    right, wrong, biases, gaps = measure(key)

    def size(away):
        return jnp.sqrt(jnp.mean(away**2, (1, 2)))

    # 300 runs of three points: each root mean square to 4 %, the slope to 0.02, its interval to 0.09
    fits = {"tolerance": 0.2, "along": "width"}
    yield rate("error at the end", widths, size(right), -0.5, **fits)
    # a step moves a bias by at most η N^(-3/2) |y - m| |c| |σ'|, all N of them by η N^(-1/2) times means of these;
    # the outputs stay within the distance from the labels that they start with, up to the noise
    reach = eta / np.sqrt(widths) * np.asarray(jnp.mean(gaps, 1)) * np.sqrt(3) * 2 / np.sqrt(np.pi)
    bound = np.sqrt(2 / np.pi) + reach[:, None]
    # the mean over 300 runs of at least 16 units of |b| of standard deviation 0.6
    yield at_most("mean size of a bias", biases, bound, atol=5 * 0.6 / np.sqrt(300 * 16), along="quarter")
    yield control("units with biases: here without", rate("error at the end", widths, size(wrong), -0.5, **fits))
