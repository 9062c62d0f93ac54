"""What every section has: one contract, held over all modules in audit/sections."""

import ast
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

from corollary.audit import Finding, sections
from corollary.audit._budget import OF_TEXT, SECTIONS
from corollary.audit.finding import ANSWERS, MARKED, MARKS, causes

FILES = sorted(Path(sections.__file__).parent.glob("*.py"))
NAMES = [m.name for m in pkgutil.iter_modules(sections.__path__) if not m.name.startswith("_")]


def section(name):
    return import_module(f"corollary.audit.sections.{name}")


def strings_of(tree):
    """The strings of a file, without those of its `EXPLAINS` and its docstrings."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not any(isinstance(t, ast.Name) and t.id == "EXPLAINS" for t in targets):
            yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


#: for each section the tests in which a healthy network is not accused, a sick one named, and cured by its first action
TRIED = {
    "trainability": (
        "test_zoo.test_healthy_networks_are_not_accused",
        "test_zoo.test_the_right_section_names_the_defect",
        "test_cures.test_the_first_action_cures",
    ),
    "regime": (
        "test_regime.test_lazy_by_scaling_is_named_and_its_twin_is_not",
        "test_regime.test_constant_classifier_is_named_and_its_twin_is_not",
        "test_cures.test_the_first_action_cures",
    ),
    "minimum": (
        "test_minimum.test_the_numbers_are_those_of_the_dense_hessian",
        "test_minimum.test_a_saddle_is_named_and_its_direction_lowers_the_loss",
        "test_minimum.test_off_a_saddle_it_goes_on",
    ),
    "noise": (
        "test_noise.test_a_batch_far_below_and_far_above_the_noise_scale_is_named",
        "test_noise.test_a_batch_far_below_and_far_above_the_noise_scale_is_named",
        "test_noise.test_a_batch_of_the_noise_scale_is_advised",
    ),
    "generalisation": (
        "test_generalisation.test_nothing_is_wrong_with_a_healthy_network",
        "test_generalisation.test_random_labels_learned_by_heart",
        "test_cures.test_test_rows_are_removed_from_the_training_data",
    ),
    "robustness": (
        "test_robustness.test_nothing_is_wrong_with_a_healthy_network",
        "test_robustness.test_gradients_hidden_by_rounding",
        "test_robustness.test_a_fragile_network_and_its_cure",
    ),
    "attribution": (
        "test_attribution.test_nothing_is_wrong_with_a_healthy_network",
        "test_attribution.test_the_defect_is_named",
        "test_attribution.test_the_first_action_cures",
    ),
    "reading": (
        "test_reading.test_a_healthy_network_reads",
        "test_reading.test_the_defect_is_named_and_gone_in_the_mended_twin",
        "test_reading.test_the_defect_is_named_and_gone_in_the_mended_twin",
    ),
    "value_learning": ("test_value_learning.test_zoo_with_twins_and_cures",) * 3,
    # nothing is advised about a sampler: how it was trained is not known
    "cheating": ("test_cheating.test_a_healthy_sampler_does_not_cheat", "test_cheating.test_500_atoms", None),
}

STRINGS = {text for file in FILES for text in strings_of(ast.parse(file.read_text(encoding="utf-8")))}


def test_every_section_is_a_part_of_the_audit():
    assert {*SECTIONS, *OF_TEXT} <= set(NAMES)


#: marks that nothing is wrong with, as they stand in the code
UNMARKED = ("fine", "not applicable")


def made_in(tree):
    """For every `Finding(...)` of a file its line, its mark if that is written there, and what its headline is made of.

    A headline may stand in a `dict(...)`, or be put into one, of the same function.
    """
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
        given = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
                given |= {node.targets[0].value.id: node.value} if "headline" in ast.unparse(node.targets[0]) else {}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                inside = [k.value for k in node.value.keywords if k.arg == "headline"]
                given |= dict.fromkeys([ast.unparse(t) for t in node.targets], *inside) if inside else {}
        for call in calls:
            if call.func.id == "Finding":
                mark = call.args[1].value if isinstance(call.args[1], ast.Constant) else None
                said = [k.value for k in call.keywords if k.arg == "headline"]
                said += [given[ast.unparse(k.value)] for k in call.keywords if ast.unparse(k.value) in given]
                yield call.lineno, mark, said


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_can_be_marked_has_a_headline(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    without = [line for line, mark, said in made_in(tree) if mark not in UNMARKED and len(said) != 1]
    assert not without, f"a finding made at {file.name}:{without} has no headline"


def test_a_headline_is_for_what_is_marked():
    marked = {mark: Finding("pull", mark, "It pulls.", 1.0, exact=True, headline="It pulls too much") for mark in MARKS}
    assert {mark: f.headline for mark, f in marked.items() if f.headline} == dict.fromkeys(MARKED, "It pulls too much")
    assert marked["look"].title == "It pulls too much"
    assert marked["fine"].title == "pull"


@pytest.mark.parametrize("name", NAMES)
def test_contract(name):
    module = section(name)
    assert module.TITLE.endswith("?")
    assert list(inspect.signature(module.findings).parameters) == ["subject", "budget", "key"]
    assert list(inspect.signature(module.answer).parameters) == ["findings"]
    assert list(inspect.signature(module.actions).parameters) == ["subject", "findings"]
    for cause, follows in module.EXPLAINS.items():
        assert isinstance(follows, tuple)
        assert cause not in follows
        assert {cause, *follows} <= STRINGS, "a finding of this name is made nowhere"


@pytest.mark.parametrize("name", NAMES)
def test_tried_on_healthy_and_sick_networks_and_cured(name):
    assert name in TRIED, "a section needs a zoo with twins and cures"
    *tests, cured = TRIED[name]
    if cured is None:
        assert list(section(name).actions(None, ())) == []
    for file, test in (one.split(".") for one in (*tests, cured) if one is not None):
        assert test in _functions(file)


def _functions(file):
    tree = ast.parse((Path(__file__).parent / f"{file}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_what_is_put_in_doubt_is_a_section():
    titles = {section(name).TITLE for name in NAMES}
    for name in NAMES:
        for finding_name, doubted in getattr(section(name), "UNSETTLES", {}).items():
            assert finding_name in STRINGS
            assert set(doubted) <= titles - {section(name).TITLE}


def test_titles_differ():
    titles = [section(name).TITLE for name in NAMES]
    assert len(set(titles)) == len(titles)


def finding(name, mark="problem"):
    return Finding(name, mark, f"{name}.", 1.0, exact=True)


def test_findings_stand_under_their_causes():
    explains = {"a": ("b", "d"), "b": ("c",), "x": ("c",)}
    found = causes([finding("c"), finding("b", "look"), finding("a", "look"), finding("d", "fine")], explains)
    assert [(c.finding.name, [f.name for f in c.follows], c.mark) for c in found] == [("a", ["b", "c"], "problem")]
    # without a mark of its own a cause explains nothing
    apart = causes([finding("c"), finding("a", "fine"), finding("x", "look")], explains)
    assert [(c.finding.name, [f.name for f in c.follows]) for c in apart] == [("x", ["c"])]
    # of a circle the worst is the cause, also of what follows from another of it; problems come before looks
    circle = {"p": ("q", "r"), "q": ("p",)}
    round_ = causes([finding("z", "look"), finding("r"), finding("p", "look"), finding("q")], circle)
    assert [(c.finding.name, [f.name for f in c.follows]) for c in round_] == [("q", ["p", "r"]), ("z", [])]
    assert causes([finding("a", "not applicable")] * 0, explains) == ()


def test_an_answer_begins_with_one_of_four_words():
    from corollary.audit import Section

    with pytest.raises(ValueError, match="must begin with Yes, No, Partly, Cannot tell"):
        Section("a", answer="Perhaps.")
    assert all(Section("a", answer=f"{word}.").answer for word in ANSWERS)
