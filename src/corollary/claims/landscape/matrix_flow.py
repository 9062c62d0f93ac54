"""Deep matrix factorisation under gradient flow: what is conserved, the flow of the product, learning in stages."""

from dataclasses import replace
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.landscape._linear_data import product
from corollary.claims.nets._pictures import curves
from corollary.evidence import Range, Size, at_most, claim, control, equal, estimate, printed, rate
from corollary.landscape import (
    balanced_factors,
    balanced_velocity,
    deep_factorization_loss,
    factor_flow,
    factor_velocity,
    imbalance,
    singular_value_time,
)

Depth = Annotated[int, Range(2, 4)]
Dim = Annotated[int, Range(2, 4)]


def _turned(a):
    return jnp.swapaxes(a, -1, -2)


@claim(rows=("B06.23",))
def conserved_differences(key, *, dim: Dim = 3, depth: Depth = 3):
    r"""Under gradient flow the differences of the Gram matrices of neighbouring factors are conserved.

    For $\dot W_k=-\partial\mathcal L/\partial W_k=-\frac1LW_{k+1:L}^\top(W-W^*)W_{1:k-1}^\top$ with
    $\mathcal L=\frac1{2L}\|W_L\cdots W_1-W^*\|_F^2$, at every point $W_{k+1}^\top\dot W_{k+1}=\dot W_kW_k^\top$ (6.47),
    so that $W_{k+1}^\top W_{k+1}-W_kW_k^\top$ does not change in time. It stays zero if it is zero at the start, which
    (6.48) needs. Gradient descent conserves it up to an error of the order of its step. One step of the integrator used
    here, of fourth order, errs by the fifth power of its length.
    """
    lengths, eta = np.geomspace(0.02, 0.1, 6), 0.02

    @jax.jit
    def measure(key):
        factors = jax.random.normal(key, (depth, dim, dim)) / jnp.sqrt(dim)
        target = jax.random.normal(jax.random.fold_in(key, 1), (dim, dim)) / jnp.sqrt(dim)
        moved = -jax.grad(deep_factorization_loss)(factors, target)
        before = imbalance(factors)
        once = jax.vmap(lambda t: imbalance(factor_flow(factors, target, t[None], substeps=1)[0]))(jnp.asarray(lengths))
        starts = jnp.stack([factors, balanced_factors(product(factors), depth, key=key)])
        fine, end = jax.vmap(lambda w: factor_flow(w, target, jnp.array([2.0]), substeps=800)[0])(starts)
        # descent with a step of which the last point is at time 2
        descent = jax.lax.fori_loop(0, round(2 / eta), lambda _, w: w + eta * factor_velocity(w, target), factors)
        return {
            "velocity": (moved, factor_velocity(factors, target)),
            "neighbours": (_turned(factors[1:]) @ moved[1:], moved[:-1] @ _turned(factors[:-1])),
            "conserved": (imbalance(fine), before),
            "balanced": jnp.abs(imbalance(end)).max(),
            "once": jnp.sqrt(jnp.sum((once - before) ** 2, axis=(1, 2, 3))),
            "descent": (imbalance(descent), before),
        }

    m = measure(key)
    yield equal("velocity of the factors", *m["velocity"], atol=1e-12)
    yield equal("neighbouring factors (6.47)", *m["neighbours"], atol=1e-12)
    # steps of length 1/400 where the fastest rate is of the order 10: errors of (1/40)^4 times their number at worst
    yield equal("difference of Gram matrices at time 2", *m["conserved"], atol=1e-7)
    yield at_most("imbalance at time 2 of balanced factors", m["balanced"], 1e-7)
    # the largest step is short against the fastest rate, but not so short that the next order does not show
    yield rate("drift in one step", lengths, m["once"], 5.0, tolerance=0.7, side="at least", along="step")
    yield control(
        "gradient flow: here descent with a large step", equal("difference of Gram matrices", *m["descent"], atol=1e-7)
    )


@claim(
    rows=("B06.23",), erratum="(6.48) is concluded from (6.47) without a premise; it holds for balanced starts only."
)
def printed_balance(key, *, dim: Dim = 3, depth: Depth = 3):
    r"""Neighbouring factors have equal Gram matrices at all times, from any start, as printed in (6.48).

    As printed: (6.47), "and hence" $W_{k+1}^\top(t)W_{k+1}(t)=W_k(t)W_k^\top(t)$ for all $t\ge0$. What follows is that
    the difference of the two sides does not change; it is zero if it is so at the start.
    """

    @jax.jit
    def measure(key):
        factors = jax.random.normal(key, (depth, dim, dim)) / jnp.sqrt(dim)
        target = jax.random.normal(jax.random.fold_in(key, 1), (dim, dim)) / jnp.sqrt(dim)
        starts = jnp.stack([factors, balanced_factors(product(factors), depth, key=key)])
        ends = jax.vmap(lambda w: imbalance(factor_flow(w, target, jnp.array([2.0]), substeps=800)[-1]))(starts)
        return imbalance(factors), ends

    before, (found, balanced) = measure(key)
    yield printed(equal("difference of Gram matrices at time 2: zero", found, 0.0, atol=1e-6))
    # the integrator as in `conserved_differences`
    yield equal("difference of Gram matrices at time 2: that of the start", found, before, atol=1e-7)
    yield equal("balanced start: difference of Gram matrices at time 2", balanced, 0.0, atol=1e-7)


