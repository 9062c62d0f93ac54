"""What the tangent kernel of a wide ReLU network can learn: its expansion, linear functions, and other teachers."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.kernels._wide import unit_rows
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.generalization import ntk_complexity, polynomial_teacher_norm, relu_ntk_series, teacher_bound
from corollary.kernels import first_layer_ntk


def _growing_energies(h, labels):
    r"""$y^\top H^{-1}y$ of the first n points for every n at once, (n, k): squares of $L^{-1}y$ with $H=LL^\top$."""
    lower = jnp.linalg.cholesky(h)
    return jnp.cumsum(jax.scipy.linalg.solve_triangular(lower, labels, lower=True) ** 2, 0)


@claim(rows=("T09.27", "B07.23"))
def taylor_expansion(key, *, n: Size = 60, dim: Size = 5):
    r"""The tangent kernel of the ReLU network is a series of even powers of the inner product, and the first.

    For unit vectors and $K=XX^\top$, $H^*=\frac K4+\frac1{2\pi}\sum_{\ell\ge1}\frac{(2\ell-3)!!}{(2\ell-2)!!}
    \frac{K^{\circ2\ell}}{2\ell-1}$ with $(-1)!!=0!!=1$ (T; B writes the coefficients as
    $\frac{(2l)!}{4^l(l!)^2(2l+1)}$, $l=\ell-1$). The remainder after $L$ terms is at most
    $\frac{|z|^{2L+2}}{2\pi}\frac1{(2L+1)\sqrt{\pi L}}\frac1{1-z^2}$ for $z=x_i\cdot x_j$ and falls as $L^{-1/2}$ on
    the diagonal, where $z=1$. The term $K/4$ is the only one that sees the sign of $z$.
    """
    counts = (8, 16, 32, 64, 128, 256)

    @jax.jit
    def measure(key):
        x = unit_rows(key, (n, dim))
        z = jnp.clip(x @ x.T, -1.0, 1.0)
        # and vectors that are no unit vectors
        short = x * jnp.linspace(0.5, 0.9, n)[:, None]
        other = first_layer_ntk(short), relu_ntk_series(short @ short.T, counts[-1])
        return first_layer_ntk(x), z, jnp.stack([relu_ntk_series(z, c) for c in counts]), other

    h, z, sums, (long, series) = measure(key)
    off = ~np.eye(n, dtype=bool)
    error, z = np.abs(np.asarray(sums - h))[:, off], np.asarray(z)[off]
    L = np.array(counts)[:, None]
    # (2ℓ-3)!!/(2ℓ-2)!! < 1/√(π(ℓ-1)), from Wallis' product
    rest = z ** (2 * L + 2) / (2 * np.pi * (2 * L + 1) * np.sqrt(np.pi * L) * (1 - z**2))
    # the closed form has the rounding of an angle
    yield at_most("remainder of each entry off the diagonal", error.T, rest.T, atol=1e-14)
    diagonal = np.abs(np.diagonal(np.asarray(sums - h), axis1=1, axis2=2)).mean(1)
    # the sum of the tail of ℓ^(-3/2): relative corrections of order 1/L at most
    yield rate("remainder on the diagonal", L[:, 0], diagonal, -0.5, tolerance=0.05, along="terms")
    half = 0.5 - np.asarray(sums)[-1].diagonal()
    tail = 1 / (2 * np.pi * np.sqrt(np.pi * counts[-1]))
    # Σ over ℓ > L of ℓ^(-3/2)/(4π√π), up to O(1/L)
    yield equal("remainder on the diagonal, constant", half, tail, rtol=2 / counts[-1])
    l = np.arange(8)
    written = [math.factorial(2 * k) / (4**k * math.factorial(k) ** 2 * (2 * k + 1)) / (2 * np.pi) for k in l]
    # a polynomial of degree 16 through the difference of both signs: only even powers are left
    nodes = np.cos(np.pi * (np.arange(40) + 0.5) / 40) * 0.3
    even = (
        np.asarray(first_layer_ntk(np.array([[1.0, 0.0]]), np.stack([nodes, np.sqrt(1 - nodes**2)], 1)))[0] - nodes / 4
    )
    fitted = np.linalg.lstsq((nodes[:, None] / 0.3) ** (2 * l + 2), even, rcond=None)[0] / 0.3 ** (2 * l + 2.0)
    # coefficients of the kernel itself by a fit on [-0.3, 0.3]: the first four; the next power is 0.3^10 of them
    yield equal("coefficients of B, fitted to the closed form", fitted[:4], written[:4], rtol=1e-3)
    yield control("unit vectors: here of lengths 0.5 to 0.9", equal("entries off the diagonal", series[off], long[off]))


@claim(
    rows=("T09.27",),
    erratum="The series of arccos is printed without its powers and divisors and with a term z too many: it diverges.",
)
def arccos_as_printed(key, *, terms: Count = 200):
    r"""As printed: arccos z is pi/2 - z - the sum of z (2l-3)!!/(2l-2)!!.

    Right is $\arccos z=\frac\pi2-\sum_{\ell\ge1}\frac{(2\ell-3)!!}{(2\ell-2)!!}\frac{z^{2\ell-1}}{2\ell-1}$, whose
    remainder after $L$ terms is at most $\frac{|z|^{2L+1}}{(2L+1)\sqrt{\pi L}(1-z^2)}$. The sum as printed grows as
    $\sqrt L$: the more terms, the further from the arc cosine.
    """
    z = np.linspace(0.1, 0.9, 9)
    counts = np.unique(np.geomspace(max(terms // 16, 4), terms, 6).astype(int))
    ell = np.arange(1, terms)
    ratio = np.concatenate([[1.0], np.cumprod((2 * ell - 1) / (2 * ell))])
    odd = 2 * np.arange(terms) + 1
    powers = ratio * z[:, None] ** odd / odd
    off = np.abs(np.pi / 2 - z[:, None] - np.cumsum(ratio)[counts - 1] * z[:, None] - np.arccos(z)[:, None])
    yield printed(
        rate(
            "largest error of the printed sum", counts, off.max(0), -0.5, tolerance=0.25, side="at most", along="terms"
        )
    )
    right = np.abs(np.pi / 2 - np.cumsum(powers, 1)[:, counts - 1] - np.arccos(z)[:, None])
    rest = z[:, None] ** (2 * counts + 1) / ((2 * counts + 1) * np.sqrt(np.pi * counts) * (1 - z[:, None] ** 2))
    # a sum of numbers of the order 1
    yield at_most("error of the corrected sum", right, rest, atol=1e-14, x=counts, along="terms")


@claim(rows=("T09.28", "B07.23"))
def linear_functions(key, *, n: Size = 300, dim: Size = 8):
    r"""The wide ReLU network learns linear functions: the complexity of their labels falls as 1/√n.

    For unit vectors and $y=X\beta$: $H^*\succeq\frac14XX^\top$ (Schur), hence $(H^*)^{-1}\preceq4K^{-1}$ where $n\le d$
    and $K=XX^\top$ is invertible, and for every $n$ on labels in the range of $K$: $y^\top(H^*)^{-1}y\le4y^\top
    K^+y\le4\|\beta\|^2$. With $\operatorname{tr}H^*=\frac n2$ exactly,
    $\frac1n\sqrt{2y^\top(H^*)^{-1}y\operatorname{tr}H^*}\le\frac{2\|\beta\|}{\sqrt n}$, better by $\sqrt2$ than both
    texts, and attained as $n$ grows. Labels at random do not have it. (T's exercise assumes $K$ invertible, which $n>d$
    points do not allow, and is about $n\to\infty$. With $K^+$ for $K^{-1}$ the order fails where $K^+$ is zero; on the
    range of $K$, where the labels are, it holds.)
    """
    sizes = np.unique(np.geomspace(dim // 2, n, 12).astype(int))

    @jax.jit
    def measure(key):
        x_key, b_key, r_key = jax.random.split(key, 3)
        x, beta = unit_rows(x_key, (n, dim)), jax.random.normal(b_key, (dim,))
        y = jnp.stack([x @ beta, jnp.linalg.norm(beta) / dim**0.5 * jax.random.normal(r_key, (n,))], 1)
        h, k = first_layer_ntk(x), x @ x.T
        few = slice(None, dim // 2)
        inverse = 4 * jnp.linalg.inv(k[few, few]) - jnp.linalg.inv(h[few, few])
        many = slice(None, 2 * dim)
        beyond = 4 * jnp.linalg.pinv(k[many, many], hermitian=True, rtol=1e-10) - jnp.linalg.inv(h[many, many])
        orders = [jnp.linalg.eigvalsh(a)[0] for a in (h - k / 4, inverse, beyond)]
        pseudo = 4 * y[:, 0] @ jnp.linalg.pinv(k, hermitian=True, rtol=1e-10) @ y[:, 0]
        return _growing_energies(h, y), orders, pseudo, jnp.trace(h), beta, ntk_complexity(h, y)

    energy, (above, inverse, beyond), pseudo, trace, beta, complexity = measure(key)
    # eigenvalues are right to the rounding of the largest, which is below n
    yield at_least("smallest eigenvalue of H* - K/4", above, 0.0, atol=1e-14 * n)
    yield at_least("fewer points than dimensions: smallest eigenvalue of 4/K - 1/H*", inverse, 0.0)
    yield equal("trace of H*", trace, n / 2)
    yield at_most("labels in the range of K", energy[-1, 0], pseudo)
    linear, random = np.sqrt(np.asarray(energy)[sizes - 1] / sizes[:, None]).T
    bound = np.array([teacher_bound("linear", [1.0], beta[None], int(m)) for m in sizes])
    yield at_most("complexity of linear labels", linear, bound, x=sizes, along="points")
    yield at_most("the same, with the constant of the texts", linear, 2**0.5 * bound, x=sizes, along="points")
    # y'y squared over y'Hy is a lower bound of the energy. The even powers are orthogonal to linear labels, so that
    # y'Hy/y'y is n/4d from K/4 and at most 1/2 from the diagonal: a share of √(1 - 2d/n) but for fluctuations
    share = float(np.sqrt(1 - 2 * dim / n)) - 0.03
    yield at_least("share of the bound attained at the most points", linear[-1] / bound[-1], share)
    yield equal("complexity from the eigenvalues of H*", complexity, [linear[-1], random[-1]], rtol=1e-8)
    yield control("linear labels: here at random", at_most("complexity", random, bound, x=sizes, along="points"))
    yield control(
        "no more points than dimensions: here twice as many",
        at_least("smallest eigenvalue of 4 pinv(K) - 1/H*", beyond, 0.0, atol=1e-10),
    )


@claim(rows=("T09.16",))
def learnable_teachers(key, *, n: Size = 800, dim: Size = 5):
    r"""Linear functions, even powers and cosines of a projection stay simple for the tangent kernel as data grow.

    ReLU, unit vectors. $\sqrt{y^\top(H^*)^{-1}y}$ is at most $2\|\beta\|$ for $y=\beta\cdot x$; $3p\|\beta\|^p$ for
    $y=(\beta\cdot x)^p$, $p$ even; $3\|\beta\|\sinh\|\beta\|$ for $y=\cos(\beta\cdot x)-1$, whatever $n$; so (9.11)
    falls as $1/\sqrt n$. Sharper, from the coefficients of $H^*=\sum c_kK^{\circ k}$:
    $\sqrt{\sum_ka_k^2\|\beta\|^{2k}/c_k}$ for $y=\sum_ka_k(\beta\cdot x)^k$: 2, $\sqrt{2\pi}$ and 6.14 at
    $\|\beta\|=1$ for $p=1,2,4$. The power 3 is not in the kernel, and its norm grows with $n$, as that of labels at
    random.
    """
    sizes = np.array([50, 100, 200, 400, n])
    even = [(-1) ** k / math.factorial(2 * k) for k in range(1, 15)]
    cosine = np.zeros(29)
    cosine[2::2] = even

    @jax.jit
    def measure(key):
        x_key, b_key, r_key = jax.random.split(key, 3)
        x, beta = unit_rows(x_key, (n, dim)), unit_rows(b_key, (dim,))
        z = x @ beta
        noise = jax.random.normal(r_key, (n,)) / dim**0.5
        y = jnp.stack([z, z**2, z**4, jnp.cos(2 * z) - 1, z**3, noise], 1)
        return jnp.sqrt(_growing_energies(first_layer_ntk(x), y))

    size = np.asarray(measure(key))[sizes - 1].T
    beta = np.eye(1, dim)
    teachers = {
        "linear": (teacher_bound("linear", [1.0], beta, 1), polynomial_teacher_norm([0.0, 1.0], 1.0)),
        "square": (teacher_bound("power", [1.0], beta, 1), polynomial_teacher_norm([0.0, 0, 1], 1.0)),
        "fourth power": (
            teacher_bound("power", [1.0], beta, 1, power=4),
            polynomial_teacher_norm([0.0, 0, 0, 0, 1], 1.0),
        ),
        "cosine of twice": (teacher_bound("cosine", [1.0], 2 * beta, 1), polynomial_teacher_norm(cosine, 2.0)),
    }
    for row, (name, (text, sharp)) in zip(size, teachers.items(), strict=False):
        yield at_most(f"{name}: bound of the text", row, text, x=sizes, along="points")
        yield at_most(f"{name}: sharper bound", row, sharp, x=sizes, along="points")
    yield at_least("linear: attained", size[0, -1], 0.99 * 2)
    # 3p with p = 3: what the text would allow if odd powers were like even ones
    yield control("a power that is even: here 3", at_most("norm of the labels", size[4], 9.0, x=sizes, along="points"))
    yield control(
        "labels of a teacher: here at random", at_most("norm of the labels", size[5], 9.0, x=sizes, along="points")
    )


@claim(
    rows=("T09.16",),
    erratum="The bound for cosines is printed with sinh of the squared norm (and a p that the teacher does not have): "
    "for small norms it is of third order, while the complexity is of second.",
)
def cosine_bound_as_printed(key, *, n: Size = 200, dim: Size = 5):
    r"""As printed: for cosine teachers the bound is of the order of the norm times sinh of its square.

    For $y=\sum_j\alpha_j(\cos(\beta_j\cdot x)-1)$ (9.11) would be $O(p\sum_j|\alpha_j|\|\beta_j\|\sinh(\|\beta\|^2)/
    \sqrt n)$. With one teacher and $\alpha=1$ that is $\sqrt{y^\top(H^*)^{-1}y}\le C\|\beta\|\sinh\|\beta\|^2$ for one
    constant $C$, where the bounds for linear functions and powers hold whatever $\beta$ is. But $\cos z-1\approx-z^2/2$
    makes the left side of second order for small $\beta$ and the right one of third: their ratio grows as
    $1/\|\beta\|$. With $\sinh\|\beta\|$ both are of second order, and $C=3$ suffices.
    """
    norms = np.array([0.5, 0.2, 0.1, 0.05, 0.02, 0.01])

    @jax.jit
    def measure(key):
        x_key, b_key = jax.random.split(key)
        x = unit_rows(x_key, (n, dim))
        # 1 - cos without cancellation
        y = -2 * jnp.sin(jnp.outer(x @ unit_rows(b_key, (dim,)), norms) / 2) ** 2
        return jnp.sqrt(_growing_energies(first_layer_ntk(x), y)[-1])

    size = np.asarray(measure(key))
    # bounded as the norm falls: no power of it below 0
    fits = {"tolerance": 0.1, "side": "at least", "along": "norm"}
    yield printed(rate("norm of the labels over ‖β‖ sinh ‖β‖²", norms, size / (norms * np.sinh(norms**2)), 0.0, **fits))
    yield rate("norm of the labels over ‖β‖ sinh ‖β‖", norms, size / (norms * np.sinh(norms)), 0.0, **fits)
    yield at_most("norm of the labels", size, 3 * norms * np.sinh(norms), x=norms, along="norm")
