r"""Certificates: a PAC-Bayes bound on the error of a stochastic network, with all that it rests on.

With probability $1-\delta-\delta'$ over sample and draws a stochastic network $Q$ errs on at most `value` of new
examples. Two inversions of the binary relative entropy make it: $\hat q$, the share of wrong predictions among $m$
independent trials on the sample, is raised to $q=\mathrm{kl}^{-1}(\hat q,\frac1m\ln\frac1{\delta'})$, and that to
$\mathrm{kl}^{-1}\big(q,\frac1n(\mathrm{KL}(Q\|P)+\ln K+\ln\frac{\xi(n)}\delta)\big)$, where $K$ counts the priors that
were allowed before the sample was seen.
"""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from corollary._show import written
from corollary.foundations import kl_inverse
from corollary.generalization.bound import INDEPENDENT, Bound, spent
from corollary.generalization.pac_bayes_bounds import log_moment
from corollary.generalization.stochastic import StochasticNetwork, classified
from corollary.network.batches import count
from corollary.network.parts import split

#: Variances that a prior may have, one for each array of parameters: from e² downwards, one part in a hundred apart.
#: A posterior that asks for less gets the last of them: bounds from the grid are finite, whatever it asks for.
GRID = np.exp(2 - np.arange(2400) / 100)

EVALUATED = 5000  # predictions at a time when errors are counted

PREMISES = (
    INDEPENDENT,
    "each prediction is by a network that is drawn for it",
    "the centre of the prior was fixed before the sample was seen",
)


class Certificate(eqx.Module):
    r"""With confidence `1 - delta - delta_draws` the `posterior` errs on at most `value` of new examples.

    `bound` has the terms, `errors` is the number of wrong predictions on the sample, `draws` for each example, `kl` the
    relative entropy of `posterior` and `prior`, and `choices` the logarithm of the number of priors that were allowed.
    `fraction` is the share of the data that only the prior has seen, 0 for a prior without data.
    """

    posterior: StochasticNetwork
    prior: StochasticNetwork
    bound: Bound
    errors: Int[Array, ""]
    kl: Float[Array, ""]
    delta: Float[Array, ""]
    delta_draws: Float[Array, ""]
    key: PRNGKeyArray = eqx.field(kw_only=True)
    draws: int = eqx.field(static=True)
    fraction: float = eqx.field(static=True)

    def __repr__(self) -> str:
        terms = ", ".join(f"{name} {written(term)}" for name, term in self.terms.items())
        return (
            f"Certificate(value={written(self.value)}, delta={written(self.bound.delta)}, kl={written(self.kl)}, "
            f"terms: {terms})"
        )

    @property
    def value(self) -> Float[Array, ""]:
        """The bound on the share of errors."""
        return self.bound.value

    @property
    def terms(self) -> dict[str, Float[Array, ""]]:
        """What the value is the sum of."""
        return self.bound.terms

    @property
    def vacuous(self) -> Array:
        """Whether the bound says no more than that an error is at most 1."""
        return self.bound.vacuous

    @property
    def choices(self) -> float:
        """The logarithm of the number of priors that the sample could choose among."""
        return 0.0 if self.fraction else price(self.posterior.mean)

    def check(self, data: PyTree) -> "Certificate":
        """The certificate itself, or a sentence about what does not follow from `data` and the stored pieces.

        `data` are those that `pac_bayes` was given. The relative entropy is computed again in double precision, the
        errors are counted again, the prior's scales are looked up in the grid, and the bound is made of these.
        """
        data = part(classified(self.posterior.mean, data), self.fraction, self.key)[1]
        if not self.fraction:
            off = [abs(np.log(float(s) ** 2 / GRID)).min() for s in jax.tree.leaves(self.prior.scale)]
            if max(off) > 1e-5:  # single precision is a part in 10⁷
                raise ValueError("the scales of the prior must be those of the grid that was paid for, and one is not.")
        with jax.enable_x64(True):
            wide = [_double(law) for law in (self.posterior, self.prior)]
            kl = float(wide[0].kl(wide[1]))
        if math.isinf(kl):
            raise ValueError("the scales of the posterior must be positive: a point is infinitely far from any prior.")
        if not math.isclose(kl, float(self.kl), rel_tol=1e-4, abs_tol=1e-2):
            raise ValueError(
                f"the relative entropy of posterior and prior is {kl:.6g}, the certificate has {self.kl:.6g}."
            )
        errors = self.posterior.errors(data, draws=self.draws, key=count_key(self.key), batch_size=EVALUATED)
        # on the same machine the same number; otherwise rounding may turn a few predictions, and never more than what
        # two counts with the same law differ by
        if abs(int(errors) - int(self.errors)) > 6 * math.sqrt(2 * int(self.errors) + 36):
            raise ValueError(
                f"the posterior errs {int(errors)} times in {count(data) * self.draws} on these data, the certificate "
                f"has {int(self.errors)}: they are not the data that it was made for."
            )
        again = bound(errors, count(data), self.draws, kl, self.choices, self.delta, self.delta_draws)
        self.bound.check()
        if not math.isclose(float(again.value), float(self.value), rel_tol=1e-2):
            raise ValueError(
                f"the pieces give the bound {float(again.value):.6g}, the certificate has {self.value:.6g}."
            )
        return self


def price(network) -> float:
    """The logarithm of the number of priors on the grid: one variance for each array of parameters."""
    return len(jax.tree.leaves(split(network).params)) * math.log(len(GRID))


def bound(errors, n: int, draws: int, kl, choices, delta, delta_draws) -> Bound:
    """The bound that follows from so many `errors` in `draws` predictions for each of `n` examples."""
    trials = float(n) * draws  # whole numbers end at 2^31
    risk = errors / trials
    # independent trials of different probabilities are no further from their mean than those of one
    above = kl_inverse(risk, jnp.log(1 / delta_draws) / trials)
    budget = {
        "distance to the prior": kl,
        "choice among priors": jnp.asarray(choices, jnp.result_type(kl)),
        "all posteriors at once": log_moment("kl", n),
        "confidence": -jnp.log(delta),
    }
    made = spent(above, lambda nats: kl_inverse(above, nats / float(n)), delta, budget, PREMISES)
    terms = {"training error": risk, "finitely many draws": above - risk}
    terms |= {name: term for name, term in made.terms.items() if name not in terms}
    return Bound(made.value, delta + delta_draws, terms, PREMISES)


def part(data: tuple, fraction: float, key: PRNGKeyArray) -> tuple:
    """The examples that the prior may see, and those of the certificate: all of them if `fraction` is 0."""
    if not fraction:
        return None, data
    order = jax.random.permutation(jax.random.fold_in(key, 0), count(data))
    cut = round(fraction * count(data))
    return tuple(jax.tree.map(lambda a, rows=rows: a[rows], data) for rows in (order[:cut], order[cut:]))


def count_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """The key of the networks that are drawn to count errors."""
    return jax.random.fold_in(key, 1)


def nearest(variance: Float[Array, ""]) -> Float[Array, ""]:
    """The standard deviation of the grid whose variance is nearest, by its logarithm."""
    place = jnp.round(100 * (2 - jnp.log(variance)))
    return jnp.exp((2 - jnp.clip(place, 0, len(GRID) - 1) / 100) / 2).astype(jnp.result_type(variance))


def _double(law: StochasticNetwork) -> StochasticNetwork:
    wide = jax.tree.map(
        lambda a: jnp.asarray(np.asarray(a), jnp.float64) if eqx.is_inexact_array(a) else a, (law.mean, law.scale)
    )
    return StochasticNetwork(*wide)
