"""Every bound beside the measured error, and the certificate with what it spent."""

from typing import Any, NamedTuple

import altair as alt
import jax
import numpy as np

from corollary._charts import FITTED, MEASURED, PREDICTED, QUIET, axis, log_scale
from corollary.audit import _plan
from corollary.audit._sample import some
from corollary.audit.finding import Finding, Premise, short
from corollary.evidence import picture
from corollary.generalization import bounds
from corollary.network.batches import count

# a tenth of the work of a section for the table, and as much for the certificate
SHARE = 0.1
# steps of the certificate's training by budget, on so many examples each, and the predictions for each example
STEPS, BATCH, DRAWS = {"quick": 1000, "full": 5000}, 250, 20
# forward passes over the data that the table takes, those with rounded weights among them
PASSES = 12
# fewer examples than this make no certificate worth its time, unless there are no more
FEWEST = 500
# singular values of an m × n matrix take about so many times m n min(m, n) operations
SPECTRUM = 20
# the norm of a convolution, as the operator it is on its input, takes about so many products with it
PRODUCTS = 50
DELTA = 0.05
TOO_MUCH = "These were left out: the singular values of such large weights take too long. --budget full measures them."

BOUNDS = dict(
    theorem="With probability 1 - δ over the sample, the error on new examples is at most the training error and a "
    "term for what the network was chosen from: a class, a norm, a description, a prior. Above 1 it says nothing.",
    claim="generalization.compression.bound_for_what_was_written_down",
)
CERTIFICATE = dict(
    theorem="For all laws Q of networks at once, kl(error on the sample, error on new examples) is at most "
    "(KL(Q, P) + ln(ξ(n)/δ)) / n with probability 1 - δ, if the prior P was fixed before the sample was seen.",
    claim="generalization.certificate.certificates_hold",
)
# what would lower the certificate most, by its largest term beside the error itself
HELP = {
    "finitely many draws": "more draws per example would lower it most",
    "choice among priors": "a prior trained on a half of the data, which needs no choice, would lower it most",
    "all posteriors at once": "more examples would lower it most",
    "confidence": "more examples would lower it most",
}
NEARER = "a prior nearer to the network would lower it most: one trained on half of the data, pac_bayes(..., prior=0.5)"
OTHER_SPLIT = "another split would lower it most: a larger part of the data for the prior"


