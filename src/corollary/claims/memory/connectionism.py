"""The seven elements of parallel distributed processing, filled in."""

import jax
import jax.numpy as jnp

from corollary.evidence import Size, claim, control, equal
from corollary.linear import perceptron_path, sgn_plus
from corollary.memory import connectionist_hopfield, connectionist_mlp, connectionist_perceptron, layer_schedule


@claim(rows=("E01.22",))
def seven_elements(key, *, s: Size = 15, d: Size = 3, hidden: Size = 4):
    r"""The perceptron, the Hopfield network and the multilayer network are one model with other parts.

    Seven choices make a network: units with states, their output function, a pattern of connectivity, a rule of
    propagation, an activation function, a learning rule, and an environment that says what is good. With the sign as
    activation and updates at mistakes it is the perceptron; with all units joined, one of them updated at a time, and
    Hebb's rule it is the Hopfield network; with a hidden layer and the gradient of the loss it is the multilayer
    network. Each gives the numbers of the network written directly.
    """
    keys = jax.random.split(key, 10)
    units = 32  # a power of two: Hebb's weights and the fields are exact, and ties are ties in any order of summation
    x = jax.random.randint(keys[0], (s, d), -2, 3).astype(float)
    y = jax.random.rademacher(keys[1], (s,)).astype(float)
    patterns = jax.random.rademacher(keys[2], (3, units)).astype(float)
    state = jax.random.rademacher(keys[3], (units,)).astype(float)
    order = jax.random.randint(keys[4], (4 * units,), 0, units)
    sizes = [(hidden, d), (hidden,), (2, hidden), (2,)]
    parameters = [jax.random.normal(k, shape) for k, shape in zip(keys[5:9], sizes, strict=True)]
    targets = jax.random.normal(keys[9], (s, 2))

    @jax.jit
    def measure(x, y, patterns, state, order, parameters, targets):
        learned = connectionist_perceptron(d).learn(x, y, layer_schedule(d, 1)).weights[-1, : d + 1]
        network = connectionist_hopfield(units).learn(patterns, patterns, jnp.zeros((1, units + 1), bool))
        schedule = jnp.arange(units + 1) == order[:, None]
        recalled = network.settle(network.present(state), schedule)[:units]
        schedule = layer_schedule(d, hidden, 2)
        trained = jax.vmap(lambda step: connectionist_mlp(*parameters, step=step).learn(x, targets, schedule).weights)
        return learned, network.weights[:units, :units], recalled, trained(jnp.array([0.05, 0.025]))

    @jax.jit
    def direct(x, y, patterns, state, order, parameters, targets):
        path = perceptron_path(x, y, updates=s)
        after = jnp.sum((path.clock >= 0) & (path.clock < s))  # the updates of the first sweep
        hebb = patterns.T @ patterns / units * (1 - jnp.eye(units))
        recalled = jax.lax.scan(lambda a, i: (a.at[i].set(sgn_plus(hebb[i] @ a)), None), state, order)[0]

        def back(parameters, example):
            """Backpropagation by hand, and a step of gradient descent."""
            (w1, b1, w2, b2), (x, target) = parameters, example
            h = jnp.tanh(w1 @ x + b1)
            delta = w2 @ h + b2 - target
            below = (w2.T @ delta) * (1 - h**2)
            slopes = (jnp.outer(below, x), below, jnp.outer(delta, h), delta)
            return tuple(p - 0.05 * g for p, g in zip((w1, b1, w2, b2), slopes, strict=True)), None

        w1, b1, w2, b2 = jax.lax.scan(back, tuple(parameters), (x, targets))[0]
        full = jnp.zeros((d + 1 + hidden + 2,) * 2)
        full = full.at[d + 1 : d + 1 + hidden, :d].set(w1).at[d + 1 : d + 1 + hidden, d].set(b1)
        full = full.at[d + 1 + hidden :, d + 1 : d + 1 + hidden].set(w2).at[d + 1 + hidden :, d].set(b2)
        return jnp.append(path.w[after], path.b[after]), hebb, recalled, full

    given = (x, y, patterns, state, order, parameters, targets)
    learned, weights, recalled, (trained, halved) = measure(*given)
    rule, hebb, stable, full = direct(*given)
    yield equal("perceptron: (w, b) after a sweep", learned, rule, rtol=0, atol=0)
    yield equal("Hopfield network: Hebb's weights", weights, hebb)
    yield equal("Hopfield network: states after four sweeps", recalled, stable)
    yield equal("multilayer network: parameters after a sweep of gradient descent", trained, full)
    yield control("the learning rule has half the step", equal("multilayer network: parameters", halved, full))