def _bases(factors):
    """Of balanced factors: the singular values that they share, and bases with W = Q' S Q' from one to the next."""
    _, s, vt = jnp.linalg.svd(factors[0])
    bases = [vt.T]
    for w in factors:
        bases.append(w @ bases[-1] / s)
    return s, jnp.stack(bases)


@claim(rows=("B06.23",))
def flow_of_the_product(key, *, dim: Dim = 3, depth: Depth = 4):
    r"""From balanced factors the product follows a flow of its own.

    If $W_{k+1}^\top W_{k+1}=W_kW_k^\top$ for all $k<L$, then all factors have the same singular values $\Sigma$ and
    $U_k=V_{k+1}$ ($k\le L-1$, with matching signs), and
    $$\dot W_k=\tfrac1LV_{k+1}\Sigma^{L-k}U_L^\top(W^*-W)V_1\Sigma^{k-1}V_k^\top,\qquad
    \dot W=\tfrac1L\sum_{k=1}^L[WW^\top]^{\frac{L-k}L}(W^*-W)[W^\top W]^{\frac{k-1}L}.$$
    The velocity of the product is measured from the gradients of the factors, wherever the flow is.
    """

    @jax.jit
    def measure(key):
        start, target = jax.random.normal(key, (2, dim, dim))
        balanced = balanced_factors(start, depth, key=key)
        # some way along the flow, where nothing was arranged any more
        later = factor_flow(balanced, target, jnp.array([0.5]), substeps=200)[0]
        loose = 0.8 * jax.random.normal(jax.random.fold_in(key, 1), (depth, dim, dim))

        def speeds(factors):
            moved = -jax.grad(deep_factorization_loss)(factors, target)
            _, measured = jax.jvp(product, (factors,), (moved,))
            return measured, balanced_velocity(product(factors), target, depth)

        s, bases = _bases(balanced)
        error = bases[-1].T @ (target - start) @ bases[0]
        moved = -jax.grad(deep_factorization_loss)(balanced, target)
        each = jnp.stack(
            [bases[k] * s ** (depth - k) @ error * s ** (k - 1) @ bases[k - 1].T for k in range(1, depth + 1)]
        )
        whole = sum(
            bases[-1] * s ** (2 * depth - 2 * k) @ error * s ** (2 * k - 2) @ bases[0].T for k in range(1, depth + 1)
        )
        values = jax.lax.map(lambda w: jnp.linalg.svd(w, compute_uv=False), jnp.concatenate([balanced, loose]))
        return {
            "values": (values[:depth], jnp.broadcast_to(s, (depth, dim))),
            "bases": (bases[1:] @ _turned(bases[1:]), jnp.broadcast_to(jnp.eye(dim), (depth, dim, dim))),
            "each": (moved, each / depth),
            "whole": (speeds(balanced)[0], whole / depth),
            "start": speeds(balanced),
            "later": speeds(later),
            "loose": speeds(loose),
            "loose values": (values[depth:], jnp.broadcast_to(values[depth], (depth, dim))),
        }

    m = measure(key)
    yield equal("singular values of all factors", *m["values"], atol=1e-11)
    # the bases divide by the singular values, of which the least may be a hundredth
    yield equal("bases passed from factor to factor are orthogonal", *m["bases"], atol=1e-9)
    yield equal("velocity of each factor from the common singular values", *m["each"], atol=1e-9)
    yield equal("velocity of the product from the singular values", *m["whole"], atol=1e-9)
    yield equal("velocity of the product from the product alone", *m["start"], atol=1e-10)
    # balanced up to the error of the integrator, 1e-10; powers with exponents below 1 magnify it
    yield equal("velocity of the product, later", *m["later"], atol=1e-5)
    yield control("balanced factors: here others", equal("velocity of the product", *m["loose"], atol=1e-5))
    yield control(
        "balanced factors: here others", equal("singular values of all factors", *m["loose values"], atol=1e-5)
    )


