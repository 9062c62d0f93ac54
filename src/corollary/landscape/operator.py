r"""The curvature of a loss as a linear map that is never formed: Hessian and Gauss-Newton matrix of any network.

An operator is built once from a network, a loss and data, and then applied to vectors, or handed to the methods that
need nothing but products: `top` (extreme eigenpairs), `density` (the whole spectrum), `trace`.

    operator = landscape.hessian(network, "cross_entropy", (x, y))
    operator @ v                                             # v a flat vector, or a matrix of columns
    operator.top(5).values, operator.trace(key=key).value, operator.density(key=key)

What fits in one batch is linearised once, and every product of one call repeats only the linear part. What does not is
summed over batches, so that the memory for activations is that of one batch, whatever the size of the data set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._engine.cpu_ready import cpu_ready
from corollary._types import LossLike, NetworkLike
from corollary._validate import one_of, real, whole
from corollary.landscape.density import Density, spectral_density
from corollary.landscape.lanczos import Eigenpairs, eigenpairs
from corollary.landscape.trace import Trace, hutch_plus_plus, hutchinson
from corollary.network._code import by_code
from corollary.network.apart import require_apart, require_mean
from corollary.network.batches import arrange, count, examples, first_examples, pair
from corollary.network.loss import BatchLoss, ExampleLoss, of_examples, resolved
from corollary.network.parts import is_real, require_network, split

STATISTICS = ("frozen", "recomputed")


class Curvature(eqx.Module):
    r"""A symmetric matrix of second derivatives at `params`, averaged over the data, as a map of vectors.

    `statistics` says what happens to examples that see each other, as in batch normalisation. `"frozen"`: each
    example's loss is its own, and the operator is the exact curvature of the mean loss. `"recomputed"`: every batch is
    normalised by its own statistics, through which derivatives run, and the operator is the mean of the batches'
    curvatures, which depends on the batch size. `scale` is 1 for the mean over the examples, and their number for the
    sum.
    """

    params: Any
    batches: Any
    rest: Any
    fixed: Any
    product: Any = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    statistics: str = eqx.field(static=True, default="frozen")
    scale: int = eqx.field(static=True, default=1)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def dtype(self) -> jnp.dtype:
        return jnp.result_type(*jax.tree.leaves(self.params))

    def matvec(self, vector: PyTree) -> PyTree:
        """The product with one vector: a flat one, or a pytree like `params`; the result is of the same kind."""
        if getattr(vector, "shape", None) == (self.size,):
            return self @ vector
        flat, unravel = ravel_pytree(self.params)
        vector = eqx.filter(vector, is_real)
        if jax.tree.structure(vector) != jax.tree.structure(self.params):
            raise ValueError(
                f"vector must be flat or have the structure of params, {jax.tree.structure(self.params)}, "
                f"got {jax.tree.structure(vector)}."
            )
        return unravel((self @ ravel_pytree(vector)[0]).astype(flat.dtype))

    def __matmul__(self, vectors: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The product with a flat vector `(p,)`, or with the columns of a matrix `(p, k)`."""
        vectors = real("vectors", vectors)
        if vectors.ndim not in (1, 2) or vectors.shape[0] != self.size:
            raise ValueError(f"vectors must have shape ({self.size},) or ({self.size}, k), got {vectors.shape}.")
        return _multiply(self, vectors.astype(self.dtype))

    def top(
        self,
        k: int = 1,
        *,
        which: str = "largest",
        products: int = 1000,
        tolerance: float = 1e-6,
        basis: int | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Eigenpairs:
        """The `k` extreme eigenpairs with bounds on their error: see `corollary.landscape.eigenpairs`.

        >>> print(hessian_of(lambda w: w[0] ** 2 + 3 * w[1] ** 2, jnp.zeros(2)).top(1).values)
        [6.]
        """
        key = jax.random.key(0) if key is None else key
        k = whole("k", k, 1, self.size)
        return _top(self, key, jnp.asarray(tolerance, self.dtype), k, which, products, basis)

    def density(self, *, key: PRNGKeyArray, probes: int = 8, steps: int = 64) -> Density:
        """The spectral density by stochastic Lanczos quadrature: see `corollary.landscape.spectral_density`.

        >>> hessian_of(lambda w: w[0] ** 2 + 3 * w[1] ** 2, jnp.zeros(2)).density(key=key).mass_below(0.0).tolist()
        0.0
        """
        return _density(self, key, whole("probes", probes), min(whole("steps", steps), self.size))

    def trace(self, *, key: PRNGKeyArray, probes: int = 32, method: str = "hutch++") -> Trace:
        """The trace with its standard error, from about `probes` products: `"hutch++"` or `"hutchinson"`.

        >>> found = hessian_of(lambda w: w[0] ** 2 + 3 * w[1] ** 2, jnp.zeros(2)).trace(key=key)
        >>> round(float(found.value), 3)
        8.0
        """
        one_of("method", method, ("hutch++", "hutchinson"))
        return _trace(self, key, whole("probes", probes, 6 if method == "hutch++" else 2), method)

    def dense(self) -> Float[Array, "_ _"]:
        """The matrix itself, for small networks."""
        if self.size > 20_000:
            raise ValueError(
                f"the matrix of {self.size} parameters is too large to form (the limit is 20000): use products with @."
            )
        return self @ jnp.eye(self.size, dtype=self.dtype)

    def linearised(self) -> Callable:
        """The map of flat vectors, for use inside a compiled program: the linear part of one batch is traced once."""
        unravel = ravel_pytree(self.params)[1]

        def linear(batch):
            step = self.product(self.params, batch, self.fixed)
            ready = cpu_ready(lambda v: ravel_pytree(step(unravel(v)))[0])
            return ready if self.scale == 1 else lambda v: self.scale * ready(v)

        if self.batches is None:
            return linear(self.rest)
        last = None if self.rest is None else linear(self.rest)
        return lambda v: self._mean(lambda batch: linear(batch)(v), None if last is None else last(v))

    def value(self) -> Float[Array, ""]:
        """The loss at `params`."""
        return _evaluate(self)[0]

    def gradient(self) -> PyTree:
        """The gradient of the loss at `params`, a pytree like them."""
        return _evaluate(self)[1]

    def _mean(self, function, last=None):
        """The mean of a function of a batch over the data; `last` is its value on what the full batches leave over."""
        if last is None and self.rest is not None:
            last = function(self.rest)
        if self.batches is None:
            return function(None) if last is None else last
        count, size = jax.tree.leaves(self.batches)[0].shape[:2]
        remaining = 0 if self.rest is None else jax.tree.leaves(self.rest)[0].shape[0]
        share = size / (count * size + remaining)
        ready = cpu_ready(function)
        zero = jax.tree.map(
            lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(function, jax.tree.map(lambda a: a[0], self.batches))
        )

        def add(total, batch):
            return jax.tree.map(lambda t, b: t + share * b, total, ready(batch)), None

        total = jax.lax.scan(add, zero, self.batches)[0]
        return total if last is None else jax.tree.map(lambda t, b: t + (1 - count * share) * b, total, last)

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.size} parameters, batch statistics {self.statistics}>"


