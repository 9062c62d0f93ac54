"""Attributions of single predictions to their inputs: whether they add up, and whether they say what was learned."""

from typing import Any, NamedTuple

import altair as alt
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from corollary._charts import MEASURED, PREDICTED
from corollary.attribution import integrated_gradients, mixed_up
from corollary.audit import _plan
from corollary.audit._embedded import by_embeddings, of_words
from corollary.audit.finding import Finding, Premise, short
from corollary.audit.sections._explained import Explained, named
from corollary.audit.sections._importance import TOO_MUCH
from corollary.audit.sections._players import Players, is_image, players_of
from corollary.evidence import picture
from corollary.network.batches import count

MAPS, MIXED = "attributions of the worst mistakes", "attributions with the weights mixed up"
# An attribution that misses more than a hundredth of what it divides does not add up.
ADDS_UP = 0.01
# Networks with their weights mixed up, and the rank correlation, signs included, above which their attributions are
# more alike than different: then most of what is seen are the inputs themselves.
MIXES, SAME = 5, 0.5
# panels of the path from the mean input, most first, four nodes each; passes of a node; the share of a section's work
PANELS, NODES, PASSES, SHARE = (64, 16, 8), 4, 6, 0.1
TOLERANCE = 1e-3
# what is drawn: inputs with the largest attributions of a table, and pixels along the longer side of an image
BARS, SIDE = 4, 16
# of fewer numbers there is no rank correlation to speak of
LEAST = 4


class Told(eqx.Module):
    """A network that says the logarithms of its probabilities; a logit alone means nothing, a difference does."""

    network: Any

    def __call__(self, x):
        return jax.nn.log_softmax(self.network(x))


class Maps(NamedTuple):
    """Attributions (examples, ...), the largest gap as a share of what they divide, correlations with mixed weights."""

    values: np.ndarray
    gap: float
    nodes: int
    correlations: np.ndarray | None
    what: str


def measure_maps(subject, budget, found: Explained, key) -> Maps | str:
    """Integrated gradients from the mean training input; a sentence where there are none.

    Of tokens those of their embeddings, summed over each token.
    """
    x, out = subject.data(found.split)[0], subject.outputs(found.split)
    if (long := _plan.too_long(subject, budget)) is not None:
        return long
    if of_words(subject) and out.ndim <= 2:
        behind = by_embeddings(subject)
        if isinstance(behind, str):
            return behind
        if count(behind.data(found.split)) < len(x):
            return TOO_MUCH
        maps = measure_maps(behind, budget, found, key)
        whole = isinstance(maps, str) or maps.values.ndim == x.ndim
        return maps if whole else maps._replace(values=maps.values.sum(-1))
    if not isinstance(x, jax.Array):
        return "Integrated gradients go along a line between inputs, and these are several."
    if not jnp.issubdtype(x.dtype, np.floating):
        return "By whole numbers there is no gradient: the importances above need none."
    if out.ndim > 2:
        return "An attribution divides one number per example, and this network gives one per place."
    work = (1 + MIXES) * len(found.rows) * NODES * PASSES * _plan.forward(subject)
    panels = next((p for p in PANELS if p * work <= SHARE * budget.work), None)
    if panels is None:
        return TOO_MUCH
    network, output, what = _told(subject, found)
    few, baseline = x[found.rows], jnp.asarray(np.mean(np.asarray(subject.train[0], float), 0), x.dtype)
    given = dict(output=output, tolerance=TOLERANCE, panels=panels, batch_size=len(found.rows))

    def maps(network):
        found = integrated_gradients(network, few, baseline, **given)
        return np.asarray(found.values, float), np.asarray(found.gap, float), int(np.max(np.asarray(found.nodes)))

    values, gaps, nodes = maps(network(subject.network))
    whole = np.abs(values.reshape(len(values), -1)).sum(1)
    gap = float(np.max(gaps / np.where(whole > 0, whole, 1)))
    correlations = None
    if values[0].size >= LEAST and whole.min() > 0:
        keys = jax.random.split(key, MIXES)
        others = [maps(network(mixed_up(subject.network, key=k, trainable=subject.trainable)))[0] for k in keys]
        correlations = np.array(
            [np.mean([_alike(a, b) for a, b in zip(values, other, strict=True)]) for other in others]
        )
    return Maps(values, gap, nodes, correlations, what)