def same_as_trained(subject) -> bool:
    """Whether `initial` has the weights of the trained network."""
    if subject.initial_params is None:
        return False
    pairs = zip(*map(jax.tree.leaves, (subject.initial_params, subject.params)), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def no_prior() -> Finding:
    return Finding(
        "distance from the initial network",
        "problem",
        "initial has the weights of the trained network itself: it has seen the data and is refused as a prior. All "
        "that is said about the start is about the end. Give the network as it was before training.",
        0.0,
        exact=True,
        premises=(Premise("initial was fixed before the data were seen", False, "it is the trained network"),),
        headline="The start that was given is the trained network",
        **CERTIFICATE,
    )


def spectra_work(subject) -> float:
    """The operations that the singular values of all weights take, and the norms of all layers."""
    shapes = [(a.shape[0], a.size // a.shape[0]) for a in jax.tree.leaves(subject.params) if a.ndim > 1]
    return SPECTRUM * sum(m * n * min(m, n) for m, n in shapes) + PRODUCTS * _plan.forward(subject)


class Table(NamedTuple):
    """The table of bounds, on how many examples it rests, and whether a certificate could be afforded."""

    table: Any
    n: int
    certified: bool


def table_of(subject, classes, initial, budget, key) -> Table:
    """The table of bounds within the budget.

    With a certificate where that can be afforded; its prior is at `initial`, and without made of a part of the data.
    """
    sample_key, key = jax.random.split(key)
    work = SHARE * budget.work
    forward, steps = _plan.forward(subject), STEPS.get(budget.name, STEPS["quick"])
    n = _plan.examples_for(subject, budget, PASSES / SHARE, most=count(classes.data))
    # a data-dependent prior is trained as well; drawing and counting predictions, on two passes each
    training = steps * BATCH * 2 * _plan.GRADIENT * forward * (1 if initial is not None else 2)
    counted = int(work / (DRAWS * 2 * (forward + 2 * subject.size)))
    certify = training <= work and _plan.vectors(subject, budget) >= 16
    certify = certify and min(n, counted) >= min(FEWEST, count(classes.data))
    data = some(classes.data, min(n, counted) if certify else n, sample_key)
    table = bounds(
        classes.network,
        "cross_entropy",  # of labels 0, 1, ..., whatever the network was trained with
        data,
        test=classes.test,
        initial=initial,
        steps=steps if certify else 0,
        delta=DELTA,
        key=key,
        batch_size=_plan.batch_of(subject, budget, 1024),
    )
    return Table(table, count(data), certify)


def beside(subject, found: Table) -> Finding:
    """All bounds that apply, in one picture with the error that was measured."""
    table, n = found.table, found.n
    made = [row for row in table.rows if row.value is not None]
    useful = [row for row in made if not row.vacuous]
    empty = "; ".join(f"{row.name} by a factor of {row.value:.3g}" for row in made if row.vacuous)
    best = made[0]
    said = "; ".join(f"{row.name}: {row.value:.3g}" for row in useful)
    text = (
        f"Below 1, and so not vacuous: {said}." if useful else "No bound is below 1, which is no fault of the network."
    )
    text += f" Vacuous: {empty}." if empty else ""
    if table.measured.test is not None:
        text += f" The error measured on the test data is {table.measured.test:.3g}."
    if not useful:
        text += f" The nearest one: {best.need[0].lower()}{best.need[1:]}"
    apart = Premise("each holds by itself", True, f"with probability {1 - table.delta:.2f}")
    return Finding(
        "tightest bound on the error of new examples",
        "fine",
        text,
        best.value,
        exact=True,
        premises=(
            apart,
            Premise("the examples are drawn independently from one law", None),
            Premise("made of all training data", n == subject.count(), f"{n:,} of {subject.count():,} examples"),
        ),
        figure=picture("bounds on the error of new examples, beside the measured one", _chart(made, table)),
        **BOUNDS,
    )


def _chart(made, table):
    """One row per bound on a logarithmic axis; a line at 1, and the interval of the test error."""
    rows = [
        {
            "what": _first_word(row.name),
            "error": min(row.value, 1e30),
            "kind": "vacuous bound" if row.vacuous else "bound",
            "note": f"{row.value:.3g}",
        }
        for row in made
    ]
    test, ends = table.measured.test, []
    if test is not None:
        low, high = (table.measured.train + end for end in table.measured.interval)
        least = high / 30  # no error at all has no place on a logarithmic axis
        low = max(low, least)
        ends = [{"what": "measured on test data", "error": low, "high": high}]
        first = {"what": "measured on test data", "error": max(test, least), "kind": "measured", "note": f"{test:.3g}"}
        rows.insert(0, first)
    values = [1.0, *(row["error"] for row in rows), *(end["error"] for end in ends)]
    scale = log_scale(values)
    form = {"format": "~g"} if max(values) < 1e5 else {}
    across = alt.X(
        "error:Q", title="error on new examples", scale=alt.Scale(**scale), axis=alt.Axis(**axis(scale, values) | form)
    )
    up = alt.Y("what:N", title=None, sort=[row["what"] for row in rows], axis=alt.Axis(labelLimit=200))
    kinds = ["measured", "bound", "vacuous bound"]
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[MEASURED, FITTED, PREDICTED]),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    base = alt.Chart(alt.Data(values=rows))
    layers = [
        alt.Chart(alt.Data(values=[{"error": 1.0}])).mark_rule(color=QUIET, strokeDash=[5, 4]).encode(x=across),
        base.mark_point(filled=True, size=70, opacity=1).encode(x=across, y=up, color=colour),
        base.mark_text(dy=-10, color=QUIET).encode(x=across, y=up, text="note:N"),
    ]
    if ends:
        layers.insert(
            1, alt.Chart(alt.Data(values=ends)).mark_rule(color=MEASURED, size=2).encode(x=across, x2="high:Q", y=up)
        )
    return alt.layer(*layers).properties(width=270, height=26 * len(rows))


def _first_word(name: str) -> str:
    """The name of a bound without what it is about, for the picture."""
    return name.partition(",")[0]


def certificate(subject, made: Table, initial) -> Finding:
    """The certificate with its terms, and what would lower it most."""
    name, found, n = "PAC-Bayes certificate", made.table.certificate, made.n
    if found is None:
        (row,) = [row for row in made.table.rows if row.name.startswith("PAC-Bayes")]
        why = row.need if made.certified else "This was left out: its training takes too long. --budget full makes it."
        return Finding(name, "not applicable", why, **CERTIFICATE)
    terms = {term: float(value) for term, value in found.terms.items()}
    value, kept = float(found.value), n - round(found.fraction * n)
    largest = max((t for t in terms if t != "training error"), key=terms.get)
    error = terms["training error"]
    if error >= terms[largest]:
        advice = (
            "a stochastic network that errs less on its own sample would lower it most: longer training, or more data"
        )
    elif largest == "distance to the prior":
        advice = OTHER_SPLIT if found.fraction else NEARER
    else:
        advice = HELP[largest]
    spent = ", ".join(f"{term} {v:.3g}" for term, v in terms.items() if v > 0)
    text = (
        f"With confidence {1 - float(found.bound.delta):.2f} a network whose weights are drawn for each prediction, "
        f"from a law trained around these, errs on at most {value:.3g} of new examples: {spent}. "
        f"{advice[0].upper()}{advice[1:]}."
    )
    return Finding(
        name, "fine", text, value, exact=True, premises=_premises(subject, found, initial, kept), **CERTIFICATE
    )


def _premises(subject, found, initial, kept) -> tuple[Premise, ...]:
    if initial is not None:
        where = Premise("the prior, at initial, has seen none of the data", None, f"KL {short(float(found.kl))}")
    else:
        where = Premise(
            "the prior has seen none of the certificate's examples",
            True,
            "there is no initial network for it: it was trained on a random half of the data, from new weights, and "
            f"the certificate rests on the other {kept:,} examples; KL {short(float(found.kl))}",
        )
    premises = (where, Premise("the examples are drawn independently from one law", None))
    fixed = [a for a in jax.tree.leaves(subject.apply.fixed) if hasattr(a, "dtype")]
    if fixed:
        text = "what is not trained (statistics, scalers, frozen layers) was fixed before the data were seen"
        premises += (Premise(text, None, f"{len(fixed)} arrays"),)
    return premises
