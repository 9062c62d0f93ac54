"""A report as one HTML file: no script, no font, no picture from anywhere else.

The first screen has what is wrong and what to do; then each question with its answer, what is marked before the rest;
what is fine, and the theory, is folded.
"""

import base64
from collections.abc import Sequence
from html import escape

from corollary.audit._accepted import Accepted
from corollary.audit._style import STYLE
from corollary.audit.action import Action, by_hand
from corollary.audit.finding import MARKS, Cause, Finding, Section, short
from corollary.evidence import svg

WORDS = {"fine": "fine", "look": "look at this", "problem": "problem", "not applicable": "not applicable"}
SIGNS = {"fine": "✓", "look": "!", "problem": "✕", "not applicable": "–"}
#: causes on the first screen; the others are folded
CAUSES = 3
#: what follows from a cause and is named beside it; the others stand in their sections
FOLLOWS = 4
#: curves along a training that are drawn
CURVES = 6
HOW = {"theorem": "by a theorem", "short run": "by short trainings", "population": "by networks of this kind"}


def html(report, accepted: Sequence[Accepted] = ()) -> str:
    """The whole page; what is accepted is folded, with the reason."""
    subject = report.subject
    known = {entry.finding: f"{entry.reason} (until {entry.until})" for entry in accepted}
    sections = "".join(_section(i, s, known) for i, s in enumerate(report.sections))
    rows = "".join(
        f'<a href="#s{i}">{_mark_of(s)}<b>{escape(s.title)}</b><span>{escape(s.answer)}</span></a>'
        for i, s in enumerate(report.sections)
    )
    said = [*subject["notes"], *filter(None, [subject["left_out"]])]
    notes = "".join(f"<p class='small'>{escape(note[:1].upper() + note[1:])}</p>" for note in said)
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(subject['name'])}: corollary audit</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(subject['name'])}</h1><p class='sub'>Audit of {escape(subject['date'])}: "
        f"<code>{escape(subject['command'])}</code></p></header>"
        f"<div class='first'>{_wrong(report, known)}{_to_do(report)}</div>"
        f"<p class='facts'>{_facts(subject)}</p>{notes}"
        f"{_said(report.comparison)}{_said(report.course)}{_curves(report.course)}"
        f"<nav class='overview' aria-label='Answers'>{rows}</nav>{sections}"
        f"<footer>Budget {escape(report.budget)}, {report.seconds:.0f} s. Intervals are at 95 % unless a finding says "
        "otherwise. Every statement is backed by a claim that <code>corollary verify</code> measures.</footer>"
        "</main></body></html>"
    )
    # no line begins with the sign of a number that ended the one before
    return page.replace(" %", "\N{NO-BREAK SPACE}%")


def _wrong(report, known: dict[str, str]) -> str:
    """The causes, with what follows from each; what is accepted is folded."""
    named = [(cause.finding.name, _cause(cause, known, report.actions)) for cause in report.causes]
    stopped = [s for s in report.sections if s.failed is not None]
    named += [(s.title, _stopped(s, known)) for s in stopped]
    items, folded = ([item for name, item in named if (name in known) is side] for side in (False, True))
    nothing = "Nothing but what is accepted." if folded else "Nothing, in all that was looked at."
    body = f"<ul class='causes'>{''.join(items[:CAUSES])}</ul>" if items else f"<p>{nothing}</p>"
    for said, rest in ((f"and {len(items) - CAUSES} more", items[CAUSES:]), (f"{len(folded)} accepted", folded)):
        if rest:
            body += f"<details><summary>{said}</summary><ul class='causes'>{''.join(rest)}</ul></details>"
    return f"<div class='box'><h2>What is wrong</h2>{body}</div>"


def _stopped(section: Section, known: dict[str, str]) -> str:
    said = f"<b class='headline'>{escape(section.title)}</b><div>{escape(section.failed)}</div>"
    return f"<li>{_mark(section.mark)}{said}{_accepted(section.title, known)}</li>"


