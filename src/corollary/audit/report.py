"""A report as one HTML file: no script, no font, no picture from anywhere else."""

import base64
from html import escape

from corollary.audit.finding import Finding, Section, short
from corollary.evidence import svg

WORDS = {"fine": "fine", "look": "look at this", "problem": "problem", "not applicable": "not applicable"}
SIGNS = {"fine": "✓", "look": "!", "problem": "✕", "not applicable": "–"}

STYLE = """
:root { --ink: #22313f; --soft: #5f6b76; --line: #e3e8ec; --fine: #2f7d5b; --look: #b7791f; --problem: #b3261e;
  --none: #8a949d; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
  background: #f6f8f9; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 26px; margin: 0 0 2px; } h1 small { font-weight: 400; color: var(--soft); font-size: 15px; }
h2 { font-size: 20px; margin: 0; } h3 { font-size: 16px; margin: 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 18px 0; }
.fact, .card { background: white; border: 1px solid var(--line); border-radius: 8px; }
.fact { padding: 10px 14px; } .fact b { display: block; font-size: 19px; }
.fact span { color: var(--soft); font-size: 13px; }
.overview { display: grid; gap: 8px; }
.overview a { display: grid; grid-template-columns: 118px 175px 1fr; gap: 14px; align-items: baseline;
  padding: 11px 14px;
  background: white; border: 1px solid var(--line); border-radius: 8px; text-decoration: none; color: inherit; }
.overview a:hover { border-color: var(--soft); } .overview b { font-weight: 600; }
.mark { font-size: 13px; font-weight: 600; white-space: nowrap; }
.mark i { display: inline-block; width: 19px; height: 19px; line-height: 19px; margin-right: 6px; border-radius: 50%;
  text-align: center; color: white; font-style: normal; font-size: 12px; }
.fine { color: var(--fine); } .fine i { background: var(--fine); } .look { color: var(--look); }
.look i { background: var(--look); } .problem { color: var(--problem); } .problem i { background: var(--problem); }
.none { color: var(--none); } .none i { background: var(--none); }
section { margin-top: 34px; } section > header { display: flex; justify-content: space-between; align-items: baseline;
  margin-bottom: 10px; }
.card { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 6px 26px; padding: 16px 18px;
  margin-bottom: 12px; }
.card.plain { grid-template-columns: minmax(0, 1fr); }
.card img { max-width: 430px; width: 100%; height: auto; }
.card header { display: flex; gap: 14px; align-items: baseline; flex-wrap: wrap; }
.number { font-variant-numeric: tabular-nums; font-size: 18px; font-weight: 600; }
.card p { margin: 6px 0 8px; } .why { color: var(--soft); font-size: 14px; }
.why ul { margin: 4px 0; padding-left: 18px; }
.why code { font-size: 13px; } footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
.failed { background: #fdf3f2; border-color: #e9c4c1; }
@media (max-width: 760px) { .overview a { grid-template-columns: 1fr; gap: 2px; }
  .card { grid-template-columns: minmax(0, 1fr); } }
"""


def html(report) -> str:
    """The whole page."""
    sections = "".join(_section(i, s) for i, s in enumerate(report.sections))
    rows = "".join(
        f'<a href="#s{i}">{_mark(s.mark)}<b>{escape(s.title)}</b><span>{escape(s.answer)}</span></a>'
        for i, s in enumerate(report.sections)
    )
    said = [*report.subject["notes"], *filter(None, [report.subject["left_out"]])]
    notes = "".join(f"<p class='why'>{escape(note)}</p>" for note in said)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>corollary audit</title><style>{STYLE}</style></head><body><main>"
        "<h1>corollary audit <small>what the theory of deep learning says about this network</small></h1>"
        f"<div class='facts'>{_facts(report.subject)}</div>{notes}<nav class='overview'>{rows}</nav>{sections}"
        f"<footer>Budget {escape(report.budget)}, {report.seconds:.0f} s. Intervals are at 95 % unless a finding says "
        "otherwise. Every statement is backed by a claim that <code>corollary verify</code> measures.</footer>"
        "</main></body></html>"
    )


def _facts(subject: dict) -> str:
    def share(split):
        error = subject.get(split, {}).get("error")
        if error is None:
            return "–"
        return short(error) if subject["classes"] is None else f"{100 * error:.2f} %"

    kind = "regression" if subject["classes"] is None else f"{subject['classes']} classes"
    inputs = " and ".join(" × ".join(map(str, shape)) or "1" for shape in subject["inputs"])
    word = "mean squared error" if subject["classes"] is None else "error"
    facts = [
        (f"{subject['parameters']:,}", f"parameters in {subject['leaves']} arrays"),
        (inputs, f"inputs; {kind}, {subject['loss'].replace('_', '-')} loss"),
        (f"{subject['train']['examples']:,}", f"training examples, loss {short(subject['train']['loss'])}"),
        (share("train"), f"training {word}"),
    ]
    if "test" in subject:
        facts.append((share("test"), f"test {word}, {subject['test']['examples']:,} examples"))
    else:
        facts.append(("–", "no test data were given"))
    if subject["learning_rate"] is not None:
        batch = f"batch {subject['batch_size']}" if subject["batch_size"] else "batch not given"
        facts.append((short(subject["learning_rate"]), f"learning rate, {batch}"))
    return "".join(f"<div class='fact'><b>{escape(a)}</b><span>{escape(b)}</span></div>" for a, b in facts)


def _section(i: int, section: Section) -> str:
    head = f"<header><h2>{escape(section.title)}</h2>{_mark(section.mark)}</header>"
    body = "".join(map(_finding, section.findings))
    if section.failed is not None:
        body += f"<div class='card plain failed'><p>{escape(section.failed)}</p></div>"
    return f"<section id='s{i}'>{head}{body}</section>"


def _finding(f: Finding) -> str:
    number = f"<span class='number'>{escape(f.number)}</span>" if f.value is not None else ""
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
    text = (
        f"<div><header><h3>{escape(f.name)}</h3>{number}{_mark(f.mark)}</header><p>{escape(f.sentence)}</p>"
        f"<div class='why'>{''.join(why)}</div></div>"
    )
    if f.figure is None:
        return f"<article class='card plain'>{text}</article>"
    # an image of its own: identifiers inside one drawing do not meet those of another
    picture = base64.b64encode(svg(f.figure).encode()).decode()
    image = f"<img alt='{escape(f.figure.name, quote=True)}' src='data:image/svg+xml;base64,{picture}'>"
    return f"<article class='card'>{text}<figure style='margin:0'>{image}</figure></article>"


def _mark(mark: str) -> str:
    kind = "none" if mark == "not applicable" else mark
    return f"<span class='mark {kind}'><i>{SIGNS[mark]}</i>{WORDS[mark]}</span>"
