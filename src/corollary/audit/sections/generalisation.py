"""Will it generalise? The measured gap, whether the test data are new, every bound, and what the network could fit.

The findings are made in `_gap` (errors), `_copies`, `_dealt`, `_siblings`, `_columns` and `_stamps` (leaks), `_law`,
`_prepared`, `_fixed`, `_named`, `_tags`, `_labelled` and `_test_units` (inputs, classes, labels and targets of another
kind), `_certificates` (bounds), `_capacity` (margins, norms, numbers of parameters), `_threshold` (rank of the tangent
features), `_calibration` (probabilities), `_left_out` (one example at a time), `_curve` (twice the data, what is
learned by heart) and `_shuffled` (random labels).
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from corollary import Network
from corollary._engine.program import trace
from corollary.audit import _plan
from corollary.audit._answer import because, by_name, first
from corollary.audit.action import advise
from corollary.audit.finding import Finding
from corollary.audit.sections import (
    _calibration,
    _capacity,
    _certificates,
    _columns,
    _copies,
    _curve,
    _dealt,
    _first_steps,
    _fixed,
    _gap,
    _labelled,
    _law,
    _left_out,
    _named,
    _overfitting,
    _prepared,
    _shuffled,
    _siblings,
    _stamps,
    _tags,
    _test_units,
    _threshold,
)
from corollary.network.batches import count
from corollary.network.parts import split

TITLE = "Will it generalise?"
GAPS = tuple(_gap.GAP.values())
# inputs of another kind, or classes that mean something else, are all that is wrong on the test data
ELSEWHERE = (
    _labelled.NAME,
    *GAPS,
    _calibration.NAME,
    "input that counts in training and not in test",
    "most important input",
)
EXPLAINS = {
    # test inputs that were turned or inverted are of another kind, and that is how
    _prepared.NAME: (
        _law.NAME,
        _named.RENAMED,
        _named.MERGED,
        *ELSEWHERE,
        "inputs at another scale",
        "accuracy under attack",
        "accuracy under random noise",
        "noise, shift, scale and missing inputs",
    ),
    _law.NAME: (
        # of other inputs some classes may be taken for others
        _named.RENAMED,
        _test_units.NAME,
        *ELSEWHERE,
        "inputs at another scale",
        "accuracy under attack",
        "accuracy under random noise",
        "noise, shift, scale and missing inputs",
    ),
    _named.RENAMED: (*ELSEWHERE, "labels most likely wrong"),
    _named.UNKNOWN: ELSEWHERE,
    # where several classes are one the others have no examples
    _named.MERGED: (_named.UNKNOWN, *ELSEWHERE, "labels most likely wrong"),
    _labelled.NAME: (*GAPS, _calibration.NAME, "labels most likely wrong"),
    _tags.NAME: (*ELSEWHERE, "labels most likely wrong"),
    _test_units.NAME: (*ELSEWHERE, "labels most likely wrong"),
    _fixed.NAME: (
        _law.NAME,
        _named.RENAMED,
        _test_units.NAME,
        *ELSEWHERE,
        "inputs at another scale",
        "attributions of the worst mistakes",
        "accuracy under attack",
        "accuracy under random noise",
        "noise, shift, scale and missing inputs",
    ),
    "what the best column alone leaves open": GAPS,
    _stamps.NAME: (*GAPS, _calibration.NAME, "input that counts in training and not in test", "most important input"),
    # labels that say nothing are learned slowly, one by one: the runs behind this have a step of their own
    "labels against shuffled ones": (
        *GAPS,
        _calibration.NAME,
        *_first_steps.SLOW,
        "regime",
        "gradient norm",
        "least curvature",
        "sharpness against 2/η",
        "median margin",
        "most frequent answer",
        "classes as often as it expects them",
        "how far influence can be believed",
        "labels most likely wrong",
        # where nothing predicts the labels no input does
        "most important input",
    ),
    # what it is sure of it has seen, and what it has not is in the test data as well
    **dict.fromkeys(
        (_dealt.NAME, _siblings.NAME),
        (*GAPS, _calibration.NAME, "labels most likely wrong", "test examples that are training examples"),
    ),
    # outputs that are all too large curve the loss
    _calibration.NAME: (
        "sharpness against 2/η",
        "gradient norm",
        "least curvature",
        "classes as often as it expects them",
    ),
    # what was learned by heart it is sure of
    **dict.fromkeys(GAPS, (_calibration.NAME, "most important input")),
    # a start that is the end shows no training
    "distance from the initial network": ("regime", "distance travelled"),
}
# fewer examples are no sample, as `bounds` has it
LEAST = 8
PRODUCTS = ("dot_general", "conv_general_dilated")
OTHER = (
    "Bounds, certificate, margins and truncation are for networks that give one class to each example, by the largest "
    "output or its sign."
)


def findings(subject, budget, key):
    copy_key, bound_key, norm_key, cut_key, draw_key, shuffle_key = jax.random.split(key, 6)
    errors = None if subject.test is None else _gap.errors_of(subject)
    yield _gap.gap(errors)
    if subject.test is not None:
        copies = _copies.measure(subject, copy_key)
        dealt = None if _copies.leaked(copies) else _dealt.measure(subject)
        siblings = None if _copies.leaked(copies) or dealt is not None else _siblings.measure(subject, copy_key)
        new = dealt is None and siblings is None
        yield _copies.judge(copies, subject.count(), subject.count("test"), new)
        if dealt is not None:
            yield _dealt.judge(dealt)
        if siblings is not None:
            yield _siblings.judge(siblings, _siblings.apart(subject, siblings))
        yield _law.judge(_law.measure(subject, errors, jax.random.fold_in(key, 9)))
        if (turned := _prepared.measure(subject)) is not None:
            yield _prepared.judge(turned)
        if (names := _named.measure(subject)) is not None:
            yield _named.judge(names)
        if (merged := _named.measure_merged(subject)) is not None:
            yield _named.judge_merged(merged)
        if (unknown := _named.measure_unknown(subject)) is not None:
            yield _named.judge_unknown(unknown)
        if (tags := _tags.measure(subject)) is not None:
            yield _tags.judge(tags)
        if (labelled := _labelled.measure(subject)) is not None:
            yield _labelled.judge(labelled)
        if (units := _test_units.measure(subject)) is not None:
            yield _test_units.judge(units)
        if (fixed := _fixed.measure(subject)) is not None:
            yield _fixed.judge(fixed)
    if (column := _columns.finding(subject)) is not None:
        yield column
    if (stamp := _stamps.measure(subject)) is not None:
        yield _stamps.judge(stamp)
    if (sure := _calibration.finding(subject)) is not None:
        yield sure
    refused = _certificates.same_as_trained(subject)
    if refused:
        yield _certificates.no_prior()
    if (long := _plan.too_long(subject, budget)) is not None:
        yield _capacity.interpolation(subject)
        yield Finding("bounds, norms and shuffled labels", "not applicable", long)
        return
    network = _named_network(subject)
    classes = _gap.classes_of(subject, _in_order(network, subject.params, subject.train[0]))
    affordable = _certificates.spectra_work(subject) <= _certificates.SHARE * budget.work
    if classes is None:
        yield Finding("bounds", "not applicable", OTHER)
    elif count(classes.data) < LEAST:
        yield Finding("bounds", "not applicable", f"A bound needs at least {LEAST} training examples.")
    else:
        given = None if refused else subject.initial_params
        initial = None if given is None else _in_order(network, given, subject.train[0])
        yield from _of_classes(subject, classes, initial, budget, bound_key, cut_key, affordable)
    yield _capacity.interpolation(subject)
    yield _threshold.judge(_threshold.measure(subject, budget, jax.random.fold_in(key, 6)))
    yield _capacity.layer_norms(subject, network, norm_key, affordable)
    start = None if refused else subject.initial_params
    if start is None and subject.init is not None:
        start = subject.init(draw_key)
    fitted, predicted = _gap.learned_by_errors(subject), errors is not None and errors.predicted
    yield _shuffled.finding(subject, budget, start, fitted, shuffle_key, predicted)
    yield _left_out.judge(_left_out.measure(subject, budget, jax.random.fold_in(key, 7)))
    curve = _curve.measure(subject, budget, start, jax.random.fold_in(key, 8))
    yield _curve.judge(curve, "loss" if subject.classes is None else "error")
    yield _curve.judge_memorised(curve)


def answer(findings) -> str:
    found = by_name(findings)
    leak, random = found.get(_copies.NAME), found.get(_shuffled.NAME)
    if leak is not None and leak.mark == "problem":
        return because("Cannot tell", leak.sentence, "Give test data that training has not seen.")
    for mark in ("problem", "look"):
        if (dealt := first(findings, (_dealt.NAME, _siblings.NAME), mark)) is not None:
            return because("Cannot tell", dealt.sentence)
    if (turned := first(findings, (_prepared.NAME,), "problem")) is not None:
        return because("Cannot tell", turned.sentence)
    law, other_names = found.get(_law.NAME), (_named.RENAMED, _named.MERGED, _tags.NAME, _test_units.NAME)
    named = first(findings, other_names, "problem")
    if named is not None and (law is None or law.mark != "problem"):
        return because("Cannot tell", named.sentence)
    if random is not None and random.mark == "problem":
        return because("No", random.sentence)
    if (other := first(findings, (_fixed.NAME, _law.NAME, _named.UNKNOWN), "problem")) is not None:
        return because("No", other.sentence)
    if (gap := first(findings, GAPS, "problem")) is not None:
        return because("No", gap.sentence)
    # an error that carries over does not make probabilities right
    for names in (
        (_named.UNKNOWN, _law.NAME),
        (_stamps.NAME,),
        GAPS,
        (_columns.NAME,),
        (_labelled.NAME,),
        (_calibration.NAME,),
    ):
        for mark in ("problem", "look"):
            if (doubt := first(findings, names, mark)) is not None:
                return because("Partly", doubt.sentence)
    if (gap := first(findings, GAPS, "fine")) is not None:
        if _gap.NOTHING in gap.sentence:
            return because("Cannot tell", gap.sentence, "Give a network that has learned its training data.")
        if _gap.OPEN in gap.sentence:
            return because("Cannot tell", gap.sentence, "Give more test data, test=(x, y).")
        return because("Yes", gap.sentence)
    unseen = "Give test data, test=(x, y), that training has not seen."
    beside = found.get(_left_out.NAME)
    if beside is None or beside.value is None:
        return f"Cannot tell: there are no test data. {unseen}"
    return because("Cannot tell", "there are no test data.", beside.sentence.partition(". ")[0] + ".", unseen)


def actions(subject, findings):
    remedies = {
        _copies.NAME: _copies.remove,
        _dealt.NAME: _dealt.keep_together,
        _siblings.NAME: _siblings.split_originals,
        _law.NAME: _law.align,
        _prepared.NAME: _prepared.undo,
        _named.RENAMED: _named.rename,
        _named.UNKNOWN: _named.show_them,
        _named.MERGED: _named.relabel,
        _tags.NAME: _tags.read_so,
        _labelled.NAME: _labelled.compare_labels,
        _test_units.NAME: _test_units.bring_back,
        _fixed.NAME: _fixed.put_back_action,
        _columns.NAME: _columns.drop,
        _stamps.NAME: _stamps.cover,
        _calibration.NAME: _calibration.cool,
        **dict.fromkeys(GAPS, _overfitting.mend),
    }
    if subject.classes is not None:  # of others the error may not be defined
        remedies[_shuffled.NAME] = _shuffled.look_at_labels
    yield from advise(subject, findings, EXPLAINS, remedies)


def _of_classes(subject, classes, initial, budget, bound_key, cut_key, affordable):
    """What is defined by classes: bounds on their error, margins, and what margins allow."""
    batch_size = _plan.batch_of(subject, budget, 1024)
    made = _certificates.table_of(subject, classes, initial, budget, bound_key) if affordable else None
    if made is None:
        yield Finding("bounds", "not applicable", _certificates.TOO_MUCH)
    else:
        yield _certificates.beside(subject, made)
        yield _certificates.certificate(subject, made, initial)
    yield _capacity.margin_distribution(classes, batch_size)
    yield _capacity.truncated(subject, classes, budget, batch_size, cut_key, affordable)


def _named_network(subject):
    """The network, with what was not trained as buffers: of frozen layers no bound has to pay."""
    if subject.trainable is None:
        return subject.network
    buffers, rest = eqx.partition(subject.apply.fixed, eqx.is_array)
    return Network(lambda params, buffers, x: eqx.combine(params, buffers, rest)(x), subject.params, buffers)


class InOrder(eqx.Module):
    """A network with its parameters in an order that no library decides, so that random draws are the same in all."""

    params: dict
    rest: Any
    form: Any = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, x):
        leaves = [self.params[name] for name in sorted(self.params)]
        params = jax.tree.unflatten(self.form, [leaves[place] for place in self.places])
        return eqx.combine(params, self.rest)(x)


def _in_order(network, params, x):
    """`network` with these parameters, its arrays sorted by their sizes, and by where the network uses them.

    Where both are equal the sums of the trained arrays decide. They alone would tell equal sizes apart as well, but in
    another order for each network of one architecture, each with programs of its own to be compiled.
    """
    own = split(network).params
    leaves, form = jax.tree_util.tree_flatten_with_path(own)
    used = _products_before(network, x)
    weights = [(a.size, use, float(np.sum(np.asarray(a, float)))) for (_, a), use in zip(leaves, used, strict=True)]
    order = sorted(range(len(leaves)), key=weights.__getitem__)
    places = tuple(np.argsort(order).tolist())
    new = jax.tree.leaves(params)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    named = {f"{rank:05d} {names[i]}": new[i] for rank, i in enumerate(order)}
    return InOrder(named, split(network).fixed, form, places)


def _products_before(network, x) -> list[int]:
    """How many products come before the first use of each array: of all steps only these are the same in libraries."""
    parts = split(network)
    leaves, tree = jax.tree.flatten(parts.params)
    inputs, form = jax.tree.flatten(jax.tree.map(lambda a: a[0], x))
    program = trace(lambda p, x: parts.join(tree.unflatten(p))(form.unflatten(x)), leaves, inputs)
    uses: dict[int, int] = {}
    products = 0
    for step in program.steps:
        for slot in step.ins:
            uses.setdefault(slot, products)
        products += step.name in PRODUCTS
    return [uses.get(slot, products) for slot in program.leaves]
