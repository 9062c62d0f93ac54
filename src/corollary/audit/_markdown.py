"""A report as Markdown, for the summaries of CI jobs: verdict, answers, what is marked, what to do."""

import re

from corollary._text import visible
from corollary.audit._effects import effect_line
from corollary.audit._marked import failing, items
from corollary.audit._numbers import read

SIGNS = {"fine": "✅", "look": "⚠️", "problem": "❌", "not applicable": "➖"}
VERDICTS = {"better": "✅", "worse": "❌", "no difference seen": "➖"}


def markdown(fields: dict, fail_on: str | None) -> str:
    """The whole text."""
    subject = fields["subject"]
    lines = [f"## corollary audit of {_text(subject['name'])}", ""]
    if fail_on is not None:
        found = failing(fields, fail_on)
        verdict = f"❌ failed (`--fail-on {fail_on}`): {len(found)}" if found else f"✅ passed (`--fail-on {fail_on}`)"
        lines += [f"**{verdict}**", ""]
    lines += ["| | question | answer |", "| --- | --- | --- |"]
    lines += [f"| {SIGNS[s['mark']]} | {_text(s['title'])} | {_text(s['answer'])} |" for s in fields["sections"]]
    marked = [item for item in items(fields) if item.mark in ("look", "problem")]
    if marked:
        lines += ["", "### What is marked", ""]
    for item in sorted(marked, key=lambda item: item.mark != "problem"):
        known = f" Accepted: {_text(item.reason)}." if item.reason is not None else ""
        title = f"**{_text(item.title)}** {_text(item.details)}".rstrip()
        lines.append(f"- {SIGNS[item.mark]} {title}: {_text(item.sentence)}{known}")
    if fields.get("comparison") is not None:
        lines += _against(fields["comparison"])
    if fields.get("course") is not None:
        head, *turned = fields["course"]["lines"]
        lines += ["", "### Along the training", "", _text(head), "", *(f"- {_text(line)}" for line in turned)]
    lines += ["", "### What to do", ""]
    lines += [f"{i}. {_action(action)}" for i, action in enumerate(fields["actions"], 1)] or [_text(fields["advice"])]
    lines += ["", f"`{visible(subject['command']).replace('`', '')}`, {fields['seconds']:.0f} s"]
    return "\n".join(lines) + "\n"


def _action(action: dict) -> str:
    effect = action["effect"]
    now, then, *ends = (read(x) for x in (effect["now"], effect["then"], *effect["interval"]))
    return f"**{_text(action['what'])}**: {_text(effect_line(effect['quantity'], now, then, ends))}"


def _against(comparison: dict) -> list[str]:
    lines = ["", f"### Against {_text(comparison['other'])}", "", "| | what | |", "| --- | --- | --- |"]
    turned = [entry for entry in comparison["findings"] if entry["marks"][0] != entry["marks"][1]]
    for entry in [*comparison["tests"], *turned]:
        lines.append(f"| {VERDICTS[entry['verdict']]} | {_text(entry['name'])} | {_text(entry['sentence'])} |")
    return lines


def _text(text: str) -> str:
    """Text of others in one line, so that it shows as it is."""
    line = " ".join(visible(text).split()).replace("&", "&amp;")
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", line)
