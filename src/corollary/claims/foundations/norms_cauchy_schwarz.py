"""The Cauchy-Schwarz inequality and its equality case."""

import jax
import jax.numpy as jnp

from corollary.evidence import Size, at_least, at_most, claim, control, equal, printed
from corollary.foundations import cauchy_schwarz_gap, inner, lagrange_gap


@claim(rows=("B01.06",))
def inequality(key, *, dim: Size = 50, samples: Size = 300):
    r"""The inner product of two vectors is at most the product of their lengths, and the gap is a sum of squares.

    In every inner product space $|\langle x,y\rangle|\le\|x\|\|y\|$. In $\mathbb R^n$ the gap is Lagrange's sum:
    $\|x\|^2\|y\|^2-(x^\top y)^2=\sum_{i<j}(x_iy_j-x_jy_i)^2$, which is zero exactly if one vector is a multiple of the
    other ($x=cy$, or $y=0$). The inequality holds for $\langle x,y\rangle=x^\top My$ with $M\succ0$ too, but not for
    indefinite $M$. The factor 4 that (1.7) has on the right is not needed, and with it equality is never attained.
    """
    x_key, y_key, m_key, c_key = jax.random.split(key, 4)
    x, y = jax.random.normal(x_key, (samples, dim)), jax.random.normal(y_key, (samples, dim))
    # vectors at all angles: y is mixed with x in different shares
    y = y + jnp.linspace(-5, 5, samples)[:, None] * x
    root = jax.random.normal(m_key, (dim, dim))
    positive = root @ root.T + jnp.eye(dim)
    signs = jnp.where(jnp.arange(dim) < dim // 2, 1.0, -1.0)
    c = jax.random.normal(c_key, (samples,))

    @jax.jit
    def measure(x, y, positive, c):
        gram = jax.vmap(inner, (0, 0, None))
        lengths = jnp.sqrt(gram(x, x, None) * gram(y, y, None))
        weighted = jnp.sqrt(gram(x, x, positive) * gram(y, y, positive))
        return {
            "inner": jnp.abs(gram(x, y, None)),
            "lengths": lengths,
            "gap": jax.vmap(cauchy_schwarz_gap)(x, y),
            "squares": jax.vmap(lagrange_gap)(x, y),
            "weighted": jnp.abs(gram(x, y, positive)) / weighted,
            "parallel": jax.vmap(lagrange_gap)(x, c[:, None] * x),
            "indefinite": jax.vmap(cauchy_schwarz_gap, (0, 0, None))(x, y, jnp.diag(signs)),
        }

    m = measure(x, y, positive, c)
    # each side is a sum of dim or dim² terms of the size of the product of the squared lengths
    rounding = 4 * dim * 2.3e-16 * float((m["lengths"] ** 2).max())
    yield at_most("absolute inner product against the product of lengths", m["inner"], m["lengths"])
    yield equal("the gap as a sum of squares", m["gap"], m["squares"], atol=rounding)
    yield at_most("cosine in a weighted inner product", m["weighted"], 1.0)
    yield equal("gap of parallel vectors", m["parallel"], 0.0, atol=rounding)
    yield at_least("gap of vectors that are not parallel", m["squares"], 1.0)
    yield control(
        "an indefinite form is no inner product",
        at_least("gap with weights of both signs", m["indefinite"], 0.0, atol=rounding),
    )


@claim(
    rows=("B01.06",),
    erratum="Equality also holds for y = 0 and any x, where no c with x = c y exists.",
)
def equality_only_for_multiples(key, *, dim: Size = 5):
    r"""Equality in the Cauchy-Schwarz inequality implies that x is a multiple of y.

    As printed: equality occurs if and only if there is a constant $c$ with $x_i=cy_i$ for all $i$. For $y=0\neq x$ both
    sides are zero, and $cy=0\neq x$ for every $c$. Right is: one of the two is a multiple of the other.
    """
    x, y = jax.random.normal(key, (dim,)), jnp.zeros(dim)
    yield equal("both sides are equal", inner(x, y) ** 2, inner(x, x) * inner(y, y), atol=0)
    multiples = jnp.linspace(-100, 100, 201)[:, None]
    to_y = jnp.linalg.norm(x - multiples * y, axis=1).min()
    to_x = jnp.linalg.norm(y - multiples * x, axis=1).min()
    yield at_most("least distance of one to a multiple of the other", jnp.minimum(to_x, to_y), 0.0)
    yield printed(at_most("least distance of x to a multiple of y", to_y, 1e-9 * jnp.linalg.norm(x)))
