"""The audit on populations of small networks: how often a healthy one is accused, how sick one must be to be seen.

    python benchmarks/population.py measure OUT --jobs 15    # resumable: every finished chunk is a file in OUT
    python benchmarks/population.py table OUT                # what docs/calibration.md has

Every chunk is a family with one defect in one strength, or healthy, and is trained in one program. Healthy means by
outcome: of a sweep over steps, starts and decays those whose test error lies within the exact interval of the best.
What is recorded is what a user sees: the report of an audit with all its sections.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from itertools import product
from pathlib import Path

CHUNK, SWEEP, STRENGTHS = 8, 24, 5
#: networks by kind: healthy in each family, and with each defect at full strength and at each of the others
SIZES = (128, 32, 16)


def chunks(sizes):
    """Every chunk: family, defect (None for healthy), strength (counted from 1) and number.

    Healthy ones and defects at full strength in turn, so that a population that was cut short has some of each.
    """
    from _defects import DEFECTS
    from _families import FAMILIES

    healthy, full, weaker = (size // CHUNK for size in sizes)
    for i in range(max(healthy, full)):
        if i < healthy:
            yield from ((family, None, 0, i) for family in FAMILIES)
        if i < full:
            yield from ((f, name, STRENGTHS, i) for name, d in DEFECTS.items() for f in d.families)
    for i, strength in product(range(weaker), range(STRENGTHS - 1, 0, -1)):
        yield from ((f, name, strength, i) for name, d in DEFECTS.items() for f in d.families)


def file_of(out: Path, family, defect, strength, i) -> Path:
    return out / f"{family}--{defect or 'healthy'}--{strength}--{i}.jsonl".replace(" ", "_")


def networks(family, defect, strength, i):
    """Trained networks of a chunk: recipes, parameters, their test errors, and how healthy they are."""
    import jax
    import numpy as np
    from _defects import DEFECTS, Recipe
    from _families import FAMILIES, trained

    made = FAMILIES[family]
    table, count = made.data(), SWEEP if defect is None else CHUNK
    rng = np.random.default_rng([i, strength, *map(ord, f"{family}{defect}")])
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), 2 * count)
    starts = jax.tree.map(np.asarray, jax.vmap(made.init)(keys[:count]))
    recipes = []
    for j in range(count):
        rows = rng.permutation(len(table.y))
        x, y = table.x[rows], table.y[rows]
        start = jax.tree.map(lambda a, j=j: a[j], starts)
        step, decay = made.step, 0.0
        if defect is None:
            # what people try: steps and starts within a factor of four, with decay and without
            step *= 4 ** rng.uniform(-1, 1)
            scale, decay = 2 ** rng.uniform(-1, 1), rng.choice([0.0, 1e-4, 1e-3])
            start = [[scale * w, b] for w, b in start]
        recipe = Recipe(start, (x[: table.train], y[: table.train]), (x[table.train :], y[table.train :]), step, decay)
        plant = None if defect is None else DEFECTS[defect].before
        recipes.append(recipe if plant is None else plant(recipe, DEFECTS[defect].strengths[strength - 1], rng))
    stack = lambda pick: jax.tree.map(lambda *a: np.stack(a), *map(pick, recipes))  # noqa: E731
    x, y = stack(lambda r: r.train)
    step, decay = (np.array([r[k] for r in recipes], np.float32) for k in (3, 4))
    ends = trained(made, stack(lambda r: r.start), x, y, step, decay, keys[count:])
    ends = [jax.tree.map(lambda a, j=j: np.asarray(a[j]), ends) for j in range(count)]
    if defect is not None and DEFECTS[defect].after is not None:
        ends = [DEFECTS[defect].after(e, DEFECTS[defect].strengths[strength - 1]) for e in ends]
    return made, recipes, ends


def subject_of(made, recipe, params, defect, strength):
    from _defects import DEFECTS, stale
    from _families import BATCH, STEPS

    from corollary import Network, Subject

    def network(params):
        if made.statistics is None:
            return Network(made.apply, params, batched=True)
        stored = made.statistics(params, recipe.train[0])
        if defect == "stale statistics":
            stored = stale(stored, DEFECTS[defect].strengths[strength - 1])
        return Network(made.apply, params, stored, batched=True, recomputed=made.recomputed)

    known = dict(learning_rate=recipe.step, weight_decay=recipe.decay, batch_size=BATCH, steps=STEPS)
    initial = network(recipe.start)
    return Subject(network(params), made.loss, recipe.train, recipe.test, initial=initial, **known)


def record(report, subject, **facts) -> dict:
    """What an audit said, as numbers."""
    return facts | {
        "test": subject.error("test") if subject.classes else subject.mean_loss("test"),
        "findings": {f.name: [f.value, f.mark] for f in report.findings},
        "causes": [c.finding.name for c in report.causes],
        "marks": [c.mark for c in report.causes],
        "answers": [s.answer.split(" ")[0].strip(":,.") for s in report.sections],
        "actions": [a.what for a in report.actions],
        "failed": [s.failed for s in report.sections if s.failed],
        "seconds": round(report.seconds, 2),
    }


def healthy(made, recipes, ends) -> list[int]:
    """Those whose test error lies within the interval of the best one's."""
    import numpy as np
    from scipy import stats

    from corollary.audit import SubjectError

    errors, counts = [], len(recipes[0].test[1])
    for recipe, end in zip(recipes, ends, strict=True):
        try:
            subject = subject_of(made, recipe, end, None, 0)
            errors.append(subject.error("test") if subject.classes else subject.mean_loss("test"))
        except SubjectError:
            errors.append(np.inf)
    best = min(errors)
    if made.loss == "squared":
        # the squared error of n examples is known up to about this factor
        limit = best * stats.f.ppf(0.975, counts, counts)
    else:
        limit = stats.binomtest(round(best * counts), counts).proportion_ci().high
    return [j for j, e in enumerate(errors) if e <= limit][:CHUNK]


