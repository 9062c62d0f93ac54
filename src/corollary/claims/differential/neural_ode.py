"""Neural differential equations trained: minibatches of equations, and the example of a decaying solution."""

from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.differential import NeuralODE, discrete_adjoint, solve, tracking_loss
from corollary.evidence import Count, Size, at_most, claim, control, equal, printed

#: u' = -u - u², u(0) = 1, by Euler's method with 100 steps of 0.01
STEPS, STEP = 100, 0.01


class _Conditional(eqx.Module):
    """A network of the state and of what the equation depends on."""

    mlp: eqx.nn.MLP

    def __init__(self, key):
        self.mlp = eqx.nn.MLP(2, 1, 8, 1, jnp.tanh, key=key)

    def __call__(self, both):
        return self.mlp(jnp.concatenate(both))


@claim(rows=("M22.10", "M22.11"))
def minibatches(key, *, examples: Size = 7):
    r"""The gradient over a minibatch of equations is an unbiased estimate, with the variance of sampling.

    Let $\dot u=m(u,x;\theta)$ with data $(x_i,y_i(\cdot))$, $\Lambda=\frac1N\sum_i\Lambda_i$, and $G$ the mean of the
    adjoint gradients over $M$ examples, all subsets of that size alike. Then $E\,G=\nabla\Lambda$ and
    $E\|G-\nabla\Lambda\|^2=\frac1M\frac{N-M}{N-1}\cdot\frac1N\sum_i\|\nabla\Lambda_i-\nabla\Lambda\|^2$. If examples
    are drawn with unequal probabilities it is biased.
    """

    @jax.jit
    def measure(key):
        network_key, x_key = jax.random.split(key)
        ode = NeuralODE(_Conditional(network_key), horizon=1.5, steps=12, method="euler")
        x = jax.random.uniform(x_key, (examples, 1), minval=0.5, maxval=2.0)

        def target(x):
            """The logistic equation y' = x y (1 - y) from 0.1."""
            return lambda t: 1 / (1 + 9 * jnp.exp(-x * t))

        start = jnp.full(1, 0.1)
        each = jax.vmap(lambda x: _vector(discrete_adjoint(ode, target(x), start, condition=x).gradient))(x)

        def whole(ode):
            return jax.vmap(lambda x: tracking_loss(ode, target(x), start, condition=x))(x).mean()

        return each, _vector(eqx.filter_grad(whole)(ode).network), x[:, 0]

    each, whole, x = (np.asarray(a) for a in measure(key))
    spread = ((each - whole) ** 2).sum(1).mean()
    means, variances, predicted = [], [], []
    for size in (1, 2, 3):
        batches = np.stack([each[list(chosen)].mean(0) for chosen in combinations(range(examples), size)])
        means.append(batches.mean(0))
        variances.append(((batches - whole) ** 2).sum(1).mean())
        predicted.append(spread / size * (examples - size) / (examples - 1))
    yield equal("mean over all minibatches of 1, 2 and 3", np.stack(means), np.stack([whole] * 3), rtol=1e-10)
    yield equal("variance", variances, predicted, rtol=1e-10, x=[1, 2, 3], along="examples in a minibatch")
    uneven = (x / x.sum()) @ each
    yield control(
        "all examples alike: here by the size of x", equal("mean over minibatches of 1", uneven, whole, rtol=1e-10)
    )


def _vector(tree):
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))])


def _target_path():
    return solve(lambda u: -u - u**2, jnp.ones(1), STEP * jnp.arange(STEPS + 1), method="euler")


def _integral(path, against):
    return STEP / 2 * ((path[1:] - against) ** 2).sum()


@claim(rows=("M22.18",), full={"steps": 20_000})
def decay_learned(key, *, steps: Count = 1_500, width: Size = 32):
    r"""A ReLU network learns the right-hand side of an equation from one solution.

    The equation is $\dot u=-u-u^2$, $u(0)=1$: Euler's method with 100 steps of 0.01 from 1, RMSprop on
    $\frac12\int_0^1(v-u)^2dt$ with the text's falling steps: the solution is learned to 0.01 at every time, and
    the right-hand side on the states visited is nearer, on average, than the best constant one. A network that is
    trained on the constant solution $u=1$ in place of that does not learn it.
    """

    @jax.jit
    def measure(key):
        target = _target_path()
        rates = optax.piecewise_constant_schedule(
            0.01, {steps * k // 6: f for k, f in zip((1, 2, 3, 4, 5), (0.5, 0.5, 0.4, 0.5, 0.2), strict=True)}
        )
        optimiser = optax.rmsprop(rates, decay=0.99)

        def trained(against):
            network = eqx.nn.MLP(1, 1, width, 2, key=key)
            params, static = eqx.partition(network, eqx.is_inexact_array)

            def path(params):
                return NeuralODE(eqx.combine(params, static), steps=STEPS, method="euler").path(jnp.ones(1))

            def onward(state, _):
                params, memory = state
                gradient = jax.grad(lambda p: _integral(path(p), against[1:]))(params)
                updates, memory = optimiser.update(gradient, memory)
                return (optax.apply_updates(params, updates), memory), None

            (params, _), _ = jax.lax.scan(onward, (params, optimiser.init(params)), length=steps)
            slopes = jax.vmap(eqx.combine(params, static))(target)
            true = -target - target**2
            constant = jnp.abs(true - jnp.median(true)).mean()  # what the best constant leaves
            return jnp.abs(path(params) - target).max(), jnp.abs(slopes - true).mean() / constant

        return jnp.stack(trained(target)), jnp.stack(trained(jnp.ones_like(target)))

    (worst, field), (other, _) = measure(key)
    yield at_most("distance from the solution", worst, 0.01)
    yield at_most("error of the right-hand side over that of the best constant", field, 1.0)
    yield control("the data are of this equation: here constant", at_most("distance from the solution", other, 0.01))


@claim(
    rows=("M22.18",),
    erratum="The listing compares v_{i+1} with u_i, one step off: its loss is not that of the text.",
)
def listing_of_the_example(key):
    r"""The listing's loss of the true dynamics is 4.07e-5, where it should be 0.

    Printed: the loss is $\frac12\int_0^1(u-v)^2dt$, computed as $\sum_i\frac{dt}2(v_{i+1}-u_i)^2$. At $v=u$ that is
    $\frac{dt}2\sum_i(u_{i+1}-u_i)^2$, above the $2.93\cdot10^{-5}$ that is reported after training. Compared with
    $u_{i+1}$ it is 0.
    """
    target = jax.jit(_target_path)()
    yield equal("loss of the truth, compared with its own time", _integral(target, target[1:]), 0.0, rtol=0, atol=1e-15)
    # half of the last digit of 4.07e-5
    yield equal("loss of the truth, one step off", _integral(target, target[:-1]), 4.07e-5, rtol=0, atol=5e-8)
    yield printed(equal("loss of the truth by the listing", _integral(target, target[:-1]), 0.0, rtol=0, atol=2.93e-5))
