"""The commands about what is kept: the ledger beside the sources, and the evidence file."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from corollary._options import existing_store, say
from corollary._text import visible

Patterns = Annotated[
    list[str] | None, typer.Argument(help="Claim ids or globs, such as 'linear.*'.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]

ledger = typer.Typer(help="What every claim came to on seeds 0 to 9, as text that is kept with the sources.")
Directory = Annotated[Path | None, typer.Option("--dir", help="Where the ledger lies.", show_default=False)]


@ledger.command("write")
def ledger_write(
    patterns: Patterns = None,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")] = 1,
    directory: Directory = None,
    store: Annotated[Path | None, typer.Option(help="The evidence file.", show_default=False)] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds that one claim may take.")] = 600.0,
) -> None:
    """Write the lines of these claims, or of all that are stale, and measure what is missing. Resumable."""
    from corollary._console import LedgerReport

    kept = None
    try:
        from corollary.evidence import _ledger as book
        from corollary.evidence import claims, select
        from corollary.evidence._runner import tasks
        from corollary.evidence._runner import verify as run_tasks
        from corollary.evidence._store import Store, default_path

        place, path = directory or book.default_directory(), store or default_path()
        chosen = book.recorded(select(patterns or ["*"]))
        wanted = {c.id for c in chosen} if patterns else book.stale(chosen, book.read(place))
        entries = {c.id: book.Entry(c) for c in chosen if c.id in wanted}
        work = tasks([e.claim for e in entries.values()], book.SEEDS, trace_first=True)
        # seed after seed: what the first compiled for a claim is at hand for the others
        work.sort(key=lambda task: task.seed)
        with Store(path) as evidence_store, LedgerReport(work, path, as_json=False) as kept:
            outcomes = run_tasks(work, evidence_store, jobs=jobs, time_limit=time_limit, on_event=kept.event)
            with closing(outcomes):
                for outcome in outcomes:
                    entries[outcome.evidence.claim].add(outcome.evidence)
                    kept.add(*outcome)
            evidence_store.still_there()
            say(evidence_store.words)
        made = {id: entry.line() for id, entry in entries.items()}
        known = {id: line for id, line in book.read(place).items() if id in claims() and id not in made}
        book.write(place, [*known.values(), *filter(None, made.values())])
        kept.ledger(place, made, [p for entry in entries.values() for p in entry.problems])
    except KeyboardInterrupt:
        done = f"{kept.done} of {kept.total} results are kept in {path}." if kept else "Nothing was started."
        print(visible(f"\nInterrupted. {done} The same command goes on from there."), file=sys.stderr)
        raise typer.Exit(130) from None
    raise typer.Exit(0 if kept.as_expected and all(made.values()) else 1)


@ledger.command("check")
def ledger_check(patterns: Patterns = None, directory: Directory = None, as_json: Json = False) -> None:
    """List the claims that the ledger does not vouch for: new ones, and those whose code has changed."""
    from corollary._console import stale_list
    from corollary.evidence import _ledger as book
    from corollary.evidence import select

    chosen = book.recorded(select(patterns or ["*"]))
    found = book.stale(chosen, book.read(directory or book.default_directory()))
    if as_json:
        print(json.dumps([{"claim": id, "reason": reason} for id, reason in found.items()], indent=1))
    else:
        stale_list(found, len(chosen))
    raise typer.Exit(1 if found else 0)


store = typer.Typer(help="The evidence file itself.")
File = Annotated[Path | None, typer.Argument(help="The evidence file; yours unless named.", show_default=False)]


@store.command("check")
def store_check(path: File = None) -> None:
    """Read every row, and set aside those that are not what was written."""
    with existing_store(path) as opened:
        sound = sum(1 for _ in opened)
        say(opened.words)
        rows = f"{sound} row of {opened.path} is" if sound == 1 else f"{sound} rows of {opened.path} are"
        print(visible(f"{rows} sound."))
    raise typer.Exit(1 if opened.words else 0)


@store.command("export")
def store_export(path: File = None) -> None:
    """Print all evidence, a line of JSON per row."""
    from corollary.evidence import to_json

    with existing_store(path) as opened:
        for evidence in opened:
            print(to_json(evidence))
        say(opened.words)
