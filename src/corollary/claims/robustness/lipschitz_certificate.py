"""Margins over Lipschitz constants: exact for linear classifiers, and out of reach of attacks on networks."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.claims._drawn import drawn
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal
from corollary.robustness import lipschitz_certificate


def _attacked(network, x, y, radius, key, steps=30, starts=5):
    """The least margin that projected steps down its gradient find within `radius` of each point, and where."""

    def margin(z, label):
        out = network(z)
        return out[label] - jnp.max(jnp.where(jnp.arange(out.size) == label, -jnp.inf, out))

    def one(x, label, radius, key):
        def step(z, size):
            slope = jax.grad(margin)(z, label)
            moved = z - size * radius * slope / jnp.maximum(jnp.linalg.norm(slope), 1e-30) - x
            # inside by more than the rounding of the sum with x
            within = (1 - 1e-12) * radius / jnp.maximum(jnp.linalg.norm(moved), 1e-300)
            moved = moved * jnp.minimum(1, within)
            return x + moved, (margin(x + moved, label), jnp.linalg.norm(moved))

        begin = jax.random.normal(key, (starts, x.size))
        begin = x + 0.5 * radius * begin / jnp.linalg.norm(begin, axis=1, keepdims=True)
        sizes = jnp.geomspace(1.0, 0.02, steps)
        _, (found, moved) = jax.vmap(lambda z: jax.lax.scan(step, z, sizes))(begin)
        return jnp.min(found), jnp.min(jnp.where(found < 0, moved, jnp.inf))

    return jax.vmap(one)(x, y, radius, jax.random.split(key, x.shape[0]))


@claim(rows=("T18.11",))
def margin_over_lipschitz_constant(key, *, points: Size = 200, dim: Annotated[int, Range(2, 30)] = 5):
    r"""A margin over the greatest slope of margins is a radius within which the class cannot change.

    If $\|f(z)-f(z')\|\le L\|z-z'\|$, then $f$ with the margin $m=f(x)_y-\max_{j\ne y}f(x)_j>0$ is $\gamma$-robust at
    $(x,y)$ for every $\gamma<m/(\sqrt2L)$, and with one output, whose sign is the class, for every $\gamma<m/L$. For
    one linear output, and for two opposite ones, that is the distance to the boundary; for several linear ones it is at
    most $\min_jm_j/\|w_y-w_j\|$. For a random network no attack within it succeeds, and what attacks find is further
    away. $L$ must bound the slope everywhere: that at the point itself does not suffice.
    """
    w_key, x_key, net_key, attack_key, slope_key = jax.random.split(key, 5)
    w, x = jax.random.normal(w_key, (4, dim)), jax.random.normal(x_key, (points, dim))
    line = Network(lambda w, z: w @ z, w[0])
    y = (x @ w[0] > 0).astype(int)
    found = lipschitz_certificate(line, (x, y), key=slope_key)
    exact = jnp.abs(x @ w[0]) / jnp.linalg.norm(w[0])
    yield equal("one linear output: radius and distance to the boundary", found.radius, exact)
    both = Network(lambda w, z: jnp.stack([-w, w]) @ z, w[0])
    yield equal("two opposite ones", lipschitz_certificate(both, (x, y), key=slope_key).radius, exact)
    four = Network(lambda w, z: w @ z, w)
    outputs = x @ w.T
    label = jnp.argmax(outputs, 1)
    own = jax.nn.one_hot(label, 4, dtype=bool)
    gaps = jnp.max(outputs, 1, keepdims=True) - outputs
    apart = jnp.linalg.norm(w[label][:, None] - w, axis=2)
    nearest = jnp.min(jnp.where(own, jnp.inf, gaps / jnp.where(own, 1, apart)), 1)
    certified = lipschitz_certificate(four, (x, label), key=slope_key).radius
    yield at_most("four linear outputs: radius", certified, nearest)

    network = drawn(lambda k: eqx.nn.MLP(dim, 3, 16, 2, jnp.tanh, key=k), net_key, gain=1.5)
    label = jnp.argmax(jax.vmap(network)(x), 1)
    made = lipschitz_certificate(network, (x, label), key=slope_key)

    @eqx.filter_jit
    def attack(network, x, label, radius, margins):
        # at least the operator norm of the derivative at each point
        slopes = jnp.linalg.norm(jax.vmap(jax.jacobian(network))(x), axis=(1, 2))
        radii = jnp.stack([radius, jnp.full(len(x), 3.0), margins / (2**0.5 * slopes)])
        return jax.vmap(lambda r: _attacked(network, x, label, r, attack_key))(radii)

    (least, _, local), (_, away, _) = map(np.asarray, attack(network, x, label, made.radius, made.margins))
    yield at_least("least margin that attacks find within the radius", least, 0.0, rtol=0)
    reached = np.isfinite(away)
    yield at_most("radius, against the nearest change that attacks find", made.radius[reached], away[reached])
    yield control(
        "a constant that holds everywhere: here the slope at each point",
        at_least("least margin that attacks find within the radius", local, 0.0, rtol=0),
    )
