r"""Networks written down in few numbers, and the bound that follows for what was written down.

Whoever can write a network down in so many nats (a bit is $\ln2$ of them) has chosen it out of $e^{\text{nats}}$
networks, and the union bound over all of them holds for it. So everything that was chosen after looking at the data has
to be paid: the values that are kept, which ones are kept, and how many. What was fixed before is free: that is the
helper string, such as the initial network. The bound is about the compressed network and says nothing about the
original.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Float, PyTree

from corollary._show import written
from corollary._types import NetworkLike, Scalar
from corollary._validate import real, whole, within
from corollary.catalog import implements
from corollary.generalization._outputs import margins_of, outputs_of
from corollary.generalization.bound import INDEPENDENT, RANGE, Bound, confidence, risk_of, spent
from corollary.network.batches import count, examples, pair
from corollary.network.parts import Parts, matched, require_network, split

#: Whole numbers up to this one, and so the levels of a grid, are exact in single precision.
MOST_LEVELS = 2**24
WRITTEN = "how networks are written down, and the helper string, were fixed before the sample was seen"


@implements("T05.26")
def compression_bound(
    n: Float[ArrayLike, "..."],
    parameters: Float[ArrayLike, "..."],
    levels: Float[ArrayLike, "..."],
    delta: Float[ArrayLike, "..."],
    *,
    mask: Float[ArrayLike, "..."] | None = None,
    risk: Float[ArrayLike, "..."] = 0.0,
) -> Bound:
    r"""$L(g)\le\hat L(g)+\sqrt{\frac{q\ln r+\ln\binom Pq+\ln(1/\delta)}{2n}}$ for $q$ `parameters` of $r$ `levels`.

    For all networks $g$ at once that are given by $q$ numbers with $r$ values each. If the $q$ numbers were chosen
    among $P$ after looking at the data, the others being known before, the choice is paid with $P$ = `mask`. If $g$ is
    within $\gamma$ of $f$ in every output on the sample, $\hat L(g)$ is at most the share of examples on which the
    margin of $f$ is $2\gamma$ or less. $q$ and $r$ are chosen before the sample is seen.

    >>> round(float(compression_bound(50_000, 500, 16, 0.05, mask=10_000).value), 3)
    0.184
    """
    n, risk, delta = within("n", real("n", n), 1.0), risk_of(risk), confidence(delta)
    q, r = within("parameters", real("parameters", parameters), 0.0), within("levels", real("levels", levels), 1.0)
    nats = {"values": q * jnp.log(r)}
    if mask is not None:
        among = real("mask", mask)
        within("mask - parameters", among - q, 0.0)
        nats["mask"] = log_binomial(among, q)
    return _paid(nats, n, delta, risk, "the numbers of parameters and levels were chosen before the sample was seen")


class Description(eqx.Module):
    """What it takes to write a network down, in nats: `nats` by what they are for, `total` their sum.

    `parameters` is how many numbers are written down. Everything that may depend on the data is paid, so that no
    number of parameters, levels or ranks has to be fixed before.
    """

    parameters: Array
    nats: dict[str, Array]

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {written(value)}" for name, value in self.nats.items())
        return f"Description(parameters={written(self.parameters)}, nats: {parts})"

    @property
    def total(self) -> Float[Array, ""]:
        """All nats together."""
        return sum(self.nats.values(), jnp.zeros(()))

    def bound(
        self, n: Float[ArrayLike, "..."], delta: Float[ArrayLike, "..."], *, risk: Float[ArrayLike, "..."] = 0.0
    ) -> Bound:
        r"""$L(g)\le\hat L(g)+\sqrt{\frac{\text{nats}+\ln(1/\delta)}{2n}}$ for all networks, with `risk` $\hat L(g)$."""
        n, risk, delta = within("n", real("n", n), 1.0), risk_of(risk), confidence(delta)
        return _paid(self.nats, n, delta, risk, WRITTEN)


class Compressed(eqx.Module):
    """A compressed `network`, its `description`, and which parameters were `kept` (None: all of them)."""

    network: Any
    description: Description
    kept: Any = None

    def __repr__(self) -> str:
        return f"Compressed({self.description!r})"

    def bound(self, data: PyTree, delta: Scalar, *, batch_size: int = 1000) -> Bound:
        """The bound on the 0-1 error of the compressed network, from its errors on `data`, the pair `(x, y)`.

        The class is that of the largest output, for a single output its sign; a tie is an error.
        """
        x, y = pair("data", data)
        margins = margins_of(outputs_of(self.network, x, batch_size), y)
        return self.description.bound(count(x), delta, risk=jnp.mean(margins <= 0, dtype=margins.dtype))


@implements("T05.24", "T05.25")
def compression_error(
    network: NetworkLike, compressed: NetworkLike, x: PyTree, *, batch_size: int = 1000
) -> Float[Array, ""]:
    r"""$\max|f(x)[j]-g(x)[j]|$ over the outputs $j$ and the examples `x`.

    $f$ is $(\gamma,S)$-compressible by $g$ if this is at most $\gamma$ on the inputs of $S$. With a helper string $g$
    is made of that too, see `prune` and `project`.
    """
    require_network(network)
    require_network(compressed)
    x = examples("x", x)
    return jnp.max(jnp.abs(outputs_of(network, x, batch_size) - outputs_of(compressed, x, batch_size)))


@implements("T05.44")
def prune(
    network: NetworkLike, keep: int, *, helper: NetworkLike | None = None, trainable: PyTree = None
) -> Compressed:
    """The network with the `keep` largest of its parameters, and 0 for the others.

    With a `helper`, a network of the same kind that was fixed before the data were seen, such as the initial one,
    parameters count by how far they are from the helper's, and are set to those. Parameters that `trainable` does not
    select stay as they are, at no cost: they must not have seen the data. `optax.chain(optimiser,
    only_kept(compressed.kept))` trains what is left. Paid are numbers of full precision and which ones they are;
    `quantise(network, levels, kept=compressed.kept)` makes the numbers cheaper.

    >>> prune(network, 5).description.parameters.item()
    5.0
    """
    parts, base = _parts(network, helper, trainable)
    keep = whole("keep", keep, 1, parts.size)
    away = ravel_pytree(jax.tree.map(jnp.subtract, parts.params, base))[0]
    order = jnp.argsort(-jnp.abs(away))
    kept = unravel_mask(jnp.zeros(away.size, bool).at[order[:keep]].set(True), parts.params)
    params = jax.tree.map(jnp.where, kept, parts.params, base)
    nats = {"values": keep * float_nats(parts.params), **_mask_nats(parts.size, jnp.asarray(float(keep)))}
    return Compressed(parts.join(params), Description(jnp.asarray(float(keep)), nats), kept)


@implements("T05.44")
def quantise(
    network: NetworkLike,
    levels: int,
    *,
    kept: PyTree = None,
    helper: NetworkLike | None = None,
    trainable: PyTree = None,
) -> Compressed:
    r"""The network with `levels` values for its parameters: equally spaced from $-a$ to $a$, $a$ one per array.

    $a$ is the largest modulus in the array, so that no parameter moves by more than $a/(r-1)$ for $r$ levels. `kept` is
    that of `prune`: only these are written down, and paid with which ones they are; the others are 0. With a `helper`,
    see `prune`, it is the difference from it that is rounded. Paid too are every $a$ in full precision, and the number
    of levels.

    >>> quantise(network, 3).description.nats["values"] / jnp.log(3.0) == quantise(network, 2).description.parameters
    Array(True, dtype=bool)
    """
    parts, base = _parts(network, helper, trainable)
    levels = whole("levels", levels, 2, MOST_LEVELS)
    away = jax.tree.map(jnp.subtract, parts.params, base)
    if kept is not None:
        kept = matched("kept", kept, parts.params)
        away = jax.tree.map(lambda k, a: jnp.where(k, a, 0), kept, away)
    near = jax.tree.map(lambda a: on_grid(a, levels), away)
    if kept is not None:
        near = jax.tree.map(lambda k, a: jnp.where(k, a, 0), kept, near)
    parameters = jnp.asarray(float(parts.size)) if kept is None else _count(kept)
    arrays = len(jax.tree.leaves(parts.params))
    nats = {
        "values": parameters * np.log(levels),
        "scales": jnp.asarray(arrays * float_nats(parts.params)),
        "levels": whole_number_nats(levels),
        **({} if kept is None else _mask_nats(parts.size, parameters)),
    }
    return Compressed(parts.join(jax.tree.map(jnp.add, base, near)), Description(parameters, nats), kept)


def only_kept(kept: PyTree) -> optax.GradientTransformation:
    """An Optax transformation that leaves all parameters alone but those `kept`: the last of a chain.

    >>> updates, _ = only_kept(jnp.array([True, False])).update(jnp.ones(2), optax.EmptyState())
    >>> updates.tolist()
    [1.0, 0.0]
    """
    return optax.stateless(
        lambda updates, _: jax.tree.map(lambda u, k: jnp.where(k, u, jnp.zeros_like(u)), updates, kept)
    )


def log_binomial(n: Float[ArrayLike, "..."], k: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
    r"""$\ln\binom nk$, the nats of a choice of $k$ things out of $n$."""
    n, k = jnp.asarray(n), jnp.asarray(k)
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


def whole_number_nats(k: ArrayLike) -> Array:
    r"""$(2\lfloor\log_2k\rfloor+1)\ln2$ for a whole number from 1 on: Elias' code, no word of which begins another."""
    exponent = jnp.frexp(jnp.asarray(k, jnp.result_type(float)))[1] - 1  # exact, which a logarithm is not
    return (2 * exponent + 1) * np.log(2.0)


