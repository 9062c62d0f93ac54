r"""The linear recurrent unit: a complex diagonal recurrence that is stable whatever its parameters, and a read-out.

Nothing mixes the channels of the recurrence, all non-linearity is in the map that reads it out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Complex, Float, PRNGKeyArray, PyTree

from corollary._types import Scalar
from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.nets.recurrent.scan import linear_states

LAWS = ("radius", "area")


@implements("E05.19")
def lru_eigenvalues(nu: Float[ArrayLike, "..."], phi: Float[ArrayLike, "..."]) -> Complex[Array, "..."]:
    r"""$\lambda=\exp(-e^\nu+i\varphi)$, of modulus $e^{-e^\nu}\in(0,1)$ for every real $\nu$.

    As numbers: $1-|\lambda|$ rounds to 0 for $\nu$ below about $-37$ in double and $-17$ in single precision, and
    $|\lambda|$ to 0 above about 6.6 and 4.6.
    """
    nu, phi = real("nu", nu), real("phi", phi)
    radius = jnp.exp(-jnp.exp(nu))
    return radius * jnp.cos(phi) + 1j * (radius * jnp.sin(phi))


@implements("E05.19")
def nu_from_radius(radius: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\nu=\log(-\log r)$ for $r\in(0,1)$, the inverse of $r=e^{-e^\nu}$."""
    return jnp.log(-jnp.log(within("radius", real("radius", radius), 0.0, 1.0, open="both")))


@implements("E05.21")
def lru_initialisation(
    units: int,
    low: Scalar = 0.0,
    high: Scalar = 1.0,
    *,
    key: PRNGKeyArray,
    law: str = "radius",
    phase: Scalar = 2 * math.pi,
) -> tuple[Float[Array, "_"], Float[Array, "_"]]:
    r"""$(\nu,\varphi)$ with phases uniform on $[0,2\pi)$ and radii between `low` and `high`.

    `law="radius"`: $r$ uniform (E); `"area"`: $r^2$ uniform (Orvieto et al.), so that $\lambda$ is uniform on the ring,
    as the eigenvalues of a large matrix of independent entries of variance $1/m$ are on the disc. `phase` is the
    largest one, for memories without fast oscillation.
    """
    units, law = whole("units", units), one_of("law", law, LAWS)
    low = within("low", real("low", low, ""), 0.0, 1.0)
    high = within("high", real("high", high, ""), 0.0, 1.0)
    phase = within("phase", real("phase", phase, ""), 0.0)
    r, p = jax.random.split(key)
    dtype = jnp.result_type(float)
    # never quite 0 or 1, where nu is infinite
    share = jax.random.uniform(r, (units,), dtype, minval=jnp.finfo(dtype).eps, maxval=1 - jnp.finfo(dtype).eps)
    radius = low + (high - low) * share if law == "radius" else jnp.sqrt(low**2 + (high**2 - low**2) * share)
    radius = jnp.clip(radius, jnp.finfo(dtype).tiny, 1 - jnp.finfo(dtype).eps)
    return jnp.log(-jnp.log(radius)), phase * jax.random.uniform(p, (units,), dtype)


@implements("E05.20")
class LRU(eqx.Module):
    r"""The cell $\zeta\mapsto\lambda\odot\zeta+Cx$ with $\lambda=\exp(-e^\nu+i\varphi)$ and complex $C$.

    `unroll` runs it step by step, `unroll_linear` in parallel over time. Parameters are real: `inputs` holds real and
    imaginary part of $C$. With `normalised` the rows of $C$ begin of the size $\sqrt{1-|\lambda_j|^2}$, so that white
    noise of variance one makes states of variance one, however long their memory.
    """

    nu: jax.Array
    phi: jax.Array
    inputs: jax.Array

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        key: PRNGKeyArray,
        radii: tuple[float, float] = (0.9, 0.999),
        law: str = "area",
        phase: Scalar = 2 * math.pi,
        normalised: bool = True,
    ):
        inputs, units = whole("inputs", inputs), whole("units", units)
        k1, k2 = jax.random.split(key)
        self.nu, self.phi = lru_initialisation(units, *radii, key=k1, law=law, phase=phase)
        # 1 - exp(-2 exp(nu)) without cancellation
        size = jnp.sqrt(-jnp.expm1(-2 * jnp.exp(self.nu))) if normalised else jnp.ones(units)
        self.inputs = jax.random.normal(k2, (2, units, inputs)) * size[:, None] / jnp.sqrt(2.0 * inputs)

    @property
    def eigenvalues(self) -> Complex[Array, "_"]:
        return lru_eigenvalues(self.nu, self.phi)

    def initial(self) -> Complex[Array, "_"]:
        return jnp.zeros(self.nu.shape, jnp.result_type(self.nu, 1j))

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Complex[Array, "..."]:
        r"""$Cx$ for inputs (..., n)."""
        xs = real("xs", xs, f"... {self.inputs.shape[2]}", finite=False)
        return xs @ self.inputs[0].T + 1j * (xs @ self.inputs[1].T)

    def coefficients(self, xs: Float[ArrayLike, "..."]) -> tuple[Complex[Array, "..."], Complex[Array, "..."]]:
        r"""$\lambda$, the same in every step, and $Cx_t$."""
        return self.eigenvalues, self.drive(xs)

    def step(self, drive: Complex[ArrayLike, "..."], state: Complex[ArrayLike, "..."]) -> Complex[Array, "..."]:
        return self.eigenvalues * state + drive

    def __call__(self, x: Float[ArrayLike, "..."], state: PyTree) -> Array:
        return self.step(self.drive(x), state)


@implements("E05.20")
class LRULayer(eqx.Module):
    r"""From sequences (T, inputs) to sequences (T, outputs): $y_t=f(\mathrm{Re}(W\zeta_t)+Dx_t)$, an `LRU` read out.

    `readout` is any function $f$ of the `outputs` features of one step (the identity by default), where all
    non-linearity is; on an accelerator the steps of the recurrence are computed in parallel.
    """

    cell: LRU
    weight: jax.Array
    skip: jax.Array
    readout: Callable | None

    def __init__(
        self,
        inputs: int,
        units: int,
        outputs: int,
        readout: Callable | None = None,
        *,
        key: PRNGKeyArray,
        **options: Any,
    ):
        inputs, units, outputs = whole("inputs", inputs), whole("units", units), whole("outputs", outputs)
        if readout is not None and not callable(readout):
            raise TypeError(f"readout must be a function of one step's features, got {type(readout).__name__}.")
        c, w, d = jax.random.split(key, 3)
        self.cell = LRU(inputs, units, key=c, **options)
        self.weight = jax.random.normal(w, (2, outputs, units)) / jnp.sqrt(units)
        self.skip = jax.random.normal(d, (outputs, inputs)) / jnp.sqrt(inputs)
        self.readout = readout

    def features(self, xs: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        r"""$\mathrm{Re}(W\zeta_t)+Dx_t$ for all steps."""
        states = linear_states(*self.cell.coefficients(xs))
        return states.real @ self.weight[0].T - states.imag @ self.weight[1].T + xs @ self.skip.T

    def __call__(self, xs: Float[ArrayLike, "T _"]) -> Float[Array, "_ _"]:
        features = self.features(real("xs", xs, f"T {self.skip.shape[1]}", finite=False))
        return features if self.readout is None else jax.vmap(self.readout)(features)
