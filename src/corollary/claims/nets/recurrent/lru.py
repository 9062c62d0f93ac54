"""The linear recurrent unit: eigenvalues that cannot leave the disc, how they begin, and what each remembers."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Size, at_most, claim, control, equal, same_law
from corollary.nets.recurrent import (
    DiagonalSystem,
    LinearSystem,
    LRULayer,
    lru_eigenvalues,
    lru_initialisation,
    nu_from_radius,
    unroll,
)


@claim(rows=("E05.19", "E05.20"))
def modes_of_memory(key, *, units: Size = 4, inputs: Size = 2, steps: Count = 60):
    r"""Every mode of a linear recurrent unit forgets at the rate of its own eigenvalue, which is always below one.

    $\lambda=\exp(-e^\nu+i\varphi)=e^{-e^\nu}(\cos\varphi+i\sin\varphi)$ has $|\lambda|=e^{-e^\nu}\in(0,1)$ for
    all real $\nu$ and $\varphi$, with the inverse $\nu=\log(-\log r)$. In $\zeta_t=\lambda\odot\zeta_{t-1}+Cx_t$ the
    derivative of $\zeta_{t,j}$ by $x_{t-k}$ is $\lambda_j^kC_j$, of size $r_j^k\|C_j\|$ exactly. The real part of a
    read-out $W\zeta_t$ is what a real system of twice the size computes, with $2\times2$ blocks
    $r\begin{pmatrix}\cos\varphi&-\sin\varphi\\ \sin\varphi&\cos\varphi\end{pmatrix}$. Parameters that are
    eigenvalues themselves may leave the disc.
    """

    @jax.jit
    def measure(key):
        cell_key, x_key, nu_key = jax.random.split(key, 3)
        layer = LRULayer(inputs, units, 3, key=cell_key)
        cell, xs = layer.cell, jax.random.normal(x_key, (steps, inputs))

        def last(x):
            state = unroll(cell, x)[-1]
            return jnp.stack([state.real, state.imag])

        # (2, units, steps, inputs), from the last step backwards
        size = jnp.sqrt(jnp.sum(jax.jacrev(last)(xs) ** 2, axis=(0, 3)))[:, ::-1]
        radius = jnp.exp(-jnp.exp(cell.nu))
        first = jnp.linalg.norm(cell.inputs[0] + 1j * cell.inputs[1], axis=-1)
        # the same in real numbers: real and imaginary parts as coordinates
        lam = cell.eigenvalues
        matrix = jnp.block([[jnp.diag(lam.real), -jnp.diag(lam.imag)], [jnp.diag(lam.imag), jnp.diag(lam.real)]])
        dense = unroll(LinearSystem(matrix, jnp.concatenate([cell.inputs[0], cell.inputs[1]])), xs)
        answers = dense @ jnp.concatenate([layer.weight[0], -layer.weight[1]], axis=1).T + xs @ layer.skip.T
        nu = jax.random.uniform(nu_key, (100_000,), minval=-30.0, maxval=6.0)
        radii = jnp.concatenate([10.0 ** -jnp.arange(1, 7), 1 - 10.0 ** -jnp.arange(1, 7)])
        # one and the same step, of size one, away from the origin: of the eigenvalue itself, and of nu
        outside = lam / jnp.abs(lam) * (jnp.abs(lam) + 1.0)
        return {
            "slopes": (size, first[:, None] * radius[:, None] ** jnp.arange(steps)),
            "dense": (layer(xs), answers),
            "moduli": jnp.abs(lru_eigenvalues(nu, nu)).max(),
            "polar": (jnp.abs(lam), radius),
            "round trip": (jnp.abs(lru_eigenvalues(nu_from_radius(radii), 1.0)), radii),
            "after": jnp.abs(lru_eigenvalues(cell.nu - 1.0, cell.phi)),
            "outside": jnp.abs(unroll(DiagonalSystem(outside, jnp.ones((units, inputs))), xs)[-1]),
        }

    found = measure(key)
    yield equal("size of the derivative by an earlier input", *found["slopes"], along="lag")
    yield equal("answers of the real system", *found["dense"])
    yield equal("modulus of the eigenvalues", *found["polar"])
    yield equal("radius back from nu", *found["round trip"])
    yield at_most("modulus, 100 000 parameters", found["moduli"], 1 - 5e-14)
    yield at_most("modulus after a step in nu", found["after"], 1.0)
    yield control("a step of the same size in the eigenvalue", at_most("last state", found["outside"], 1e6))


@claim(rows=("E05.21",))
def initialisation(key, *, units: Size = 200, samples: Size = 5000):
    r"""Eigenvalues that are uniform on the disc, as those of a random matrix are, have uniform squared radii.

    With $r\sim\mathrm{Unif}(a,b)$ (E) or $r^2\sim\mathrm{Unif}(a^2,b^2)$ (Orvieto et al.), $\varphi\sim
    \mathrm{Unif}[0,2\pi]$ and $\nu=\log(-\log r)$, the eigenvalues $\exp(-e^\nu+i\varphi)$ have these radii and phases.
    The circular law says that the eigenvalues of a matrix of independent entries of variance $1/m$ fill the unit disc
    evenly: the share $r^2$ of them is within the radius $r$. The second initialisation has that law for $a=0$,
    $b=1$, the first has the share $r$ there, too many near the centre.
    """
    low, high = 0.5, 0.95

    @jax.jit
    def measure(key):
        radius_key, area_key, matrix_key = jax.random.split(key, 3)
        ends = jnp.array([low, 0.0]), jnp.array([high, 1.0])

        def drawn(key, law):
            one = lambda k, a, b: lru_eigenvalues(*lru_initialisation(samples, a, b, key=k, law=law))  # noqa: E731
            return jax.vmap(one)(jax.random.split(key), *ends)

        matrix = jax.random.normal(matrix_key, (units, units)) / units**0.5
        return drawn(radius_key, "radius"), drawn(area_key, "area"), jnp.abs(jnp.linalg.eigvals(matrix))

    (radius, flat), (area, disc), circular = measure(key)
    r2 = lambda t: np.clip((t**2 - low**2) / (high**2 - low**2), 0, 1)  # noqa: E731
    r1 = lambda t: np.clip((t - low) / (high - low), 0, 1)  # noqa: E731
    yield same_law("law 'radius': modulus", np.abs(radius), r1, wrong=r2)
    yield same_law("law 'area': modulus", np.abs(area), r2, wrong=r1)
    phase = lambda t: np.clip(t / (2 * np.pi), 0, 1)  # noqa: E731
    half = lambda t: np.clip(t / np.pi, 0, 1)  # noqa: E731
    yield same_law("phase", np.angle(area) % (2 * np.pi), phase, wrong=half)
    inside = lambda t: np.clip(t, 0, 1) ** 2  # noqa: E731
    uniform = lambda t: np.clip(t, 0, 1)  # noqa: E731
    yield same_law("law 'area' on the disc: modulus", np.abs(disc), inside, wrong=uniform)
    # the eigenvalues of a matrix repel each other, so that independence is a safe assumption
    yield same_law("eigenvalues of a normal matrix: modulus", np.minimum(circular, 1), inside, wrong=uniform)
    yield control("law 'radius' on the disc", same_law("modulus", np.abs(flat), inside, wrong=uniform))
