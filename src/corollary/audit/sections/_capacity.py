"""What the network could fit, and how much of it is used: margins, norms, ranks, numbers of parameters."""

import altair as alt
import jax
import numpy as np

from corollary._charts import MEASURED, PREDICTED
from corollary.audit import _plan
from corollary.audit._layer_names import layer_called
from corollary.audit._sample import numbers_of, some
from corollary.audit.finding import Finding, Premise, short
from corollary.evidence import picture
from corollary.generalization import margins, operator_norms, truncate
from corollary.network.batches import count

# Norms of trained layers, each relative to what its shape has at a usual start, differ by a factor of about ten. One
# that is a hundred times as large as the others decides alone.
LOOK, PROBLEM = 30.0, 100.0
# the margin that truncation may use up: on a tenth of the training examples it may change the class
TENTH = 0.1
# forward passes of a search for the truncation
PASSES = 9
# steps of a program whose layers are looked at one by one
STEPS = 1000


def margin_distribution(classes, batch_size) -> Finding:
    """The margins of training and of test examples, in one picture."""
    found = {"training": np.asarray(margins(classes.network, classes.data, batch_size=batch_size), float)}
    if classes.test is not None:
        found["test"] = np.asarray(margins(classes.network, classes.test, batch_size=batch_size), float)
    scale = float(np.median(np.abs(found["training"]))) or 1.0
    middle = {name: float(np.median(m)) for name, m in found.items()}
    ends = np.quantile(np.concatenate([*found.values()]), [0.001, 0.999])
    edges = np.linspace(*ends, 31) if ends[1] > ends[0] else np.array([ends[0] - 1, ends[0] + 1])
    rows = []
    for name, m in found.items():
        shares = np.histogram(np.clip(m, edges[0], edges[-1]), edges)[0] / len(m)
        points = zip((edges[:-1] + edges[1:]) / 2, shares, strict=True)
        rows += [{"margin": float(a), "share": float(b), "examples": name} for a, b in points]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(interpolate="step")
        .encode(
            x=alt.X("margin:Q", title="output of the true class above the next"),
            y=alt.Y("share:Q", title="share of the examples"),
            color=alt.Color(
                "examples:N",
                scale=alt.Scale(domain=list(found), range=[MEASURED, PREDICTED][: len(found)]),
                legend=alt.Legend(title=None, orient="top"),
            ),
        )
    )
    small = float(np.mean(found["training"] <= TENTH * scale))
    text = f"Half of the training examples have a margin of {short(middle['training'])} or more"
    if "test" in found:
        text += f", half of the test examples of {short(middle['test'])}"
    text += f"; {short(100 * small)} % of the training examples have less than a tenth of the usual margin."
    return Finding(
        "margins on training and test data",
        "fine",
        text,
        middle["training"],
        exact=True,
        theorem="A smaller network within γ of every output errs at most on the share of examples with margins up to "
        "2γ: what has large margins can be written down in few numbers, and few numbers generalise.",
        claim="generalization.compression.margin_of_a_compressed_network",
        figure=picture("margins on training and test data", chart.properties(width=320, height=180)),
    )


def layer_norms(subject, network, key, affordable: bool) -> Finding:
    """The operator norm of every layer, and the layer that dominates their product."""
    name = "largest norm of a layer against the others"
    facts = dict(
        theorem="The product of the norms of the layers bounds how fast the output changes with the input, and bounds "
        "by norms and margins grow with it.",
        claim="generalization.lipschitz.product_of_norms",
    )
    x = subject.train[0]
    if subject.cost.steps > STEPS or not affordable:
        why = "This was left out: so many or so large layers take too long. --budget full measures it."
        return Finding(name, "not applicable", why, **facts)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)
    try:
        found = operator_norms(network, shapes, key=key)
    except (TypeError, ValueError) as error:
        return Finding(name, "not applicable", f"The layers could not be measured: {error}", **facts)
    lower, upper = (np.array([float(getattr(f, end)) for f in found]) for end in ("lower", "upper"))
    names = [f.name for f in found]
    numbers = numbers_of(x, 2**20)
    unit = 1.0 if numbers is None else float(np.sqrt(np.mean(numbers**2))) or 1.0
    # weights of variance 1 over the inputs have a norm of about 1 + √(outputs / inputs)
    usual = np.array([1 + np.sqrt(np.prod(f.outputs) / np.prod(f.inputs)) for f in found])
    sizes = _at_unit(lower / usual, unit)
    largest = int(sizes.argmax())
    said = f"The norms of the {len(found)} layers multiply to {short(float(np.prod(upper)))} at most; "
    if len(found) == 1 or not np.delete(sizes, largest).min() > 0:
        text = f"{said}the largest is {short(lower[largest])}, of {layer_called(names[largest])}."
        return Finding(name, "fine", text, float(lower[largest]), (lower[largest], upper[largest]), **facts)
    others = float(np.exp(np.mean(np.log(np.delete(sizes, largest)))))
    ratio, most = float(sizes[largest] / others), float(sizes[largest] / others * upper[largest] / lower[largest])
    mark = "problem" if ratio > PROBLEM else "look" if ratio > LOOK else "fine"
    text = f"{said}that of {layer_called(names[largest])} is the largest for its shape with {short(lower[largest])}, "
    text += f"{ratio:.3g} times the mean of the others. "
    text += (
        "It decides alone how far an output moves with its input: bring the layers to one scale, or let them decay."
        if mark != "fine"
        else "That is within what healthy networks have."
    )
    # names may repeat
    rows = [{"layer": f"{i}: {layer_called(f.name)}", "norm": float(f.lower)} for i, f in enumerate(found, 1)]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(color=MEASURED)
        .encode(
            x=alt.X("norm:Q", title="largest singular value"),
            y=alt.Y("layer:N", title=None, sort=None, axis=alt.Axis(labelLimit=180)),
        )
    )
    figure = (
        picture("norms of the layers", chart.properties(width=280, height=alt.Step(16))) if len(found) <= 30 else None
    )
    headline = "One layer is far larger than the others"
    return Finding(name, mark, text, ratio, (ratio, most), figure=figure, headline=headline, **facts)


