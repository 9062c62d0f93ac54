"""A report that was made by hand, for tests of what is done with reports."""

from corollary.audit import Action, Cause, Effect, Finding, Premise, Report, Section
from corollary.audit.action import by_hand
from corollary.audit.run import Trial


def reported(**fields) -> Report:
    """One finding of each mark, two sections, one that stopped; `fields` in place of its own."""
    premises = (Premise("it is so", None),)
    fine = Finding("sharpness", "fine", "It is <flat>.", 1.5, (1.0, float("inf")), theorem="A.", premises=premises)
    look = Finding("noise | scale", "look", "Look & see.", 2.0, exact=True, unit="examples")
    problem = Finding("dead units", "problem", "They are dead\x1b.", 12345.6, exact=True, headline="All units* died")
    none = Finding("drift", "not applicable", "No start was given.")
    sections = (
        Section("Will it train?", (fine, look), "Yes: it will.", seconds=1.25),
        Section("Did it?", (problem, none), "No: they are dead.", (Cause(problem, (look,)),)),
        Section("Is it?", failed="This section stopped: nothing there."),
    )
    split = {"examples": 10, "loss": 0.5, "error": 0.25}
    subject = dict(parameters=1234, leaves=2, inputs=[[8, 8]], loss="cross_entropy", classes=3, notes=["A note."])
    subject |= dict(learning_rate=0.1, batch_size=None, train=split, test=split, left_out=None)
    subject |= dict(name="mine.onnx", date="1 May 2030, 12:00", command="corollary audit mine.onnx")
    effect = Effect("training loss", 1.0, 0.5, (0.4, float("inf")))
    actions = (Action("divide the step by 2", "dead units", effect, "theorem", by_hand),)
    known = dict(causes=(Cause(problem, (look,)),), actions=actions, trials=(Trial(actions[0], 0.45),))
    return Report(subject, sections, "quick", 1.0, **(known | fields))
