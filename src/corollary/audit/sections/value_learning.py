"""Will value learning be stable? The update of Q-learning on the user's own transitions, linearised and run.

The numbers are made in `_td_updates`. This section is asked of a `QSubject`.
"""

from functools import partial

import altair as alt
import jax
import numpy as np

from corollary._charts import FAILED, MEASURED
from corollary.audit._answer import because, by_name, first
from corollary.audit._budget import BUDGETS
from corollary.audit.action import Action, Effect, advise
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections import _td_updates
from corollary.audit.sections._td_updates import Measured
from corollary.evidence import picture

TITLE = "Will value learning be stable?"
GROWTH, STEP, DISCOUNT = "growth of the error per step", "largest stable step", "discount at which it breaks"
FROZEN, RUN, BIAS = "error left by a frozen target", "error after a short run", "bias of the semi-gradient"
ZERO, TIED = "values that no step changes", "directions that are not distinct"
EXPLAINS = {
    "discount at which it breaks": (
        "largest stable step",
        "growth of the error per step",
        "error after a short run",
        "bias of the semi-gradient",
    ),
    "largest stable step": ("growth of the error per step", "error after a short run"),
    "growth of the error per step": ("error after a short run",),
    "values that no step changes": ("directions that are not distinct", "error after a short run"),
}
#: what decides, in this order
DECIDE = (DISCOUNT, STEP, GROWTH, ZERO, RUN, TIED, FROZEN)
#: a growth by so much per step shows within a million of them; less than the second in none
SHOWS, NEVER = 1e-6, 1e-9
#: a discount is near the critical one where the horizon 1/(1 - β) need only grow by this factor
NEAR = 2.0
#: the step that is advised, as a share of the limit
SAFE = 0.5
#: the run agrees with what the kernels promise within this factor
FACTOR = 2.0
#: fewer steps are no run
FEWEST = 10
#: what an action is tried with, and how transitions are drawn where there are many
QUICK, KEY = BUDGETS["quick"], jax.random.key(0)
SPECTRUM = "Near a fixed point the mean update is linear, with the eigenvalues of (K(ξ, ξ) - β K(ξ', ξ))/n."


def findings(subject, budget, key):
    # actions look at the same transitions, so that what they promise is about what was found
    m = _td_updates.measure(subject, budget, KEY)
    seen = f"on {m.n:,} of {m.total:,} transitions" if m.n < m.total else f"on the {m.n} transitions"
    yield judge_zero(m, seen)
    yield judge_tied(m)
    if m.zero == m.n:
        yield Finding(GROWTH, "not applicable", "No value has a gradient, so that no step changes anything.")
        return
    yield judge_discount(m, subject.beta, subject.target_every)
    yield judge_step(m, subject.learning_rate, subject.target_every)
    yield judge_growth(m, subject, seen)
    yield judge_frozen(m, subject.target_every)
    yield judge_run(m)
    yield judge_bias(m)


def judge_zero(m: Measured, seen: str) -> Finding:
    theorem = (
        "The kernel of a wide network is positive definite on pairs ξ = (x, a) in distinct directions; ξ = 0 has none."
    )
    facts = {"theorem": theorem, "claim": "reinforcement.q_limit_kernel.positive_definite_on_pairs", "exact": True}
    if not m.zero:
        return Finding(ZERO, "fine", f"All values {seen} have a gradient.", 0.0, **facts)
    share = 100 * m.zero / m.n
    return Finding(
        ZERO,
        "problem",
        f"{m.zero} of the values {seen} ({short(share)} %) have no gradient: whatever is learned, they stay as they "
        "are. That is so for a state that is encoded as zero in a network without biases.",
        float(m.zero),
        headline="Some values can never be learned",
        **facts,
    )


def judge_tied(m: Measured) -> Finding:
    facts = {
        "theorem": "On pairs in distinct directions the kernel is positive definite, and every value can be reached.",
        "claim": "reinforcement.q_limit_kernel.positive_definite_on_pairs",
        "exact": True,
    }
    if not m.tied:
        return Finding(
            TIED, "fine", f"The gradients of all {m.pairs} different pairs differ in direction.", 0.0, **facts
        )
    return Finding(
        TIED,
        "look",
        f"Of {m.pairs} different pairs of a state and an action {m.tied} share the direction of their gradient with "
        "another one: what one of them learns moves the other in a fixed proportion.",
        float(m.tied),
        headline="Some values are tied to each other",
        **facts,
    )


def judge_discount(m: Measured, beta: float, every: int) -> Finding:
    critical = float(m.spectrum.critical_beta)
    facts = {"theorem": SPECTRUM, "claim": "reinforcement.stability.one_state_breaks", "exact": True}
    value = min(critical, 1.0)
    if critical > 1:
        return Finding(DISCOUNT, "fine", "No discount below 1 makes the update unstable.", value, **facts)
    if critical > beta:
        near = (1 - beta) / (1 - critical) if critical < 1 else np.inf
        mark = "look" if near < NEAR and every == 1 else "fine"
        said = f"From the discount {critical:.4g} on the update is unstable; {short(beta)} lies below it."
        headline = "The discount is near to where learning breaks"
        return Finding(DISCOUNT, mark, said, value, headline=headline, **facts)
    said = f"From the discount {critical:.4g} on the update is unstable, and it is {short(beta)}"
    if every > 1 and m.growth <= NEVER:
        return Finding(DISCOUNT, "fine", f"{said}: it is the target network that makes it stable.", value, **facts)
    headline = "The discount is too large"
    return Finding(DISCOUNT, _mark(m.growth), f"{said}: the error grows by itself.", value, headline=headline, **facts)