def _at_unit(sizes: np.ndarray, unit: float) -> np.ndarray:
    """The sizes of the layers, the first times that of the inputs, or as it is: what is nearer to the others.

    Inputs of another size than 1 are made up for by the first layer, or by a scaler in front of it. Where they are not
    the scale of the inputs has a finding of its own.
    """
    if len(sizes) < 2 or not sizes.min() > 0:
        return sizes * np.where(np.arange(len(sizes)) == 0, unit, 1.0)
    others = np.exp(np.mean(np.log(sizes[1:])))
    first = min((sizes[0] * unit, sizes[0]), key=lambda size: abs(np.log(size / others)))
    return np.concatenate([[first], sizes[1:]])


def truncated(subject, classes, budget, batch_size, key, affordable: bool) -> Finding:
    """How many numbers the network needs when it may move by its own margin."""
    name = "parameters needed at its own margin"
    facts = dict(
        theorem="Layers without their small singular values move an output by at most γ where these are small against "
        "γ and the norms; a matrix of rank r is r (m + n) numbers.",
        claim="generalization.low_rank.truncated_network",
    )
    data = some(classes.data, _plan.examples_for(subject, budget, 10 * PASSES, most=count(classes.data)), key)
    found = np.asarray(margins(classes.network, data, batch_size=batch_size), float)
    margin = float(np.quantile(found, TENTH)) / 2
    if not affordable or margin <= 0:
        why = (
            "A tenth of the training examples or more are wrong: there is no margin that truncation could use."
            if affordable
            else "This was left out: the singular values of these weights take too long. --budget full measures it."
        )
        return Finding(name, "not applicable", why, **facts)
    small = truncate(classes.network, margin, data, batch_size=batch_size)
    needed = int(small.description.parameters)
    text = (
        f"With outputs moved by at most {short(margin)}, which changes the class of at most a tenth of the training "
        f"examples, {needed:,} numbers of {subject.size:,} are enough in factored form."
        if needed < subject.size
        else f"No layer can be given a smaller rank without moving an output by more than {short(margin)}, half of the "
        f"margin that nine of ten training examples have: all {subject.size:,} numbers are needed."
    )
    seen = Premise(
        "measured on all training data", count(data) == subject.count(), f"{count(data):,} of {subject.count():,}"
    )
    return Finding(name, "fine", text, float(needed), exact=True, unit="parameters", premises=(seen,), **facts)


def interpolation(subject) -> Finding:
    """Where the network stands against the number of parameters that just suffices to fit everything."""
    outputs = int(np.prod(subject.outputs("train").shape[1:]))
    outputs = 1 if subject.classes == 2 and outputs == 2 else outputs
    needed = subject.count() * outputs
    ratio = subject.size / needed
    times = f"{outputs} outputs" if outputs > 1 else "1 output"
    text = f"{subject.size:,} parameters for {subject.count():,} examples times {times}: "
    if ratio > 2:
        text += f"{ratio:.3g} times as many as there are equations, beyond the interpolation threshold. "
    elif ratio < 0.5:
        text += f"{ratio:.3g} times as many as there are equations, below the interpolation threshold. "
    else:
        text += f"{ratio:.3g} times as many as there are equations, near the interpolation threshold, where the error "
        text += "of least squares peaks if labels are noisy. "
    if subject.classes is not None:
        error = subject.error("train")
        text += f"It errs on {short(100 * error)} % of the training data." if error else "It fits all training data."
    return Finding(
        "parameters against equations",
        "fine",
        text.strip(),
        ratio,
        exact=True,
        theorem="The expected error of least squares with noise grows towards as many features as examples, and falls "
        "again beyond: the variance is infinite at the threshold.",
        claim="generalization.double_descent.exact_law",
        premises=(Premise("a model that is linear in its parameters", None, "a guide for others"),),
    )