def float_nats(params: PyTree) -> float:
    """What one of these floating-point numbers takes as it is stored: 32 bits, say."""
    return max(leaf.dtype.itemsize for leaf in jax.tree.leaves(params)) * 8 * float(np.log(2.0))


def on_grid(values: Array, levels: int) -> Array:
    """The nearest of `levels` numbers that are equally spaced between plus and minus the largest modulus."""
    wide = values.astype(jnp.promote_types(values.dtype, jnp.float32))  # where all levels up to the most are exact
    largest, top = jnp.max(jnp.abs(wide)), levels - 1
    index = jnp.round((wide / jnp.where(largest > 0, largest, 1) + 1) * (top / 2))
    return (largest * ((2 * index - top) / top)).astype(values.dtype)  # the middle one of an odd number is exactly 0


def unravel_mask(flat: Array, params: PyTree) -> PyTree:
    """A flat array of booleans in the structure of `params`."""
    leaves, form = jax.tree.flatten(params)
    pieces = jnp.split(flat, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return form.unflatten([p.reshape(leaf.shape) for p, leaf in zip(pieces, leaves, strict=True)])


def _mask_nats(size, kept):
    return {"mask": log_binomial(float(size), kept), "how many are kept": whole_number_nats(kept + 1)}


def _count(kept) -> Array:
    return sum(jnp.sum(k, dtype=jnp.result_type(float)) for k in jax.tree.leaves(kept))


def _parts(network, helper, trainable) -> tuple[Parts, Any]:
    """The network's parts, and the parameters that it is compared with: the helper's, or 0."""
    require_network(network)
    parts = split(network, trainable)
    if helper is None:
        return parts, jax.tree.map(jnp.zeros_like, parts.params)
    require_network(helper)
    return parts, matched("helper", split(helper, trainable, name="helper").params, parts.params)


def _paid(nats, n, delta, risk, premise) -> Bound:
    budget = {**nats, "confidence": -jnp.log(delta)}
    return spent(risk, lambda total: risk + jnp.sqrt(total / (2 * n)), delta, budget, (INDEPENDENT, RANGE, premise))