def _mark(growth: float) -> str:
    """Of what grows: a problem where it shows."""
    return "problem" if growth > SHOWS else "look"


def judge_step(m: Measured, given: float | None, every: int) -> Finding:
    facts = {
        "theorem": "Plain steps are stable below the least 2 Re λ/|λ|² over the spectrum.",
        "claim": "reinforcement.stability.one_state_breaks",
        "premises": (Premise("steps are taken on all transitions at once, without memory", None),),
        "exact": True,
    }
    if m.limit == 0:
        said = "No step is stable: what moves along with the target grows at every step."
        return Finding(STEP, _mark(m.growth), said, 0.0, headline="No step is stable", **facts)
    towards = "" if every == 1 else "towards a target that waits "
    said = f"Steps {towards}below {short(m.limit)} are stable"
    if given is None:
        return Finding(STEP, "fine", f"{said}; no learning_rate= was given to compare.", m.limit, **facts)
    if given >= m.limit:
        text = f"{said}, and they are {short(given)}."
        return Finding(STEP, "problem", text, m.limit, headline="The step is too long", **facts)
    return Finding(STEP, "fine", f"{said}; they are {short(given)}.", m.limit, **facts)


def judge_growth(m: Measured, subject, seen: str) -> Finding:
    step = "" if subject.learning_rate is not None else f" with steps of {short(m.step)}, half of what is stable"
    facts = {"theorem": SPECTRUM, "claim": "reinforcement.stability.one_state_breaks", "exact": True}
    facts["figure"] = _spectrum(m)
    value = m.growth if np.isfinite(m.growth) else float(np.sign(m.growth)) / _td_updates.LEAST
    if m.growth > NEVER:
        grown = short(np.log(10) / m.growth)
        text = f"The error {seen} grows tenfold in {grown} steps{step}."
        return Finding(GROWTH, _mark(m.growth), text, value, headline="The error grows as it learns", **facts)
    if m.growth > -NEVER:
        return Finding(GROWTH, "fine", f"No error {seen} grows or shrinks{step} in a billion steps.", value, **facts)
    return Finding(
        GROWTH,
        "fine",
        f"The slowest part of the error {seen} falls to a tenth in {short(-np.log(10) / m.growth)} steps{step}.",
        value,
        **facts,
    )


def _spectrum(m: Measured):
    """The eigenvalues as shares of the largest: those left of zero grow where the target moves along."""
    values = np.asarray(m.spectrum.eigenvalues)
    values = values[np.abs(values) > 0] / max(np.abs(values).max(), _td_updates.LEAST)
    rows = [
        {"rate": float(v.real), "turn": float(v.imag), "part": "shrinks" if v.real > 0 else "grows"} for v in values
    ]
    # small rates are what decides: they are drawn on a scale that has room for them
    wide = alt.Scale(type="symlog", constant=1e-4, domain=[-1, 1])
    colours = alt.Scale(domain=["shrinks", "grows"], range=[MEASURED, FAILED])
    ticks = alt.Axis(values=[-1, -0.01, 0, 0.01, 1], format="~g")
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=28, opacity=0.6)
        .encode(
            x=alt.X("rate:Q", scale=wide, axis=ticks, title="rate at which it shrinks, of the fastest"),
            y=alt.Y("turn:Q", scale=wide, axis=ticks, title="at which it turns"),
            color=alt.Color("part:N", scale=colours, title=None),
        )
        .properties(width=320, height=180)
    )
    return picture("spectrum of the update with a target that moves along", chart)


def judge_frozen(m: Measured, every: int) -> Finding:
    radius, rescue = float(m.frozen.radius), ""
    facts = {
        "theorem": "A target that is fitted completely before it is renewed multiplies the error by β K(ξ', ξ) K⁻¹.",
        "claim": "reinforcement.renewal.between_two_targets",
        "exact": True,
    }
    if m.renewal is not None:
        rescue = f" At this step {m.renewal} steps between renewals are enough."
    if radius < 1:
        helps = "" if m.growth <= NEVER else " It helps."
        said = f"A target that waits until it is fitted leaves {short(radius)} of the error each time.{helps}{rescue}"
        return Finding(FROZEN, "fine", said, radius, **facts)
    said = (
        f"A target that waits until it is fitted multiplies the error by {short(radius)} each time: it does not help."
    )
    mark = "look" if every > 1 or m.growth > NEVER else "fine"
    return Finding(FROZEN, mark, said, radius, headline="A target that waits does not help", **facts)


