"""What users write: every line must check. Read by the type checker, never run."""

# pyright: standard, reportUnnecessaryTypeIgnoreComment=true

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import corollary
from corollary import BatchLoss, Network, Subject, data, kernels, landscape, linear, nets, optimization

key = jax.random.key(0)
x, y = jnp.ones((20, 3)), jnp.zeros(20)
mlp = eqx.nn.MLP(3, 1, 8, 2, key=key)


def apply(params, one):
    return params["w"] @ one


def absolute_deviation(output, target):
    return jnp.abs(output - target).sum()


network = Network(apply, {"w": jnp.ones((1, 3))})
output = network(x[0])

curvature = landscape.hessian(network, "squared", (x, y))
values: jax.Array = curvature.top(3).values
trace: jax.Array = curvature.trace(key=key).value
size: int = landscape.gauss_newton(mlp, absolute_deviation, (x, y), batch_size=10).size
landscape.hessian(mlp, BatchLoss(lambda network, batch: jnp.mean(jax.vmap(network)(batch))), x)

matrix: jax.Array = kernels.empirical_ntk(mlp, x)
kernels.empirical_ntk(network, x, x, trace=False, batch_size=5)
wide: jax.Array = kernels.ntk(x, depth=2)

trained = nets.fit(mlp, "squared", (x, y), optax.sgd(0.1), steps=3, batch_size=5, key=key)
own = nets.MLP((3, 8, 1), key=key)
nets.fit(own, absolute_deviation, (x, y), optax.adam(1e-3), steps=3)

theta: jax.Array = linear.fit_newton(x, y).theta
loss: jax.Array = linear.logistic_loss(theta, x, y, penalty=0.1)

problem = optimization.least_squares(x, y)
path = optimization.minimize(problem, optax.sgd(0.1), steps=5, key=key)
norms: jax.Array = path.gradient_norm

digits = data.digits()
subject = Subject(own, "cross_entropy", (digits.x, digits.y), learning_rate=0.1)
error: float = subject.error("train")
rooms: tuple[str, ...] = corollary.ROOMS
