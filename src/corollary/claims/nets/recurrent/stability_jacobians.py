"""Products of Jacobians through time: their order, their bound, and when they vanish."""

from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims._drawn import drawn
from corollary.claims.autodiff._pictures import curves
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.nets import identity, logistic, tanh
from corollary.nets.recurrent import Elman, bptt, jacobian_bound, state_jacobians, step_jacobians


@claim(rows=("E05.05",))
def products(key, *, units: Size = 4, steps: Count = 12):
    r"""The gradient by a state is the sum over later losses of products of Jacobians, the latest on the left.

    For $z_t=\phi(Uz_{t-1}+Vx_t)$: $\frac{\partial z_i}{\partial z_t}=\dot\Phi_iU\cdots\dot\Phi_{t+1}U$ with
    $\dot\Phi_j=\mathrm{diag}(\phi'(Uz_{j-1}+Vx_j))$, and
    $\frac{\partial L}{\partial z_t}=\sum_{i\ge t}\frac{\partial\ell_i}{\partial z_i}\frac{\partial z_i}{\partial z_t}$,
    the $D_t$ of back-propagation through time. In the reverse order the product is another matrix.
    """

    def parts(key):
        return Elman(2, units, 1, key=key, bias=False), jnp.zeros((steps, 2)), jnp.zeros((steps, 1))

    @jax.jit
    def measure(key):
        model, xs, ys = drawn(parts, key)
        states = model.run(xs).states
        before = jnp.concatenate([jnp.zeros((1, units)), states[:-1]])
        # by the formula: the slopes of tanh at the pre-activations, times U
        slopes = tanh.prime(before @ model.cell.recurrent.T + xs @ model.cell.inputs.T)
        factors = slopes[:, :, None] * model.cell.recurrent
        elsewhere = tanh.prime(before @ model.cell.recurrent.T + xs[::-1] @ model.cell.inputs.T)
        automatic = jax.jacfwd(lambda z: model.run(xs, z).states[-1])(jnp.zeros(units))
        forwards = jax.lax.scan(lambda p, f: (f @ p, None), jnp.eye(units), factors)[0]
        backwards = jax.lax.scan(lambda p, f: (p @ f, None), jnp.eye(units), factors)[0]
        other = jax.lax.scan(lambda p, f: (f @ p, None), jnp.eye(units), elsewhere[:, :, None] * model.cell.recurrent)[
            0
        ]
        own = jax.vmap(jax.grad(lambda z, y: jnp.sum((model.readout(z) - y) ** 2) / steps))(states, ys)
        found = state_jacobians(model, xs)[1:, 1:]  # zero where the loss comes first
        return {
            "factors": (step_jacobians(model, xs), factors),
            "whole": (forwards, automatic),
            "reversed": (backwards, automatic),
            "other": (other, automatic),
            "sums": (jnp.einsum("iz,itzw->tw", own, found), bptt(model, xs, ys).adjoints),
            "sizes": jnp.sqrt(jnp.sum(found**2, axis=(2, 3))),
        }

    m = jax.device_get(measure(key))
    yield equal("factors", *m["factors"], rtol=1e-10, atol=1e-14)
    yield equal("product of all", *m["whole"], rtol=1e-9, atol=1e-13)
    yield equal("gradients by all states", *m["sums"], rtol=1e-9, atol=1e-14)
    # relative to the whole product, which may be small
    product, automatic = m["reversed"]
    size = np.abs(automatic).max()
    yield at_least("in the reverse order: largest difference", np.abs(product - automatic).max() / size, 1e-3)
    yield control(
        "the slopes are those along the way: here those for the inputs in reverse",
        equal("product of all", *m["other"], rtol=1e-9, atol=1e-13),
    )


def _norms(model, xs, start, lags):
    """Spectral norms of the derivatives of all states by the first."""
    steps = step_jacobians(model, xs, start)
    found = jax.lax.scan(lambda p, f: (f @ p, f @ p), jnp.eye(steps.shape[1]), steps)[1]
    # the largest singular value from a symmetric problem, one matrix after the other
    return jax.lax.map(lambda p: jnp.sqrt(jnp.linalg.eigvalsh(p.T @ p)[-1]), found[lags - 1])