@claim(rows=("B06.23",), erratum="The velocity of the k-th factor ends with V of k - 1 transposed; it must be V of k.")
def printed_factor_velocity(key, *, dim: Dim = 3, depth: Depth = 4):
    r"""The velocity of balanced factors with the last basis as printed in part d).

    As printed: $\dot W_k=\frac1LV_{k+1}\Sigma^{L-k}U_L^\top(W^*-U_L\Sigma^LV_1^\top)V_1\Sigma^{k-1}V_{k-1}^\top$,
    looked at for $k\ge2$, where there is a $V_{k-1}$. It ends with $V_k^\top$.
    """

    @jax.jit
    def measure(key):
        start, target = jax.random.normal(key, (2, dim, dim))
        factors = balanced_factors(start, depth, key=key)
        s, bases = _bases(factors)
        error = bases[-1].T @ (target - start) @ bases[0]

        def formula(last):
            parts = [bases[k] * s ** (depth - k) @ error * s ** (k - 1) @ bases[last(k)].T for k in range(2, depth + 1)]
            return jnp.stack(parts) / depth

        # V of k is the basis before the factor k, the one with index k - 1
        return factor_velocity(factors, target)[1:], formula(lambda k: k - 2), formula(lambda k: k - 1)

    velocity, wrong, right = measure(key)
    yield printed(equal("velocity of the factors, V of k - 1 at the end", velocity, wrong, atol=1e-8))
    yield equal("velocity of the factors, V of k at the end", velocity, right, atol=1e-8)


@claim(rows=("B06.23",))
def learning_in_stages(key, *, dim: Annotated[int, Range(2, 4)] = 3, draws: Size = 10_000):
    r"""Deep factorisation learns the singular values of its target one after the other, the sharper the deeper.

    Where balanced factors and the target share their singular vectors they keep them, and every singular value of the
    product follows $\dot s=s^{2-2/L}(s^*-s)$ by itself: a logistic function for $L=2$, and in general it takes the time
    $\int_{s_0}^sdx\,x^{2/L-2}/(s^*-x)$, of the order of $s_0^{2/L-1}$ for small starts and $L\ge3$. The loss is that of
    matrix sensing, $\mathbb E\langle W-W^*,A\rangle^2=\|W-W^*\|_F^2$ for standard normal measurements $A$.
    """
    goals, small, depths = np.linspace(2.0, 1.0, dim), 0.1, (2, 4)
    times = np.linspace(0.25, 12.0, 48)

    @jax.jit
    def measure(key):
        u, v = jax.random.orthogonal(key, dim, (2,))
        target = u * jnp.asarray(goals) @ v.T
        loose = jnp.stack([4.0 * v.T, jnp.eye(dim), jnp.eye(dim) / 4, small * u])
        paths = {}
        for depth in depths:
            starts = balanced_factors(small * u @ v.T, depth, key=key)[None]
            starts = jnp.concatenate([starts, loose[None]]) if depth == len(loose) else starts
            flows = jax.vmap(lambda w: factor_flow(w, target, times, substeps=40))(starts)
            inside = jax.vmap(jax.vmap(lambda f: u.T @ product(f) @ v))(flows)
            values = jnp.diagonal(inside, axis1=2, axis2=3)
            # what the time would be to be there; what is outside its domain is not looked at later
            there = jnp.clip(values, 1.001 * small, 0.999 * jnp.asarray(goals))
            taken = singular_value_time(small, there, jnp.asarray(goals), depth)
            paths[depth] = values, taken, inside[0] * (1 - jnp.eye(dim))
        sensed = jnp.einsum("nij,ij->n", jax.random.normal(key, (draws, dim, dim)), target) ** 2
        return paths, sensed

    def compare(values, taken):
        # before they are so near to the goal that the place says little of the time
        before = (values < 0.99 * goals) & (values > 1.01 * small)
        when = np.broadcast_to(times[:, None], values.shape)[before]
        return equal("time of every singular value", taken[before], when, rtol=1e-6)

    paths, sensed = jax.tree.map(np.asarray, measure(key))
    for depth, (values, taken, rest) in paths.items():
        yield replace(compare(values[0], taken[0]), name=f"depth {depth}: time of every singular value")
        yield equal(f"depth {depth}: singular vectors stay", rest, np.zeros_like(rest), atol=1e-10)
    logistic = goals / (1 + (goals / small - 1) * np.exp(-np.outer(times, goals)))
    yield equal("depth 2: logistic growth", paths[2][0][0].T, logistic.T, rtol=1e-6, x=times, along="time")
    # when each is half way to its goal, and how long the weakest is behind the strongest
    half = {depth: times[np.argmax(values[0] > goals / 2, axis=0)] for depth, (values, _, _) in paths.items()}
    behind = {depth: t[-1] - t[0] for depth, t in half.items()}
    yield at_most("time from the first to the last, depth 2 against depth 4", behind[2], behind[4])
    yield estimate("sensing: mean square of a measurement", sensed, np.sum(goals**2), wrong=1.2 * np.sum(goals**2))
    yield control("balanced factors: here four others", compare(paths[4][0][1], paths[4][1][1]))
    lines = {f"depth {d}, goal {g:.2g}": v[0, :, i] for d, (v, _, _) in paths.items() for i, g in enumerate(goals)}
    yield curves("Singular values of the product", times, lines, "time", "singular value")
