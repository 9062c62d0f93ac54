"""Run claims in worker processes: one that dies, hangs or grows is one error, not the end of the run."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from typing import NamedTuple

from corollary._memory import physical_memory
from corollary.evidence._child import SHARE, TICK, TOO_LARGE, uninterrupted
from corollary.evidence._claim import Claim
from corollary.evidence._code import code_version
from corollary.evidence._device import device_kind
from corollary.evidence._errors import ParameterError, UserError
from corollary.evidence._evidence import Evidence, versions
from corollary.evidence._index import FILES
from corollary.evidence._process import Worker
from corollary.evidence._store import Store
from corollary.evidence._task import Task

START_TRIES = 3
MOST_TASKS = 1_000_000


class Outcome(NamedTuple):
    """Evidence as it comes, whether the store had it already, and what the claim left changed in its process."""

    evidence: Evidence
    cached: bool
    leaks: tuple[str, ...] = ()


def tasks(
    claims: Iterable[Claim],
    seeds: Iterable[int] = (0,),
    scale: str = "quick",
    overrides: dict | None = None,
    *,
    trace_first: bool = False,
) -> list[Task]:
    """Every claim at every seed. `overrides` are values (or their text) for parameters that all the claims have.

    With `trace_first` the first seed of each claim is traced.
    """
    seeds = list(dict.fromkeys(seeds))
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise ParameterError(f"A seed is a whole number from 0 to 2^63 - 1, got {seed!r}.")
    made, claims = [], list(claims)
    if len(claims) * len(seeds) > MOST_TASKS:
        raise ParameterError(f"One run measures at most {MOST_TASKS:,} results: ask for fewer seeds or claims.")
    for claim in claims:
        try:
            values = claim.values(scale, overrides)
        except ParameterError as error:
            raise ParameterError(f"{claim.id}: {error}") from None
        file = FILES.get(claim.module)
        made += [
            Task(claim.id, claim.module, seed, scale, values, file, trace_first and seed == seeds[0]) for seed in seeds
        ]
    return made


def verify(
    tasks: Iterable[Task],
    store: Store,
    *,
    jobs: int = 1,
    fresh: bool = False,
    time_limit: float | None = 300.0,
    memory_limit: float | None = None,
    on_event: Callable[[Task, str], None] = lambda task, kind: None,
) -> Iterator[Outcome]:
    """Measure `tasks` in `jobs` worker processes and yield what comes of each, in the order they end.

    Evidence is in the store before it is yielded. A verdict that the store has for the same claim, parameters, seed,
    code, version of JAX and kind of device is not measured again unless `fresh`; an error always is. `time_limit` is
    in seconds per task, `memory_limit` in bytes per worker (by default its share of 80% of the machine). `on_event`
    hears "start" and "check". Closing the iterator, or an exception in it, ends all workers at once.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise UserError(f"jobs must be a whole number of at least 1, got {jobs!r}.")
    for name, value in (("time_limit", time_limit), ("memory_limit", memory_limit)):
        if value is not None and not value > 0:
            raise UserError(f"{name} must be positive, got {value!r}.")
    if memory_limit is None and (total := physical_memory()) is not None:
        memory_limit = SHARE * total / jobs
    return _verify(deque(tasks), store, jobs, fresh, time_limit, memory_limit, on_event)


def _verify(queue, store, jobs, fresh, time_limit, memory_limit, on_event) -> Iterator[Outcome]:
    workers: list[Worker] = []
    stillborn, again = 0, set()  # `again`: places of tasks that get a second try in a fresh worker
    queue = deque(enumerate(queue))
    try:
        while queue or any(w.task for w in workers):
            while queue and sum(w.task is not None for w in workers) < jobs:
                place, task = queue.popleft()
                known = None if fresh else _known(store, task)
                if known is not None:
                    yield Outcome(known, True)
                else:
                    worker = _idle(workers, jobs, memory_limit)
                    worker.place = place
                    worker.deal(task)
            busy = [w for w in workers if w.task]
            if not busy:
                break  # the rest was known
            connection.wait([end for w in busy for end in (w.end, w.process.sentinel)], timeout=TICK)
            for worker in busy:
                task = worker.task
                evidence = worker.listen(on_event)
                problem = None if evidence else worker.problem(time_limit, memory_limit)
                if problem:
                    worker.close()
                    workers.remove(worker)
                    if worker.dead and not worker.ready:  # no fault of the task's
                        stillborn += 1
                        _give_up_after(stillborn, problem)
                        queue.appendleft((worker.place, task))
                    elif worker.results and worker.place not in again and _inherited(worker, problem):
                        again.add(worker.place)
                        queue.appendleft((worker.place, task))
                    else:
                        evidence = worker.cut_short(problem)
                if evidence:
                    leaks, worker.task, stillborn = tuple(worker.leaks), None, 0
                    store.put(evidence)
                    yield Outcome(evidence, False, leaks)
    finally:
        for worker in workers:
            worker.kill()  # all of them before waiting for any
        for worker in workers:
            worker.close()


def _inherited(worker: Worker, problem: str) -> bool:
    """Whether what went wrong may be due to the tasks that this worker had before."""
    return worker.foul is not None or problem.startswith(TOO_LARGE)


def _known(store: Store, task: Task) -> Evidence | None:
    code = code_version(task.module, task.claim_id.rpartition(".")[2])
    found = store.get(task.claim_id, task.parameters, task.seed, code, versions()["jax"], device_kind())
    if found is None or found.verdict == "error" or (task.trace and found.calls is None):
        return None
    return found


def _idle(workers: list[Worker], jobs: int, memory_limit: float | None) -> Worker:
    """A worker without a task: one that is there, or a new one on the share of the cores that is free."""
    for worker in [w for w in workers if not w.task]:
        if worker.process.is_alive() and not worker.worn(memory_limit):
            return worker
        worker.close()
        workers.remove(worker)
    taken = {worker.share for worker in workers}
    share = next(i for i in range(jobs) if i not in taken)
    with uninterrupted():
        workers.append(Worker(share, jobs))
    return workers[-1]


def _give_up_after(stillborn: int, problem: str) -> None:
    if stillborn >= START_TRIES:
        hint = "In a script of your own, call verify under `if __name__ == '__main__':`."
        raise UserError(f"The worker processes do not start. {problem} {hint}")
