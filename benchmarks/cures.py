"""The first action of the audit, taken: is what it treats gone, nothing worse come, and did it do what was promised?

    python benchmarks/cures.py OUT --jobs 15                 # 10 networks of every planted defect at full strength
    python benchmarks/cures.py OUT --jobs 2 --networks 1     # a look
    python benchmarks/cures.py OUT --table                   # of what is there

Networks are those of `population.py` with a defect of `_defects.py`, of numbers that the population does not have. As a
control each gets, in place of its own, an action that was advised for a network with another defect, and must keep what
it has. Every network is a line that is written when it is done, and a run that was cut short goes on where it was.
Groups of one family with one defect are dealt so that each defect, and as many families as there are, come first.
"""

import argparse
import json
import multiprocessing
import os
import time
import traceback
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

FIRST = 1000  # the number of the chunk, far from those of the population
MARKED = ("look", "problem")
#: whose action is the control: dividing the outputs does not train again, which alone would undo what was planted late
OTHERS = {"step too short": "step too long", "step too long": "step too short", "logits too large": "step too short"}


def marks_of(report) -> dict[str, str]:
    """The marks of the findings that have one."""
    return {f.name: f.mark for f in report.findings if f.mark in MARKED}


def taken(action, subject, before, key):
    """What an action did: the marks after it, which problems are new, and its quantity beside what was promised."""
    from corollary.audit import SubjectError, audit

    try:
        treated = action.apply(subject, key=key)
    except SubjectError as error:
        return {"failed": str(error)}
    after = marks_of(audit(treated, actions=False))
    return {
        "after": after,
        "new": [n for n, m in after.items() if m == "problem" and before.get(n) != "problem"],
        "measured": action.effect.measured(treated),
        "promised": list(action.effect.interval),
    }


def treated(family, defect, number):
    """A network of a family with a defect: audited, treated by its first action, audited again."""
    import jax
    from population import STRENGTHS, subject_of

    from corollary.audit import SubjectError, audit
    from corollary.audit.action import by_hand

    began = time.time()
    row = {"family": family, "defect": defect, "number": number}
    made, recipes, ends = trained(family, defect)
    try:
        subject = subject_of(made, recipes[number], ends[number], defect, STRENGTHS)
    except SubjectError as error:
        return row | {"refused": str(error)}
    report = audit(subject, seed=number)
    before = marks_of(report)
    row |= {"causes": [c.finding.name for c in report.causes], "before": before, "notes": report.subject["notes"]}
    if report.actions:
        action = report.actions[0]
        row |= {"what": action.what, "treats": action.treats, "by_hand": action.apply is by_hand}
        if not row["by_hand"]:
            row |= taken(action, subject, before, jax.random.key(number))
            row["control"] = controlled(family, defect, subject, action.treats, before)
    return row | {"seconds": round(time.time() - began, 1)}


@cache
def trained(family, defect):
    """The networks of a family with a defect, and how they were trained."""
    from population import STRENGTHS, networks

    return networks(family, defect, STRENGTHS, FIRST)


@cache
def elsewhere(family, defect):
    """What is advised for a network of this family with a defect."""
    from population import STRENGTHS, subject_of

    from corollary.audit import SubjectError, audit

    made, recipes, ends = trained(family, defect)
    for recipe, end in zip(recipes, ends, strict=True):
        try:
            return audit(subject_of(made, recipe, end, defect, STRENGTHS)).actions
        except SubjectError:
            continue
    return ()


def controlled(family, defect, subject, treats, before):
    """Whether what an action treats is still marked after one that was advised for another defect."""
    import jax
    from _defects import DEFECTS

    from corollary.audit.action import by_hand

    other = OTHERS.get(defect, "logits too large")
    if family not in DEFECTS[other].families:
        other = "step too short"
    # of what is advised there that for the defect, and nothing that would treat this one
    advice = [a for a in elsewhere(family, other) if a.treats in DEFECTS[other].names and a.treats != treats]
    advice = [a for a in advice if a.apply is not by_hand]
    if not advice:
        return None
    after = taken(advice[0], subject, before, jax.random.key(0))
    # what cannot be trained at all has kept what it had
    return {"what": advice[0].what, "kept": treats in after.get("after", [treats])}


