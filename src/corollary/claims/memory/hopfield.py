"""The dynamics of Hopfield networks: each unit goes where the energy is lower, and the whole comes to rest."""

from typing import Annotated

import jax
import jax.numpy as jnp

from corollary.evidence import Count, Range, Size, at_least, claim, control, equal, monotone, printed
from corollary.memory import (
    asynchronous_path,
    effective_field,
    energy_update,
    field_update,
    hebbian,
    hopfield_energy,
    is_metastable,
    random_signs,
    settle,
    synchronous_path,
)


def _symmetric(key, shape, n):
    """Standard normal weights, symmetric, with zero diagonal."""
    half = jnp.triu(jax.random.normal(key, (*shape, n, n)), 1)
    return half + half.swapaxes(-1, -2)


def _all_states(n):
    return 2.0 * ((jnp.arange(2**n)[:, None] >> jnp.arange(n)) & 1) - 1


@claim(rows=("E01.23", "E01.24", "E01.25"))
def field_form(key, *, instances: Count = 10_000, n: Size = 12):
    r"""The unit of lower energy is the sign of its effective field.

    Let $W$ be symmetric with zero diagonal, $H(X)=-\frac12X^\top WX+b^\top X$ and $H_i=\sum_jw_{ij}X_j-b_i$. Then
    flipping unit $i$ changes the energy by $H(X)-H(X^{(i)})=-2X_iH_i$, so that choosing the value of lower energy
    ($+1$ at a tie) is $X_i\leftarrow\operatorname{sgn}(H_i)$ with $\operatorname{sgn}(0)=+1$. Without biases $X$ and
    $-X$ have one energy.
    """
    keys = jax.random.split(key, 6)
    # whole numbers: fields vanish often, and nothing is rounded
    half = jnp.triu(jax.random.randint(keys[0], (instances, n, n), -2, 3), 1).astype(float)
    weights = half + half.swapaxes(1, 2)
    biases = jax.random.randint(keys[1], (instances, n), -2, 3).astype(float)
    x = random_signs((instances, n), key=keys[2])
    unit = jax.random.randint(keys[3], (instances,), 0, n)
    diagonal = jax.vmap(jnp.diag)(jax.random.randint(keys[4], (instances, n), -2, 3).astype(float))
    lopsided = jax.random.randint(keys[5], (instances, n, n), -2, 3) * (1.0 - jnp.eye(n))

    @jax.jit
    @jax.vmap
    def measure(w, b, x, i):
        flipped = x.at[i].multiply(-1)
        drop = hopfield_energy(w, b, x) - hopfield_energy(w, b, flipped)
        field = effective_field(w, b, x)[i]
        agree = (energy_update(w, b, x, i) == field_update(w, b, x, i)).all()
        even = hopfield_energy(w, 0 * b, x) - hopfield_energy(w, 0 * b, -x)
        return agree, drop, -2 * x[i] * field, field == 0, even

    agree, drop, predicted, tie, even = measure(weights, biases, x, unit)
    yield equal("energy drop of a flip", drop, predicted, rtol=0, atol=0)
    yield equal("the two updates agree", agree, 1, rtol=0, atol=0)
    yield at_least("share of ties among the instances", tie.mean(), 0.01)
    yield equal("energies of X and -X without biases", even, 0.0, rtol=0, atol=0)
    yield control(
        "the diagonal is not zero: it enters the field but not the choice by energy",
        equal("the two updates agree", measure(weights + diagonal, biases, x, unit)[0], 1, rtol=0, atol=0),
    )
    yield control(
        "the weights are not symmetric: the energy sees their symmetric part alone",
        equal("the two updates agree", measure(lopsided, biases, x, unit)[0], 1, rtol=0, atol=0),
    )


