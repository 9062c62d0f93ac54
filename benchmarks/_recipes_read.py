"""What recorded recipes say: which fail, and how well that is told from their first steps."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
from _families import FAMILIES
from recipes import EARLY, GIVEN, LOOKS
from scipy.stats import binomtest
from sklearn.ensemble import GradientBoostingClassifier

from corollary.audit.sections._early import FEATURES, Early, features
from corollary.audit.sections._prospects import LOOK

#: edges of the step times the largest curvature at the start
EDGES = (0, 0.05, 0.2, 0.5, 1, 2, 4, 8, 16, 32, 64, np.inf)
#: edges of the predicted probability, between which the shares that came true are counted
BINS = (0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1)
USUAL = 300
TREES, DEPTH, RATE = 100, 4, 0.12
PLACE = Path(__file__).parents[1] / "src" / "corollary" / "audit" / "prospects.json"


def loaded(files) -> dict:
    parts = [dict(np.load(file)) for file in files]
    return {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}


def share(found) -> str:
    if not len(found):
        return "–"
    ends = binomtest(int(np.sum(found)), len(found)).proportion_ci()
    return f"{100 * np.mean(found):.1f} % ({100 * ends.low:.1f} to {100 * ends.high:.1f})"


def table(data) -> str:
    """Which recipes fail, by the step at the start and by what twenty steps did."""
    early = Early(*data["early"][:, LOOKS.index(EARLY)].T)
    failed = ~(data["ends"][:, GIVEN.index(USUAL)] < data["goal"])
    product, grown = data["step"] * early.curvature_at_start, early.now / early.start
    lines = ["| step times largest curvature at the start | recipes | failed |", "| --- | --- | --- |"]
    groups = [(f"{low:g} to {high:g}", (product > low) & ~(product > high)) for low, high in pairwise(EDGES)]
    groups.append((f"loss more than doubled in {EARLY} steps", ~(grown < 2)))
    groups.append((f"loss not fallen by a tenth in {EARLY} steps", ~(grown < 0.9) & (grown < 2)))
    lines += [f"| {word} | {seen.sum()} | {share(failed[seen])} |" for word, seen in groups if seen.any()]
    return "\n".join(lines)


def rows(data, look: int):
    """Features after so many steps, and what came of it, for every recipe and every number of steps given beyond."""
    early = Early(*data["early"][:, LOOKS.index(look)].T)
    given = [t for t in GIVEN if t > look]
    x = [features(early, data["step"], data["goal"], t, look) for t in given]
    y = [data["ends"][:, GIVEN.index(t)] < data["goal"] for t in given]
    return np.concatenate(x), np.concatenate(y), np.repeat(given, len(data["step"]))


def boosted(x, y) -> GradientBoostingClassifier:
    given = dict(n_estimators=TREES, max_depth=DEPTH, learning_rate=RATE, subsample=0.5, min_samples_leaf=20)
    return GradientBoostingClassifier(random_state=0, **given).fit(x, y)


def told(model, x) -> np.ndarray:
    """What the audit says of recipes: that they get there, or a mark."""
    return model.predict_proba(x)[:, 1] >= LOOK


def accuracy(right, y) -> str:
    return f"{share(right)} | {share(right[y])} | {share(right[~y])}"


def fit(known: Path, unseen: Path, *, write: bool):
    """Fitted to one file and tried on the other; the curve over the steps that are looked at."""
    data, others = loaded([known]), loaded([unseen])
    lines = ["| steps looked at | steps given | right | of those that got there | of those that failed |"]
    lines.append("|" + " --- |" * 5)
    for look in LOOKS:
        model = boosted(*rows(data, look)[:2])
        x, y, given = rows(others, look)
        right = told(model, x) == y
        for t in (t for t in GIVEN if t > look):
            seen = given == t
            lines.append(f"| {look} | {t} | {accuracy(right[seen], y[seen])} |")
        lines.append(f"| {look} | all | {accuracy(right, y)} |")
        if look == EARLY:
            chosen = model, x, y, given
    model, x, y, given = chosen
    usual, right = given == USUAL, told(model, x) == y
    lines += ["", f"| family, {EARLY} steps looked at, {USUAL} given | recipes | right |", "| --- | --- | --- |"]
    for i, name in enumerate(FAMILIES):
        seen = others["family"] == i
        lines.append(f"| {name} | {seen.sum()} | {share(right[usual][seen])} |")
    again = others["others"] < others["goal"][:, None]
    same = again == (others["ends"] < others["goal"][:, None])
    lines += ["", f"With other batches from step {EARLY} on the outcome is the same in {share(same.ravel())}."]
    p, column = model.predict_proba(x)[:, 1], []
    lines += ["", "| predicted | recipes | came true |", "| --- | --- | --- |"]
    for low, high in pairwise(BINS):
        seen = (p >= low) & ((p < high) | (high == 1))
        column.append([int(y[seen].sum()), int(seen.sum())])
        lines.append(f"| {low:g} to {high:g} | {seen.sum()} | {share(y[seen])} |")
    print("\n".join(lines))
    if write:
        PLACE.write_text(json.dumps(exported(model, column)) + "\n", encoding="utf-8")


def exported(model, column) -> dict:
    """The trees as arrays: at each node the feature and threshold, where to go, and the value at a leaf."""
    trees = []
    for (regressor,) in model.estimators_:
        tree = regressor.tree_
        leaf = tree.children_left < 0
        own = np.arange(tree.node_count)
        trees.append(
            {
                "feature": np.where(leaf, 0, tree.feature).tolist(),
                "threshold": [float(f"{v:.6g}") for v in np.where(leaf, 0, tree.threshold)],
                "left": np.where(leaf, own, tree.children_left).tolist(),
                "right": np.where(leaf, own, tree.children_right).tolist(),
                "value": [float(f"{v:.4g}") for v in np.where(leaf, RATE * tree.value[:, 0, 0], 0)],
            }
        )
    shares = model.init_.class_prior_
    return {
        "made_by": "benchmarks/recipes.py fit",
        "features": FEATURES,
        "start": float(np.log(shares[1] / shares[0])),
        "depth": DEPTH,
        "trees": trees,
        "bins": BINS,
        "came_true": column,
    }
