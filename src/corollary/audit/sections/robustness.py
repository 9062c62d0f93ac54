"""Is it robust? What attacks leave of the accuracy, what is certain, and what changes without malice do.

The findings are made in `_input_scale` (is this the scale it was made for?), `_under_attack` (of the distances that
`_attacked` measures), `_margins` (certificates), `_smoothed_copy` (what votes would certify) and `_changes` (noise,
shift, scale, missing inputs). Radii are in distances to the nearest example of another class (`_attackable`). Of tokens
the embeddings are moved.
"""

from dataclasses import replace

import jax
import numpy as np

from corollary.audit._answer import because, by_name, first
from corollary.audit._embedded import PREMISE, by_embeddings, of_words
from corollary.audit.action import advise
from corollary.audit.finding import Finding
from corollary.audit.sections import (
    _attackable,
    _attacked,
    _changes,
    _gap,
    _hardening,
    _input_scale,
    _margins,
    _smoothed_copy,
)
from corollary.audit.sections._under_attack import HALF, judge_attack, judge_hidden, judge_random

TITLE = "Is it robust?"
EXPLAINS = {
    # at another scale it is another network
    "inputs at another scale": (
        "training loss against a blind guess",
        "gradients that lead attacks astray",
        "accuracy under attack",
        "accuracy under random noise",
        "noise, shift, scale and missing inputs",
        "gap between training and test error",
        "gap between training and test loss",
        # outputs grow with the inputs, and what is sure of itself with them
        "calibration error",
        "attributions of the worst mistakes",
        "most important input",
    ),
    # what noise turns, an attack of the same size turns too
    "accuracy under random noise": ("accuracy under attack", "noise, shift, scale and missing inputs"),
}
#: what decides, in this order
DECIDE = (*EXPLAINS, "accuracy under attack", "noise, shift, scale and missing inputs")


def findings(subject, budget, key):
    if not of_words(subject) or _gap.classes_of(subject, subject.network) is None:
        yield from _under_attack(subject, budget, key)
        return
    behind = by_embeddings(subject)
    if isinstance(behind, str):
        yield Finding("accuracy under attack", "not applicable", behind)
        return
    for finding in _under_attack(behind, budget, key, words=True):
        yield replace(finding, premises=(*finding.premises, PREMISE))


def _under_attack(subject, budget, key, words: bool = False):
    """The findings on inputs that have small changes; embeddings of `words` have no scale but that of the network."""
    sample_key, margin_key, attack_key, vote_key = jax.random.split(key, 4)
    why = _attackable.refused(subject, budget)
    victim = _attackable.attackable(subject, budget, sample_key) if why is None else why
    if isinstance(victim, str):
        yield Finding("accuracy under attack", "not applicable", victim)
        return
    if not words:
        yield _input_scale.judge(_input_scale.measure(subject, victim))
    if (why := _attackable.in_several_units(victim)) is not None:
        yield Finding("accuracy under attack", "not applicable", why)
        return
    if (why := _attackable.no_better_than_a_guess(subject, victim)) is not None:
        yield Finding("accuracy under attack", "not applicable", why)
        return
    margins = _margins.measure(subject, victim, budget, margin_key)
    certified = np.zeros(len(victim.x)) if margins is None else margins.radius
    found = _attacked.measure(subject, victim, certified, budget, attack_key)
    yield judge_hidden(found)
    copy = _smoothed_copy.measure(subject, victim, budget, vote_key)
    yield judge_attack(victim, found, copy)
    yield judge_random(found)
    yield _margins.judge(margins, victim, found.nearest)
    yield _smoothed_copy.judge(copy, found.certified, found.right)
    if not words:
        yield _changes.judge(_changes.measure(subject, victim))


def answer(findings) -> str:
    for mark, word in (("problem", "No"), ("look", "Partly")):
        if (decides := first(findings, DECIDE, mark)) is not None:
            return because(word, decides.sentence)
    found = by_name(findings)
    attack = found.get("accuracy under attack")
    if attack is None or attack.mark == "not applicable":
        return because("Cannot tell", "Nothing could be attacked." if attack is None else attack.sentence)
    if (hidden := found["gradients that lead attacks astray"]).mark in ("look", "problem"):
        return because("Partly", hidden.sentence, attack.sentence)
    # the right answers may be robust, but of an input that was moved a little most answers are wrong
    if attack.interval[1] >= HALF:
        return because("Yes", attack.sentence)
    return because("Partly", attack.sentence, "But most answers are wrong then, with an attack or without one.")


def actions(subject, findings):
    # the embeddings of words are a part of the network: no program moves them in training
    if not any(f.mark in ("look", "problem") for f in findings) or of_words(subject):
        return
    remedies = {
        "inputs at another scale": _hardening.to_scale,
        "accuracy under random noise": _hardening.against_attacks,
        "accuracy under attack": _hardening.against_attacks,
        "gradients that lead attacks astray": _hardening.without_gradients,
    }
    yield from advise(subject, findings, EXPLAINS, remedies)
