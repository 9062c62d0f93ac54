"""Answers and the marks beside them say the same."""

import pytest

from corollary.audit import Finding, Section
from corollary.audit._layer_names import layer_called
from corollary.audit._owned_up import owned_up
from corollary.audit._unsettled import unsettled
from corollary.audit.finding import causes


def marked(name, mark):
    return Finding(name, mark, f"The {name} is off.", 1.0, exact=True)


def said(answer, *findings, explains=None):
    return owned_up(answer, causes(findings, explains or {}))


def test_an_answer_that_names_the_worst_stays_as_it_is():
    answer = "No: the step is off."
    assert said(answer, marked("step", "problem"), marked("batch", "look")) == answer
    assert said(answer) == answer
    # one of several that are marked alike is enough
    assert said(answer, marked("batch", "problem"), marked("step", "problem")) == answer


def test_a_problem_that_an_answer_passes_over_comes_first_in_it():
    step = marked("step", "problem")
    assert said("Yes: it errs on 1 %.", step) == "Partly: the step is off. It errs on 1 %."
    assert said("No: it errs on 90 %.", step) == "No: the step is off. It errs on 90 %."
    unknown = "Cannot tell: there are no test data. Give some."
    assert said(unknown, step) == "Cannot tell: the step is off. There are no test data. Give some."
    assert said("Yes, lazy: it hardly moved.", step) == "Partly: the step is off. Lazy: it hardly moved."
    # what is named is less than what is wrong
    batch = marked("batch", "look")
    assert said("Partly: the batch is off.", batch, step) == "Partly: the step is off. The batch is off."


def test_what_is_to_be_looked_at_is_added():
    batch = marked("batch", "look")
    assert said("Yes: it errs on 1 %.", batch) == "Yes: it errs on 1 %. But look at this: The batch is off."
    # nothing else is known
    assert said("Cannot tell: there are no test data.", batch) == (
        "Cannot tell: the batch is off. There are no test data."
    )


def test_of_what_is_marked_alike_the_cause_is_named():
    step, batch = marked("step", "problem"), marked("batch", "problem")
    found = said("Yes: fine.", batch, step, explains={"step": ("batch",)})
    assert found == "Partly: the step is off. Fine."


def test_an_answer_without_a_reason_gets_one():
    assert said("Yes.", marked("step", "look")) == "Yes. But look at this: The step is off."


@pytest.mark.parametrize("mark", ["look", "problem"])
def test_a_problem_of_one_section_unsettles_the_yes_of_another(mark):
    sections = (
        Section("Will it?", (marked("a", "fine"),), "Yes: it errs on 1 %."),
        Section("Does it?", (marked("leak", mark),), "No: the leak is off."),
    )
    found = unsettled(sections, {"leak": ("Will it?", "Does it?")})
    assert found[1] == sections[1]
    if mark == "look":
        assert found == sections
    else:
        assert found[0].answer == "Cannot tell: the leak is off. It errs on 1 %."
        assert found[0].mark == "not applicable"


def test_a_layer_with_a_number_for_a_name_is_called_a_layer():
    assert [layer_called(name) for name in ("0.0", "3", "head.weight")] == ["layer 0.0", "layer 3", "head.weight"]