def measured(family, defect, strength, i) -> list[dict]:
    """One chunk, trained and audited."""
    from corollary.audit import SubjectError, audit

    made, recipes, ends = networks(family, defect, strength, i)
    chosen = healthy(made, recipes, ends) if defect is None else range(CHUNK)
    found = []
    for j in chosen:
        facts = dict(family=family, defect=defect, strength=strength, step=recipes[j].step, number=CHUNK * i + j)
        try:
            subject = subject_of(made, recipes[j], ends[j], defect, strength)
        except SubjectError as error:
            found.append(facts | {"refused": str(error)})
            continue
        found.append(record(audit(subject, seed=j), subject, **facts))
    return found


def work(out: Path, worker: int, sizes, seconds: float):
    """A worker's chunks: those of its families, so that each program is compiled once."""
    began = time.time()
    if hasattr(os, "sched_setaffinity"):  # a core each: programs this small gain nothing from more
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[worker % len(cores)]})
    todo = [c for c in chunks(sizes) if not file_of(out, *c).exists()]
    families = sorted({c[0] for c in todo})
    first = families[worker % len(families)] if families else None
    todo.sort(key=lambda c: (c[0] != first, families.index(c[0]) if c[0] != first else 0))
    for chunk in todo:
        path, mine = file_of(out, *chunk), file_of(out, *chunk).with_suffix(".taken")
        if time.time() - began > seconds:
            break
        try:  # one worker takes each chunk
            os.close(os.open(mine, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        lines = measured(*chunk)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        print(f"{time.time() - began:.0f} s: {path.stem}, {len(lines)} networks", flush=True)


def measure(out: Path, jobs: int, sizes, seconds: float):
    out.mkdir(parents=True, exist_ok=True)
    for left in out.glob("*.taken"):
        left.unlink()
    given = [sys.executable, __file__, "worker", str(out), "--seconds", str(seconds), "--sizes", *map(str, sizes)]
    workers = [subprocess.Popen([*given, "--number", str(i)]) for i in range(jobs)]
    for worker in workers:
        worker.wait()


def share(count: int, total: int) -> str:
    """A share in per cent with its exact interval at 95 %."""
    from scipy.stats import binomtest

    if total == 0:
        return "–"
    ends = binomtest(count, total).proportion_ci()
    return f"{100 * count / total:.1f} % ({100 * ends.low:.1f} to {100 * ends.high:.1f})"


def table(out: Path) -> str:
    """Healthy networks and defects, as Markdown."""
    from _defects import DEFECTS

    records = [json.loads(line) for path in sorted(out.glob("*.jsonl")) for line in path.read_text().splitlines()]
    well = [r for r in records if r["defect"] is None and "refused" not in r]
    lines = ["| family | healthy networks | any problem | any look or problem | nothing to do |", "|" + " --- |" * 5]
    groups = defaultdict(list)
    for r in well:
        groups[r["family"]].append(r)
    for name, group in [*groups.items(), ("all", well)]:
        worst = [
            max([m for _, m in r["findings"].values()], key=("not applicable", "fine", "look", "problem").index)
            for r in group
        ]
        counts = [sum(w == "problem" for w in worst), sum(w in ("look", "problem") for w in worst)]
        counts.append(sum(not r["actions"] and not r["causes"] for r in group))
        lines.append(f"| {name} | {len(group)} | " + " | ".join(share(c, len(group)) for c in counts) + " |")
    lines += ["", "| finding | healthy: look | healthy: problem |", "| --- | --- | --- |"]
    names = sorted({n for r in well for n, (_, m) in r["findings"].items() if m in ("look", "problem")})
    for name in names:
        marks = [r["findings"][name][1] for r in well if name in r["findings"]]
        lines.append(
            f"| {name} | {share(marks.count('look'), len(marks))} | {share(marks.count('problem'), len(marks))} |"
        )
    lines += ["", "| defect | strength | networks | marked by name | first cause | refused |", "|" + " --- |" * 6]
    for name, defect in DEFECTS.items():
        for k, strength in enumerate(defect.strengths, 1):
            group = [r for r in records if r["defect"] == name and r["strength"] == k]
            seen = [r for r in group if "refused" not in r]
            marked = sum(
                any(r["findings"].get(n, [0, ""])[1] in ("look", "problem") for n in defect.names) for r in seen
            )
            first = sum(bool(r["causes"]) and r["causes"][0] in defect.names for r in seen)
            refused = len(group) - len(seen)
            shares = f"{share(marked, len(seen))} | {share(first, len(seen))}"
            lines.append(f"| {name} | {strength:.3g} | {len(group)} | {shares} | {refused} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "worker", "table"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which no chunk is begun")
    parser.add_argument(
        "--sizes", type=int, nargs=3, default=SIZES, help="healthy, full strength, weaker: networks each"
    )
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.out, given.jobs, given.sizes, given.seconds)
    elif given.what == "worker":
        work(given.out, given.number, given.sizes, given.seconds)
    else:
        print(table(given.out))


if __name__ == "__main__":
    main()
