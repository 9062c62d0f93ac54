"""The worker's end of a run: a process that measures the claims it is dealt, one at a time.

It speaks in messages (deal, kind, text), where the deal is the name that its parent gave the task: "ready" when it can
take tasks; then per task "start", "check" and "figure" as JSON as they come, "leak" for each thing that the claim left
changed in this process, and at last "end" with the evidence as JSON, or "error" with a sentence.
"""

import json
import os
import socket
import sys
from dataclasses import asdict

from corollary.evidence._check import Check
from corollary.evidence._claim import _REGISTRY, Claim
from corollary.evidence._code import code_version, sources
from corollary.evidence._compiled import cache_compilations
from corollary.evidence._errors import described
from corollary.evidence._evidence import _plain, to_json
from corollary.evidence._index import load
from corollary.evidence._leaks import leaked, state
from corollary.evidence._lines import send
from corollary.evidence._run import measure
from corollary.evidence._task import Task

#: Tasks after which a worker lets go of its compiled programs: each holds pages of memory, of which a process may have
#: some 65,000. What it needs again is in the compilation cache.
BREATH = 50


def work(end: socket.socket) -> None:
    """Serve tasks until the other end closes."""
    sources().digest  # noqa: B018 - a look at the sources as they are now, when they are about to be imported
    cache_compilations()
    pid = os.getpid()
    try:
        send(end, "", "ready", "")
        for count, line in enumerate(end.makefile("rb"), 1):
            deal, task = json.loads(line)
            _serve(end, pid, deal, Task(**task))
            if count % BREATH == 0:
                sys.modules["jax"].clear_caches()
    except OSError:  # the other end is gone
        return


def find(claim_id: str, module: str, file: str | None) -> Claim:
    """The claim with this id, whose module may not have been imported yet."""
    load(module, file)
    return _REGISTRY[claim_id]


def _serve(end: socket.socket, pid: int, deal: str, task: Task) -> None:
    def say(kind: str, text: str) -> None:
        if os.getpid() != pid:
            os._exit(1)  # a child of the claim's own, which would answer, and take tasks, in our name
        send(end, deal, kind, text)

    try:
        claim = find(task.claim_id, task.module, task.file)
    except Exception as error:
        say("error", f"The module {task.module} cannot be imported: {described(error)}")
        return
    code_version(claim.module, claim.name)  # before its time begins
    before = state()
    say("start", "")

    def report(item):
        text = json.dumps(_plain(asdict(item)), allow_nan=False)
        say("check" if isinstance(item, Check) else "figure", text)

    # nobody presses Ctrl-C here: even an interrupt is the claim's own
    found = measure(claim, task.seed, task.scale, task.parameters, report, trace=task.trace, caught=BaseException)
    for name in leaked(before, state(), claim.module):
        say("leak", name)
    say("end", to_json(found))
