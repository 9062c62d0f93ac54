"""The audit on populations of small networks: how often a healthy one is accused, how sick one must be to be seen.

    python benchmarks/population.py measure OUT --jobs 15    # resumable: every finished chunk is a file in OUT
    JAX_PLATFORMS=cuda python benchmarks/population.py measure OUT2 --jobs 3 --families language    # some, elsewhere
    python benchmarks/population.py table OUT [OUT ...]      # what docs/calibration.md has

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
from collections import Counter
from pathlib import Path

CHUNK, SWEEP, STRENGTHS = 8, 24, 5
#: findings whose sentences are kept though they are not marked: they have numbers that their value is not
SAID = ("how far influence can be believed", "labels against shuffled ones", "least curvature", "regime")
#: networks: healthy in each family, then in all families with each defect at full strength, and at each other one
SIZES = (192, 208, 64)


def chunks(sizes, start=0):
    """Every chunk: family, defect (None for healthy), strength (counted from 1) and number, from `start` on.

    Healthy ones and defects at full strength in proportion, so that a population that was cut short has some of each;
    weaker defects after them.
    """
    from _defects import DEFECTS
    from _families import EVERY

    healthy, full, weaker = (-(-size // CHUNK) for size in sizes)

    def spread(count, *kind):
        return [((i + 0.5) / count, (*kind, start + i)) for i in range(count)]

    def defects(size, strength):
        """In turn over the families, which begin with another one at every strength."""
        for name, (_, families, *_) in DEFECTS.items():
            for k in range(size):
                family = families[(strength + k) % len(families)]
                yield (k + 0.5) / size, (family, name, strength, start + k // len(families))

    first = [one for family in EVERY for one in spread(healthy, family, None, 0)] + [*defects(full, STRENGTHS)]
    rest = [one for strength in range(1, STRENGTHS) for one in defects(weaker, strength)]
    for part in (first, rest):
        yield from (chunk for _, chunk in sorted(part, key=lambda one: one[0]))


def file_of(out: Path, family, defect, strength, i) -> Path:
    return out / f"{family}--{defect or 'healthy'}--{strength}--{i}.jsonl".replace(" ", "_")


def networks(family, defect, strength, i):
    """Trained networks of a chunk: recipes, parameters, their test errors, and how healthy they are."""
    import jax
    import numpy as np
    from _defects import DEFECTS, Recipe
    from _families import EVERY, trained

    made = EVERY[family]
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
        train, test = (x[: table.train], y[: table.train]), (x[table.train :], y[table.train :])
        recipe = Recipe(start, train, test, step, decay, made.fixed)
        plant = None if defect is None else DEFECTS[defect].before
        recipes.append(recipe if plant is None else plant(recipe, DEFECTS[defect].strengths[strength - 1], rng))
    stack = lambda pick: jax.tree.map(lambda *a: np.stack(a), *map(pick, recipes))  # noqa: E731
    x, y = stack(lambda r: r.train)
    step, decay = (np.array([r[k] for r in recipes], np.float32) for k in (3, 4))
    ends = trained(made, stack(lambda r: r.start), stack(lambda r: r.fixed), x, y, step, decay, keys[count:])
    ends = [jax.tree.map(lambda a, j=j: np.asarray(a[j]), ends) for j in range(count)]
    if defect is not None and DEFECTS[defect].after is not None:
        ends = [DEFECTS[defect].after(e, DEFECTS[defect].strengths[strength - 1]) for e in ends]
    return made, recipes, ends


def subject_of(made, recipe, params, defect, strength):
    from _defects import DEFECTS, stale
    from _families import BATCH, STEPS

    from corollary import Network, Subject

    def network(params):
        if made.fixed:
            return Network(made.apply, params, recipe.fixed, batched=True)
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
    """What an audit said, as numbers; the sentences of what is marked."""
    said = [f for f in report.findings if f.mark in ("look", "problem") or f.name in SAID]
    return facts | {
        "test": subject.error("test") if subject.classes else subject.mean_loss("test"),
        "train": subject.error("train") if subject.classes else subject.mean_loss("train"),
        "findings": {f.name: [f.value, f.mark, *(f.interval or (f.value, f.value))] for f in report.findings},
        "said": {f.name: f.sentence for f in said},
        "answers": [s.answer.split(" ")[0].strip(":,.") for s in report.sections],
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
        # what is advised follows from what is marked; working it out trains again and again
        found.append(record(audit(subject, seed=j, actions=False), subject, **facts))
    return found


def work(out: Path, worker: int, jobs: int, sizes, start: int, seconds: float, chosen):
    """A worker's chunks of the families that are chosen: its own first, so that each program is compiled by few."""
    began = time.time()
    if hasattr(os, "sched_setaffinity"):  # a core each: programs this small gain nothing from more
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[worker % len(cores)]})
    todo = [c for c in chunks(sizes, start) if c[0] in chosen and not file_of(out, *c).exists()]
    families = sorted({c[0] for c in todo})
    own = families[worker::jobs] or families[worker % max(1, len(families)) :][:1]
    todo.sort(key=lambda c: c[0] not in own)
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


