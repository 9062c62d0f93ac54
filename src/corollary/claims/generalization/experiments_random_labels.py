"""Networks that fit random labels, and the norms that they need for it."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Range, Size, at_least, claim, control, equal
from corollary.generalization import norm_bounded_complexity


@claim(rows=("B08.25",))
def random_labels(
    key,
    *,
    n: Annotated[int, Range(20, 200)] = 60,
    d: Size = 15,
    width: Annotated[int, Range(20, 2000)] = 200,
    labellings: Annotated[int, Range(2, 20)] = 5,
    steps: Annotated[int, Range(100, 5000)] = 600,
):
    r"""A wide network fits random labels without an error, and the bound by its norms says nothing.

    Two layers of ReLU units without biases, trained on $n$ points of length 1 with labels that are coins: every
    labelling is fitted, and so the best correlation of their signs with random signs is 1, the largest that the
    Rademacher complexity can be. $(2B)^2/\sqrt n$ with the trained norms $B$ is above 1, for random labels and for
    those of a direction. A single unit does not fit them.
    """
    optimiser = optax.adam(0.02)

    def output(weights, x):
        return jnp.maximum(x @ weights[0].T, 0) @ weights[1]

    @jax.jit
    def measure(key):
        x_key, y_key, w_key = jax.random.split(key, 3)
        x = jax.random.normal(x_key, (n, d))
        x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
        random = jnp.where(jax.random.bernoulli(y_key, 0.5, (labellings, n)), 1.0, -1.0)
        labels = jnp.concatenate([random, jnp.sign(x[:, 0])[None]])

        def trained(units):
            def fit(y):
                first, second = jax.random.normal(w_key, (units, d)), jax.random.normal(y_key, (units,))
                start = first, second / np.sqrt(units)

                def step(state, _):
                    weights, memory = state
                    slope = jax.grad(lambda w: jnp.mean(jnp.logaddexp(0.0, -y * output(w, x))))(weights)
                    change, memory = optimiser.update(slope, memory)
                    return (optax.apply_updates(weights, change), memory), None

                (weights, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), None, length=steps)
                fitted = jnp.mean(y * jnp.sign(output(weights, x)))
                return fitted, jnp.maximum(jnp.linalg.norm(weights[0]), jnp.linalg.norm(weights[1]))

            return jax.vmap(fit)(labels)

        return *trained(width), *trained(1)

    fitted, norms, single, _ = (np.asarray(a) for a in measure(key))
    yield equal("mean of labels times signs, each labelling", fitted[:-1], 1.0)
    yield at_least("bound by the norms: random labels, and a direction", norm_bounded_complexity(n, norms, 2), 1.0)
    yield control("the network is wide: here one unit", equal("mean of labels times signs", single[:-1], 1.0))
