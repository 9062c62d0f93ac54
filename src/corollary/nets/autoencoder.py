r"""The linear autoencoder, its gradients and its optimum, the truncated singular value decomposition.

Data are rows here, (n, d), where the texts have columns: their $X$ is our transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._show import shown
from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.initialisations import uniform_fan_in


@implements("B02.06")
class LinearAutoencoder(eqx.Module):
    r"""$x\mapsto DCx$: the encoder $C\in\mathbb R^{m\times d}$, then the decoder $D\in\mathbb R^{d\times m}$."""

    encoder: jax.Array
    decoder: jax.Array

    def __init__(self, inputs: int, code: int, *, key: PRNGKeyArray, initialisation: Callable = uniform_fan_in):
        inputs, code = whole("inputs", inputs), whole("code", code)
        encoder_key, decoder_key = jax.random.split(key)
        self.encoder = initialisation(encoder_key, (code, inputs), jnp.result_type(float))
        self.decoder = initialisation(decoder_key, (inputs, code), jnp.result_type(float))

    @classmethod
    def of(cls, encoder: Float[ArrayLike, "m d"], decoder: Float[ArrayLike, "d m"]) -> "LinearAutoencoder":
        """The autoencoder with these matrices: `encoder` (m, d) and `decoder` (d, m)."""
        dims = {}
        encoder, decoder = real("encoder", encoder, "m d", dims), real("decoder", decoder, "d m", dims)
        blank = cls(dims["d"], dims["m"], key=jax.random.key(0))
        return eqx.tree_at(lambda a: (a.encoder, a.decoder), blank, (encoder, decoder))

    def encode(self, x: Float[ArrayLike, "_"]) -> Array:
        r"""$z=Cx$."""
        return self.encoder @ real("x", x, str(self.encoder.shape[1]), finite=False)

    def decode(self, z: Float[ArrayLike, "_"]) -> Array:
        r"""$y=Dz$."""
        return self.decoder @ real("z", z, str(self.decoder.shape[1]), finite=False)

    def __call__(self, x: Float[ArrayLike, "..."]) -> Array:
        return self.decode(self.encode(x))


@implements("B02.06")
def reconstruction_loss(autoencoder: Callable, x: Float[ArrayLike, "n d"]) -> Array:
    r"""$\frac1{2n}\sum_i\|x_i-DCx_i\|^2$, for any autoencoder: a map of one example to one of the same size."""
    x = real("x", x, "n d")
    return 0.5 * jnp.mean(jnp.sum((x - jax.vmap(autoencoder)(x)) ** 2, axis=1))


class Gradients(NamedTuple):
    """The derivatives by the two matrices of a linear autoencoder, of their shapes."""

    encoder: jax.Array
    decoder: jax.Array

    __repr__ = shown


@implements("B02.07")
def autoencoder_gradients(autoencoder: LinearAutoencoder, x: Float[ArrayLike, "_"]) -> Gradients:
    r"""$D^\top(y-x)x^\top$ and $(y-x)x^\top C^\top$ at $y=DCx$, the gradients of $\frac12\|x-DCx\|^2$ (one example)."""
    if not isinstance(autoencoder, LinearAutoencoder):
        raise TypeError(f"autoencoder must be a LinearAutoencoder, got {type(autoencoder).__name__}.")
    x = real("x", x, str(autoencoder.encoder.shape[1]))
    residual = autoencoder(x) - x
    return Gradients(jnp.outer(autoencoder.decoder.T @ residual, x), jnp.outer(residual, autoencoder.encoder @ x))


@implements("B02.09", "T17.02")
def truncated_svd(x: Float[ArrayLike, "n d"], rank: int) -> Array:
    r"""$X_r=U_r\Sigma_rV_r^\top$, the nearest matrix of rank at most $r$ in the Frobenius norm.

    It is the only one exactly if $\sigma_r>\sigma_{r+1}$.
    """
    x = real("x", x, "n d")
    rank = whole("rank", rank, 0, min(x.shape))
    u, s, vt = jnp.linalg.svd(x, full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ vt[:rank]


@implements("B02.09")
def rank_error(x: Float[ArrayLike, "n d"], rank: int) -> Array:
    r"""$\min_{\mathrm{rank}\,Y\le r}\|X-Y\|_F=(\sum_{i>r}\sigma_i^2)^{1/2}$, by Eckart and Young."""
    x = real("x", x, "n d")
    rank = whole("rank", rank, 0, min(x.shape))
    return jnp.linalg.norm(jnp.linalg.svd(x, compute_uv=False)[rank:])


@implements("B02.10")
def optimal_autoencoder(x: Float[ArrayLike, "n d"], code: int) -> LinearAutoencoder:
    r"""$C=U_m^\top$, $D=U_m$ with the $m$ leading principal directions of the data: the least loss there is.

    Not the only one: $(MC,DM^{-1})$ is as good for every invertible $M$. With centred data this is PCA.
    """
    x = real("x", x, "n d")
    code = whole("code", code, 1, min(x.shape))
    directions = jnp.linalg.svd(x, full_matrices=False)[2][:code]
    return LinearAutoencoder.of(directions, directions.T)
