"""What the layers lose where training starts, and by its end: dead units, saturated ones, directions."""

import math

from corollary.audit._layer_names import layer_called
from corollary.audit.finding import MARKS, Finding, short
from corollary.audit.sections._signals import Measured

# A unit of random sign is off with chance 1/2. Where the signals of all examples are parallel, half of the units are
# always off and half always on: the layer no longer bends. A quarter is halfway there, and no harm where training has
# learned without them.
DEAD_LOOK, DEAD_PROBLEM = 0.25, 0.5
# a saturated unit still learns from some examples: it takes most of a layer to block it
FLAT_LOOK, FLAT_PROBLEM = 0.5, 0.9
# A participation ratio below 1.1 leaves 5 % of the variance outside a single direction; 3 is clearly more than one.
ONE, NEARLY_ONE, SEVERAL = 1.1, 1.5, 3.0


def findings(m: Measured):
    yield _lost(m, "dead", DEAD_LOOK, DEAD_PROBLEM)
    if m.trained is not None and (late := _died(m)) is not None:
        yield late
    yield _lost(m, "saturated", FLAT_LOOK, FLAT_PROBLEM)
    yield _rank(m)


SPARED = "Training has learned without them."
LOST = {
    "dead": dict(
        name="dead units",
        one="gives zero on every example",
        what="give zero on every example, and get no gradient",
        none="No layer is short of live units.",
        headline="{share} of the units of a layer are dead",
        theorem="A rectified unit whose pre-activations are negative on all data never moves again.",
        claim="nets.activations.dead_units",
    ),
    "saturated": dict(
        name="saturated units",
        one="is flat (slope below 0.01) on nearly all examples",
        what="are flat (slope below 0.01) on nearly all examples, and hardly learn",
        none="No layer is blocked by them.",
        headline="Most units of a layer are saturated",
        theorem="The slope of a sigmoid vanishes exponentially in its input, and large weights saturate the units.",
        claim="landscape.initialisation.deterministic_weights",
    ),
}


def _lost(m: Measured, kind: str, look: float, problem: float) -> Finding:
    words = LOST[kind]
    worst, value = _shares(m.layers, kind)
    if worst is None:
        return Finding(words["name"], "not applicable", "No nonlinearity acts on single units here.")
    share = float(getattr(worst, kind))
    spared = kind == "dead" and m.learned and look <= share < problem
    mark = "problem" if share >= problem else "look" if share >= look and not spared else "fine"
    if value == 0:
        sentence = f"{m.start.where} no unit {words['one']}."
    else:
        sentence = f"{m.start.where} {short(100 * value)} % of the units {words['what']}; most in "
        sentence += f"{layer_called(worst.name)}, {short(100 * share)} %."
    if m.trained is not None and kind == "saturated":
        late, overall = _shares(m.trained, kind)
        after = float(getattr(late, kind))
        # units that saturate late have learned first
        mark = max(mark, "look" if after >= problem else "fine", key=MARKS.index)
        sentence += f" After training it is {short(100 * overall)} %"
        sentence += f", and {short(100 * after)} % in {layer_called(late.name)}." if after else "."
    if mark == "fine":
        sentence += f" {SPARED if spared else words['none']}"
    return Finding(
        words["name"],
        mark,
        sentence,
        100 * value,
        exact=True,
        unit="% of units",
        theorem=words["theorem"],
        claim=words["claim"],
        premises=(m.start.premise, m.seen),
        headline=words["headline"].format(share=f"{short(100 * share)} %"),
    )