def measure(out: Path, jobs: int, sizes, start: int, seconds: float, chosen):
    """Workers on the CPU, unless JAX_PLATFORMS says otherwise, a core each, that share what they have compiled."""
    out.mkdir(parents=True, exist_ok=True)
    for left in out.glob("*.taken"):
        left.unlink()
    compiled = dict(JAX_COMPILATION_CACHE_DIR=str(out / "compiled"), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0")
    # threads of OpenBLAS that share one core wait for each other: audits would take five times as long
    environment = {"JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1"} | compiled | os.environ
    given = [sys.executable, __file__, "worker", str(out), "--seconds", str(seconds), "--start", str(start)]
    given += ["--jobs", str(jobs), "--sizes", *map(str, sizes), "--families", *chosen]
    workers = [subprocess.Popen([*given, "--number", str(i)], env=environment) for i in range(jobs)]
    for worker in workers:
        worker.wait()


def share(count: int, total: int) -> str:
    """A share in per cent with its exact interval at 95 %."""
    from scipy.stats import binomtest

    if total == 0:
        return "–"
    ends = binomtest(count, total).proportion_ci()
    return f"{100 * count / total:.1f} % ({100 * ends.low:.1f} to {100 * ends.high:.1f})"


def records(places) -> list[dict]:
    """All that was recorded, with the causes that the sections as they are make of the marks."""
    from importlib import import_module

    from corollary.audit import Finding
    from corollary.audit._budget import SECTIONS
    from corollary.audit.finding import causes
    from corollary.audit.run import _all

    explains = _all([import_module(f"corollary.audit.sections.{name}") for name in SECTIONS])
    lines = [line for place in places for path in sorted(place.glob("*.jsonl")) for line in path.open()]
    found = [json.loads(line) for line in lines]
    for r in found:
        if "refused" not in r:
            made = [Finding(n, m, "", v, exact=True) for n, (v, m, *_) in r["findings"].items()]
            r["causes"] = [c.finding.name for c in causes(made, explains)]
    return found


def marked(r, names, marks=("look", "problem")) -> bool:
    return any(r["findings"].get(name, [0, ""])[1] in marks for name in names)


def of_healthy(well) -> list[str]:
    """How often healthy networks are accused, family by family and finding by finding."""
    groups = {r["family"]: [] for r in well}
    for r in well:
        groups[r["family"]].append(r)
    head = ("family", "healthy networks", "any problem", "any look or problem", "nothing to do")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, group in [*groups.items(), ("all", well)]:
        counts = [sum(marked(r, r["findings"], marks) for r in group) for marks in (("problem",), ("look", "problem"))]
        counts.append(sum(not r["causes"] and not r["failed"] for r in group))
        lines.append(f"| {name} | {len(group)} | " + " | ".join(share(c, len(group)) for c in counts) + " |")
    lines += ["", "| finding | healthy: look | healthy: problem | families |", "|" + " --- |" * 4]
    for name in sorted({n for r in well for n in r["findings"] if marked(r, [n])}):
        marks = [r["findings"][name][1] for r in well if name in r["findings"]]
        where = sorted({r["family"] for r in well if marked(r, [name])})
        counts = [share(marks.count(mark), len(marks)) for mark in ("look", "problem")]
        lines.append(f"| {name} | {counts[0]} | {counts[1]} | {', '.join(where)} |")
    return lines


def of_defects(every) -> list[str]:
    """How often each defect in each strength is marked by its name, and named first."""
    from _defects import DEFECTS

    head = ("defect", "strength", "networks", "marked by name", "first cause", "refused", "other first causes")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, defect in DEFECTS.items():
        for k, strength in enumerate(defect.strengths, 1):
            group = [r for r in every if r["defect"] == name and r["strength"] == k]
            if not group:
                continue
            seen = [r for r in group if "refused" not in r]
            by_name = sum(marked(r, defect.names) for r in seen)
            first = Counter((r["causes"] or ["none"])[0] for r in seen)
            right = sum(first.pop(n, 0) for n in defect.names)
            others = ", ".join(f"{n} ({c})" for n, c in first.most_common(3))
            shares = f"{share(by_name, len(seen))} | {share(right, len(seen))} | {len(group) - len(seen)}"
            lines.append(f"| {name} | {strength:.3g} | {len(group)} | {shares} | {others} |")
    return lines


def table(places) -> str:
    """Healthy networks and defects, as Markdown."""
    every = records(places)
    well = [r for r in every if r["defect"] is None and "refused" not in r]
    return "\n".join([*of_healthy(well), "", *of_defects(every)])


def main():
    from _defects import EVERY

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "worker", "table"))
    parser.add_argument("out", type=Path, nargs="+")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which no chunk is begun")
    parser.add_argument(
        "--sizes", type=int, nargs=3, default=SIZES, help="healthy a family, full strength, weaker: networks"
    )
    parser.add_argument("--start", type=int, default=0, help="the first chunk's number: others have other networks")
    parser.add_argument("--families", nargs="+", default=EVERY, help="those to measure")
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.out[0], given.jobs, given.sizes, given.start, given.seconds, given.families)
    elif given.what == "worker":
        work(given.out[0], given.number, given.jobs, given.sizes, given.start, given.seconds, given.families)
    else:
        print(table(given.out))


if __name__ == "__main__":
    main()
