r"""A linear problem on which training generalises and uniform convergence does not (Nagarajan and Kolter).

The label is written into $K$ coordinates; $D$ further ones are junk. One step of gradient descent finds the signal
and adds up the junk of its sample. On a new point that junk is noise which the signal outweighs. On its own sample it
is not: a twin with the junk reversed, which is as likely and as good on new points, errs there.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements


@implements("T05.20")
class NagarajanKolter(eqx.Module):
    r"""$y=\pm1$ with equal chances and $x=(yu,z)$ with $\|u\|^2=1/m$, $z\sim\mathcal N(0,\frac cDI)$ in $\mathbb R^D$.

    $u\in\mathbb R^K$ has equal entries, `noise` is $c$ and `m` the number of points that one trains on. A classifier is
    a vector $w$ of $K+D$ numbers, and errs where $y\,w\cdot x\le0$.

    >>> law = NagarajanKolter(50, 900, 3, 1.0)
    >>> x, y = law.sample(50, key=key)
    >>> float(law.test_error(law.one_step((x, y)))) < 0.001
    True
    """

    m: int = eqx.field(static=True)
    D: int = eqx.field(static=True)
    K: int = eqx.field(static=True)
    noise: Scalar

    def __init__(self, m: int, D: int, K: int = 1, noise: Scalar = 1.0):
        self.m, self.D, self.K = whole("m", m), whole("D", D), whole("K", K)
        positive("noise", real("noise", noise, ""))
        self.noise = noise  # a number stays one: it has the precision of the data

    @property
    def signal(self) -> Float[Array, "K"]:
        r"""$u$, of length $1/\sqrt m$."""
        return jnp.full(self.K, (self.m * self.K) ** -0.5)

    def sample(self, n: int, *, key: PRNGKeyArray) -> tuple[Array, Array]:
        """`n` independent points `x` with the labels `y`, -1 or 1."""
        n = whole("n", n)
        y_key, junk_key = jax.random.split(key)
        y = jax.random.rademacher(y_key, (n,), jnp.result_type(float))
        junk = jax.random.normal(junk_key, (n, self.D)) * jnp.sqrt(self.noise / self.D)
        return jnp.concatenate([y[:, None] * self.signal, junk], 1), y

    def one_step(self, data: tuple, *, step: Scalar = 1.0) -> Float[Array, "K+D"]:
        r"""$w_S=\eta\sum_iy_ix_i$: one step from 0 up the gradient of $\sum_iy_i\,w\cdot x_i$, $\eta$ = `step`."""
        x, y = self._pair(data)
        return positive("step", real("step", step, "")) * (y @ x)

    def flipped(self, v: Float[ArrayLike, "... K+D"]) -> Float[Array, "... K+D"]:
        """Points, or a classifier, with the sign of all junk reversed."""
        v = self._vectors("v", v)
        return jnp.concatenate([v[..., : self.K], -v[..., self.K :]], -1)

    def pruned(self, w: Float[ArrayLike, "... K+D"]) -> Float[Array, "... K+D"]:
        """A classifier without its junk coordinates."""
        w = self._vectors("w", w)
        return jnp.concatenate([w[..., : self.K], jnp.zeros_like(w[..., self.K :])], -1)

    @implements("T05.21")
    def test_error(self, w: Float[ArrayLike, "... K+D"]) -> Float[Array, "..."]:
        r"""$P(y\,w\cdot x\le0)=\Phi\big(-w_1\cdot u\,\sqrt D/(\sqrt c\,\|w_2\|)\big)$, exactly.

        $w_1$ is the part of the signal and $w_2$ that of the junk; without junk it is 0 or 1.
        """
        w = self._vectors("w", w)
        mean = w[..., : self.K] @ self.signal
        variance = self.noise / self.D * jnp.sum(w[..., self.K :] ** 2, -1)
        noisy = variance > 0
        score = mean / jnp.sqrt(jnp.where(noisy, variance, 1.0))  # so that a derivative is finite without junk too
        return jnp.where(noisy, jax.scipy.stats.norm.cdf(-score), (mean <= 0).astype(score.dtype))

    def training_error(self, w: Float[ArrayLike, "... K+D"], data: tuple) -> Float[Array, "..."]:
        """The share of the points of `data` on which `w` errs."""
        x, y = self._pair(data)
        w = self._vectors("w", w)
        return jnp.mean(jnp.einsum("nd,...d->...n", y[:, None] * x, w) <= 0, -1, dtype=w.dtype)

    def _vectors(self, name, v):
        return real(name, v, f"... {self.K + self.D}")

    def _pair(self, data):
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise TypeError(f"data must be a pair (x, y) of points and labels, got {type(data).__name__}.")
        x = real("x", data[0], f"n {self.K + self.D}", dims := {})
        y = real("y", data[1], "n", dims)
        return x, within("y", y, -1.0, 1.0)


@implements("T05.21")
def junk_needed(
    m: Float[ArrayLike, "..."], delta: Float[ArrayLike, "..."], noise: Float[ArrayLike, "..."] = 1.0
) -> Float[Array, "..."]:
    r"""$D=2c^2m\ln(1/\delta)$: with as many junk coordinates one step errs on a new point with less than $\delta$.

    For $\|w_2\|^2$ is close to $mc$, and then the test error is $\Phi(-\sqrt{D/m}/c)\le\frac12e^{-D/(2c^2m)}$.
    """
    m, noise = within("m", real("m", m), 1.0), positive("noise", real("noise", noise))
    delta = within("delta", real("delta", delta), 0.0, 1.0, open="both")
    return 2 * noise**2 * m * jnp.log(1 / delta)
