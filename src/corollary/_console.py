"""What the command line prints: short, aligned, with units."""

import json
import shutil
import sys
import textwrap
import time
from collections import Counter, defaultdict
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape as markup_escaped
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from corollary._text import visible
from corollary.catalog import TEXTS
from corollary.catalog._rows import chapters
from corollary.evidence import Claim, Evidence, summary

# a pipe has no width: print whole lines there, and fit the terminal otherwise
WIDTH = shutil.get_terminal_size().columns if sys.stdout.isatty() else 200

SIGNS = {
    "holds": "[green]holds  [/]",
    "refuted": "[yellow]refuted[/]",
    "fails": "[red]fails  [/]",
    "error": "[red]error  [/]",
}


def escape(text: str) -> str:
    """Text of others as it is: neither markup nor anything that steers the terminal."""
    return markup_escaped(visible(text))


def console(**options) -> Console:
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty(), width=WIDTH, **options)


def claim_list(claims: list[Claim]) -> None:
    """One or two lines per claim; in a pipe one, which a program can take apart."""
    out, terminal = console(), sys.stdout.isatty()
    for c in claims:
        first, *second = claim_lines(c, WIDTH if terminal else None)
        out.print(escape(first))
        for line in second:
            out.print(f"[dim]{escape(line)}[/]")
    errata = sum(c.erratum is not None for c in claims)
    out.print(f"[dim]{_count(len(claims), 'claim')}, {errata} of them errata[/]")


def claim_lines(c: Claim, width: int | None) -> list[str]:
    """Id, title and rows of a claim, in one line where they fit and in two otherwise."""
    title = c.title + (" (erratum)" if c.erratum else "")
    rows = ", ".join(c.rows)
    one = f"{c.id}  {title}  {rows}"
    if width is None or len(one) <= width:
        return [one]
    if len(f"{c.id}  {rows}") > width:
        rows = f"{c.rows[0]} and {len(c.rows) - 1} more" if len(c.rows) > 1 else rows
    return [f"{c.id}  {rows}", "    " + textwrap.shorten(title, width - 4, placeholder=" …")]


def claim_page(c: Claim, rows: dict) -> None:
    out = console()
    out.print(f"[bold]{escape(c.title)}[/]\n[dim]{c.id}[/]\n")
    out.print(escape(c.statement) + "\n")
    if c.erratum:
        out.print(f"[yellow]Wrong as printed:[/] {escape(c.erratum)}\n")
    for row in c.rows:
        if row in rows:
            out.print(f"  [dim]{row}[/]  {escape(rows[row].title)} [dim]({escape(rows[row].section)})[/]")
        else:
            out.print(f"  [dim]{escape(str(row))}[/]  [red]is no row of the texts[/]")
    if c.parameters:
        out.print()
    for p in c.parameters.values():
        presets = [f"{scale} {c.presets[scale][p.name]}" for scale in c.presets if p.name in c.presets[scale]]
        larger = f" ({', '.join(presets)})" if presets else ""
        out.print(f"  {escape(f'{p.name} = {p.default}{larger}')}  [dim]{escape(p.expected)}[/]")
    out.print(f"\n[dim]corollary verify {c.id} --figures figures[/]")


