"""All bounds that apply to one network, in one table beside the gap that was measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from corollary._show import written
from corollary._types import LossLike, NetworkLike, Scalar
from corollary._validate import whole
from corollary.generalization._chain import OtherNetwork
from corollary.generalization._outputs import margins_of, outputs_of
from corollary.generalization.bound import Bound, confidence, samples_to_reach
from corollary.generalization.certificate import Certificate, bound
from corollary.generalization.compression import Description, float_nats, quantise
from corollary.generalization.dimension import relu_vc_upper, vc
from corollary.generalization.margin_bounds import measured, norm_from, spectral_from
from corollary.generalization.pac_bayes import pac_bayes
from corollary.network.batches import count, pair
from corollary.network.loss import of_examples
from corollary.network.losses import LOSSES
from corollary.network.parts import matched, require_network, split

#: Numbers of values per parameter that rounding is tried with.
LEVELS = (2, 3, 5, 9, 17, 33, 65, 257)
#: Fewer examples than this are no sample.
LEAST = 8
#: Steps of a certificate's training, and the parameters up to which nobody has to ask for it.
STEPS, CHEAP = 2000, 2**17
#: Without an initial network so much of the data makes the prior.
PRIOR = 0.5
#: The share of δ that the finitely many draws of a certificate may spend.
DRAWS = 0.2


class Row(NamedTuple):
    """One bound: its `value` and `terms`, whether it is `vacuous`, and what it would `need`.

    `examples` is how many would bring it below 1 with the same training error and the same norms; None if none would.
    A bound that does not apply has no value, and `need` says why.
    """

    name: str
    bound: Bound | None
    examples: int | None
    need: str

    @property
    def value(self) -> float | None:
        return None if self.bound is None else float(self.bound.value)

    @property
    def terms(self) -> dict[str, float]:
        return {} if self.bound is None else {name: float(term) for name, term in self.bound.terms.items()}

    @property
    def vacuous(self) -> bool:
        """Whether the value is 1 or more: a loss is at most 1 without any bound."""
        return self.bound is not None and bool(self.bound.vacuous)


class MeasuredGap(NamedTuple):
    """What was measured: errors on the sample and on the test data, their difference, and an interval that holds it.

    The interval is that of Clopper and Pearson for the error on new examples, less the error on the sample; exact.
    """

    train: float
    test: float | None
    gap: float | None
    interval: tuple[float, float] | None


class BoundTable(NamedTuple):
    """The `rows`, the tightest first, the gap that was measured, and the `certificate` of the PAC-Bayes row, if any."""

    rows: tuple[Row, ...]
    measured: MeasuredGap
    delta: float
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        lines = [f"error on the sample {written(self.measured.train)}"]
        if self.measured.test is not None:
            low, high = self.measured.interval
            lines.append(
                f"error on test data {written(self.measured.test)}, gap {written(self.measured.gap)} "
                f"(between {written(low)} and {written(high)} with confidence {written(1 - self.delta)})"
            )
        for row in self.rows:
            value = "does not apply" if row.value is None else written(row.value)
            lines.append(f"{row.name}: {value}" + (" (vacuous)" if row.vacuous else "") + f". {row.need}")
        return "\n".join(lines)


class Looked(NamedTuple):
    """What the bounds look at: the network, its sample and its errors there; made once for all of them.

    `certified` is a certificate, or the sentence why there is none.
    """

    network: Any
    data: tuple
    margins: Any
    delta: Any
    batch_size: int
    certified: Certificate | str

    @property
    def n(self) -> int:
        return count(self.data)

    @property
    def risk(self):
        return jnp.mean(self.margins <= 0, dtype=self.margins.dtype)


class DoesNotApply(Exception):
    """The sentence says why a bound says nothing about a network."""


def _stored(looked: Looked):
    leaves = jax.tree.leaves(split(looked.network).params)
    size = sum(leaf.size for leaf in leaves)
    stored = sum(leaf.size * float_nats([leaf]) for leaf in leaves)
    description = Description(jnp.asarray(float(size)), {"numbers as they are stored": jnp.asarray(stored)})
    return lambda n: description.bound(float(n), looked.delta, risk=looked.risk)


def _dimension(looked: Looked):
    found = measured(looked.network, looked.data, batch_size=looked.batch_size)
    if found.classes > 2:
        raise DoesNotApply(f"The VC dimension is that of two classes, the network has {found.classes}.")
    extra = 1 if found.chain.biased else 0
    widths = [a.shape[1] - extra for a in found.chain.matrices]
    return lambda n: vc(n, looked.delta, dimension=relu_vc_upper([*widths, 1]), risk=looked.risk)


def _margins(make: Callable):
    def of(looked: Looked):
        at = make(measured(looked.network, looked.data, batch_size=looked.batch_size), looked.delta)
        return lambda n: at(float(n))

    return of


def _rounded(looked: Looked):
    """Of all numbers of levels, which are paid, the best one."""

    def error(compressed):
        margins = margins_of(outputs_of(compressed.network, looked.data[0], looked.batch_size), looked.data[1])
        return jnp.mean(margins <= 0, dtype=margins.dtype)

    tried = [quantise(looked.network, levels) for levels in LEVELS]
    risks = [error(compressed) for compressed in tried]

    def at(n):
        every = [c.description.bound(float(n), looked.delta, risk=r) for c, r in zip(tried, risks, strict=True)]
        return min(every, key=lambda one: float(one.value))

    return at


def _certified(looked: Looked):
    """The certificate; for another number of examples the one with the same errors and the same distance."""
    found = looked.certified
    if isinstance(found, str):
        raise DoesNotApply(found)
    kept = looked.n - round(found.fraction * looked.n)
    risk = found.errors / (kept * found.draws)

    def at(n):
        n = max(1, round(n * kept / looked.n))
        errors = found.errors if n == kept else risk * (float(n) * found.draws)
        return bound(errors, n, found.draws, found.kl, found.choices, found.delta, found.delta_draws)

    return at


#: the largest number below 1 in single precision
BELOW_ONE = 1 - 2.0**-24
#: The bounds by name: functions of what was looked at that return the bound as a function of the number of examples,
#: which most take as a floating-point number: in single precision whole numbers end at 2^31.
BOUNDS: dict[str, Callable[[Looked], Callable[[int], Bound]]] = {
    "networks of so many bits": _stored,
    "VC dimension": _dimension,
    "Frobenius norms and margin": _margins(norm_from),
    "spectral norms and margin": _margins(spectral_from),
    "compression, of the rounded network": _rounded,
    "PAC-Bayes, of a stochastic network": _certified,
}


def bounds(
    network: NetworkLike,
    loss: LossLike,
    data: PyTree,
    *,
    test: PyTree | None = None,
    initial: NetworkLike | None = None,
    steps: int | None = None,
    delta: Scalar = 0.05,
    key: PRNGKeyArray,
    batch_size: int = 1024,
) -> BoundTable:
    r"""Every bound on the 0-1 error of `network` on new examples, from its sample `data = (x, y)`, in one table.

    Each holds with probability $1-\delta$ by itself; for the least of them at once, $\delta$ is divided by how many
    there are. `loss` is what it was trained with and says what labels are: targets of a regression have no 0-1 error.
    Bounds by compression are about the compressed network, as their names say.
    With `test` data of the same kind the gap is measured beside, with its exact binomial interval.

    The PAC-Bayes row is the certificate of `pac_bayes`, whose training takes `steps` steps: with `initial`, the network
    before training, its prior is there; without, a half of the data makes the prior. It takes from seconds up, and
    unless `steps` asks for it networks of more than 131,072 parameters get none; 0 leaves it out.

    >>> table = bounds(network, "cross_entropy", (jnp.tile(x, (2, 1)), jnp.arange(8) % 2), steps=0, key=key)
    >>> [row.name for row in table.rows if row.value is not None and row.value < 1]
    []
    """
    require_network(network)
    delta, batch_size = confidence(delta), whole("batch_size", batch_size)
    data = _classified("data", loss, data)
    if count(data) < LEAST:
        raise ValueError(f"data must hold at least {LEAST} examples for a bound, got {count(data)}.")
    margins = margins_of(outputs_of(network, data[0], batch_size), data[1])
    certified = _certify(network, loss, data, initial, steps, delta, key)
    looked = Looked(network, data, margins, delta, batch_size, certified)
    rows = [_row(name, make, looked) for name, make in BOUNDS.items()]
    rows.sort(key=lambda row: math.inf if row.value is None else row.value)
    made = None if isinstance(certified, str) else certified
    return BoundTable(tuple(rows), _gap(looked, loss, test), float(delta), made)


def _certify(network, loss, data, initial, steps, delta, key) -> Certificate | str:
    """The certificate, or the sentence why there is none."""
    params = split(network).params
    if initial is not None:
        matched("initial", split(initial, name="initial").params, params)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    if steps is None:
        steps = STEPS if size <= CHEAP else 0
    if not whole("steps", steps, 0):
        return f"It is trained, which takes a while for {size:,} parameters: ask for it with steps={STEPS}."
    shares = {"delta": delta * (1 - DRAWS), "delta_draws": delta * DRAWS}
    try:
        prior = PRIOR if initial is None else "initial"
        return pac_bayes(network, loss, data, initial=initial, prior=prior, steps=steps, key=key, **shares)
    except ValueError as why:
        said = str(why)
        return said[0].upper() + said[1:]


def _row(name, make, looked) -> Row:
    try:
        at = make(looked)
    except DoesNotApply as why:
        return Row(name, None, None, str(why))
    except OtherNetwork as why:
        return Row(name, None, None, f"It is for dense layers with ReLU between them: {why}.")
    made = at(looked.n)
    largest = max((term for term in made.terms if term != "training error"), key=lambda t: float(made.terms[t]))
    try:
        examples = samples_to_reach(at, BELOW_ONE)
    except ValueError:
        return Row(name, made, None, f"No number of examples brings it below 1; most of it is {largest}.")
    need = f"Most of it is {largest}; it is below 1 from {examples:,} examples on."
    return Row(name, made, examples, need)


def _gap(looked: Looked, loss, test) -> MeasuredGap:
    train = float(np.mean(np.asarray(looked.margins) <= 0))
    if test is None:
        return MeasuredGap(train, None, None, None)
    from scipy.stats import binomtest

    x, y = _classified("test", loss, test)
    wrong = np.asarray(margins_of(outputs_of(looked.network, x, looked.batch_size), y) <= 0)
    found = binomtest(int(wrong.sum()), wrong.size)
    low, high = map(float, found.proportion_ci(1 - float(looked.delta), "exact"))
    return MeasuredGap(train, found.statistic, found.statistic - train, (low - train, high - train))


def _classified(name, loss, data) -> tuple:
    """Data whose targets are labels; one sentence otherwise."""
    of_examples(loss, who="bounds")
    x, y = pair(name, data)
    seen = np.asarray(y) if isinstance(y, jax.Array | np.ndarray) else None
    if seen is None or (seen.dtype.kind == "f" and not np.isin(seen, (-1, 0, 1)).all()):
        raise ValueError(
            f"{name} must have class labels for a bound on the 0-1 error, got targets of a regression"
            + (f" under the loss {loss!r}." if isinstance(loss, str) and loss in LOSSES else ".")
        )
    return x, y