def _cause(cause: Cause, known: dict[str, str], actions: Sequence[Action]) -> str:
    """A cause, what to do about it (for phones, whose first screen may not reach down to the actions), what follows."""
    treated = (cause.finding.name, *(f.name for f in cause.follows))
    what = next((action.what for name in treated for action in actions if action.treats == name), None)
    remedy = f"<div class='remedy'>To do: {escape(what)}.</div>" if what else ""
    more = f", and {len(cause.follows) - FOLLOWS} more" if len(cause.follows) > FOLLOWS else ""
    titles = "; ".join(f.title[:1].lower() + f.title[1:] for f in cause.follows[:FOLLOWS])
    follows = f"<div class='small'>From it follow: {escape(titles)}{more}.</div>" if titles else ""
    finding = cause.finding
    follows += _accepted(finding.name, known)
    said = f"<b class='headline'>{escape(finding.title)}</b>{remedy}<div>{escape(finding.sentence)}</div>"
    return f"<li>{_mark(cause.mark)}{_name(finding)}{said}{follows}</li>"


def _name(f: Finding) -> str:
    """The name, which `--accept` takes, beside a headline."""
    return f" <span class='small'>{escape(f.name)}</span>" if f.headline else ""


def _accepted(name: str, known: dict[str, str]) -> str:
    return f"<div class='small'>Accepted: {escape(known[name])}.</div>" if name in known else ""


def _to_do(report) -> str:
    tried = {trial.action.what: trial for trial in report.trials}
    titles = {f.name: f.title for f in report.findings}
    items = "".join(_action(action, titles, tried.get(action.what)) for action in report.actions)
    said, _, more = report.advice.partition(". ")
    advice = f"<p>{escape(said)}.</p><p class='small'>{escape(more)}</p>" if more else f"<p>{escape(said)}</p>"
    body = f"<ol>{items}</ol>" if items else advice
    return f"<div class='box'><h2>What to do</h2>{body}</div>"


def _action(action: Action, titles: dict[str, str], trial) -> str:
    how = "a person must do it" if action.apply is by_hand else f"known {_how(action)}"
    treats = titles.get(action.treats, action.treats)
    said = f"For “{treats}”. Expected: {action.effect.line}; {how}. {action.note}".strip()
    # that a person must do it has been said
    if trial is not None and (trial.measured is not None or action.apply is not by_hand):
        said += f" {trial.line}"
    what = action.what[0].upper() + action.what[1:]
    return f"<li><b>{escape(what)}</b><div class='small'>{escape(said)}</div></li>"


def _how(action: Action) -> str:
    """How the effect is known; what costs less than a training was measured without one."""
    measured = action.how_known == "short run" and action.cost < 1
    return "by measuring it on these data" if measured else HOW[action.how_known]


def _said(part) -> str:
    """The lines of a comparison, or of the course of a training."""
    if part is None:
        return ""
    head, *lines = part.lines
    items = "".join(f"<li>{escape(line.strip())}</li>" for line in lines)
    return f"<div class='box'><h2>{escape(head)}</h2><ul>{items}</ul></div>"


def _curves(course) -> str:
    """The first of the findings whose mark turned along the training, drawn and folded."""
    drawn = [] if course is None else [c.figure for c in course.turned if any(v is not None for v in c.values)][:CURVES]
    if not drawn:
        return ""
    return f"<details><summary>{len(drawn)} curves</summary>{''.join(map(_image, drawn))}</details>"


def _image(figure) -> str:
    # an image of its own: identifiers inside one drawing do not meet those of another
    picture = base64.b64encode(svg(figure).encode()).decode()
    return f"<img alt='{escape(figure.name, quote=True)}' src='data:image/svg+xml;base64,{picture}'>"


