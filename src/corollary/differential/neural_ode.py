r"""The neural ordinary differential equation $\dot u=m(u;\theta)$, as a network of its own."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from corollary._engine.runge_kutta import METHODS
from corollary._types import NetworkLike
from corollary._validate import one_of, positive, whole
from corollary.catalog import implements
from corollary.differential.solve import solve


@implements("M22.01", "M22.10")
class NeuralODE(eqx.Module):
    r"""A network $m$ as the right-hand side of $\dot u=m(u;\theta)$ on $[0,T]$, solved with `steps` equal steps.

    Called with $u(0)$ it returns $u(T)$: a network of continuous depth, which everything that takes a network takes.
    With a `condition` $x$ the right-hand side is $m(u,x;\theta)$: the network is called with the pair `(u, x)`.

    >>> ode = NeuralODE(lambda u: -u, horizon=1.0, steps=100)
    >>> print(ode(jnp.ones(2)))
    [0.368 0.368]
    """

    network: Any
    horizon: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    method: str = eqx.field(static=True)

    def __init__(
        self,
        network: NetworkLike,
        *,
        horizon: float = 1.0,
        steps: int = 20,
        method: Literal["euler", "rk4"] = "rk4",
    ):
        if not callable(network):
            raise TypeError(f"network must be a function of the state, got {type(network).__name__}.")
        if isinstance(horizon, bool) or not isinstance(horizon, int | float):
            raise TypeError(f"horizon must be a number, got {type(horizon).__name__}.")
        self.network, self.horizon = network, float(positive("horizon", horizon))
        self.steps, self.method = whole("steps", steps), one_of("method", method, METHODS)

    @property
    def times(self) -> Float[Array, "t"]:
        """The times of the steps, 0 and T among them."""
        return jnp.linspace(0.0, self.horizon, self.steps + 1)

    def field(self, u: Float[Array, "..."], condition: Any = None) -> Float[Array, "..."]:
        """The right-hand side at the state `u`."""
        return self.network(u) if condition is None else self.network((u, condition))

    def path(self, start: Float[ArrayLike, "..."], condition: Any = None) -> Float[Array, "t ..."]:
        """The states at all `times`."""
        return solve(lambda u: self.field(u, condition), start, self.times, method=self.method)

    def __call__(self, start: Float[ArrayLike, "..."], condition: Any = None) -> Float[Array, "..."]:
        """The state at the end."""
        return self.path(start, condition)[-1]