def hessian(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    *,
    batch_size: int = 4096,
    reduction: str = "mean",
    statistics: str = "frozen",
    trainable: Any = None,
) -> Curvature:
    r"""The Hessian $\nabla^2\Lambda(\theta)$ of the mean loss of `network` over `data`, in its parameters $\theta$.

    `network(x)` takes one example; `loss` is a name, a function of one output and one target, or a `BatchLoss`; `data`
    is the pair `(x, y)`, or what the `BatchLoss` takes, with the examples along the first axis of every array. A
    `BatchLoss` in which the examples of a batch see each other, although the network is in inference mode, is refused
    unless `statistics="recomputed"` says that this is meant; the network then stays in the mode that it has.
    `trainable` selects the parameters: see `corollary.Network`.

    >>> hessian(network, "squared", data).shape
    (21, 21)
    """
    loss = resolved(loss, reduction)
    one_of("statistics", statistics, STATISTICS)
    if isinstance(loss, ExampleLoss):
        return _of_examples(_HessianProduct, "Hessian", network, loss, data, batch_size, trainable)
    parts = split(network, trainable, inference=statistics == "frozen")
    batches = arrange(examples("data", data), batch_size)
    require_mean(loss, parts.join(), first_examples(batches), apart=statistics == "frozen")
    return Curvature(parts.params, *batches, parts.fixed, _HessianProduct(loss), "Hessian", statistics)


def hessian_of(objective: Callable, params: PyTree) -> Curvature:
    r"""The Hessian of a scalar function of parameters alone, `objective(params)`.

    Leaves of `params` that are no real floating-point arrays are held fixed.

    >>> hessian_of(lambda w: w[0] ** 2 + 3 * w[1] ** 2, jnp.zeros(2)).dense().tolist()
    [[2.0, 0.0], [0.0, 6.0]]
    """
    if not callable(objective):
        raise TypeError(f"objective must be a function of the parameters, got {type(objective).__name__}.")
    parts, product = split(params, inference=False, name="params"), _ObjectiveProduct(by_code(objective))
    require_mean(lambda point, _: objective(point), parts.join(), (), apart=False)
    return Curvature(parts.params, None, None, parts.fixed, product, "Hessian")


