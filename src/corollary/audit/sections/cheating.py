"""Does it cheat? Of a sampler: whether it repeats itself or its training data, what it leaves out, if it lies."""

import altair as alt
import numpy as np

from corollary._charts import MEASURED, PREDICTED
from corollary.audit._answer import because, by_name, first
from corollary.audit._sample import exact_interval
from corollary.audit.finding import Finding, Premise, short
from corollary.evidence import picture
from corollary.generative import examine

TITLE = "Does it cheat?"
SUPPORT, COPIES = "different examples it can make", "samples that copy the training data"
MISSING, APART = "modes that it leaves out", "samples told from test data"
INTEGRAL, HELD_OUT = "integral of its likelihood", "likelihood of training and test data"
EXPLAINS = {
    # what recites so many examples makes no more than those, and finds them likely
    "samples that copy the training data": ("different examples it can make", "likelihood of training and test data"),
    "different examples it can make": ("modes that it leaves out", "samples told from test data"),
    "modes that it leaves out": ("samples told from test data",),
    "integral of its likelihood": ("likelihood of training and test data",),
}
DECIDE = (COPIES, SUPPORT, MISSING, INTEGRAL, APART, HELD_OUT)
#: what chance does once in a thousand times is named; copies below a hundredth are not a problem
CHANCE, FEW = 1e-3, 0.01
#: an accuracy of 3/4 says that the laws share half of their mass at most
TOLD = 0.75
#: a factor of ten per cent in the likelihood
NATS = 0.1
#: standard errors of an interval at 95 %, and of one that chance leaves once in a thousand times
USUAL, WIDE = 1.96, 3.29
MOST = 4096