def _told(subject, found: Explained):
    """How the network is asked, about which of its outputs, and what that is in words."""
    out = np.asarray(subject.outputs(found.split), float)[found.rows]
    if out.ndim == 2 and subject.classes is not None and subject.class_axis is not None and subject.labels().ndim == 1:
        return Told, out.argmax(1), "the log-probability of the class that it chose"
    flat = out.reshape(len(out), -1)
    y = subject.targets(found.split)
    if flat.shape[1] > 1 and isinstance(y, jax.Array) and y.shape == subject.outputs(found.split).shape:
        off = np.abs(flat - np.asarray(y, float)[found.rows].reshape(flat.shape))
        return _plain, off.argmax(1), "the output that is furthest from its target"
    return _plain, flat.argmax(1), "the output" if flat.shape[1] == 1 else "the largest output"


def _plain(network):
    return network


def _alike(one, other) -> float:
    """Spearman's rank correlation; 0 where one of them is constant."""
    ranks = [stats.rankdata(a.ravel()) for a in (one, other)]
    if any(np.ptp(r) == 0 for r in ranks):
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def judge_maps(subject, numbers: Maps | str, found: Explained) -> Finding:
    facts = dict(
        theorem="Integrated gradients sum to what the output differs by from that of the baseline; what is missing is "
        "an error of the integral.",
        claim="attribution.saliency.gradient_maps",
    )
    if isinstance(numbers, str):
        return Finding(MAPS, "not applicable", numbers, **facts)
    shares = "worst mistakes" if found.wrong == found.worst else "examples with the largest losses"
    players = players_of(subject.train[0], columns=subject.columns)
    values = numbers.values[: found.worst]
    most = [players.names[i] for i in np.argsort(-np.abs(_by_player(values, players)).mean(0))[:3]]
    text = (
        f"In the {found.worst} {shares} {numbers.what} is mostly due to {'; '.join(most)}. The attributions add up "
        f"to what they share out, to within {short(100 * numbers.gap)} %"
    )
    adds_up = numbers.gap <= ADDS_UP
    text += "." if adds_up else ": an integral was not resolved, and they cannot be trusted."
    draw = _images if is_image(subject.train[0]) else _bars
    figure = picture("attributions of the worst mistakes and of usual examples", draw(subject, numbers, found, players))
    baseline = Premise("measured from the mean training input", True, f"up to {numbers.nodes} nodes")
    headline = "The attributions do not add up"
    given = dict(exact=True, unit="% missing", premises=(baseline,), figure=figure, headline=headline)
    return Finding(MAPS, "fine" if adds_up else "look", text, 100 * numbers.gap, **given, **facts)


def judge_mixed(numbers: Maps | str) -> Finding:
    facts = dict(
        theorem="What an attribution says of a network whose weights are mixed up as well, it does not say of what was "
        "learned.",
        claim="attribution.saliency.planted_features",
    )
    if isinstance(numbers, str) or numbers.correlations is None:
        why = (
            "There are no attributions to compare." if isinstance(numbers, str) else "There are too few inputs to rank."
        )
        return Finding(MIXED, "not applicable", why, **facts)
    found = numbers.correlations
    mean = float(found.mean())
    reach = float(stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / len(found) ** 0.5)
    text = (
        f"Attributions of networks with the same weights mixed up have a rank correlation of {short(mean)} with these: "
    )
    if mean > SAME:
        mark = "look"
        text += "they are much the same for any network, and say nothing about what this one has learned."
    else:
        mark = "fine"
        text += "these say something about what was learned."
    given = dict(unit="rank correlation", headline="Attributions say nothing about what was learned")
    return Finding(MIXED, mark, text, mean, (mean - reach, mean + reach), **given, **facts)


