"""Wide networks are nearly linear around their initial weights (B section 6.4, Problem 2)."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Positive, Range, Size, at_most, claim, control, equal, rate
from corollary.landscape import FixedTopNetwork, linearisation_bound, linearised
from corollary.nets import relu, softplus, tanh

# the largest second derivatives: of tanh at artanh(1/sqrt 3), of softplus at 0
SMOOTHNESS = {"tanh": 4 / (3 * np.sqrt(3)), "softplus": 0.25}


@claim(rows=("B06.24",))
def linear_around_the_start(
    key, *, dim: Size = 5, radius: Positive = 0.3, networks: Annotated[int, Range(32, 2000)] = 400
):
    r"""The wider a network, the more nearly it is linear within a given distance of its initial weights.

    For $f(W)=\sum_ja_j\sigma(w_j\cdot x)$ with $a_j=\pm\frac1{\sqrt m}$ and $\beta$-smooth $\sigma$, $f_0$ being its
    linearisation at $W_0$, $|f(W)-f_0(W)|\le\frac\beta{2\sqrt m}\|W-W_0\|_F^2\|x\|^2$. The power of $m$ is attained
    by moving the single unit of largest curvature along $x$, and nearly the constant too; a move that is spread over
    all units at random comes with $m^{-1}$. ReLU is not smooth: across its kink no $\beta$ suffices for small moves.
    """
    widths = 2 ** np.arange(5, 11)
    largest = int(widths[-1])

    def gap(network, move, x):
        return jnp.abs(network.at(network.weight + move)(x) - linearised(network, network.weight + move, x))

    @jax.jit
    def measure(key):
        x_key, n_key = jax.random.split(key)
        x = jax.random.normal(x_key, (dim,))
        x = x / jnp.linalg.norm(x)

        def one(key, m, phi):
            network_key, move_key = jax.random.split(key)
            network = FixedTopNetwork(dim, largest, phi, key=network_key)
            # a network of m units within the largest one, so that all widths are one program
            inside = jnp.arange(largest) < m
            top = jnp.where(inside, jnp.sign(network.top), 0.0) / jnp.sqrt(m)
            network = eqx.tree_at(lambda n: n.top, network, top)
            curvature = jnp.where(inside, jnp.abs(phi.second(network.weight @ x)), -1.0)
            single = radius * jax.nn.one_hot(jnp.argmax(curvature), largest)[:, None] * x
            spread = jnp.where(inside[:, None], jax.random.normal(move_key, (largest, dim)), 0.0)
            spread = radius * spread / jnp.linalg.norm(spread)
            return jnp.maximum(gap(network, single, x), gap(network, -single, x)), gap(network, spread, x)

        def many(phi):
            keys = jax.random.split(n_key, networks)
            return jax.lax.map(lambda m: jax.vmap(lambda k: one(k, m, phi))(keys), jnp.asarray(widths))

        def kink(size):
            # a unit just below its kink: a small move takes it across
            network = FixedTopNetwork(dim, 64, relu, key=key)
            network = network.at(network.weight.at[0].set(-1e-6 * size * x))
            move = jnp.zeros((64, dim)).at[0].set(size * x)
            return gap(network, move, x), linearisation_bound(network, network.weight + move, x, 1.0)

        return {"tanh": many(tanh), "softplus": many(softplus())}, jax.vmap(kink)(jnp.array([1.0, 0.1, 0.01]))

    found, (kinked, kinked_bound) = measure(key)
    for name, (single, spread) in found.items():
        bound = SMOOTHNESS[name] / (2 * np.sqrt(widths)) * radius**2
        worst = jnp.maximum(single, spread).max(1)
        yield at_most(f"{name}: distance from the linearisation", worst, bound, x=widths, along="m")
        yield rate(f"{name}: one unit moved along x", widths, single.mean(1), -0.5, tolerance=0.05, along="m")
        # the root mean square over networks fluctuates by 1/sqrt(2 networks), about 4 %, over a range of log 32
        root = jnp.sqrt(jnp.mean(spread**2, axis=1))
        yield rate(f"{name}: moves spread at random", widths, root, -1.0, tolerance=0.2, along="m")
    closest = found["softplus"][0].max(1) * 2 * np.sqrt(widths) / (SMOOTHNESS["softplus"] * radius**2)
    # the second derivative of softplus falls by less than radius^2 / 4 over the move
    yield equal("softplus: how much of the bound is used", closest, 1.0, rtol=radius**2 / 4, x=widths, along="m")
    yield control(
        "a smooth activation: here a small move across the kink of ReLU",
        at_most("distance, β = 1", kinked, kinked_bound),
    )
