"""The rows as data: all there, well formed, light to load."""

import re
import subprocess
import sys
from collections import Counter

import pytest

from corollary.catalog import KINDS, TEXTS, Row, rows, waived
from corollary.catalog._rows import _table, chapters

#: rows of each text, as counted in the texts
COUNTS = {"B": 384, "M": 685, "T": 442, "E": 225}


def test_all_rows_are_there():
    assert len(rows()) == 1736
    assert Counter(row.text for row in rows().values()) == COUNTS
    assert set(TEXTS) == set(COUNTS)


def test_two_chapters_have_fifty_rows():
    assert sum(id.startswith(("M02.", "M03.")) for id in rows()) == 50


@pytest.mark.parametrize("text", sorted(COUNTS))
def test_ids_unique_and_well_formed(text):
    ids = [line[0] for line in _table(f"rows/{text}.tsv", "id", "kind", "title", "section")]
    assert len(ids) == len(set(ids)) == COUNTS[text]
    appendix = "|[AB]" if text == "M" else ""
    assert all(re.fullmatch(rf"{text}(\d\d{appendix})\.\d\d", id) for id in ids)


def test_numbers_have_no_gaps():
    chapters: dict[str, list[int]] = {}
    for id in rows():
        chapter, _, number = id.partition(".")
        chapters.setdefault(chapter, []).append(int(number))
    assert all(sorted(n) == list(range(1, len(n) + 1)) for n in chapters.values())


def test_every_row_is_complete():
    for id, row in rows().items():
        assert row.id == id == f"{row.text}{row.chapter}.{id.partition('.')[2]}"
        assert row.kind in KINDS
        assert row.title
        assert row.title == row.title.strip()
        assert row.section
        assert row.section == row.section.strip()


def test_sections_name_no_lines_of_files():
    pattern = re.compile(r"\blines? \d|\bl\. ?\d|\d{3,}\s*[-–]\s*\d{3,}")
    assert [id for id, row in rows().items() if pattern.search(row.section)] == []


def test_one_row():
    assert rows()["M02.05"] == Row(
        "M02.05",
        "THEOREM",
        "Gradient of the per-datapoint and average loss (2.7), (2.8)",
        "M",
        "02",
        "2.3 Minimization",
    )


def test_rows_cannot_be_changed():
    assert rows() is rows()
    with pytest.raises(TypeError):
        rows()["X01.01"] = rows()["M02.05"]
    with pytest.raises(AttributeError):
        rows()["M02.05"].title = "other"


def test_every_chapter_has_a_title():
    assert set(chapters()) == {id.partition(".")[0] for id in rows()}
    assert chapters()["M02"] == "Linear Regression"
    assert all(title == title.strip() and title for title in chapters().values())


def test_waivers():
    assert waived()
    for id, reason in waived().items():
        assert id in rows()
        assert re.fullmatch(r"[A-Z].*[^.]\.", reason)
        assert not id.startswith(("M02.", "M03."))


def test_bad_table_is_an_error():
    with pytest.raises(ValueError, match="waived.tsv must have the columns id, kind"):
        _table("waived.tsv", "id", "kind")


def test_loading_is_light():
    code = (
        "import sys, corollary.catalog as c; c.rows(); c.waived(); "
        "print(sorted({'jax', 'numpy', 'scipy', 'equinox'} & set(sys.modules)))"
    )
    done = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert done.strip() == "[]"
