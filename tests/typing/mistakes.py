"""What users get wrong, a mistake per line: an `ignore` that ignores nothing is an error too. Never run."""

# pyright: standard, reportUnnecessaryTypeIgnoreComment=true

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary import Network, kernels, landscape, nets

key = jax.random.key(0)
x, y = jnp.ones((20, 3)), jnp.zeros(20)
mlp = eqx.nn.MLP(3, 1, 8, 2, key=key)

Network(apply=3, params={})  # pyright: ignore[reportArgumentType]
landscape.hessian(mlp, "squred", (x, y))  # pyright: ignore[reportArgumentType]
landscape.hessian(mlp, "squared", (x, y), batch=10)  # pyright: ignore[reportCallIssue]
landscape.hessian("model.onnx", "squared", (x, y))  # pyright: ignore[reportArgumentType]
landscape.hessian(mlp, "squared", (x, y)).top(0.5)  # pyright: ignore[reportArgumentType]
print(landscape.hessian(mlp, "squared", (x, y)).top(3).vectros)  # pyright: ignore[reportAttributeAccessIssue]
kernels.empirical_ntk(x, mlp)  # pyright: ignore[reportArgumentType]
kernels.ntk(x, depth="two")  # pyright: ignore[reportArgumentType]
nets.fit(mlp, "squared", (x, y), optax.sgd(0.1))  # pyright: ignore[reportCallIssue]
nets.fit(mlp, "squred", (x, y), optax.sgd(0.1), steps=3)  # pyright: ignore[reportArgumentType]
nets.MLP((3, 8, 1), key)  # pyright: ignore[reportCallIssue]
nets.MLP((3, 8, 1))  # pyright: ignore[reportCallIssue]