def _by_player(values, players: Players) -> np.ndarray:
    """Attributions summed over each player's coordinates, (examples, players)."""
    owner = np.asarray(players.owner).ravel()
    return np.stack([np.bincount(owner, row.ravel(), len(players.names)) for row in values])


def _titles(subject, found: Explained) -> list[str]:
    """What stands above the examples, in the order in which they were chosen."""
    kinds = ["worst"] * found.worst + ["usual"] * (len(found.rows) - found.worst)
    return [f"{kind} {named(subject, found, place)}" for place, kind in enumerate(kinds)]


def _side_by_side(chart, titles: list[str], worst: int):
    """Panels in two columns, the worst examples on the left, usual ones on the right."""
    order = [title for pair in zip(titles[:worst], titles[worst:], strict=False) for title in pair]
    header = alt.Header(labelFontSize=10, labelPadding=4)
    return chart.facet(alt.Facet("example:N", sort=order, title=None, header=header), columns=2, spacing=10)


def _bars(subject, numbers: Maps, found: Explained, players: Players):
    titles, rows = _titles(subject, found), []
    for title, row in zip(titles, _by_player(numbers.values, players), strict=True):
        for i in np.argsort(-np.abs(row))[:BARS]:
            side = "for" if row[i] > 0 else "against"
            rows.append({"example": title, "input": players.names[i], "attribution": float(row[i]), "side": side})
    colour = alt.Color(
        "side:N",
        scale=alt.Scale(domain=["for", "against"], range=[MEASURED, PREDICTED]),
        legend=alt.Legend(title=None, orient="top"),
    )
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("attribution:Q", title=None, axis=alt.Axis(tickCount=3)),
            y=alt.Y("input:N", title=None, sort=None, axis=alt.Axis(labelLimit=110, labelOverlap=False)),
            color=colour,
        )
        .properties(width=110, height=alt.Step(13))
    )
    return _side_by_side(chart, titles, found.worst).resolve_scale(y="independent", x="independent")


def _images(subject, numbers: Maps, found: Explained, _):
    """Each input beside its attribution."""
    inputs = np.asarray(subject.data(found.split)[0], float)[found.rows]
    titles, rows = _titles(subject, found), []
    for title, image, value in zip(titles, inputs, numbers.values, strict=True):
        shown, told = _shrunk(_flat(image).mean(-1)), _shrunk(_flat(value).sum(-1))
        shown, told = (shown - shown.min()) / (np.ptp(shown) or 1), told / (np.abs(told).max() or 1)
        width = shown.shape[1]
        for (i, j), level in np.ndenumerate(shown):
            rows.append({"example": title, "i": i, "j": j, "colour": _grey(level)})
            rows.append({"example": title, "i": i, "j": j + width + 1, "colour": _two_sided(told[i, j])})
    side = 84 / max(shown.shape)
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("j:O", axis=None, scale=alt.Scale(domain=list(range(2 * width + 1)))),
            y=alt.Y("i:O", axis=None),
            color=alt.Color("colour:N", scale=None),
        )
        .properties(width=side * (2 * width + 1), height=side * shown.shape[0])
    )
    return _side_by_side(chart, titles, found.worst)


def _flat(image) -> np.ndarray:
    """(height, width, colours), whichever comes first."""
    if image.ndim == 2:
        return image[..., None]
    return np.moveaxis(image, 0, -1) if image.shape[0] < image.shape[-1] else image


def _shrunk(pixels) -> np.ndarray:
    """Means of squares of pixels, so that the longer side has few enough to be drawn."""
    size = -(-max(pixels.shape) // SIDE)
    height, width = (max(1, side // size) for side in pixels.shape)
    return pixels[: height * size, : width * size].reshape(height, size, width, size).mean((1, 3))


def _grey(level: float) -> str:
    shade = round(255 * (1 - level))
    return f"#{shade:02x}{shade:02x}{shade:02x}"


def _two_sided(level: float) -> str:
    """From the colour of what speaks against, -1, through white to the colour of what speaks for, 1."""
    end = MEASURED if level >= 0 else PREDICTED
    parts = [int(end[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 + abs(level) * (p - 255)):02x}" for p in parts)
