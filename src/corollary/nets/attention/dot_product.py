r"""Scaled dot-product attention: each query gets the mean of the values, weighted by how well their keys fit.

Queries have shape (T, d) or (T, heads, d), keys (S, d) or (S, heads, d), values (S, e) or (S, heads, e). Masks are
boolean, True where a query may attend to a key, and broadcast against (T, S) or (heads, T, S).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float

from corollary._validate import positive, real
from corollary.catalog import implements


@implements("B10.35", "B10.37", "E06.01", "E06.06", "M13.33", "T15.07")
def dot_product_attention(
    q: Float[ArrayLike, "T headsd"],
    k: Float[ArrayLike, "S headsd"],
    v: Float[ArrayLike, "S headse"],
    mask: Bool[ArrayLike, "..."] | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Array, "..."]:
    r"""$\mathrm{softmax}(\tau QK^\top)V$ with the softmax along the keys and $\tau=1/\sqrt{d}$ unless `scale` is given.

    `causal=True` lets query $i$ attend to the keys $j\le i$ only. A query to which the mask leaves no key gets the
    plain mean of all values. In half precision the logits and the softmax are single precision and, on an NVIDIA GPU,
    cuDNN's fused kernel computes the same without storing the weights (unless there is a mask other than the causal).
    """
    q, k, v, mask, scale = _validated(q, k, v, mask, causal, scale)
    if q.dtype in (jnp.bfloat16, jnp.float16) and k.shape == v.shape:
        return _half_precision(q, k, v, mask, causal, scale)
    # the softmax's denominator last: it then divides T rows of values and not T rows of weights
    logits = _logits(q, k, mask, causal, scale)
    shares = jnp.exp(logits - jax.lax.stop_gradient(logits.max(-1, keepdims=True)))
    total = shares.sum(-1)
    shares, total = shares.astype(v.dtype), total.astype(v.dtype)
    if q.ndim == 2:
        return (shares @ v) / total[:, None]
    return jnp.einsum("hts,she->the", shares, v) / total.T[:, :, None]


@implements("B10.35", "M13.34", "M13.41")
def attention_weights(
    q: Float[ArrayLike, "T headsd"],
    k: Float[ArrayLike, "S headsd"],
    mask: Bool[ArrayLike, "..."] | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Array, "_ _ _"]:
    r"""$A=\mathrm{softmax}(\tau QK^\top)$, of shape (T, S) or (heads, T, S): positive, and each row sums to 1.

    Entries that the mask excludes are exactly 0 and their logits do not count in the sum.

    >>> attention_weights(x, x, causal=True)[0].tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    q, k, _, mask, scale = _validated(q, k, None, mask, causal, scale)
    return jax.nn.softmax(_logits(q, k, mask, causal, scale), axis=-1)


@implements("M13.34")
def attention_entropy(weights: Float[ArrayLike, "... T S"]) -> Float[Array, "..."]:
    r"""$-\sum_ja_{ij}\ln a_{ij}$ of every row: 0 when one key has all the weight, $\ln S$ when all have the same."""
    weights = real("weights", weights, "... T S")
    return jax.scipy.special.entr(weights).sum(-1)


def _logits(q, k, mask, causal, scale):
    # half precision multiplies into single: sums of products of 8-bit mantissas would lose the small logits
    wide = jnp.promote_types(q.dtype, jnp.float32)
    heads = "td,sd->ts" if q.ndim == 2 else "thd,shd->hts"
    logits = scale * jnp.einsum(heads, q, k, preferred_element_type=wide)
    if causal:
        before = jnp.tri(*logits.shape[-2:], dtype=bool)
        mask = before if mask is None else mask & before
    if mask is not None:
        # finite instead of -inf: a row without any key is then uniform and not NaN; elsewhere exp makes it exactly 0
        logits = jnp.where(mask, logits, 0.7 * float(jnp.finfo(wide).min))
    return logits


def _half_precision(q, k, v, mask, causal, scale):
    single = q.ndim == 2
    q, k, v = (a[:, None] if single else a for a in (q, k, v))
    out = jax.nn.dot_product_attention(
        q,
        k,
        v,
        mask=None if mask is None else mask.reshape((1,) * (4 - mask.ndim) + mask.shape),
        scale=scale,
        is_causal=causal,
        implementation="cudnn" if mask is None and isinstance(scale, float) and _fused(q.shape[-1]) else "xla",
    )
    return out[:, 0] if single else out


def _fused(size: int) -> bool:
    """Whether the device of this computation has cuDNN's fused attention for heads of this size."""
    device = jax.config.jax_default_device or jax.devices()[0]
    capability = getattr(device, "compute_capability", "")
    if getattr(device, "platform", device) not in ("gpu", "cuda") or not str(capability)[:1].isdigit():
        return False
    major = int(str(capability).split(".")[0])
    return major >= 8 and size % 8 == 0 and size <= (256 if major >= 9 else 128)


def _validated(q, k, v, mask, causal, scale):
    dims = {}
    heads = "heads " if jnp.ndim(q) == 3 else ""
    q = real("q", q, f"T {heads}d", dims, finite=False)
    k = real("k", k, f"S {heads}d", dims, finite=False)
    v = None if v is None else real("v", v, f"S {heads}e", dims, finite=False)
    dtype = jnp.result_type(q, k) if v is None else jnp.result_type(q, k, v)
    q, k, v = (a if a is None else a.astype(dtype) for a in (q, k, v))
    if causal and dims["T"] != dims["S"]:
        raise ValueError(
            f"causal attention needs as many queries as keys, got {dims['T']} and {dims['S']}: pass a mask instead."
        )
    if mask is not None:
        mask = jnp.asarray(mask)
        if mask.dtype != jnp.bool_:
            raise TypeError(f"mask must be boolean, True where a query may attend to a key, got dtype {mask.dtype}.")
        want = (*((dims["heads"],) if heads else ()), dims["T"], dims["S"])
        if mask.ndim > len(want) or any(a not in (1, b) for a, b in zip(mask.shape[::-1], want[::-1], strict=False)):
            raise ValueError(f"mask must broadcast to {want}, got shape {mask.shape}.")
    if scale is not None:
        positive("scale", scale)
    return q, k, v, mask, dims["d"] ** -0.5 if scale is None else scale