def begun(compiled, numbers):
    """A worker: a core of its own, since programs this small gain nothing from more, and the compilations of all."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        with numbers.get_lock():
            numbers.value += 1
            os.sched_setaffinity(0, {cores[numbers.value % len(cores)]})
    import jax

    jax.config.update("jax_compilation_cache_dir", compiled)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def work(job):
    """The networks of a group, each written down as it is done."""
    family, defect, numbers, path = job
    began = time.time()
    for number in numbers:
        try:
            row = treated(family, defect, number)
        except Exception as error:  # one network less, and not a run
            traceback.print_exc()
            row = {"family": family, "defect": defect, "number": number, "stopped": f"{type(error).__name__}: {error}"}
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
    return f"{family}, {defect}: {len(numbers)} in {time.time() - began:.0f} s"


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def groups(networks: int) -> list[tuple[str, str, int]]:
    """Family, defect and number of networks; neighbours differ in both as far as there are others of both."""
    from _defects import DEFECTS

    found = []
    for i, (name, defect) in enumerate(DEFECTS.items()):
        families = defect.families
        share = Counter(families[j % len(families)] for j in range(networks))
        turned = [families[(i + j) % len(families)] for j in range(len(families))]
        found += [(j, i, family, name, min(8, share[family])) for j, family in enumerate(turned) if share[family]]
    return [one[2:] for one in sorted(found)]


def cured(row) -> bool:
    """Neither what was treated nor the first cause is marked any more, and no problem came."""
    return "after" in row and not row["new"] and not {row["treats"], row["causes"][0]} & row["after"].keys()


def table(rows) -> str:
    """Per defect: cured, promise kept, control kept; how many a person must treat, and how many have no action."""
    head = ("defect", "networks", "cured", "inside what was promised", "kept under another action")
    head += ("by hand", "no action", "not finite", "stopped")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    by_defect = defaultdict(list)
    for row in rows:
        by_defect[row["defect"]].append(row)
    for name, group in [*sorted(by_defect.items()), ("all", rows)]:
        # an action that could not be taken to its end has cured nothing
        done = [r for r in group if r.get("by_hand") is False]
        inside = sum("after" in r and r["promised"][0] <= r["measured"] <= r["promised"][1] for r in done)
        controls = [r["control"]["kept"] for r in done if r.get("control")]
        shares = [(sum(map(cured, done)), len(done)), (inside, len(done)), (sum(controls), len(controls))]
        people, refused, stopped = (sum(bool(r.get(k)) for r in group) for k in ("by_hand", "refused", "stopped"))
        counts = [people, len(group) - len(done) - people - refused - stopped, refused, stopped]
        cells = [name, len(group), *(f"{a} of {b}" for a, b in shares), *counts]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="where the rows are kept, a file for each family with a defect")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--networks", type=int, default=10, help="of each defect, over its families; at most 8 of each")
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which nothing more is waited for")
    parser.add_argument("--table", action="store_true", help="only print the table")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.table:
        measure(given.out, given.jobs, given.networks, given.seconds)
    print(table([row for path in sorted(given.out.glob("*.jsonl")) for row in read(path)]))


def measure(out: Path, jobs: int, networks: int, seconds: float):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # of the workers too
    began, todo = time.time(), []
    for family, defect, count in groups(networks):
        path = out / f"{family}--{defect}.jsonl".replace(" ", "_")
        if numbers := sorted(set(range(count)) - {row["number"] for row in read(path)}):
            todo.append((family, defect, numbers, str(path)))
    context = multiprocessing.get_context("spawn")
    workers = dict(initializer=begun, initargs=(str(out / "compiled"), context.Value("i", 0)))
    with context.Pool(jobs, **workers) as pool:
        results = pool.imap_unordered(work, todo)
        try:
            for done in range(len(todo)):
                said = results.next(max(0.0, began + seconds - time.time()))
                print(f"{time.time() - began:.0f} s, {done + 1} of {len(todo)}: {said}", flush=True)
        except multiprocessing.TimeoutError:
            print(f"cut short after {seconds:.0f} s")


if __name__ == "__main__":
    main()