def _facts(subject: dict) -> str:
    if "facts" in subject:  # of a subject of another kind
        return _listed(subject["facts"])

    def share(split):
        error = subject.get(split, {}).get("error")
        if error is None:
            return "–"
        return short(error) if subject["classes"] is None else f"{short(100 * error)} %"

    kind = "regression" if subject["classes"] is None else f"{subject['classes']} classes"
    inputs = " and ".join(" × ".join(map(str, shape)) or "1" for shape in subject["inputs"])
    word = "mean squared error" if subject["classes"] is None else "error"
    facts = [
        (f"{subject['parameters']:,}", f"parameters in {subject['leaves']} arrays"),
        (inputs, f"inputs, {kind}, {subject['loss'].replace('_', '-')} loss"),
        (f"{subject['train']['examples']:,}", f"training examples, loss {short(subject['train']['loss'])}"),
        (share("train"), f"training {word}"),
    ]
    if "test" in subject:
        facts.append((share("test"), f"test {word} on {subject['test']['examples']:,} examples"))
    else:
        facts.append(("No", "test data were given"))
    if subject["learning_rate"] is not None:
        batch = f"batch {subject['batch_size']}" if subject["batch_size"] else "batch not given"
        facts.append((short(subject["learning_rate"]), f"learning rate, {batch}"))
    return _listed(facts)


def _listed(facts) -> str:
    return " · ".join(f"<b>{escape(a)}</b> {escape(b)}" for a, b in facts)


def _section(i: int, section: Section, known: dict[str, str]) -> str:
    head = f"<header><h2>{escape(section.title)}</h2>{_mark_of(section)}</header><p>{escape(section.answer)}</p>"
    ordered = sorted(section.findings, key=lambda f: -MARKS.index(f.mark))
    marked = [f for f in ordered if f.mark in ("look", "problem")]
    body = "".join(_finding(f, known) for f in marked if f.name not in known)
    if section.failed is not None:
        body += f"<div class='card plain failed'><p>{escape(section.failed)}</p></div>"
    folded = {"accepted": [f for f in marked if f.name in known]}
    folded |= {"fine": [f for f in ordered if f.mark == "fine"]}
    folded |= {"not measured": [f for f in ordered if f.mark == "not applicable"]}
    for words, rest in folded.items():
        if rest:
            said = f"{len(rest)} {words}: {escape(', '.join(f.name for f in rest))}"
            cards = "".join(_finding(f, known) for f in rest)
            body += f"<details><summary>{said}</summary>{cards}</details>"
    return f"<section id='s{i}'>{head}{body}</section>"


def _finding(f: Finding, known: dict[str, str]) -> str:
    number = f"<span class='number'>{escape(f.number)}</span>" if f.value is not None else ""
    text = (
        f"<div><header><h3>{escape(f.title)}</h3>{_name(f)}{number}{_mark(f.mark)}</header><p>{escape(f.sentence)}</p>"
        f"{_accepted(f.name, known)}{_why(f)}</div>"
    )
    if f.figure is None:
        return f"<article class='card plain'>{text}</article>"
    return f"<article class='card'>{text}<figure>{_image(f.figure)}</figure></article>"


def _why(f: Finding) -> str:
    """The theorem and its premises, folded."""
    why = []
    if f.theorem:
        source = f" <code>{escape(f.claim)}</code>" if f.claim else ""
        why.append(f"<div>{escape(f.theorem)}{source}</div>")
    if f.premises:
        signs = {True: "holds", False: "does not hold", None: "not known"}
        items = "".join(
            f"<li>{escape(p.text)}: {signs[p.holds]}{f' ({escape(p.measured)})' if p.measured else ''}</li>"
            for p in f.premises
        )
        why.append(f"<ul>{items}</ul>")
    if not why:
        return ""
    return f"<details class='why'><summary>theorem and premises</summary>{''.join(why)}</details>"


def _mark_of(section: Section) -> str:
    """The mark of a section; a question does apply that nothing could answer."""
    return _mark(section.mark, "cannot tell" if section.mark == "not applicable" else WORDS[section.mark])


def _mark(mark: str, word: str | None = None) -> str:
    kind = "none" if mark == "not applicable" else mark
    return f"<span class='mark {kind}'><i aria-hidden='true'>{SIGNS[mark]}</i>{word or WORDS[mark]}</span>"
