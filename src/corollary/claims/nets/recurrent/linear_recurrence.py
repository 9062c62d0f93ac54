"""Linear recurrences: in parallel, in the basis of their eigenvectors, stable, and rich enough with a read-out."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, rate
from corollary.nets.attention.cost import sequential_steps
from corollary.nets.recurrent import (
    DiagonalSystem,
    LinearSystem,
    MinGRU,
    compose,
    diagonalise,
    doubling_scan,
    input_map,
    linear_scan,
    recover_inputs,
    response,
    ring,
    spectral_radius,
    unroll,
    unroll_linear,
)


@claim(rows=("E05.15", "E05.16"))
def prefix_scan(key, *, steps: Count = 37, units: Size = 4):
    r"""A recurrence that is linear in its state can be computed in logarithmically many parallel rounds.

    The steps $z\mapsto az+b$ compose by $(a,b)\bullet(a',b')=(aa',a'b+b')$ (first left, then right), which is
    associative. So the states of $z_t=a_t\odot z_{t-1}+b_t$ are prefixes of a product, in $\lceil\log_2T\rceil$ rounds
    instead of $T$ steps. The minimal GRU, $z_t=\sigma_t\odot z_{t-1}+(1-\sigma_t)\odot Vx_t$ with gates
    $\sigma_t=\sigma(Gx_t)$ that see the input alone, is one, and its state is an average of the past,
    $z_T=\sum_t\big(\prod_{r>t}\sigma_r\big)\odot(1-\sigma_t)\odot Vx_t$, with weights that sum to
    $1-\prod_{t\le T}\sigma_t$. A recurrence that is not linear in the state, such as $z_t=\tanh(a_tz_{t-1}+b_t)$, is
    not of this form.
    """

    @jax.jit
    def measure(key):
        a_key, b_key, x_key, cell_key = jax.random.split(key, 4)
        a = jax.random.uniform(a_key, (steps, units), minval=-1.0)
        b = jax.random.normal(b_key, (steps, units))

        def loop(f):
            step = lambda z, pair: (f(pair[0] * z + pair[1]),) * 2  # noqa: E731
            return jax.lax.scan(step, jnp.zeros(units), (a, b))[1]

        first, second, third = ((a[i], b[i]) for i in range(3))
        sides = compose(compose(first, second), third), compose(first, compose(second, third))
        xs = jax.random.normal(x_key, (steps, 3))
        cell = MinGRU(3, units, key=cell_key)
        kept = jax.nn.sigmoid(xs @ cell.gate.T)
        after = jnp.flip(jnp.cumprod(jnp.flip(kept, 0), 0), 0)  # the product from t on
        weights = jnp.concatenate([after[1:], jnp.ones((1, units))]) * (1 - kept)
        return {
            "sides": sides,
            "loop": loop(lambda z: z),
            "curved": loop(jnp.tanh),
            "states": (linear_scan(a, b), doubling_scan(a, b).states),
            "cell": (unroll(cell, xs), unroll_linear(cell, xs)),
            "sum": jnp.sum(weights * (xs @ cell.value.T), axis=0),
            "total": (weights.sum(0), 1 - after[0]),
        }

    found = measure(key)
    yield equal("associative", *found["sides"])
    for name, states in zip(("scan of JAX", "doubling"), found["states"], strict=True):
        yield equal(f"{name}: states", states, found["loop"])
    # the turns of the loop, counted in the program
    lengths = [2, 5, 37, 1024, 1025]
    turns = [sequential_steps(lambda b: doubling_scan(0.5 * b, b).states, jnp.ones(n)) for n in lengths]
    yield equal("rounds", turns, np.ceil(np.log2(lengths)), x=lengths, along="steps")
    one_by_one, at_once = found["cell"]
    yield equal("minimal GRU: states", at_once, one_by_one)
    yield equal("minimal GRU: last state as an average", one_by_one[-1], found["sum"])
    yield equal("minimal GRU: sum of the weights", *found["total"])
    yield control("a curved recurrence", equal("states", found["states"][0], found["curved"], rtol=1e-6))


@claim(rows=("E05.17",))
def diagonalisation(key, *, units: Size = 8, inputs: Size = 2, steps: Count = 40, large: Size = 200):
    r"""A linear system is diagonal in the basis of its eigenvectors, over the complex numbers.

    $z_{t+1}=Az_t+Bx_t$ with $A=P\Lambda P^{-1}$ becomes $\zeta_{t+1}=\Lambda\zeta_t+Cx_t$ for $\zeta=P^{-1}z$ and
    $C=P^{-1}B$, and its state is the convolution $z_t=\sum_{k<t}A^{t-1-k}Bx_k$ (for $z_0=0$). A real matrix with
    independent normal entries has such a basis with probability one: its eigenvalues are distinct. Scaled by
    $1/\sqrt m$ they fill the unit disc evenly as $m$ grows, so that a quarter of them are within the radius one
    half. A Jordan block has no such basis: its computed $P$ is singular.
    """
    draws = 50

    @jax.jit
    def measure(key):
        a_key, b_key, x_key, large_key = jax.random.split(key, 4)
        matrices = jax.random.normal(a_key, (draws, units, units)) / units**0.5
        b = jax.random.normal(b_key, (units, inputs))
        xs = jax.random.normal(x_key, (steps, inputs))
        jordan = jnp.eye(units) * 0.9 + jnp.eye(units, k=1)

        def both(a):
            system = LinearSystem(a, b)
            states, (diagonal, basis) = unroll(system, xs), diagonalise(system)
            found = unroll_linear(diagonal, xs) @ basis.T
            size = jnp.abs(states).max()
            gaps = jnp.abs(diagonal.eigenvalues[:, None] - diagonal.eigenvalues) + jnp.eye(units) * 9
            return (
                jnp.abs(found - states).max() / size,
                jnp.abs(response(system, xs) - states).max() / size,
                jnp.linalg.cond(basis),
                gaps.min(),
            )

        radii = jnp.abs(jnp.linalg.eigvals(jax.random.normal(large_key, (large, large)) / large**0.5))
        # one after the other: batched decompositions side by side in one program can block each other
        return jax.lax.map(both, jnp.concatenate([matrices, jordan[None]])), radii

    (errors, convolved, conditions, gaps), radii = measure(key)
    # rounding, a few times in every step and for every unit, times the condition of the basis
    rounding = 1e-15 * steps * units
    yield at_most("error of the diagonal system", errors[:-1], rounding * conditions[:-1], along="draw")
    yield at_most("error of the convolution", convolved[:-1], 1e-12, along="draw")
    yield at_least("least distance of two eigenvalues", gaps[:-1], 1e-9, along="draw")
    # the eigenvalues repel each other: their number in a region fluctuates far less than that of independent points,
    # with variance of the order of its boundary, about sqrt(m) / 2; six deviations of that, and edge effects of 1 / m
    inside = jnp.mean(radii < 0.5)
    yield equal(
        "share of the eigenvalues within the radius one half", inside, 0.25, atol=6 * (large**0.5 / 2) ** 0.5 / large
    )
    yield control("a Jordan block", at_most("condition of the basis", conditions[-1], 1e8))


@claim(rows=("E05.18",))
def stability(key, *, units: Size = 6, steps: Count = 2000):
    r"""A diagonalisable linear system is stable exactly if no eigenvalue is outside the unit circle.

    For $A=P\Lambda P^{-1}$: $\sup_t\|A^t\|<\infty$ if and only if $\max_j|\lambda_j|\le1$, with the bound
    $\|P\|\|P^{-1}\|$, and $\|A^t\|\to0$ if and only if $\max_j|\lambda_j|<1$; always $\|A^t\|^{1/t}\to\rho(A)$. Mode
    $j$ of the impulse response has the modulus $|\lambda_j|^t$ times its first. Without a basis of eigenvectors this is
    false on the circle: the powers of the Jordan block $\begin{pmatrix}1&1\\0&1\end{pmatrix}$ grow like $t$.
    """
    radii = (0.9, 0.99, 1.0, 1.01)

    @jax.jit
    def measure(key):
        matrix = jax.random.normal(key, (units, units))
        matrix = matrix / spectral_radius(matrix)

        def norms(a):
            # the system itself, started from each basis vector and scaled, so that nothing under- or overflows
            def step(carry, _):
                power, size = carry
                power = jax.vmap(lambda z: LinearSystem(a, jnp.zeros((len(a), 1)))(jnp.zeros(1), z))(power)
                scale = jnp.abs(power).max()
                power, size = power / scale, size + jnp.log(scale)
                return (power, size), jnp.log(jnp.linalg.norm(power)) + size

            return jax.lax.scan(step, (jnp.eye(len(a)), 0.0), length=steps)[1]

        logs = jax.vmap(lambda r: norms(r * matrix))(jnp.array(radii))
        diagonal, basis = diagonalise(LinearSystem(matrix, jnp.ones((units, 1))))
        pulse = unroll(diagonal, jnp.zeros((50, 1)).at[0].set(1.0))
        modes = jnp.abs(pulse / pulse[0])
        predicted = jnp.abs(diagonal.eigenvalues) ** jnp.arange(50)[:, None]
        bound = jnp.linalg.norm(basis) * jnp.linalg.norm(jnp.linalg.inv(basis))
        jordan = norms(jnp.array([[1.0, 1.0], [0.0, 1.0]]))
        return logs, (modes, predicted), bound, jordan

    logs, modes, bound, jordan = measure(key)
    t = np.arange(1, steps + 1)
    # in the Frobenius norm, as measured
    yield at_most("radii 0.9, 0.99, 1: norm of the powers", np.exp(logs[:3]), float(bound), along="step")
    yield at_most("radii 0.9 and 0.99: norm of the last power", np.exp(logs[:2, -1]), 1e-6)
    yield at_least("radius 1: norm of the powers", np.exp(logs[2]), 1.0, along="step")
    yield at_least(
        "radius 1.01: logarithm of the norm of the powers", logs[3], t * np.log(1.01), atol=1e-9, along="step"
    )
    # the logarithm of the norm is off by at most that of the bound, which t = 2000 divides
    yield equal("growth by step", np.exp(logs[:, -1] / steps), radii, rtol=float(np.log(bound)) / steps + 1e-6)
    yield equal("impulse response of each mode", modes[0].T, modes[1].T, rtol=1e-9, atol=1e-15, along="step")
    late = t >= 10
    yield rate("Jordan block: growth of the powers", t[late], np.exp(jordan)[late], 1.0, tolerance=0.05, along="step")
    yield control("a Jordan block on the circle", at_most("norm of the powers", np.exp(jordan), 100.0, along="step"))


@claim(rows=("E05.22",))
def state_determines_input(key, *, length: Size = 16):
    r"""The last state of a linear recurrence with enough distinct eigenvalues determines its whole input.

    For scalar inputs, $\zeta_T=Vx$ with the Vandermonde matrix $V_{jt}=\lambda_j^{T-1-t}$, invertible for $m=T$
    distinct eigenvalues: any function of the input is then a function of the state, which is what makes a linear
    recurrence with a non-linear read-out universal. For eigenvalues equidistant on the circle of radius $r$ the
    singular values of $V$ are $\sqrt Tr^t$ and its condition number is $r^{-(T-1)}$: near the unit circle the past is
    read back to rounding, at $r=\frac12$ a factor 2 is lost with every step. The product of the first and the last
    input, which is no linear function of anything, is a quadratic polynomial of the state. With $m<T$ or repeated
    eigenvalues different inputs lead to the same state.
    """
    radii = (0.99, 0.9, 0.5)
    short, samples = 6, 200

    @jax.jit
    def measure(key):
        x_key, many_key = jax.random.split(key)
        x = jax.random.normal(x_key, (length,))

        def final(eigenvalues, x):
            return unroll(DiagonalSystem(eigenvalues, jnp.ones((len(eigenvalues), 1))), x[:, None])[-1]

        def back(radius):
            eigenvalues = ring(radius, length)
            found = recover_inputs(eigenvalues, final(eigenvalues, x), length)
            return jnp.abs(found - x).max(), jnp.linalg.svd(input_map(eigenvalues, length), compute_uv=False)

        def product_readout(eigenvalues):
            """The worst error of the best quadratic polynomial of the state for the product of first and last input."""
            xs = jax.random.normal(many_key, (samples, short))
            states = jax.vmap(lambda x: final(eigenvalues, x))(xs)
            parts = jnp.concatenate([jnp.ones((samples, 1)), states.real, states.imag], axis=1)
            features = jax.vmap(lambda p: jnp.outer(p, p).ravel())(parts)
            target = xs[:, 0] * xs[:, -1]
            return jnp.sqrt(jnp.mean((features @ jnp.linalg.lstsq(features, target)[0] - target) ** 2))

        fewer = ring(0.99, short)[:2]
        repeated = ring(0.99, length).at[1].set(ring(0.99, length)[0])
        # an input that a system with a repeated eigenvalue does not see
        unseen = jnp.linalg.svd(input_map(repeated, length))[2][-1].conj()
        return {
            "back": jax.lax.map(back, jnp.array(radii)),
            "unseen": jnp.abs(final(repeated, jnp.real(unseen)) + 1j * final(repeated, jnp.imag(unseen))),
            "size": jnp.linalg.norm(unseen),
            "readout": product_readout(ring(0.99, short)),
            "fewer": product_readout(fewer),
        }

    found = measure(key)
    errors, singular = found["back"]
    powers = np.sqrt(length) * np.array(radii)[:, None] ** np.arange(length)
    yield equal("radii 0.99, 0.9, 0.5: singular values", singular, powers, atol=1e-14 * length, along="place")
    condition = np.array(radii) ** -(length - 1.0)
    yield equal("condition number", singular[:, 0] / singular[:, -1], condition, rtol=1e-9)
    # rounding of the state, of the order of the input, times the condition number; 64 for sums and the solver
    yield at_most("error of the input read back", errors, 64 * 2.2e-16 * length * condition)
    # 91 coefficients by least squares, with a condition number of the features below 10^4
    yield at_most("product of first and last input, quadratic read-out: error", found["readout"], 1e-10)
    yield equal("a repeated eigenvalue: state after an input of norm one", found["unseen"], 0.0, atol=1e-13)
    yield equal("its norm", found["size"], 1.0)
    yield control("2 eigenvalues for 6 steps", at_most("error of the read-out", found["fewer"], 0.1))