def coverage_table(lines: list[tuple]) -> None:
    """One line per chapter, below the name of its text."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("chapter", no_wrap=True)
    table.add_column("")
    for name in ("rows", "covered", "by claim", "by object", "waived"):
        table.add_column(name, justify="right")
    total: Counter = Counter()
    before = None
    for text, chapter, *counts in lines:
        if text != before:
            table.add_row(f"[bold]{text}[/]", f"[bold]{escape(TEXTS[text].replace('*', ''))}[/]")
            before = text
        title = escape(chapters()[text + chapter])
        table.add_row(text + chapter, title, *(str(n) if n else "[dim]·[/]" for n in counts))
        total.update(dict(enumerate(counts)))
    table.add_row("all", "", *(str(total[i]) for i in range(5)), style="bold")
    console().print(table)


def row_list(covered: list) -> None:
    out = console()
    for c in covered:
        out.print(f"{c.row.id}  [dim]{c.row.kind:<10}[/]  {escape(c.row.title)}")
    out.print(f"[dim]{len(covered)} rows are not covered[/]")


class Report:
    """A progress bar, a verdict line per result as it comes, a summary at the end."""

    def __init__(self, tasks: list, path, *, as_json: bool):
        self.total, self.done, self.path, self.as_json = len(tasks), 0, path, as_json
        self.asked = Counter((t.claim_id, t.seed) for t in tasks)
        self.results: list[Evidence] = []
        self.cached = 0
        self.running: dict = {}
        self.clock = time.perf_counter()
        self.out, self.err = console(), Console(stderr=True, highlight=False)
        self.wide = max((len(t.claim_id) for t in tasks), default=0)
        self.several = len({t.seed for t in tasks}) > 1
        self.bar = Progress(
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]left[/]"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.description}[/]"),
            console=self.err,
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self.line = self.bar.add_task("", total=self.total)

    def __enter__(self) -> "Report":
        self.bar.start()
        return self

    def __exit__(self, *problem) -> None:
        self.bar.stop()

    def event(self, task, kind: str) -> None:
        if kind == "start":
            self.running[task.claim_id, task.seed] = task
            self.bar.update(self.line, description=", ".join(c for c, _ in self.running))

    def add(self, evidence: Evidence, cached: bool, leaks: tuple[str, ...] = ()) -> None:
        self.done += 1
        self.cached += cached
        self.results.append(evidence)
        self.running.pop((evidence.claim, evidence.seed), None)
        self.bar.update(self.line, advance=1, description=", ".join(c for c, _ in self.running))
        if leaks:
            more = f" and {len(leaks) - 3} more" if len(leaks) > 3 else ""
            changed = f"{', '.join(leaks[:3])}{more}"
            self.err.print(
                f"{evidence.claim} left changed: {escape(changed)}. Its worker was replaced.", soft_wrap=True
            )
        if self.as_json:
            print(json.dumps(summary(evidence)), flush=True)
            return
        mark = "[green]✓[/]" if evidence.as_expected else "[red]✗[/]"
        seed = f"  seed {evidence.seed:<3}" if self.several else ""
        took = "[dim]stored[/]" if cached else f"{evidence.seconds:5.1f} s"
        checks = len(evidence.checks) - len(evidence.controls)
        counts = _count(checks, "check") + (
            ", " + _count(len(evidence.controls), "control") if evidence.controls else ""
        )
        self._print(f"{mark} {SIGNS[evidence.verdict]} {evidence.claim:<{self.wide}}{seed} {took:>8}  [dim]{counts}[/]")
        if not evidence.as_expected:
            for sentence in _reasons(evidence):
                self._print(f"    [red]{escape(sentence)}[/]")

    def _print(self, text: str) -> None:
        # through the bar's console where both go to one terminal, so that the bar is not torn
        (self.bar.console if sys.stdout.isatty() and sys.stderr.isatty() else self.out).print(text)

    def missing(self) -> list[tuple[str, int]]:
        """The tasks that have no result: none, unless something is wrong with the run itself."""
        return sorted((self.asked - Counter((e.claim, e.seed) for e in self.results)).elements())

    @property
    def as_expected(self) -> bool:
        return self.done == self.total and all(e.as_expected for e in self.results)

    def summary(self) -> None:
        if self.as_json:
            return
        rooms: dict[str, Counter] = defaultdict(Counter)
        for e in self.results:
            rooms[e.claim.split(".")[0]].update([e.verdict, "runs", *(["off"] if not e.as_expected else [])])
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("room")
        names = ("runs", "holds", "refuted", "fails", "error", "off")
        for name in names:
            table.add_column("not as expected" if name == "off" else name, justify="right")
        for room, counts in sorted(rooms.items()):
            table.add_row(room, *(str(counts[n]) if counts[n] else "[dim]·[/]" for n in names))
        self.out.print()
        self.out.print(table)
        took = time.perf_counter() - self.clock
        stored = f", {self.cached} from the store" if self.cached else ""
        self.out.print(f"\n{self.done} results in {took:.1f} s{stored}; evidence in {escape(str(self.path))}")


class LedgerReport(Report):
    """A report of thousands of results: those as expected are counted and not kept, the others get their lines."""

    def add(self, evidence: Evidence, cached: bool, leaks: tuple[str, ...] = ()) -> None:
        if evidence.as_expected and not leaks:
            self.done += 1
            self.cached += cached
            self.running.pop((evidence.claim, evidence.seed), None)
            self.bar.update(self.line, advance=1, description=", ".join(c for c, _ in self.running))
        else:
            super().add(evidence, cached, leaks)
        if self.bar.disable and (self.done % max(1, self.total // 50) == 0 or self.done == self.total):
            minutes = (time.perf_counter() - self.clock) / 60
            print(f"{self.done} of {self.total} results, {minutes:.0f} min", flush=True)

    def ledger(self, place, lines: dict, problems: list[str]) -> None:
        """What was written, and what was not and why."""
        for problem in problems:
            self.out.print(f"[red]{escape(problem)}[/]")
        written = sum(line is not None for line in lines.values())
        stored = f" ({self.cached} from the store)" if self.cached else ""
        self.out.print(f"{_count(written, 'line')} written to {escape(str(place))} from {self.done} results{stored}")
        if written < len(lines):
            self.out.print(f"[red]{_count(len(lines) - written, 'claim')} could not be written[/]")


def stale_list(reasons: dict[str, str], total: int) -> None:
    out = console()
    for id, reason in reasons.items():
        out.print(f"{id}  [dim]{escape(reason)}[/]")
    out.print(f"[dim]{len(reasons)} of {_count(total, 'claim')} are stale[/]")


def _reasons(evidence: Evidence) -> list[str]:
    if evidence.error:
        return [evidence.error]
    if evidence.verdict == "holds":
        return ["An erratum needs a check of what is printed, and there was none."]
    off = [c for c in evidence.checks if not c.passed]
    return [f"{'not violated, as printed: ' if c.printed else ''}{c.name}: {c.sentence}" for c in off] or [
        "What is printed was refuted, but the claim is no erratum."
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


MARKS = {
    "fine": "[green]fine          [/]",
    "look": "[yellow]look at this  [/]",
    "problem": "[red]problem       [/]",
    "not applicable": "[dim]not applicable[/]",
}


@contextmanager
def audit_progress(steps: int):
    """A bar that names what is being done, or lines where there is no terminal.

    The function it gives is called at the start of each step.
    """
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn()
    terminal = sys.stderr.isatty()
    with Progress(*columns, console=console(stderr=True), transient=True, disable=not terminal) as bar:
        task = bar.add_task("", total=steps)
        begun = []

        def progress(title: str) -> None:
            if begun:
                bar.advance(task)
            begun.append(title)
            bar.update(task, description=escape(title))
            # a log shows that it goes on, once what was asked for could be read: what could not gets one sentence
            if not terminal and len(begun) > 1:
                print(f"{len(begun)} of {steps}: {title}", file=sys.stderr, flush=True)

        yield progress


def _about(subject: dict) -> str:
    """What was audited, in a line."""
    if "facts" in subject:
        return escape(", ".join(f"{number} {words}" for number, words in subject["facts"]))
    word = "error" if subject["classes"] else "mean squared error"
    shares = [
        f"{split} {word} {float(subject[split]['error']):.3g} ({subject[split]['examples']} examples)"
        for split in ("train", "test")
        if split in subject and subject[split]["error"] is not None
    ]
    return f"{subject['parameters']} parameters, {escape(subject['loss'])} loss; " + ", ".join(shares)


def audit_lines(findings: dict, path) -> None:
    """The subject, the answer of each section, and what to do."""
    from corollary.audit._effects import effect_line
    from corollary.audit._marked import FAIL_ON, items

    out = console()
    subject = findings["subject"]
    out.print(_about(subject))
    for section in findings["sections"]:
        out.print(f"{MARKS[section['mark']]}  [bold]{escape(section['title'])}[/]  {escape(section['answer'])}")
    # what follows from a cause is in its report
    marked = {item.name: item for item in items(findings) if item.mark in FAIL_ON["look"]}
    if findings["causes"]:
        out.print("[bold]What is wrong[/]")
    for cause in findings["causes"]:
        item = marked[cause["finding"]]
        name = f" [dim]({escape(item.name)})[/]" if item.headline else ""
        out.print(f"{MARKS[cause['mark']]}  {escape(item.title)}{name}")
    if findings["actions"]:
        out.print("[bold]What to do[/]")
    for i, action in enumerate(findings["actions"], 1):
        effect = action["effect"]
        # JSON has numbers that are not finite by their names
        now, then, *ends = map(float, (effect["now"], effect["then"], *effect["interval"]))
        out.print(f" {i}. {escape(action['what'])}: {escape(effect_line(effect['quantity'], now, then, ends))}")
        for trial in findings["trials"]:
            if trial["what"] == action["what"]:
                out.print(f"    {escape(trial['line'])}")
    if not findings["actions"]:
        out.print(escape(findings["advice"]))
    for part in ("comparison", "course"):
        for line in (findings.get(part) or {"lines": ()})["lines"]:
            out.print(escape(line))
    for entry in findings.get("accepted", ()):
        out.print(escape(f"Accepted until {entry['until']}: {entry['finding']}. {entry['reason']}"))
    if subject["left_out"] is not None:
        out.print(escape(subject["left_out"]))
    out.print(f"[dim]report in {escape(str(path))}, {findings['seconds']:.0f} s[/]")
