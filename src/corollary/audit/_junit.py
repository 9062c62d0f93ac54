"""A report as JUnit's XML, which CI servers show: a suite for each question, a case for each finding."""

import re
from xml.etree import ElementTree

from corollary._text import visible
from corollary.audit._marked import Item, items


def junit(fields: dict, fail_on: str | None) -> str:
    """The file. What would fail the run is a failure, what was accepted or could not be measured is skipped."""
    root = ElementTree.Element("testsuites", name=_text(f"corollary audit of {fields['subject']['name']}"))
    found = list(items(fields))
    for section in fields["sections"]:
        own = [item for item in found if item.section == section["title"]]
        suite = ElementTree.SubElement(root, "testsuite", name=_text(section["title"]), time=str(section["seconds"]))
        for item in own:
            _case(suite, item, fail_on)
    comparison = fields.get("comparison")
    if comparison is not None:
        suite = ElementTree.SubElement(root, "testsuite", name=_text(f"Against {comparison['other']}"), time="0")
        for entry in [*comparison["tests"], *comparison["findings"]]:
            mark = "problem" if entry["verdict"] == "worse" and fail_on == "worse" else "fine"
            reason = next((a["reason"] for a in fields.get("accepted", ()) if a["finding"] == entry["name"]), None)
            _case(suite, Item("comparison", entry["name"], mark, entry["sentence"], reason=reason), "problem")
    for element in (*root, root):
        cases = list(element.iter("testcase"))
        element.set("tests", str(len(cases)))
        for kind in ("failure", "error", "skipped"):
            plural = kind if kind == "skipped" else f"{kind}s"
            element.set(plural, str(sum(case.find(kind) is not None for case in cases)))
    root.set("time", str(fields["seconds"]))
    ElementTree.indent(root)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _case(suite, item: Item, fail_on: str | None) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=_text(item.section), name=_text(item.name), time="0")
    said = _text(". ".join(filter(None, (item.headline, item.number, item.sentence))))
    if item.reason is not None and item.mark in ("look", "problem"):
        ElementTree.SubElement(case, "skipped", message=_text(f"accepted: {item.reason}"))
    elif item.fails(fail_on):
        kind = "error" if item.stopped else "failure"
        ElementTree.SubElement(case, kind, message=said, type=item.mark).text = said
    elif item.mark == "not applicable":
        ElementTree.SubElement(case, "skipped", message=said)
    else:
        ElementTree.SubElement(case, "system-out").text = f"{item.mark}: {said}"


def _text(text: str) -> str:
    """Text without what XML does not allow."""
    return re.sub("[\ufffe\uffff]", "?", visible(text))