def _died(m: Measured) -> Finding | None:
    """Units that are dead at the end: a dead unit stays dead."""
    worst, value = _shares(m.trained, "dead")
    if worst is None:
        return None
    share, before = float(worst.dead), _shares(m.layers, "dead")[1]
    some = f"{short(100 * value)} % of the units give" if value else "no unit gives"
    most = f"; most in {layer_called(worst.name)}, {short(100 * share)} %" if value else ""
    spared = m.learned and DEAD_LOOK <= share < DEAD_PROBLEM
    mark = "problem" if share >= DEAD_PROBLEM else "look" if share >= DEAD_LOOK and not spared else "fine"
    end = " They learn nothing more." if mark != "fine" else f" {SPARED}" if spared else ""
    return Finding(
        "units dead after training",
        mark,
        f"After training {some} zero on every example, {short(100 * before)} % {m.start.where.lower()}{most}.{end}",
        100 * value,
        exact=True,
        unit="% of units",
        theorem=LOST["dead"]["theorem"],
        claim=LOST["dead"]["claim"],
        premises=(m.seen,),
        headline=f"{short(100 * share)} % of the units of a layer are dead after training",
    )


def _shares(layers, kind):
    """The layer that has lost most, and the share over all layers."""
    counted = [layer for layer in layers if getattr(layer, kind) is not None]
    if not counted:
        return None, 0.0
    units = sum(layer.units for layer in counted)
    return max(counted, key=lambda a: float(getattr(a, kind))), sum(
        float(getattr(layer, kind)) * layer.units for layer in counted
    ) / units


# --- rank


def _rank(m: Measured) -> Finding:
    ranked = [a for a in m.layers[:-1] if a.rank is not None and a.units > 1 and math.isfinite(a.rank)]
    if not ranked:
        reason = "There is no hidden layer of two to 4096 units with a signal that can be squared."
        return Finding("rank of the layers", "not applicable", reason)
    least = min(ranked, key=lambda layer: float(layer.rank))
    # a trained layer need not vary in more directions than it takes to tell the outputs apart
    mark, bad = _collapse(m.layers[:-1], m.inputs, m.needed if m.start.kind == "trained" else math.inf)
    when = ""
    if mark == "fine" and m.trained is not None:
        mark, bad = _collapse(m.trained[:-1], m.inputs, m.needed)
        when = "After training, in" if bad is not None else ""
    if bad is not None:
        text = (
            f"{when or 'In'} {layer_called(bad.name)} the signal varies in {short(float(bad.rank))} directions of "
            f"{bad.units}, and in several before it: next to nothing of the others is left for the layers that follow."
        )
    else:
        same = max(float(layer.common) for layer in m.layers[:-1])
        text = "No layer collapses."
        # signals that agree to 99 % differ by a tenth of their size
        if same > 0.99 and m.start.kind != "trained":
            mark = "look"
            text = f"Yet {short(100 * same)} % of the signal is the same for all examples: they are hard to tell apart."
    inputs = "" if m.inputs is None else f" (inputs: {short(m.inputs)})"
    return Finding(
        "rank of the layers",
        mark,
        f"{m.start.where} the signal varies in {short(float(least.rank))} directions where it varies in the fewest, "
        f"{layer_called(least.name)} with {least.units} units{inputs}. {text}",
        float(least.rank),
        exact=True,
        unit="directions",
        theorem="What has passed through r directions has rank at most r, whatever linear map follows.",
        claim="nets.mlp_linear_networks.bottleneck",
        premises=(m.start.premise, m.seen),
        headline="To a layer all examples look alike" if bad is None else "A layer collapses to one direction",
    )


def _collapse(layers, inputs: float | None, needed: float):
    """The mark, and the first layer in which several directions become one, though more are `needed`.

    A convolution sees patches, which vary in fewer directions than whole inputs, and words have none: the first layer
    has nothing to be compared with.
    """
    before = inputs if inputs is not None and layers and len(layers[0].shape) <= 1 else 1.0
    for layer in layers:
        if layer.rank is None or layer.units < SEVERAL:
            # a bottleneck that was meant
            before = min(before, layer.units) if layer.units > 0 else before
            continue
        rank = float(layer.rank)
        if rank == 0 or (rank < ONE and min(before, needed) >= SEVERAL):
            return "problem", layer
        if rank < NEARLY_ONE and min(before, needed) >= SEVERAL:
            return "look", layer
        before = rank
    return "fine", None