@claim(rows=("E01.24", "E01.26"), full={"networks": 2000, "n": 100})
def descent(key, *, networks: Count = 200, n: Size = 50, sweeps: Count = 6):
    r"""Updating one unit at a time never raises the energy, and ends in a local minimum.

    Let $W$ be symmetric with zero diagonal. Along sequential updates in any order $H$ does not increase, and decreases
    strictly at every flip except flips to $+1$ at a tie. Hence the dynamics comes to rest, at a state of which no
    single flip lowers the energy; conversely it rests in every strict local minimum. Neither antisymmetric weights nor
    updating all units at once would do.
    """
    w_key, b_key, x_key, order_key, small_key = jax.random.split(key, 5)
    weights, biases = _symmetric(w_key, (networks,), n), jax.random.normal(b_key, (networks, n))
    starts = random_signs((networks, n), key=x_key)
    orders = jax.random.randint(order_key, (networks, sweeps * n), 0, n)
    energies = jax.vmap(hopfield_energy, (None, None, 0))

    @jax.jit
    @jax.vmap
    def measure(w, b, start, order):
        path = asynchronous_path(w, b, start, order)
        end = settle(w, b, start)
        flips = end.state * (1 - 2 * jnp.eye(n))
        return energies(w, b, path), end.at_rest, energies(w, b, flips).min() - hopfield_energy(w, b, end.state)

    @jax.jit
    def exhaust(w, b):
        states = _all_states(10)
        flips = states[:, None, :] * (1 - 2 * jnp.eye(10))
        gap = jax.vmap(lambda f: energies(w, b, f))(flips) - energies(w, b, states)[:, None]
        return jax.vmap(lambda x: is_metastable(w, b, x))(states), (gap > 0).all(1), energies(w, b, states)

    h, at_rest, gap = measure(weights, biases, starts, orders)
    # an energy is a sum of n² terms of size one, and rounds at n eps or so
    yield monotone("energy along the updates", h, "decreasing", atol=1e-14 * n**1.5, along="update")
    yield equal("runs that come to rest", at_rest, 1, rtol=0, atol=0)
    yield at_least("energy gained by the best flip at the end", gap, 0.0, atol=1e-14 * n**1.5)
    rests, minima, _ = exhaust(_symmetric(small_key, (), 10), jax.random.normal(small_key, (10,)))
    yield equal("all 1024 states of 10 units: at rest = local minimum", rests, minima, rtol=0, atol=0)
    pair, zero, up = jnp.array([[0.0, 1.0], [1.0, 0.0]]), jnp.zeros(2), jnp.ones(2)
    turn = settle(pair * jnp.array([[1.0], [-1.0]]), zero, up, max_sweeps=1000)
    yield control("antisymmetric weights turn for ever", equal("comes to rest within 1000 sweeps", turn.at_rest, 1))
    swing = synchronous_path(-pair, zero, up, 20)
    yield control(
        "all units move at once: two that repel each other swing between (1, 1) and (-1, -1)",
        equal("the last two of 20 synchronous states", swing[-1], swing[-2]),
    )


@claim(rows=("E01.27",))
def one_pattern(key, *, half: Annotated[int, Range(1, 6)] = 4):
    r"""A network that stores one pattern knows nothing but the pattern and its negative.

    Let $n$ be odd and $W=\frac1n(xx^\top-I)$. From every one of the $2^n$ states the sequential dynamics ends in $x$ or
    $-x$: in the nearer one whenever the overlap $x\cdot X$ is at least 3 in size. (At $\pm1$ a field can vanish, and
    the tie decides.) $W$ is symmetric with trace 0.
    """
    n = 2 * half + 1
    x = random_signs((n,), key=key)
    other = random_signs((n,), key=jax.random.fold_in(key, 1)).at[0].set(-x[0]).at[1].set(x[1])
    states = _all_states(n)

    @jax.jit
    def ends(weights):
        return jax.vmap(lambda start: settle(weights, 0.0, start).state)(states)

    # n times the weights: whole numbers, in which a vanishing field is seen to vanish
    weights = jnp.round(n * hebbian(x[None]))
    final, overlap = ends(weights), states @ x
    yield equal("trace", jnp.trace(hebbian(x[None])), 0.0, rtol=0, atol=0)
    yield equal("symmetry", hebbian(x[None]), hebbian(x[None]).T, rtol=0, atol=0)
    yield equal("distance of the end to the nearer of x and -x", n - jnp.abs(final @ x), 0.0, rtol=0, atol=0)
    clear = jnp.abs(overlap) >= 3
    yield equal("which of the two", (final @ x)[clear], n * jnp.sign(overlap[clear]), rtol=0, atol=0)
    both = ends(jnp.round(n * hebbian(jnp.stack([x, other]))))
    yield control(
        "a second pattern is stored",
        equal("distance of the end to the nearer of x and -x", n - jnp.abs(both @ x), 0.0, rtol=0, atol=0),
    )


@claim(
    rows=("E01.27",),
    erratum="The printed W has the diagonal s/n, while the model demands a zero diagonal.",
)
def printed_weights_fit_the_model(key, *, n: Size = 64, s: Size = 10):
    r"""Hebbian weights have a zero diagonal.

    As printed: $W=\frac1n\sum_tx_tx_t^\top$ for a model that was introduced with $w_{ii}=0$. Every $x_{t,i}^2=1$, so
    that $w_{ii}=s/n$. Removing the diagonal repairs it.
    """
    patterns = random_signs((s, n), key=key)
    yield equal("diagonal after its removal", jnp.diag(hebbian(patterns)), 0.0, rtol=0, atol=0)
    full = jnp.diag(hebbian(patterns, zero_diagonal=False))
    yield equal("diagonal of the sum of products: s/n", full, s / n)
    yield printed(equal("diagonal of the sum of products: zero", full, 0.0))
