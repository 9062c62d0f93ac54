"""The first action of the audit, taken: is what it treats gone, nothing worse come, and did it do what was promised?

    python benchmarks/cures.py OUT --jobs 15                 # 10 networks of every planted defect at full strength
    python benchmarks/cures.py OUT --jobs 2 --networks 1     # a look

Networks are those of `population.py` with a defect of `_defects.py`, of numbers that the population does not have. As a
control each gets, in place of its own, an action that was advised for a network with another defect, and must keep what
it has.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections import defaultdict
from functools import cache
from itertools import cycle
from pathlib import Path

FIRST = 1000  # the number of the chunk, far from those of the population


def taken(action, subject, before, key, audit):
    """What an action did: whether the finding is gone, and which problems are new."""
    from corollary.audit import SubjectError

    try:
        treated = action.apply(subject, key=key)
    except SubjectError as error:
        return {"refused": str(error)}
    after = {f.name: f.mark for f in audit(treated, actions=False).findings}
    effect = action.effect
    return {
        "marks": after,
        "new": [n for n, m in after.items() if m == "problem" and before.get(n) != "problem"],
        "measured": effect.measured(treated),
        "promised": list(effect.interval),
    }


def treated(family, defect, count):
    """Networks of one family with one defect: audited, treated by their first action, audited again."""
    import jax
    from population import STRENGTHS, networks, subject_of

    from corollary.audit import SubjectError, audit
    from corollary.audit.action import by_hand

    made, recipes, ends = networks(family, defect, STRENGTHS, FIRST)
    found = []
    for j in range(count):
        row = {"family": family, "defect": defect, "number": j}
        try:
            subject = subject_of(made, recipes[j], ends[j], defect, STRENGTHS)
        except SubjectError as error:
            found.append(row | {"refused": str(error)})
            continue
        report = audit(subject, seed=j)
        marks = {f.name: f.mark for f in report.findings}
        row |= {"cause": report.causes[0].finding.name if report.causes else None, "before": marks}
        if report.actions:
            action = report.actions[0]
            row |= {"what": action.what, "treats": action.treats, "by_hand": action.apply is by_hand}
            if not row["by_hand"]:
                row |= taken(action, subject, marks, jax.random.key(j), audit)
                row["control"] = controlled(family, defect, subject, action.treats, marks, audit)
        found.append(row)
    return found


@cache
def elsewhere(family, defect):
    """What is advised for a network of this family with a defect."""
    from population import STRENGTHS, networks, subject_of

    from corollary.audit import audit

    made, recipes, ends = networks(family, defect, STRENGTHS, FIRST)
    return audit(subject_of(made, recipes[0], ends[0], defect, STRENGTHS)).actions


def controlled(family, defect, subject, treats, marks, audit):
    """Whether what an action treats is still marked after one that was advised for another defect."""
    import jax

    other = "step too short" if defect != "step too short" else "inputs not scaled"
    advice = [a for a in elsewhere(family, other) if a.treats != treats]
    if not advice:
        return None
    after = taken(advice[0], subject, marks, jax.random.key(0), audit)
    return {"what": advice[0].what, "kept": after.get("marks", {treats: "look"}).get(treats) in ("look", "problem")}


def work(job):
    import jax

    family, defect, count, compiled = job
    jax.config.update("jax_compilation_cache_dir", compiled)  # shared by the workers
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    return family, defect, treated(family, defect, count)


def table(rows) -> str:
    """Per defect: cured, promise kept, control kept; and how many a person must treat."""
    lines = ["| defect | networks | cured | inside what was promised | kept under another action | by hand | none |"]
    lines.append("|" + " --- |" * 7)
    groups = defaultdict(list)
    for row in rows:
        groups[row["defect"]].append(row)
    for name, group in [*sorted(groups.items()), ("all", rows)]:
        done = [r for r in group if "marks" in r]
        cured = sum(r["marks"].get(r["treats"], "fine") not in ("look", "problem") and not r["new"] for r in done)
        inside = sum(r["promised"][0] <= r["measured"] <= r["promised"][1] for r in done)
        controls = [r["control"]["kept"] for r in done if r.get("control")]
        shown = [f"{c} of {len(done)}" for c in (cured, inside)] + [f"{sum(controls)} of {len(controls)}"]
        people = sum(bool(r.get("by_hand")) for r in group)
        none = len(group) - len(done) - people
        lines.append(f"| {name} | {len(group)} | {' | '.join(shown)} | {people} | {none} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="where the rows are kept, a file for each family with a defect")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--networks", type=int, default=10, help="of each defect, over its families; at most 8 of each")
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which nothing more is waited for")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    from _defects import DEFECTS

    wanted = defaultdict(int)
    for name, defect in DEFECTS.items():
        for family, _ in zip(cycle(defect.families), range(given.networks), strict=False):
            wanted[family, name] = min(8, wanted[family, name] + 1)
    paths = {pair: given.out / f"{pair[0]}--{pair[1]}.jsonl".replace(" ", "_") for pair in wanted}
    began = time.time()
    todo = [(*pair, n, str(given.out / "compiled")) for pair, n in wanted.items() if not paths[pair].exists()]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        results = pool.imap_unordered(work, todo)
        try:
            for _ in todo:
                family, name, rows = results.next(max(0.0, began + given.seconds - time.time()))
                paths[family, name].write_text("".join(json.dumps(row) + "\n" for row in rows))
                print(f"{time.time() - began:.0f} s: {family}, {name}", flush=True)
        except multiprocessing.TimeoutError:
            print(f"{sum(not p.exists() for p in paths.values())} of {len(paths)} were left out for want of time")
    rows = [json.loads(line) for path in paths.values() if path.exists() for line in path.read_text().splitlines()]
    print(table(rows))


if __name__ == "__main__":
    main()