def findings(subject, budget, key):
    size = min(MOST, budget.examples // 2)
    found = examine(subject.sample, subject.examples, subject.test, log_prob=subject.log_prob, size=size, key=key)
    yield judge_support(found.birthday, found.of_data, float(found.p_repeats))
    yield judge_copies(found.copying)
    yield judge_modes(found.modes, labelled=subject.labels is not None)
    yield judge_apart(found.told_apart, min(size, len(subject.test)))
    yield judge_integral(found.normaliser)
    yield judge_held_out(found.held_out)


def judge_support(ours, theirs, chance: float) -> Finding:
    """The support, against that of as many training examples."""
    size, distinct = ours.size, int(ours.distinct)
    low, high = (float(end) for end in ours.interval)
    data_low = float(theirs.interval[0])
    mark = "fine" if chance > CHANCE else "problem" if high < data_low else "look"
    if distinct == size:
        value = low
        said = f"No two of {size} samples are alike: it makes {_whole(low)} different examples at least."
    else:
        value = float(ours.support)
        many = f"{distinct} of {size} samples differ" if distinct > 1 else f"All {size} samples are the same"
        said = f"{many}: it makes " + (f"about {_whole(value)} different examples" if distinct > 1 else "one example")
        alike = f"as {size} training examples repeat themselves {size - int(theirs.distinct)} times"
        said += f", {alike}." if mark == "fine" else f", where the data have {_whole(data_low)} at least."
    return Finding(
        SUPPORT,
        mark,
        said,
        value,
        (low, high),
        unit="examples" if distinct < size else "examples at least",
        theorem="Samples of equally likely outcomes repeat themselves from about the root of their number on; "
        "outcomes of other probabilities do so earlier.",
        claim="generative.birthday.support_from_repetitions",
        premises=(
            Premise("samples are drawn independently", None),
            Premise("alike is what is as near", True, f"distance {short(float(ours.tolerance))}"),
        ),
        headline="It makes too few different examples",
    )


def judge_copies(copying) -> Finding:
    n, share, natural = len(copying.samples), float(copying.share), float(copying.natural)
    copies = round(share * n)
    mark = "fine" if float(copying.p_value) > CHANCE else "problem" if share - natural >= FEW else "look"
    said = f"Of {n} samples {copies or 'none'} {'is' if copies < 2 else 'are'} nearly a training example"
    if mark == "fine":
        said += "." if natural == 0 else f", as {short(100 * natural)} % of the test examples are."
    else:
        said += f", where {short(100 * natural)} % of the test examples are: it recites what it was trained on."
    low, high = exact_interval(copies, n)
    return Finding(
        COPIES,
        mark,
        said,
        100 * share,
        (100 * low, 100 * high),
        unit="% of samples",
        theorem="A network of some md parameters recites m examples of d numbers; no discriminator that is small "
        "against m notices.",
        claim="generative.memorising.recitation",
        premises=(Premise("near is a quarter of the usual distance of a test example", True),),
        figure=picture("distances to the nearest training example", _distances(copying)),
        headline="It recites what it was trained on",
    )


def judge_modes(modes, *, labelled: bool) -> Finding:
    ours, theirs = np.asarray(modes.samples), np.asarray(modes.test)
    missing = np.flatnonzero(np.asarray(modes.missing))
    kind = ("class", "classes") if labelled else ("cluster", "clusters")
    total, gone = int(theirs.sum()), int(theirs[missing].sum())
    if len(missing):
        each = [
            f"{kind[0]} {i} ({ours[i]} of {ours.sum()} samples, {theirs[i]} of {total} test examples)" for i in missing
        ]
        shown = ", ".join(each[:3]) + (f" and {len(each) - 3} more" if len(each) > 3 else "")
        said = "It leaves out, or makes less than half as often as it should, "
        said += f"{len(missing)} of {len(ours)} {kind[1]}: {shown}."
    else:
        said = f"All {len(ours)} {kind[1]} of the training data come, none less than half as often as it should."
    low, high = exact_interval(gone, total)
    return Finding(
        MISSING,
        "problem" if len(missing) else "fine",
        said,
        100 * gone / total,
        (100 * low, 100 * high),
        unit="% of test examples are of them",
        theorem="The objective of a GAN cannot prevent it: laws of small support have a value near the best.",
        claim="generative.memorising.mode_collapse",
        premises=(Premise("modes are known", True if labelled else None, f"{len(ours)} {kind[1]}"),),
        figure=picture("share of each mode", _modes(ours, theirs, kind[0])),
        headline=f"It leaves out {len(missing)} of {len(ours)} {kind[1]}, or nearly",
    )


def judge_apart(told, used: int) -> Finding:
    accuracy, p = float(told.accuracy), float(told.p_value)
    asked = 2 * (used - used // 2)
    low, high = exact_interval(round(accuracy * asked), asked)
    mark = "fine" if p > CHANCE else "problem" if low > TOLD else "look"
    chance = f"p = {short(p)}" if p > 1e-12 else "p < 1e-12"
    said = f"A classifier tells samples from test examples {short(100 * accuracy)} % of the time"
    said += f" ({chance} by chance)." if mark != "fine" else f", as chance may do ({chance})."
    return Finding(
        APART,
        mark,
        said,
        100 * accuracy,
        (100 * low, 100 * high),
        unit="% right",
        theorem="A classifier that is right with probability a on halves of either law shows that their total "
        "variation is 2a - 1 at least.",
        claim="foundations.divergences_moments.integral_metrics",
        premises=(Premise("test examples are of the law that was to be learned", None),),
        headline="Its samples are not like the test data",
    )


def judge_integral(normaliser) -> Finding:
    if normaliser is None:
        return Finding(INTEGRAL, "not applicable", "There is no log_prob to look at.")
    if not bool(normaliser.known):
        return Finding(
            INTEGRAL,
            "not applicable",
            f"Cannot tell: only {short(float(normaliser.overlap))} samples lie where a density made of the others is "
            "comparable to the likelihood.",
        )
    value, (low, high) = float(normaliser.value), (float(end) for end in normaliser.interval)
    wide = (high - low) / 2 / USUAL * WIDE
    mark = "fine" if abs(value) <= wide else "problem" if abs(value) > NATS else "look"
    if mark == "fine":
        said = "The density that it states integrates to one, as far as can be told."
    else:
        way = "better" if value > 0 else "worse"
        said = (
            f"The density that it states integrates to {short(float(np.exp(value)))} where its samples are: every "
            f"likelihood looks {short(abs(value))} nats {way} than it is."
        )
    return Finding(
        INTEGRAL,
        mark,
        said,
        value,
        (low, high),
        unit="nats from one",
        theorem="The density of an invertible map of a normal variable is the normal density there times the "
        "determinant; it integrates to one.",
        claim="generative.flows.change_of_variables",
        premises=(Premise("its samples are of the density that it states", None),),
        headline=f"Its likelihoods look {'better' if value > 0 else 'worse'} than they are",
    )


def judge_held_out(held_out) -> Finding:
    if held_out is None:
        return Finding(HELD_OUT, "not applicable", "There is no log_prob to look at.")
    gap, (low, high) = float(held_out.gap), (float(end) for end in held_out.interval)
    if not np.isfinite([gap, low, high]).all():
        return Finding(
            HELD_OUT, "not applicable", "Some example is impossible under log_prob: its mean is minus infinity."
        )
    wide, spread = (high - low) / 2 / USUAL * WIDE, float(held_out.spread)
    mark = "fine" if gap <= wide else "problem" if gap > spread else "look"
    train, test = short(float(held_out.train)), short(float(held_out.test))
    said = f"Training examples have {train} nats on average, test examples {test}"
    said += ", as chance may do." if mark == "fine" else f": {short(gap)} nats of its likelihood are learned by heart."
    return Finding(
        HELD_OUT,
        mark,
        said,
        gap,
        (low, high),
        unit="nats more on training data",
        theorem="On new examples the mean log-likelihood is minus the relative entropy to the law, up to a constant; "
        "on those that were fitted it is not.",
        claim="generative.likelihood.likelihood_is_relative_entropy",
        premises=(Premise("training and test examples are of one law", None),),
        headline="It has learned its examples by heart",
    )


def answer(findings) -> str:
    for mark, word in (("problem", "Yes"), ("look", "Partly")):
        if (decides := first(findings, DECIDE, mark)) is not None:
            return because(word, decides.sentence)
    found = by_name(findings)
    return because("No", found[SUPPORT].sentence, found[COPIES].sentence)


def actions(subject, findings):
    """None: what to do depends on how the sampler was trained, of which nothing is known."""
    return iter(())


def _whole(x: float) -> str:
    """A number of examples; three digits of large ones."""
    return f"{round(float(f'{x:.3g}')):,}"


def _distances(copying):
    """The share of samples, and of test examples, within each distance."""
    rows = []
    for name, values in (("samples", copying.samples), ("test examples", copying.test)):
        values = np.sort(np.asarray(values, float))
        at = np.unique(np.linspace(0, len(values) - 1, 100).round().astype(int))
        rows += [{"distance": float(values[i]), "share": (i + 1) / len(values), "of": name} for i in at]
    colours = alt.Scale(domain=["samples", "test examples"], range=[MEASURED, PREDICTED])
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("distance:Q", title="distance to the nearest training example"),
            y=alt.Y("share:Q", title="share within it", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color("of:N", title=None, scale=colours, legend=alt.Legend(orient="top")),
        )
        .properties(width=320, height=180)
    )


def _modes(ours, theirs, kind):
    rows = []
    for name, counts in (("samples", ours), ("test examples", theirs)):
        rows += [{"mode": i, "share": float(100 * c / counts.sum()), "of": name} for i, c in enumerate(counts)]
    colours = alt.Scale(domain=["samples", "test examples"], range=[MEASURED, PREDICTED])
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=40)
        .encode(
            x=alt.X("mode:O", title=kind, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("share:Q", title="% of all"),
            color=alt.Color("of:N", title=None, scale=colours, legend=alt.Legend(orient="top")),
        )
        .properties(width=320, height=180)
    )
