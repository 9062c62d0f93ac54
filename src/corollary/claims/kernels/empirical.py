"""The tangent kernel of a finite network: computed in three ways, and what it says about training."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, picture, rate
from corollary.kernels import definiteness, empirical_ntk

WEIGHT, BIAS = 1.3, 0.4


def _apply(params, x):
    r"""$f^{l+1}=\frac{\sigma_w}{\sqrt{n_l}}W^{l+1}\tanh f^l+\sigma_bb^{l+1}$, the scales outside the parameters."""
    for i, (w, b) in enumerate(params):
        x = WEIGHT / w.shape[0] ** 0.5 * (jnp.tanh(x) if i else x) @ w + BIAS * b
    return x


def _draw(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    shapes = zip(keys, sizes, sizes[1:], strict=False)
    return [(jax.random.normal(k, (a, b)), jax.random.normal(jax.random.fold_in(k, 1), (b,))) for k, a, b in shapes]


def _layer_wise(params, x):
    r"""$\sum_l\langle\delta^l,\delta'^l\rangle(\sigma_w^2\langle h^{l-1},h'^{l-1}\rangle/n_{l-1}+\sigma_b^2)$, traced.

    Forward and backward pass written out: no automatic differentiation.
    """
    inputs, before = [], x
    for i, (w, b) in enumerate(params):
        inputs.append(jnp.tanh(before) if i else before)
        before = WEIGHT / w.shape[0] ** 0.5 * inputs[-1] @ w + BIAS * b
    outputs = before.shape[1]
    delta, total = jnp.broadcast_to(jnp.eye(outputs), (len(x), outputs, outputs)), 0.0
    for (w, _), h in zip(params[::-1], inputs[::-1], strict=True):
        inner = WEIGHT**2 * h @ h.T / w.shape[0] + BIAS**2
        total += inner * jnp.einsum("ikc,jkc->ij", delta, delta)
        delta = WEIGHT / w.shape[0] ** 0.5 * jnp.einsum("ikc,rc->ikr", delta, w) * (1 - h**2)[:, None]
    return total


def _by_jacobian(apply, params, x):
    leaves = jax.tree.leaves(jax.jacrev(apply)(params, x))
    flat = [j.reshape(*j.shape[:2], -1) for j in leaves]
    return sum(jnp.einsum("ikp,jkp->ij", j, j) for j in flat)


@claim(rows=("B07.16", "E09.02", "T09.04"), full={"n": 200, "width": 256})
def three_ways(key, *, n: Size = 30, width: Size = 16, dim: Size = 5):
    r"""The empirical tangent kernel: from the traced program, from the formula by layers, from the Jacobian.

    $\hat\Theta(x,x')=\nabla_\theta f(x)^\top\nabla_\theta f(x')$, traced over the outputs. For a fully connected
    network of independent weights it is
    $$\sum_l\langle\delta^l,\delta'^l\rangle(\sigma_w^2\langle h^{l-1},h'^{l-1}\rangle/n_{l-1}+\sigma_b^2)$$
    with the layers' inputs $h$ and the outputs' derivatives $\delta$ by the pre-activations. For the two layers
    $\sqrt{2/m}\,\sum_jv_j(w_j\cdot x)_+$ it is
    $$\frac2m\Big[\sum_j(w_j\cdot x)_+(w_j\cdot x')_++x\cdot x'\sum_jv_j^2\mathbb 1_{w_jx>0}\mathbb 1_{w_jx'>0}\Big].$$
    It is symmetric, positive semidefinite, and of rank at most the number of points and of parameters. Where layers
    share their weights the formula lacks the inner products between different layers.
    """
    # one hidden unit: its features (the inputs, 1, and the unit itself) are far from collinear
    parameters = dim + 3

    def two_layers(params, x):
        w, v = params
        return (2 / w.shape[0]) ** 0.5 * jax.nn.relu(x @ w.T) @ v

    def closed_form(params, x):
        w, v = params
        z = x @ w.T
        on = (z > 0).astype(x.dtype)
        return 2 / len(v) * (jax.nn.relu(z) @ jax.nn.relu(z).T + (x @ x.T) * ((on * v**2) @ on.T))

    def shared(w, x):
        return _apply([(w[0], w[1])] * 3, x)

    @jax.jit
    def measure(key):
        keys = jax.random.split(key, 5)
        x = jax.random.normal(keys[0], (n, dim))
        deep = _draw(keys[1], (dim, width, width, 3))
        pair = (jax.random.normal(keys[2], (width, dim)), jax.random.normal(keys[3], (width,)))
        tied = _draw(keys[4], (dim, dim))[0]
        small = _draw(keys[4], (dim, 1, 1))
        ours = empirical_ntk(Network(_apply, deep, batched=True), x)
        full = [ours, _layer_wise(deep, x), _by_jacobian(_apply, deep, x)]
        flat = [empirical_ntk(Network(two_layers, pair, batched=True), x), closed_form(pair, x)]
        both = [
            empirical_ntk(Network(shared, tied, batched=True), x),
            _layer_wise([tied] * 3, x),
            _by_jacobian(shared, tied, x),
        ]
        low = empirical_ntk(Network(_apply, small, batched=True), jax.random.normal(keys[0], (2 * parameters, dim)))
        larger = Network(_apply, _draw(keys[4], (dim, 2, 1)), batched=True)
        more = empirical_ntk(larger, jax.random.normal(keys[0], (2 * parameters, dim)))
        spectra = [jnp.linalg.eigvalsh(k) for k in (low, more)]
        return full, flat, both, definiteness((ours + ours.T) / 2).smallest, spectra, ours - ours.T

    full, flat, both, smallest, (spectrum, larger), asymmetry = measure(key)
    # sums of at most a few thousand products in double precision, against the largest entry
    size = [float(jnp.abs(k[0]).max()) for k in (full, flat, both)]
    yield equal("program and formula by layers", full[0], full[1], rtol=0, atol=1e-12 * size[0])
    yield equal("program and full Jacobian", full[0], full[2], rtol=0, atol=1e-12 * size[0])
    yield equal("two layers: program and closed form", flat[0], flat[1], rtol=0, atol=1e-12 * size[1])
    yield equal("shared weights: program and full Jacobian", both[0], both[2], rtol=0, atol=1e-12 * size[2])
    yield control(
        "independent weights: here layers share them",
        equal("program and formula by layers", both[0], both[1], rtol=0, atol=1e-12 * size[2]),
    )
    yield equal("symmetry", asymmetry, 0.0, rtol=0, atol=1e-13 * size[0])
    # eigenvalues round at n eps of the largest, itself at most n times the largest entry
    yield at_least("smallest eigenvalue", smallest, 0.0, atol=n**2 * 2.3e-16 * size[0])
    largest = float(spectrum[-1])
    yield at_most("eigenvalues beyond the number of parameters", spectrum[:-parameters], 1e-12 * largest)
    yield control(
        f"{parameters} parameters: here those of another unit too",
        at_most(f"eigenvalues beyond {parameters}", larger[:-parameters], 1e-12 * float(larger[-1])),
    )


@claim(rows=("B07.16", "T09.04"), full={"width": 512})
def moves_predictions(key, *, n: Size = 12, width: Size = 64, dim: Size = 3, steps: Count = 200):
    r"""A step of gradient descent moves every prediction by the tangent kernel, whatever the width.

    With $\ell(\theta)=\frac12\sum_j(f(x_j)-y_j)^2$, at every $\theta$, every width and every point $x$, seen in
    training or not,
    $$f_{\theta-\eta\nabla\ell}(x)-f_\theta(x)=-\eta\,\hat\Theta_\theta(x,X)(f_\theta(X)-y)+O(\eta^2).$$
    If the first layer is held, the kernel of all parameters leaves a difference of first order.
    """
    etas = 2.0 ** -np.arange(8, 16)
    widths = (4, width)

    def scalar(params, x):
        return _apply(params, x)[:, 0]

    @jax.jit
    def measure(key):
        def one(key, width):
            keys = jax.random.split(key, 4)
            x, y = jax.random.normal(keys[0], (n, dim)), jax.random.normal(keys[1], (n,))
            new = jax.random.normal(keys[2], (n, dim))
            params = _draw(keys[3], (dim, width, width, 1))

            def loss(params):
                return 0.5 * jnp.sum((scalar(params, x) - y) ** 2)

            slope, at = jax.grad(loss)(params), scalar(params, new)
            error = scalar(params, x) - y

            kernel = empirical_ntk(Network(scalar, params, batched=True), new, x)
            held = [jax.tree.map(jnp.zeros_like, slope[0]), *slope[1:]]

            def rest(slope):
                moved = lambda eta: scalar(jax.tree.map(lambda p, g: p - eta * g, params, slope), new)  # noqa: E731
                change = jax.vmap(moved)(etas) - at + etas[:, None] * (kernel @ error)
                return jnp.linalg.norm(change, axis=1)

            right, wrong = rest(slope), rest(held)
            order = jnp.argsort(x[:, 0])
            start = empirical_ntk(Network(scalar, params, batched=True), x[order])
            speed = 0.5 / jnp.trace(start)

            def descend(params, _):
                return jax.tree.map(lambda p, g: p - speed * g, params, jax.grad(loss)(params)), None

            end = empirical_ntk(
                Network(scalar, jax.lax.scan(descend, params, None, length=steps)[0], batched=True), x[order]
            )
            return right, wrong, jnp.stack([start, end])

        return [one(key, width) for width in widths]

    found = measure(key)
    for size, (right, wrong, _) in zip(widths, found, strict=True):
        yield rate(f"what the kernel does not explain, width {size}", etas, right, 2.0, tolerance=0.1, along="step")
        yield control(
            f"all parameters move: here the first layer is held, width {size}",
            rate("what the kernel does not explain", etas, wrong, 2.0, tolerance=0.1, along="step"),
        )
    rows = [
        {"i": i, "j": j, "kernel": f"width {size}, {when}", "value": float(value)}
        for size, (*_, kernels) in zip(widths, found, strict=True)
        for when, kernel in zip(("at the start", "after training"), np.asarray(kernels), strict=True)
        for (i, j), value in np.ndenumerate(kernel / kernel.max())
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_rect()
    yield picture(
        "the tangent kernel before and after training, over its largest entry",
        chart.encode(
            alt.X("j:O", axis=None),
            alt.Y("i:O", axis=None),
            alt.Color("value:Q", title=None),
            alt.Facet("kernel:N", columns=2, title=None, sort=list(dict.fromkeys(r["kernel"] for r in rows))),
        ).properties(width=150, height=150),
    )
