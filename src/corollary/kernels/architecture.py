r"""An architecture, described once: from it come the finite network and its infinitely wide limits.

```python
network = Architecture([Dense(512, bias_std=0.1), Activation("relu"), Dense(10)])
network.init((784,), key=key)     # the finite network, a `corollary.Network`
network.nngp(x1, x2)              # covariance of its outputs over the weights, as the widths grow
network.ntk(x1, x2)               # its tangent kernel, as the widths grow
network.predict(x, y, new)        # mean and covariance of its outputs after training, over the initialisations
```

All parameters are drawn from N(0, 1) and scaled in the forward pass, weights by `weight_std` over the root of the
fan-in, biases by `bias_std`. Images have shape (height, width, channels), sequences (length, channels).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from corollary._types import Scalar
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.kernels import _covariance
from corollary.kernels.dynamics import Law, trained_law
from corollary.kernels.layers import (
    Flow,
    activations,
    apply_layers,
    checked,
    flow_through,
    init_layers,
    kernel_of,
    pools,
)
from corollary.network.network import Network


@implements("B07.13", "T09.17", "T09.25", "T09.02", "E09.09")
class Architecture(eqx.Module):
    """A list of layers: the finite network (`init`, `apply`) and the kernels of infinite width (`nngp`, `ntk`).

    The widths of the description are those of the finite network; in the limit the kernels do not depend on them.

    >>> wide = Architecture([Dense(8), Activation("relu"), Dense(1)])
    >>> wide.ntk(x).shape, wide.init((3,), key=key)(x[0]).shape
    ((4, 4), (1,))
    """

    layers: tuple

    def __init__(self, layers: Sequence[Any]):
        self.layers = checked("layers", layers)

    def init(self, shape: int | Sequence[int], *, key: PRNGKeyArray, dtype: DTypeLike | None = None) -> Network:
        """The finite network for examples of this shape, its parameters drawn from N(0, 1)."""
        shape = tuple(whole("shape", size) for size in (shape if isinstance(shape, tuple | list) else (shape,)))
        dtype = jnp.result_type(float) if dtype is None else dtype
        return Network(self.apply, init_layers(self.layers, key, Flow(shape), dtype), batched=True)

    def apply(self, params: PyTree, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """Outputs of the finite network on a batch `x`, one example per row."""
        x = _batch("x", x)
        flow_through(self.layers, Flow(x.shape[1:]))
        return apply_layers(self.layers, params, x)

    @implements("B07.17", "T09.20")
    def nngp(self, x1: Float[ArrayLike, "n ..."], x2: Float[ArrayLike, "m ..."] | None = None) -> Float[Array, "n m"]:
        """Covariance over the weights of an output at x1 and at x2, (n1, n2), in the limit of infinite width."""
        return _limit(self, *self._points(x1, x2), "cross")

    @implements("B07.18", "T09.22", "T09.25")
    def ntk(self, x1: Float[ArrayLike, "n ..."], x2: Float[ArrayLike, "m ..."] | None = None) -> Float[Array, "n m"]:
        """Product of the gradients of an output at x1 and at x2, (n1, n2), in the limit of infinite width."""
        return _limit(self, *self._points(x1, x2), "tangent")

    @implements("B07.11")
    def predict(
        self,
        x: Float[ArrayLike, "n ..."],
        y: Float[ArrayLike, "..."],
        new: Float[ArrayLike, "m ..."],
        *,
        time: Scalar | None = None,
        reduction: str = "sum",
    ) -> Law:
        """Mean and covariance over the initialisations of the outputs at `new`, after training on `x` and `y`.

        All parameters of an infinitely wide network, trained by gradient flow on the squared loss for a `time`, or to
        the end: mean (m,), or (m, k) for labels (n, k), and covariance (m, m), the same for each output. See
        `trained_law` for the formula and `reduction`.
        """
        x, new = self._points(x, new)
        y = real("y", y)
        if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
            raise ValueError(f"y must hold one label for each of {x.shape[0]} examples, got shape {y.shape}.")
        points = jnp.concatenate([x, new])
        ntk, nngp = self.ntk(points), self.nngp(points)
        columns = jax.vmap(lambda c: trained_law(ntk, nngp, c, time, reduction=reduction), 1, Law(1, None))
        law = trained_law(ntk, nngp, y, time, reduction=reduction) if y.ndim == 1 else columns(y)
        return Law(law.mean[len(x) :], law.covariance[len(x) :, len(x) :])

    def _points(self, x1, x2):
        x1 = _batch("x1", x1)
        x2 = None if x2 is None else _batch("x2", x2)
        if x2 is not None:
            if x2.shape[1:] != x1.shape[1:]:
                raise ValueError(f"x2 must hold examples of shape {x1.shape[1:]} as x1 does, got {x2.shape[1:]}.")
            dtype = jnp.result_type(x1, x2)
            x1, x2 = x1.astype(dtype), x2.astype(dtype)
        out = flow_through(self.layers, Flow(x1.shape[1:]))
        if len(out.shape) != 1:
            raise ValueError(
                f"layers must end in vectors, got {out.shape}: put Flatten or GlobalAveragePool at the end."
            )
        return x1, x2


@partial(jax.jit, static_argnames="part")
def _limit(network, x1, x2, part):
    state = _covariance.of_inputs(x1, x2, pools(network.layers))
    return getattr(kernel_of(network.layers, state, activations(network.layers) > _covariance.FUSED), part)


def _batch(name, x):
    x = real(name, x)
    if x.ndim < 2 or 0 in x.shape:
        raise ValueError(
            f"{name} must hold examples in its rows, (n, d) or (n, height, width, channels), got {x.shape}."
        )
    return x