@claim(rows=("E05.06", "E05.07"))
def bound_and_criterion(key, *, units: Size = 12, steps: Annotated[int, Range(16, 200)] = 32):
    r"""Where α σ1(U) < 1 gradients vanish; where they explode it is above 1, which is not enough to explode.

    If $|\phi'|\le\alpha$ along the way, $\|\partial z_i/\partial z_t\|_2\le(\alpha\sigma_1(U))^{i-t}$: for tanh
    $\alpha=1$, for the logistic function $\frac14$, for the identity 1. So $\sigma_1(U)<\frac1\alpha$ suffices for
    vanishing and $\sigma_1(U)>\frac1\alpha$ is necessary for exploding. The bound is attained by the identity with a
    multiple of an orthogonal matrix, which explodes for every factor above 1; with a strictly triangular $U$ of
    $\sigma_1=1.5$ the derivative is 0 after as many steps as there are units: in the long run its spectral radius
    counts, which is 0. With tanh a $\sigma_1$ of 1.5 stays far below the bound, because the units saturate.
    """
    lags = np.unique(np.round(np.geomspace(1, steps, 6)).astype(int))
    gains = np.array([0.5, 0.9, 1.0, 1.5])
    slopes = {"tanh": (tanh, 1.0), "logistic": (logistic, 0.25), "identity": (identity, 1.0)}

    def parts(_):
        return jnp.zeros((units, units)), jnp.zeros((units, 2)), jnp.zeros((1, units)), jnp.zeros((steps, 2))

    @jax.jit
    def measure(key):
        raw, inputs, readout, xs = drawn(parts, key)
        start, size = jnp.zeros(units), jnp.linalg.norm(raw, 2)

        def network(activation, u):
            return Elman.of(u, inputs, None, readout, None, activation)

        def sweep(activation, alpha):
            def one(gain):
                u = gain / alpha / size * raw
                return _norms(network(activation, u), xs, start, lags), jacobian_bound(u, alpha, lags)

            return jax.lax.map(one, gains)

        turn = jnp.linalg.qr(raw)[0]
        kept = jax.lax.map(lambda c: _norms(network(identity, c * turn), xs, start, lags), gains)
        triangle = jnp.triu(raw, 1)
        triangle = 1.5 / jnp.linalg.norm(triangle, 2) * triangle
        gone = _norms(network(identity, triangle), jnp.zeros((units + 2, 2)), start, np.arange(1, units + 3))
        return {name: sweep(*pair) for name, pair in slopes.items()}, kept, gone, sweep(tanh, 0.25)

    found, kept, gone, steep = jax.device_get(measure(key))
    for name, (norms, bounds) in found.items():
        yield at_most(f"{name}: norm of the derivative", norms, bounds, atol=1e-13, x=lags, along="lag")
    norms = found["tanh"][0]
    yield control(
        "the slope is at most α: here tanh with the α of the logistic function",
        at_most("norm of the derivative", *steep, x=lags, along="lag"),
    )
    # the eigenvalues of the square are right to eps times its largest: absolute rounding in the norm
    exact = gains[:, None] ** np.asarray(lags)
    yield equal("identity, orthogonal: attained", kept, exact, rtol=1e-10, x=lags, along="lag")
    vanished = np.stack([pair[0][0, -1] for pair in found.values()])
    yield at_most("half of the threshold: at the longest lag", vanished, 0.5 ** float(lags[-1]), atol=1e-13)
    yield equal("triangular, σ1 = 1.5: at lag 1", gone[0], 1.5, rtol=1e-10)
    yield equal("triangular, σ1 = 1.5: after as many steps as units", gone[units - 1 :], 0.0, rtol=0, atol=0)
    yield at_most("tanh, σ1 = 1.5: share of the bound at the longest lag", norms[3, -1] / exact[3, -1], 0.1)
    yield control("σ1 < 1/α: here 1.5 times an orthogonal matrix", at_most("at the longest lag", kept[3, -1], 1.0))
    yield curves(
        "norm of the derivative, σ1 = 1.5/α",
        lags,
        {**{name: pair[0][3] for name, pair in found.items()}, "identity, orthogonal": kept[3]},
        titles=("lag", "norm"),
        log="xy",
    )


@claim(
    rows=("E05.07",), erratum="The inequality is reversed: gradients vanish if the largest singular value is below 1/α."
)
def criterion_as_printed(key, *, units: Size = 5, steps: Annotated[int, Range(8, 400)] = 40):
    r"""As printed: the gradient vanishes if the largest singular value of U is at least 1/α.

    E, section 5: "the gradient will vanish if $\sigma_1(U)\ge1/\alpha$". For $\phi=\mathrm{id}$, $\alpha=1$, and
    $U=1.2\,Q$ with orthogonal $Q$ all singular values are 1.2, and the derivative grows like $1.2^{i-t}$. With
    $\sigma_1(U)<1/\alpha$, here $U=0.8\,Q$, it vanishes like $0.8^{i-t}$.
    """
    lags = np.unique(np.linspace(1, steps, 8).astype(int))

    @jax.jit
    def measure(key):
        raw, inputs, readout = drawn(partial(_shapes, units), key)
        turn = jnp.linalg.qr(raw)[0]

        def norms(factor):
            model = Elman.of(factor * turn, inputs, None, readout, None, identity)
            return _norms(model, jnp.ones((steps, 2)), jnp.zeros(units), jnp.asarray(lags))

        return jax.lax.map(norms, jnp.array([0.8, 1.2]))

    below, above = jax.device_get(measure(key))
    yield equal("σ1 below 1/α: norm of the derivative", below, 0.8**lags, rtol=1e-10, x=lags, along="lag")
    yield monotone("σ1 below 1/α: it vanishes", below, "decreasing", strict=True, x=lags, along="lag")
    yield equal("σ1 above 1/α: norm of the derivative", above, 1.2**lags, rtol=1e-10, x=lags, along="lag")
    yield printed(monotone("σ1 above 1/α: it vanishes", above, "decreasing", x=lags, along="lag"))


@claim(rows=("E05.06",), erratum="The slope of the logistic function is at most 1/4, and is 1/4 at zero: not less.")
def slope_as_printed(key):
    r"""As printed: the derivative of the logistic function is less than 1/4 everywhere.

    E, footnote 6; at zero it is $\frac14$. The bound needs no more than $\sigma'\le\frac14$.
    """
    z = np.concatenate([np.zeros(1), jax.random.normal(key, (20,))])
    slopes = logistic.prime(z)
    yield at_most("slope, with equality allowed", slopes, 0.25, rtol=0)
    yield at_least("slope, not negative", slopes, 0.0)
    # less than 1/4 is at most the number before it
    yield printed(at_most("slope, less than 1/4", slopes, np.nextafter(0.25, 0.0), rtol=0))


def _shapes(units, _):
    return jnp.zeros((units, units)), jnp.zeros((units, 2)), jnp.zeros((1, units))
