"""Why does it predict this? Which inputs and which training examples predictions are owed to, and what that is worth.

The findings are made in `_importance` (inputs, over all examples), `_alike` (columns that say the same), `_unread`
(inputs that no output moves with), `_maps`
(inputs of single predictions), `_blamed` (training examples) and `_doubtful` (wrong labels, copies); the examples
that are explained are chosen in `_explained`, the inputs told apart in `_players`, and what to do is in `_mends`.
"""

from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import jax

from corollary.audit._answer import because, by_name, first
from corollary.audit._errors import SubjectError
from corollary.audit.sections import _alike, _blamed, _doubtful, _importance, _maps, _mends, _unread
from corollary.audit.sections._explained import explained

TITLE = "Why does it predict this?"
#: what decides, in this order
DOUBTS = (
    _importance.SHORTCUT,
    _doubtful.COPIED,
    _doubtful.TORN,
    _doubtful.LABELS,
    _unread.NAME,
    _importance.IMPORTANT,
    _alike.SAME,
    _maps.MAPS,
    _blamed.BELIEVED,
)
GAPS = ("gap between training and test error", "gap between training and test loss")
EXPLAINS = {
    _importance.SHORTCUT: (*GAPS, _importance.IMPORTANT, _doubtful.LABELS),
    # what is not read cannot tell examples apart
    _unread.NAME: (*GAPS, _importance.IMPORTANT, _doubtful.LABELS, _blamed.BELIEVED, "median margin"),
    # what is wrong keeps training busy
    _doubtful.TORN: (_doubtful.LABELS, *GAPS, "calibration error", _blamed.BELIEVED),
    _doubtful.LABELS: (*GAPS, _blamed.BELIEVED, "calibration error"),
    # what answers always the same, or has not begun to learn, has no reasons
    "most frequent answer": (_importance.IMPORTANT, _blamed.BELIEVED, _maps.MAPS),
    "scale of the inputs": (_importance.IMPORTANT, _blamed.BELIEVED),
    "confidence of the softmax": (_importance.IMPORTANT, _blamed.BELIEVED, _maps.MAPS),
    "signal by layer": (_importance.IMPORTANT, _blamed.BELIEVED, _maps.MAPS),
    "dead units": (_importance.IMPORTANT, _blamed.BELIEVED),
    "what the best column alone leaves open": (_importance.IMPORTANT,),
    # test examples that were trained on surprise nobody: beside them wrong labels seem to be more than they are
    "test examples found in the training data": (_doubtful.COPIED, _doubtful.LABELS),
}


class Numbers(NamedTuple):
    """What the last look at a subject measured, for its actions."""

    importance: _importance.Importances | str
    alike: _alike.Alike | None
    doubts: _doubtful.Doubts | str
    copied: _doubtful.Copied | None
    torn: _doubtful.Torn | None


_numbers: WeakKeyDictionary = WeakKeyDictionary()


def findings(subject, budget, key):
    input_key, mix_key, blame_key = jax.random.split(key, 3)
    importance = _importance.measure_importance(subject, budget, input_key)
    alike = _alike.measure_alike(subject)
    yield _importance.judge_importance(importance, None if alike is None else alike.told)
    yield _alike.judge_alike(alike)
    yield _importance.judge_shortcut(importance)
    if (unread := _unread.measure(subject)) is not None:
        yield _unread.judge(unread)
    examples = explained(subject)
    maps = _maps.measure_maps(subject, budget, examples, mix_key)
    yield _maps.judge_maps(subject, maps, examples)
    yield _maps.judge_mixed(maps)
    blamed = _blamed.measure_blamed(subject, budget, examples, blame_key)
    yield _blamed.judge_believed(blamed)
    yield _blamed.judge_points(blamed, examples)
    doubts = _doubtful.measure_doubts(subject, blamed)
    yield _doubtful.judge_doubts(doubts)
    if (torn := _doubtful.measure_torn(subject)) is not None:
        yield _doubtful.judge_torn(torn)
    copied = _doubtful.measure_copied(subject)
    yield _doubtful.judge_copied(copied, blamed)
    _numbers[subject] = Numbers(importance, alike, doubts, copied, torn)


def answer(findings) -> str:
    found = by_name(findings)
    if (empty := first(findings, (_maps.MIXED,), "look")) is not None:
        return because("No", empty.sentence, "Look at the importances of the inputs instead.")
    for mark in ("problem", "look"):
        if (doubt := first(findings, DOUBTS, mark)) is not None:
            return because("Partly", doubt.sentence)
    important, maps = found.get(_importance.IMPORTANT), found.get(_maps.MAPS)
    if important is None or important.mark != "fine":
        why = "nothing could be measured." if important is None else important.sentence
        return because("Cannot tell", why, "Give data with several inputs.")
    if maps is None or maps.mark != "fine":
        return because("Yes", important.sentence)
    mixed = found.get(_maps.MIXED)
    sound = "Attributions add up" + (
        ", and change with the weights." if mixed is not None and mixed.mark == "fine" else "."
    )
    return because("Yes", important.sentence, sound)


def actions(subject, findings):
    marked = {f.name: f for f in findings if f.mark in ("look", "problem")}
    numbers = _numbers.get(subject)
    if numbers is None:
        return
    for mend in _remedies(subject, marked, numbers):
        try:
            yield mend()
        except SubjectError:  # trained again it diverges: that is no mend
            continue


def _remedies(subject, marked, numbers: Numbers):
    """What to try for each marked finding."""
    if _importance.SHORTCUT in marked:
        yield partial(_mends.drop_shortcut, subject, numbers.importance)
    if _doubtful.COPIED in marked:
        yield partial(_mends.take_out, subject, numbers.copied)
    if _doubtful.TORN in marked:
        yield partial(_mends.look_at_torn, subject, numbers.torn)
    if _doubtful.LABELS in marked:
        yield partial(_mends.look_at_labels, subject, numbers.doubts)
    if _unread.NAME in marked:
        yield partial(_unread.read_all, subject, marked[_unread.NAME])
    if _alike.SAME in marked:
        yield partial(_mends.drop_copies, subject, numbers.alike)
    if _blamed.BELIEVED in marked:
        yield partial(_mends.train_on, subject)
