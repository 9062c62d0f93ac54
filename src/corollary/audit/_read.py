"""A report that was written as JSON, read back and held to its schema."""

import json
from functools import cache
from importlib.resources import files
from os import PathLike

from corollary.audit._errors import SubjectError


@cache
def schema() -> dict:
    """What a report as JSON must be."""
    return json.loads(files("corollary.audit").joinpath("report.schema.json").read_text(encoding="utf-8"))


def read_report(path: str | PathLike) -> dict:
    """The fields of a report; one sentence for any other file."""
    from jsonschema import Draft202012Validator  # Altair brings it

    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        sound = Draft202012Validator(schema()).is_valid(fields)
    except OSError as error:
        raise SubjectError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        sound = False
    if not sound:
        raise SubjectError(
            f"{path} is not the report of an audit as JSON, version 1: make it with corollary audit --json {path}."
        )
    if fields.get("examples") is None:
        raise SubjectError(f"{path} does not say how each example fared: make it with corollary audit --json {path}.")
    return fields