def gauss_newton(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    *,
    batch_size: int = 4096,
    reduction: str = "mean",
    trainable: Any = None,
) -> Curvature:
    r"""The Gauss-Newton matrix $J^\top H_\ell J$ of the mean of `loss(network(x), y)` over `data = (x, y)`.

    $J$ is the Jacobian of the outputs in the parameters and $H_\ell$ the Hessian of the loss in the outputs. Positive
    semi-definite for a convex loss; the Hessian without the curvature of the network itself, to which it is equal where
    the residuals vanish or the network is linear in its parameters. For cross-entropy it is the Fisher matrix.

    >>> bool(gauss_newton(network, "squared", data).top(1).values[0] > 0)
    True
    """
    loss = of_examples(loss, reduction, who="gauss_newton")
    return _of_examples(_GaussNewtonProduct, "Gauss-Newton matrix", network, loss, data, batch_size, trainable)


def _of_examples(product, kind, network, loss: ExampleLoss, data, batch_size, trainable) -> Curvature:
    require_network(network)
    parts, data = split(network, trainable), pair("data", data)
    require_apart(parts.join(), data[0])
    batches, mean = arrange(data, batch_size), loss._replace(reduction="mean")
    require_mean(mean, parts.join(), first_examples(batches))
    scale = count(data) if loss.reduction == "sum" else 1
    return Curvature(parts.params, *batches, parts.fixed, product(mean), kind, scale=scale)


class _HessianProduct(NamedTuple):
    """Compared by the loss it holds: two operators of one loss share their compiled programs."""

    loss: BatchLoss | ExampleLoss

    def value(self, params, batch, fixed):
        return self.loss(eqx.combine(params, fixed), batch)

    def __call__(self, params, batch, fixed):
        return jax.linearize(jax.grad(lambda p: self.value(p, batch, fixed)), params)[1]


class _ObjectiveProduct(NamedTuple):
    objective: Any

    def value(self, params, batch, fixed):
        return self.objective(eqx.combine(params, fixed))

    def __call__(self, params, batch, fixed):
        return jax.linearize(jax.grad(lambda p: self.value(p, batch, fixed)), params)[1]


class _GaussNewtonProduct(NamedTuple):
    loss: ExampleLoss

    def value(self, params, batch, fixed):
        return self.loss(eqx.combine(params, fixed), batch)

    def __call__(self, params, batch, fixed):
        x, y = batch
        outputs, push = jax.linearize(lambda p: jax.vmap(eqx.combine(p, fixed))(x), params)
        pull = jax.linear_transpose(push, params)
        curve = jax.linearize(jax.grad(lambda f: self.loss.of_outputs(f, y)), outputs)[1]
        return lambda v: pull(curve(push(v)))[0]


@eqx.filter_jit
def _evaluate(operator):
    value = jax.value_and_grad(lambda p, batch: operator.product.value(p, batch, operator.fixed))
    mean = operator._mean(lambda batch: value(operator.params, batch))
    return mean if operator.scale == 1 else jax.tree.map(lambda a: operator.scale * a, mean)


@eqx.filter_jit
def _multiply(operator, vectors):
    linear = operator.linearised()
    # one vector at a time: the activations of many would leave the cache, and multiply the memory of a batch
    return linear(vectors) if vectors.ndim == 1 else jax.lax.map(linear, vectors.T).T


@eqx.filter_jit
def _top(operator, key, tolerance, k, which, products, basis) -> Eigenpairs:
    return eigenpairs(
        operator.linearised(),
        operator.size,
        k,
        which=which,
        key=key,
        products=products,
        tolerance=tolerance,
        basis=basis,
        dtype=operator.dtype,
    )


@eqx.filter_jit
def _density(operator, key, probes, steps) -> Density:
    return spectral_density(
        operator.linearised(), operator.size, key=key, probes=probes, steps=steps, dtype=operator.dtype
    )


@eqx.filter_jit
def _trace(operator, key, probes, method) -> Trace:
    estimate = hutchinson if method == "hutchinson" else hutch_plus_plus
    return estimate(operator.linearised(), operator.size, key=key, probes=probes, dtype=operator.dtype)
