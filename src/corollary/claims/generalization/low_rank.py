"""Small singular values left out, of one matrix and of all layers of a network."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Range, Size, at_most, claim, control, equal
from corollary.generalization import truncate_singular_values, truncation_level


def _rotations(key, shape, n):
    return jnp.linalg.qr(jax.random.normal(key, (*shape, n, n)))[0]


@claim(rows=("T05.33",))
def truncated_matrix(key, *, n: Annotated[int, Range(5, 100)] = 30, instances: Size = 20):
    r"""Without its small singular values a matrix is near, and of a rank near its stable rank.

    Leave out the singular values below $\delta\|A\|_2$: $\|\hat A-A\|_2\le\delta\|A\|_2$ and
    $\operatorname{rank}\hat A\le\|A\|_F^2/(\delta^2\|A\|_2^2)$. Here the singular values are powers of a uniform
    variable, and norms and ranks are NumPy's. If one is 1 and the others are $\delta$, the rank $n$ is
    $n/(n-1+\delta^{-2})$ of its bound; a matrix whose second value is just below $\delta$ changes by as much as it may.
    A matrix that keeps all of its values has a rank beyond the bound.
    """
    deltas = np.array([0.03, 0.1, 0.3, 0.9])

    @jax.jit
    def measure(key):
        u_key, v_key, power_key, s_key = jax.random.split(key, 4)
        s = jax.random.uniform(s_key, (instances, n)) ** jax.random.uniform(power_key, (instances, 1), maxval=8.0)
        u, v = _rotations(u_key, (instances,), n), _rotations(v_key, (instances,), n)
        a = jnp.einsum("inr,ir,imr->inm", u, s, v)
        # of the worst cases: one is 1 and the others δ, or the second just below δ and the others 0
        line = jnp.arange(n)
        edge = jnp.stack([jnp.where(line == 0, 1.0, deltas[2]), jnp.where(line == 0, 1.0, 0.0).at[1].set(0.2999)])
        b = jnp.einsum("nr,ir,mr->inm", u[0], edge, v[0])
        found = jax.lax.map(lambda m: [truncate_singular_values(m, delta) for delta in deltas], a)
        close = jax.lax.map(lambda m: truncate_singular_values(m, deltas[2] * (1 - 1e-9)), b)  # rounding of the values
        return a, jnp.stack([f.matrix for f in found]), b, close.matrix

    a, found, b, close = (np.asarray(v) for v in measure(key))
    norm, square = np.linalg.norm(a, 2, (1, 2)), np.linalg.norm(a, axis=(1, 2)) ** 2
    away = np.linalg.norm(found - a, 2, (2, 3))
    # a difference of two decompositions: a few units in the last place of the norm
    yield at_most("distance from the matrix", away, deltas[:, None] * norm, atol=1e-12)
    bound = square / (deltas[:, None] * norm) ** 2
    yield at_most("rank", np.linalg.matrix_rank(found, tol=1e-9), bound)
    tight = np.linalg.norm(b, axis=(1, 2)) ** 2 / 0.3**2
    yield at_most("rank if the others are δ", np.linalg.matrix_rank(close[0], tol=1e-9), tight[0], rtol=1e-6)
    yield equal("distance if the second is just below δ", np.linalg.norm(close[1] - b[1], 2), 0.2999)
    yield control(
        "small singular values are left out: here none",
        at_most("rank", np.broadcast_to(np.linalg.matrix_rank(a), bound.shape), bound),
    )


def _network(weights, x, slope=1.0):
    """A_d φ(... φ(A_1 x)) for φ = slope · ReLU."""
    for weight in weights[:-1]:
        x = slope * jnp.maximum(weight @ x, 0)
    return weights[-1] @ x


@claim(rows=("T05.34",))
def truncated_network(
    key, *, width: Annotated[int, Range(5, 60)] = 20, n: Annotated[int, Range(5, 200)] = 40, outputs: Size = 3
):
    r"""With all layers truncated no output of a ReLU network moves by more than a third of the margin.

    $f(x)=A_d\phi(\cdots\phi(A_1x))$ with ReLUs and $\|x\|\le R$; every $A_i$ loses its singular values below
    $\delta\|A_i\|_2$, $\delta=\gamma/(3dR\prod_j\|A_j\|_2)$. One layer alone moves the output by $\gamma/(3d)$ at most,
    and all of them by $\gamma/3$, because truncation makes no norm larger (the exercise asks for $\gamma$). For random
    layers with falling singular values, $d=1..5$; and for two layers of which one loses what the other keeps, where
    the bound for one layer is met. With an activation of slope 3 it is exceeded.
    """
    depths = np.arange(1, 6)

    @jax.jit
    def measure(key):
        results = []
        for depth, depth_key in zip(depths, jax.random.split(key, len(depths)), strict=True):
            x_key, *layer_keys = jax.random.split(depth_key, 1 + depth)
            x = jax.random.normal(x_key, (n, width))
            x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
            turns = jnp.concatenate([_rotations(k, (2,), width) for k in layer_keys])
            fall = jnp.exp(-jnp.arange(width) / 3)
            weights = [turns[2 * i] * fall @ turns[2 * i + 1] for i in range(depth)]
            weights[-1] = weights[-1][:outputs]
            norms = jnp.stack([jnp.linalg.norm(w, 2) for w in weights])
            margin = 0.9 * jnp.prod(norms)
            delta = truncation_level(norms, margin, 1.0)
            low = [truncate_singular_values(w, delta).matrix for w in weights]

            def moved(layers, weights=weights, x=x):
                difference = jax.vmap(lambda p: _network(layers, p) - _network(weights, p))(x)
                return jnp.max(jnp.linalg.norm(difference, axis=1))

            alone = jnp.stack([moved([*weights[:i], low[i], *weights[i + 1 :]]) for i in range(depth)])
            results.append((jnp.max(alone), moved(low), margin))
        return results

    alone, together, margins = (np.asarray(a) for a in zip(*measure(key), strict=True))
    yield at_most("one layer truncated", alone, margins / (3 * depths), x=depths, along="layers", atol=1e-12)
    yield at_most("all layers truncated", together, margins / 3, x=depths, along="layers", atol=1e-12)
    # the first layer turns the input into the direction whose value, just below δ, the second one loses
    margin, share = 0.6, 1 - 1e-9
    delta = truncation_level(np.ones(2), margin, 1.0)
    first, second = jnp.array([[0.0, 1.0], [1.0, 0.0]]), jnp.diag(jnp.array([1.0, share * delta]))
    low = truncate_singular_values(second, delta).matrix
    steep, plain = (
        jnp.abs(_network([first, second], jnp.array([1.0, 0.0]), s) - _network([first, low], jnp.array([1.0, 0.0]), s))
        for s in (3.0, 1.0)
    )
    yield equal("one of two layers truncated, at the bound", plain.max(), margin / 6, rtol=1e-8)
    yield control("ReLUs have slope 1: here 3", at_most("one of two layers truncated", steep.max(), margin / 6))
