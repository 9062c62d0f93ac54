r"""Linear time-invariant systems $z_{t+1}=Az_t+Bx_t$, in any basis and in that of the eigenvectors."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Complex, Float, Inexact, PyTree

from corollary._show import shown
from corollary._types import Scalar
from corollary._validate import real, whole
from corollary.catalog import implements


@implements("E05.17")
class LinearSystem(eqx.Module):
    r"""The cell $z\mapsto Az+Bx$ with $A\in\mathbb R^{m\times m}$ and $B\in\mathbb R^{m\times n}$."""

    transition: jax.Array
    inputs: jax.Array

    def __init__(self, transition: Float[ArrayLike, "m k"], inputs: Float[ArrayLike, "m n"]):
        dims = {}
        self.transition = _square("transition", real("transition", transition, "m k", dims))
        self.inputs = real("inputs", inputs, "m n", dims)

    def initial(self) -> Float[Array, "_"]:
        return jnp.zeros(self.inputs.shape[0], jnp.result_type(self.transition, self.inputs))

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Float[Array, "..."]:
        return real("xs", xs, f"... {self.inputs.shape[1]}", finite=False) @ self.inputs.T

    def step(self, drive: Float[ArrayLike, "..."], state: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        return state @ self.transition.T + drive

    def __call__(self, x: Float[ArrayLike, "..."], state: PyTree) -> Array:
        return self.step(self.drive(x), state)


@implements("E05.17")
class DiagonalSystem(eqx.Module):
    r"""The cell $\zeta\mapsto\lambda\odot\zeta+Cx$ with complex $\lambda$ (m,) and $C$ (m, n).

    `unroll` runs it step by step, `unroll_linear` in parallel.
    """

    eigenvalues: jax.Array
    inputs: jax.Array

    def __init__(self, eigenvalues: ArrayLike, inputs: ArrayLike):
        eigenvalues, inputs = jnp.asarray(eigenvalues), jnp.asarray(inputs)
        if eigenvalues.ndim != 1 or inputs.ndim != 2 or inputs.shape[0] != eigenvalues.shape[0]:
            raise ValueError(
                f"eigenvalues and inputs must have shapes (m,) and (m, n), got {eigenvalues.shape} and {inputs.shape}."
            )
        self.eigenvalues, self.inputs = eigenvalues, inputs

    def initial(self) -> Complex[Array, "_"]:
        return jnp.zeros(self.eigenvalues.shape, jnp.result_type(self.eigenvalues, self.inputs))

    def drive(self, xs: Float[ArrayLike, "... _"]) -> Inexact[Array, "..."]:
        return real("xs", xs, f"... {self.inputs.shape[1]}", finite=False) @ self.inputs.T

    def coefficients(self, xs: Float[ArrayLike, "..."]) -> tuple[Complex[Array, "..."], Complex[Array, "..."]]:
        r"""$\lambda$, the same in every step, and $Cx_t$."""
        return self.eigenvalues, self.drive(xs)

    def step(self, drive: Inexact[ArrayLike, "..."], state: Complex[ArrayLike, "..."]) -> Complex[Array, "..."]:
        return self.eigenvalues * state + drive

    def __call__(self, x: Float[ArrayLike, "..."], state: PyTree) -> Array:
        return self.step(self.drive(x), state)


class Diagonalised(NamedTuple):
    r"""$z_t=P\zeta_t$: the system of $\zeta$, and the basis $P$."""

    system: DiagonalSystem
    basis: jax.Array

    __repr__ = shown


@implements("E05.17")
def diagonalise(system: LinearSystem) -> Diagonalised:
    r"""The same system in the basis of its eigenvectors: $A=P\Lambda P^{-1}$, $\zeta=P^{-1}z$, $C=P^{-1}B$.

    Almost every real matrix has such a basis, over the complex numbers. Where there is none, or nearly none, $P$ is
    singular, and its condition number says by how much rounding is multiplied.
    """
    _system(system)
    eigenvalues, basis = jnp.linalg.eig(system.transition)
    return Diagonalised(DiagonalSystem(eigenvalues, jnp.linalg.solve(basis, system.inputs.astype(basis.dtype))), basis)


@implements("E05.17")
def impulse_states(system: LinearSystem, steps: int) -> Float[Array, "_ _ _"]:
    r"""$B,AB,\dots,A^{T-1}B$, (T, m, n): the states after an impulse at each input."""
    _system(system)
    steps = whole("steps", steps)

    def advance(power, _):
        return system.transition @ power, power

    return jax.lax.scan(advance, system.inputs.astype(system.initial().dtype), length=steps)[1]


@implements("E05.17")
def response(system: LinearSystem, xs: Float[ArrayLike, "T _"]) -> Float[Array, "_ _"]:
    r"""$z_t=\sum_{k\le t}A^{t-k}Bx_k$ for all $t$, (T, m), as the convolution with the impulse response.

    $x_t$ counts into $z_t$, as in `unroll`. By Fourier transforms of twice the length, so that nothing wraps around.
    """
    _system(system)
    xs = real("xs", xs, f"T {system.inputs.shape[1]}")
    length = len(xs)
    kernel = jnp.fft.rfft(impulse_states(system, length), 2 * length, axis=0)
    product = jnp.einsum("fmn,fn->fm", kernel, jnp.fft.rfft(xs, 2 * length, axis=0))
    return jnp.fft.irfft(product, 2 * length, axis=0)[:length]


@implements("E05.22")
def input_map(eigenvalues: Complex[ArrayLike, "..."], length: int) -> Complex[Array, "..."]:
    r"""The Vandermonde matrix $V_{jt}=\lambda_j^{T-1-t}$, (m, T): $\zeta_T=Vx$ for a scalar input of $T$ steps, $C=1$.

    Invertible for $m=T$ distinct eigenvalues, so that the last state knows the whole input. Of the eigenvalues
    $re^{2\pi ij/T}$ the singular values are $\sqrt Tr^t$, $t<T$, and the condition number is $r^{-(T-1)}$.
    """
    eigenvalues = jnp.asarray(eigenvalues)
    if eigenvalues.ndim != 1 or eigenvalues.size == 0:
        raise ValueError(f"eigenvalues must have shape (m,), got {eigenvalues.shape}.")
    powers = jnp.arange(whole("length", length) - 1, -1, -1)
    return eigenvalues[:, None] ** powers


@implements("E05.22")
def recover_inputs(
    eigenvalues: Complex[ArrayLike, "..."], state: Complex[ArrayLike, "..."], length: int
) -> Float[Array, "..."]:
    r"""The input $x$, (T,), that led from zero to the last `state` $\zeta_T=Vx$; the smallest one if there are many."""
    eigenvalues, state = jnp.asarray(eigenvalues), jnp.asarray(state)
    if state.shape != eigenvalues.shape:
        raise ValueError(f"state must have the shape of eigenvalues, {eigenvalues.shape}, got {state.shape}.")
    matrix = input_map(eigenvalues, length).astype(jnp.result_type(eigenvalues, 1j))
    # real unknowns: real and imaginary part are two equations
    stacked = jnp.concatenate([matrix.real, matrix.imag])
    return jnp.linalg.lstsq(stacked, jnp.concatenate([state.real, state.imag]).astype(stacked.dtype))[0]


@implements("E05.22")
def ring(radius: Scalar, points: int) -> Complex[Array, "_"]:
    r"""$re^{2\pi ij/m}$, `points` equidistant numbers on the circle of this radius."""
    points = whole("points", points)
    radius = real("radius", radius, "")
    return radius * jnp.exp(2j * jnp.pi * jnp.arange(points) / points)


def _system(system):
    if not isinstance(system, LinearSystem):
        raise TypeError(f"system must be a LinearSystem, got {type(system).__name__}.")


def _square(name, matrix):
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be a square matrix, got shape {matrix.shape}.")
    return matrix
