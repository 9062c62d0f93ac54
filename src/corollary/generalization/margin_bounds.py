r"""Two bounds by the margins of a network and the norms of its matrices, for dense layers with ReLU between them.

Both hold for all such networks at once, and for every margin: the ratio $\rho$ of the product of the norms and the
length of the inputs to the margin $\gamma$ is rounded up to $2^k$, and $k$ costs $\ln((k+1)(k+2))$, because
$\sum_k\frac1{(k+1)(k+2)}=1$. So the margin may be chosen after looking at the data; unless it is given,
the best one is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, one_of, positive, real, whole
from corollary.catalog import implements
from corollary.generalization._chain import Chain, chain_of
from corollary.generalization._outputs import margins_of, outputs_of
from corollary.generalization.bound import INDEPENDENT, Bound, confidence, spent
from corollary.network.batches import pair
from corollary.network.parts import require_network

# ratios up to 2^60: beyond them no bound is below 1 for any number of examples that there is
RATIOS = np.arange(61)


class Measured(NamedTuple):
    """What both bounds are made of: the matrices, the length of the longest input, and the margins on the sample."""

    chain: Chain
    radius: Array
    margins: Array

    @property
    def classes(self) -> int:
        return max(self.chain.outputs, 2)


def measured(network, data, radius=None, batch_size: int = 1024) -> Measured:
    """Of a network and its sample; `OtherNetwork` unless it is of dense layers with ReLU between them."""
    require_network(network)
    x, y = pair("data", data)
    margins = margins_of(outputs_of(network, x, whole("batch_size", batch_size)), y)
    chain = chain_of(network, x)
    lengths = jnp.linalg.norm(jnp.asarray(jax.tree.leaves(x)[0]).reshape(margins.shape[0], -1), axis=1)
    longest = jnp.max(lengths)
    if radius is None:
        radius = longest
    else:
        radius = positive("radius", real("radius", radius, ""))
        if concrete(radius) and concrete(longest) and float(longest) > float(radius) * (1 + 1e-6):
            raise ValueError(f"radius must be the length of the longest input at least, {float(longest):g}.")
    return Measured(chain, chain.radius(radius), margins)


@implements("T05.32")
def spectral_margin_bound(
    network: NetworkLike,
    data: PyTree,
    delta: Float[ArrayLike, ""] = 0.05,
    *,
    margin: Scalar | None = None,
    radius: Scalar | None = None,
    form: str = "sharp",
    batch_size: int = 1024,
) -> Bound:
    r"""$L(f)\le\hat L_\gamma(f)+\sqrt{\frac1{2n}\big(q\ln(1+24cd\rho)+\text{choice}+\ln\frac1\delta\big)}$, 0-1 loss.

    For $f=A_d\mathrm{ReLU}(A_{d-1}\cdots\mathrm{ReLU}(A_1x))$ and inputs no longer than `radius` $R$ (default: the
    longest of the sample), with $\rho=R\prod_i\|A_i\|_2/\gamma$ rounded up to a power of 2, $\hat L_\gamma$ the share
    of margins that are $\gamma$ = `margin` or less, and $c=1$ for one output, $\sqrt2$ for several.
    $q=\sum_ir_i(h_{i-1}+h_i)$ counts the numbers of the matrices after singular values below $\|A_i\|_2/(3cd\rho)$
    are left out, $r_i$ of them remaining; a matrix is taken whole where that is cheaper. The choice of ranks and of the
    margin is paid. `form="printed"` has the $q\le18hd^2c^2\rho^2\sum_i\|A_i\|_F^2/\|A_i\|_2^2$ of Theorem 5.5.6, $h$
    the largest width.

    Why: matrices of rank $r$ and norm 1 have a cover of $(1+4/\varepsilon)^{r(h+h')}$, with $\varepsilon=
    1/(6cd\rho)$; truncation and cover together move a margin by $\gamma/2$ at most, for all inputs, so that the bound
    is about $f$ itself.

    >>> bound = spectral_margin_bound(network, (x, jnp.array([0, 1, 1, 0])))
    >>> bool(bound.vacuous)
    True
    """
    one_of("form", form, ("sharp", "printed"))
    return spectral_from(measured(network, data, radius, batch_size), confidence(delta), margin, form)()


def spectral_from(found: Measured, delta, margin=None, form: str = "sharp") -> Callable[..., Bound]:
    """The bound as a function of the number of examples, that of the sample unless told."""
    chain, d = found.chain, len(found.chain.matrices)
    c = 1.0 if chain.outputs == 1 else 2**0.5
    spectra = [jnp.linalg.svd(a, compute_uv=False) for a in chain.matrices]
    shapes = [a.shape for a in chain.matrices]
    ratio = 2.0**RATIOS
    fine = 6 * c * d * ratio  # 1/ε
    log_cover = jnp.log1p(4 * fine)
    if form == "printed":
        stable = sum(jnp.sum(s**2) / s[0] ** 2 for s in spectra)
        # single precision ends at 3e38; a count of 1e30 and more says nothing anyway
        most = np.minimum(18 * max(max(shape) for shape in shapes) * (c * d * ratio) ** 2, 1e30)
        numbers = most * stable * log_cover
    else:
        numbers = jnp.zeros(len(RATIOS))
        for s, (rows, columns) in zip(spectra, shapes, strict=True):
            rank = jnp.sum(s[:, None] >= s[0] / (fine / 2), 0)
            numbers += jnp.minimum(rank * (rows + columns) * log_cover, rows * columns * jnp.log1p(2 * fine))
    choice = sum(np.log(min(shape)) for shape in shapes) + np.log((RATIOS + 1.0) * (RATIOS + 2.0))
    top = found.radius * jnp.prod(jnp.stack([s[0] for s in spectra]))

    def budget(k):
        return {
            "numbers of the truncated matrices": numbers[k],
            "choice of ranks and margin": jnp.asarray(choice)[k],
            "confidence": jnp.log(1 / delta),
        }

    return _best(found, top, margin, delta, budget, lambda k, n: lambda nats: jnp.sqrt(nats / (2 * n)))


@implements("B08.24", "B08.25")
def norm_margin_bound(
    network: NetworkLike,
    data: PyTree,
    delta: Float[ArrayLike, ""] = 0.05,
    *,
    margin: Scalar | None = None,
    radius: Scalar | None = None,
    form: str = "sharp",
    batch_size: int = 1024,
) -> Bound:
    r"""$L(f)\le\hat L_\gamma(f)+\frac{2c}{\sqrt n}2^{d-1}\rho+\sqrt{\frac1{2n}\ln\frac{(k+1)(k+2)}\delta}$, 0-1 loss.

    For dense layers with ReLU between them, as in `spectral_margin_bound`, with $\rho=R\prod_i\|A_i\|_F/\gamma$ rounded
    up to $2^k$, and $c=1$ for two classes, $2K$ for $K>2$: from the Rademacher complexity of networks with bounded
    Frobenius norms. `form="printed"` has Theorem 65's $(2B)^d$ with $B=\max_i\|A_i\|_F$ in the place of
    $2^{d-1}\prod_i\|A_i\|_F$.

    >>> bool(norm_margin_bound(network, (x, jnp.array([0, 1, 1, 0]))).value > 1)
    True
    """
    one_of("form", form, ("sharp", "printed"))
    return norm_from(measured(network, data, radius, batch_size), confidence(delta), margin, form)()


def norm_from(found: Measured, delta, margin=None, form: str = "sharp") -> Callable[..., Bound]:
    """The bound as a function of the number of examples, that of the sample unless told."""
    matrices, d = found.chain.matrices, len(found.chain.matrices)
    if found.chain.outputs == 2:  # of two classes the difference of their outputs decides
        matrices = (*matrices[:-1], matrices[-1][1:] - matrices[-1][:1])
    norms = jnp.stack([jnp.linalg.norm(a) for a in matrices])
    c = 1.0 if found.classes == 2 else 2.0 * found.classes
    top = found.radius * (jnp.prod(norms) if form == "sharp" else jnp.max(norms) ** d)
    peeled = 2.0 ** (d - 1 if form == "sharp" else d)
    choice = np.log((RATIOS + 1.0) * (RATIOS + 2.0))

    def budget(k):
        return {"choice of the margin": jnp.asarray(choice)[k], "confidence": jnp.log(1 / delta)}

    def paid(k, n):
        fit = 2 * c * peeled * 2.0 ** jnp.asarray(RATIOS)[k] / jnp.sqrt(n)
        return lambda nats: fit + jnp.sqrt(nats / (2 * n))

    return _best(found, top, margin, delta, budget, paid, "fit of random signs")


def _best(found, top, margin, delta, budget, paid, first=None) -> Callable[..., Bound]:
    """The least bound over the ratios, or the one for a margin; `first` names what is paid with an empty budget."""
    margins, n = found.margins, found.margins.shape[0]
    edges = top / 2.0**RATIOS
    risks = jnp.mean(margins[:, None] <= edges, 0, dtype=margins.dtype)
    premises = (
        INDEPENDENT,
        "no input is longer than the radius, which was known before the sample was seen",
        "the widths were chosen before the sample was seen",
    )

    def bound(examples=n):
        if margin is None:
            k = jnp.argmin(risks + paid(RATIOS, examples)(sum(budget(RATIOS).values())))
        else:
            allowed = positive("margin", real("margin", margin, ""))
            k = jnp.clip(jnp.ceil(jnp.log2(top / allowed) - 1e-9), 0, RATIOS[-1]).astype(int)
        risk, deviation = risks[k], paid(k, examples)
        made = spent(risk + deviation(0.0), lambda nats: risk + deviation(nats), delta, budget(k), premises)
        if first is None:
            return made
        terms = {"training error": risk, first: deviation(0.0)} | {
            name: term for name, term in made.terms.items() if name != "training error"
        }
        return Bound(made.value, made.delta, terms, premises)

    return bound