def judge_run(m: Measured) -> Finding:
    if m.updates < FEWEST:
        said = "Even ten steps on these transitions would take longer than the budget allows."
        return Finding(RUN, "not applicable", said)
    agrees = m.promised / FACTOR <= m.run <= FACTOR * m.promised
    premise = Premise("the gradients stay as they are during the run", agrees, f"promised {short(m.promised)}")
    facts = {"theorem": SPECTRUM, "claim": "reinforcement.stability.one_state_breaks", "premises": (premise,)}
    said = f"After {m.updates} steps of {short(m.step)} the error is {short(m.run)} times what it was"
    said += f"; the linear update promised {short(m.promised)}."
    # on its way down an error of several parts may rise a little
    mark = "problem" if m.run > FACTOR else "look" if m.run > 1 and m.growth > NEVER else "fine"
    return Finding(RUN, mark, said, m.run, exact=True, headline="The error grew over a run", **facts)


def judge_bias(m: Measured) -> Finding:
    if m.cosine is None:
        return Finding(BIAS, "not applicable", "All values meet their targets: there is no update.")
    facts = {
        "theorem": "The update differs from the gradient of half the squared error by δ∇Y, the slope of the target.",
        "claim": "reinforcement.gradients.semi_gradient_bias",
        "exact": True,
    }
    said = f"The update has the cosine {short(m.cosine)} with the steepest way down the squared error"
    if m.cosine > 0:
        return Finding(BIAS, "fine", f"{said}: it goes down.", m.cosine, **facts)
    said += ": at first it makes that error larger"
    if m.growth <= NEVER:
        return Finding(BIAS, "fine", f"{said}, and in the end not.", m.cosine, **facts)
    return Finding(BIAS, "look", f"{said}.", m.cosine, headline="Its updates go uphill at first", **facts)


def answer(findings) -> str:
    for mark, word in (("problem", "No"), ("look", "Partly")):
        if (decides := first(findings, DECIDE, mark)) is not None:
            return because(word, decides.sentence)
    found = by_name(findings)
    return because("Yes", found[GROWTH].sentence, found[STEP].sentence)


def actions(subject, findings):
    found = by_name(findings)
    remedies = {
        DISCOUNT: partial(_steadier, found),
        STEP: partial(_shorter, found),
        GROWTH: partial(_steadier, found),
        ZERO: _shifted,
    }
    yield from advise(subject, findings, EXPLAINS, remedies)


def _treated(what, subject, finding, now: Finding, **facts):
    """An action that changes a fact of the learning; its effect is foretold by the kernels and measured by steps."""
    after = _td_updates.measure(subject.replaced(**facts), QUICK, KEY)
    if now.value is None or after.updates < FEWEST:
        return None
    then = after.promised
    effect = Effect(
        f"error after {after.updates} steps against now",
        now.value,
        then,
        (then / FACTOR, FACTOR * then),
        lambda treated: _td_updates.measure(treated, QUICK, KEY).run,
    )
    return Action(what, finding.name, effect, "theorem", lambda subject, *, key: subject.replaced(**facts), 0.1)


def _shorter(found, subject, finding):
    if subject.learning_rate is None or finding.value == 0:
        return None
    step = SAFE * finding.value
    what = f"divide the step by {short(subject.learning_rate / step)}, to {short(step)}"
    return _treated(what, subject, finding, found[RUN], learning_rate=step)


def _steadier(found, subject, finding):
    """A target that waits, where it helps; else a discount that is small enough."""
    m = _td_updates.measure(subject, QUICK, KEY)
    step = {} if subject.learning_rate is not None else {"learning_rate": m.step}
    if m.renewal is not None:
        what = f"renew the target every {m.renewal} steps, and not more often"
        return _treated(what, subject, finding, found[RUN], target_every=m.renewal, **step)
    critical = found[DISCOUNT].value
    if not 0 < critical < 1 or subject.target_every > 1:
        return None
    # half of the horizon at which it breaks
    beta = max(1 - 2 * (1 - critical), critical / 2)
    what = f"lower the discount to {short(beta)}, which is another task"
    return _treated(what, subject, finding, found[RUN], beta=beta)


def _shifted(subject, finding):
    """A constant is added to what the network sees, so that no state is zero."""
    effect = Effect(ZERO, finding.value, 0.0, (0.0, 0.0), lambda treated: _td_updates.measure(treated, QUICK, KEY).zero)
    what = "add a constant to the observations, so that no state is zero"
    return Action(what, ZERO, effect, "theorem", _with_constant, 0.1)


def _with_constant(subject, *, key):
    def moved(a):
        a = np.asarray(a)
        # as large as what is seen: then it is neither lost in it nor all there is
        return a + np.asarray(np.sqrt(np.mean(a**2)) or 1, a.dtype) if np.issubdtype(a.dtype, np.floating) else a

    seen = {name: getattr(subject.transitions, name) for name in ("observation", "next_observation")}
    return subject.replaced(
        transitions=subject.transitions._replace(**{name: jax.tree.map(moved, tree) for name, tree in seen.items()})
    )
