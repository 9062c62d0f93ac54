"""The command line. JAX is imported only by the commands that need it."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from corollary import __version__
from corollary._cli_kept import Json, Patterns, ledger, store
from corollary._options import drawn, know, make_directory, outputs, pairs, say
from corollary._text import visible

app = typer.Typer(
    name="corollary",
    help="What the theory of deep learning says about your network, with numbers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ledger, name="ledger", no_args_is_help=True)
app.add_typer(store, name="store", no_args_is_help=True)

Words = Annotated[
    list[str] | None,
    typer.Argument(help="Claim ids, globs, or words of ids and titles, such as nesterov.", show_default=False),
]
Own = Annotated[
    list[str] | None,
    typer.Option("--claims", metavar="FILE", help="A Python file (or a module) with claims of your own."),
]


def main(words: list[str] | None = None) -> None:
    """Run the command line; what a user did wrong is one sentence and exit status 2."""
    from corollary.evidence._errors import UserError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names of files may hold what no encoding has
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            status = app(words, prog_name="corollary", standalone_mode=False) or 0
        finally:
            sys.stdout.flush()  # here, where a disk that is full can still be said
    except UserError as error:
        status = _complain(str(error), error.status)
    except MemoryError:
        status = _complain("there is not enough memory for this (MemoryError).", 1)
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        sys.stderr.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still wants to write at its end
        status = 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        place = f"{error.filename}: " if error.filename else ""
        status = _complain(f"{place}{error.strerror or error}.", 1)
    except Exception as error:
        if not hasattr(error, "format_message"):  # of the parser of the command line, which has no public base
            raise
        if message := error.format_message():  # there is none beside the help of a command without words
            usage = f"{context.get_usage()}\n" if (context := getattr(error, "ctx", None)) else ""
            print(visible(f"{usage}corollary: {message}"), file=sys.stderr)
        status = error.exit_code
    sys.exit(status)


def _complain(sentence: str, status: int) -> int:
    print(visible(f"corollary: {sentence}"), file=sys.stderr)
    return status


def _version(asked: bool) -> None:
    if asked:
        print(f"corollary {__version__}")
        raise typer.Exit


@app.callback()
def _options(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    pass


@app.command()
def audit(
    network: Annotated[
        str | None,
        typer.Argument(
            help="An ONNX file, or file.py:function that makes a Subject, QSubject or Sampler. Default: digits.",
            show_default=False,
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(help="Training data: .npz, .csv or .parquet with x and y, or a folder of .npy files or images."),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Test data, like the training data.")] = None,
    loss: Annotated[str | None, typer.Option(help="cross_entropy, binary_cross_entropy, squared, ...")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=ARRAY", help="Which array feeds which input; may be repeated."),
    ] = None,
    output: Annotated[str | None, typer.Option(help="The output of the graph, where there are several.")] = None,
    parameters: Annotated[
        str | None, typer.Option(metavar="NAMES", help="The tensors that are trained, separated by commas.")
    ] = None,
    initial: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The ONNX file of the network that training started from.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The step of the training, if known.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="The batch of the training, if known.")] = None,
    steps: Annotated[int | None, typer.Option(help="The number of steps of the training, if known.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="The weight decay of the training, if known.")] = None,
    attempts: Annotated[
        int, typer.Option("--try", min=0, max=5, help="How many of the actions are taken, to see what they do.")
    ] = 0,
    budget: Annotated[str, typer.Option(help="quick or full.")] = "quick",
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report.html"),
    time_limit: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds it may take; by default an hour, or a day for full.")
    ] = None,
    memory_limit: Annotated[
        float | None, typer.Option(min=0.1, help="Gigabytes it may take; by default 80% of the machine's.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="An older network, or the JSON report of its audit: what is better, worse."),
    ] = None,
    checkpoints: Annotated[
        str | None, typer.Option(metavar="'PATTERN'", help="Files along the training, such as 'ckpt/*.onnx'.")
    ] = None,
    fail_on: Annotated[
        str | None, typer.Option(metavar="problem|look|worse", help="End with status 1 if something is so marked.")
    ] = None,
    accept: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Findings that fail no run, each with a reason and a date.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="The report as JSON too; - prints it.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="The findings as tests, for CI servers.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="A summary, for the pages of CI jobs.")] = None,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For code scanning, of file.py:function only.")
    ] = None,
) -> None:
    """What the theory says about a trained network: will it train, what did it find, and so on, as a report."""
    from corollary._console import audit_lines, audit_progress
    from corollary._memory import physical_memory
    from corollary.audit import _outlets
    from corollary.audit._asked import Asked, require
    from corollary.audit._budget import BUDGETS, SECTIONS
    from corollary.audit._limited import limited
    from corollary.evidence._child import SHARE

    total = physical_memory()
    most = memory_limit * 1e9 if memory_limit else total and SHARE * total
    asked = Asked(
        network,
        *(None if path is None else str(path) for path in (train, test)),
        loss,
        inputs=pairs("--input", inputs) if inputs else None,
        output=output,
        parameters=[name.strip() for name in parameters.split(",") if name.strip()] if parameters else None,
        initial=None if initial is None else str(initial),
        learning_rate=learning_rate,
        batch_size=batch_size,
        budget=budget,
        memory_limit=most,
        steps=steps,
        weight_decay=weight_decay,
        attempts=attempts,
        against=against,
        checkpoints=checkpoints,
    )
    require(asked)
    gate = _outlets.gate(fail_on, accept, against)
    asked = asked._replace(accepted=gate.accepted)
    if sarif is not None:
        _outlets.require_place(network)
    printed = json_file == Path("-")
    options = {"--json": None if printed else json_file, "--junit": junit, "--markdown": markdown, "--sarif": sarif}
    try:
        with outputs({"--out": out} | options) as files:
            audits = 1 if against is None or against.endswith(".json") else 2
            along = 0 if checkpoints is None else len(_outlets.checkpoints(checkpoints)[0])
            with audit_progress(audits * (len(SECTIONS) + 1) + attempts + along) as progress:
                seconds = time_limit or BUDGETS[budget].seconds
                answer = limited(asked, time_limit=seconds, memory_limit=most, progress=progress)
            fields = gate.judged(answer.findings)
            texts = _outlets.texts(fields, fail_on, network)
            files.pop("--out").write(answer.page)
            for option, file in files.items():
                file.write(texts[option]())
    except KeyboardInterrupt:
        print("\nInterrupted. There is no report.", file=sys.stderr)
        raise typer.Exit(130) from None
    if printed:
        print(texts["--json"](), end="")
    else:
        audit_lines(fields, out)
    if found := gate.failing(fields):
        print(visible("\n".join([f"Failed by --fail-on {fail_on}:", *found])), file=sys.stderr)
        raise typer.Exit(1)


@app.command("list")
def list_(patterns: Words = None, own: Own = None, as_json: Json = False) -> None:
    """List the claims."""
    from corollary.evidence import select

    know(own)
    chosen = select(patterns or ["*"], words=True)
    if as_json:
        for c in chosen:
            fields = {"claim": c.id, "title": c.title, "rows": c.rows, "expected": c.expected, "erratum": c.erratum}
            print(json.dumps(fields))
        return
    from corollary._console import claim_list

    claim_list(chosen)


@app.command()
def show(
    claim: Annotated[str, typer.Argument(help="The id of a claim.")], own: Own = None, as_json: Json = False
) -> None:
    """Show the statement, sources and parameters of a claim."""
    from corollary.catalog import rows
    from corollary.evidence import select

    know(own)
    for c in select([claim]):
        if as_json:
            parameters = [{"name": p.name, "default": p.default, "takes": p.expected} for p in c.parameters.values()]
            fields = {"claim": c.id, "title": c.title, "statement": c.statement, "rows": c.rows}
            print(json.dumps(fields | {"expected": c.expected, "erratum": c.erratum, "parameters": parameters}))
        else:
            from corollary._console import claim_page

            claim_page(c, rows())


@app.command()
def verify(
    patterns: Patterns = None,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=100_000, help="How many seeds, counted from the first.")] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter; may be repeated.")
    ] = None,
    scale: Annotated[str, typer.Option(help="quick, full or large.")] = "quick",
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Worker processes.")] = 1,
    figures: Annotated[Path | None, typer.Option(help="Write a PNG and an SVG of each result there.")] = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what the store already holds.")] = False,
    store: Annotated[Path | None, typer.Option(help="The evidence file.", show_default=False)] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds that one claim may take.")] = 600.0,
    memory_limit: Annotated[
        float | None, typer.Option(min=0.1, help="Gigabytes that one claim may take; by default its worker's share.")
    ] = None,
    own: Own = None,
    as_json: Json = False,
) -> None:
    """Measure claims: prediction against measurement, in worker processes, resumable."""
    from corollary._console import Report

    kept = None
    try:
        from corollary.evidence import select
        from corollary.evidence._runner import tasks
        from corollary.evidence._runner import verify as run_tasks
        from corollary.evidence._store import Store, default_path

        know(own)
        given = pairs("--set", settings or [])
        if figures is not None:
            make_directory(figures)
        path = store or default_path()
        work = tasks(select(patterns or ["*"]), range(seed, seed + seeds), scale, given)
        with Store(path) as evidence_store, Report(work, path, as_json=as_json) as kept:
            limits = {"time_limit": time_limit, "memory_limit": memory_limit and memory_limit * 1e9}
            outcomes = run_tasks(work, evidence_store, jobs=jobs, fresh=fresh, on_event=kept.event, **limits)
            with closing(outcomes):  # whatever happens here, the workers end
                for outcome in outcomes:
                    if figures is not None and outcome.evidence.checks:
                        drawn(outcome.evidence, figures)
                    kept.add(*outcome)
            evidence_store.still_there()
            say(evidence_store.words)
        kept.summary()
        if missing := kept.missing():
            print(f"There is no result of {', '.join(f'{c} on seed {s}' for c, s in missing)}.", file=sys.stderr)
    except KeyboardInterrupt:
        done = f"{kept.done} of {kept.total} results are kept in {path}." if kept else "Nothing was started."
        print(visible(f"\nInterrupted. {done} The same command goes on from there."), file=sys.stderr)
        # the workers are gone; leave at once, without waiting for threads of libraries
        raise typer.Exit(130) from None
    raise typer.Exit(0 if kept.as_expected else 1)


@app.command()
def coverage(
    missing: Annotated[bool, typer.Option(help="List the rows that nothing covers.")] = False,
    as_json: Json = False,
) -> None:
    """Which rows of the five texts are covered, and by what."""
    from corollary.catalog import coverage as measure
    from corollary.catalog import summary

    covered = measure()
    if missing:
        covered = [c for c in covered if not (c.claims or c.objects or c.waived)]
    if as_json:
        fields = [
            {"row": c.row.id, "kind": c.row.kind, "covered_by": [*c.claims, *c.objects], "waived": c.waived}
            for c in covered
        ]
        print(json.dumps(fields, indent=1))
        return
    from corollary._console import coverage_table, row_list

    if missing:
        row_list(covered)
    else:
        coverage_table(summary(covered))
