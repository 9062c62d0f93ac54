"""Will value learning be stable? The zoo of this section with healthy twins and cures, and the way to it.

All networks are linear in features of a state and an action, or one small dense network: they share programs.
"""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.audit import QSubject, SubjectError, audit
from corollary.audit._budget import BUDGETS
from corollary.audit.finding import causes
from corollary.audit.load import load
from corollary.audit.report import html
from corollary.audit.run import tried
from corollary.audit.sections import value_learning
from corollary.audit.sections.value_learning import BIAS, DISCOUNT, FROZEN, GROWTH, RUN, STEP, TIED, ZERO
from corollary.dynamics import limit_kernel
from corollary.reinforcement import History, td_stability

KEY = jax.random.key(0)


class Linear(eqx.Module):
    """Values linear in what a state is: (actions, features)."""

    theta: jax.Array

    def __call__(self, state):
        return state @ self.theta


def history(observation, action, reward, following):
    no = np.zeros(len(action), bool)
    return History(np.float32(observation), action, np.float32(reward), np.float32(following), no, no)


def one_state(beta, angle=0.05, **known):
    """One state and two actions; at this angle their features are nearly one."""
    xi = 0.3 * np.array([[1.0, 0.0], [np.sqrt(2) - 1, angle]])
    features = np.linalg.cholesky(np.asarray(limit_kernel(xi), float))
    state = np.stack([features, features])
    theta = np.linalg.solve(features, [1.0, np.sqrt(2) - 1])
    return QSubject(Linear(jnp.asarray(theta)), history(state, np.arange(2), [1, 0], state), beta=beta, **known)


def apply(params, x):
    """A dense network without biases: zero is mapped to zero."""
    return jnp.tanh(x @ params["w"]) @ params["v"]


def corridor(states, **known):
    """Four states in a row, a step to the left or right, a reward at the end; `states` are what is seen of them."""
    x, a = (i.ravel() for i in np.indices((4, 2)))
    z = np.clip(x + 2 * a - 1, 0, 3)
    keys = jax.random.split(jax.random.key(3))
    params = {"w": jax.random.normal(keys[0], (3, 24)), "v": jax.random.normal(keys[1], (24, 2)) / 5}
    moves = history(states[x], a, z == 3, states[z])
    return QSubject(Network(apply, params), moves, beta=0.5, **known)


RNG = np.random.default_rng(1)
SEEN = RNG.normal(size=(4, 3))
AT_ZERO = np.where(np.arange(4)[:, None] == 1, 0.0, SEEN)
# name: the sick one, its healthy twin, what is found, how the first action begins
ZOO = {
    "rank-one features": (
        lambda: one_state(0.95, learning_rate=8.0),
        lambda: one_state(0.95, angle=0.9, learning_rate=2.0),
        DISCOUNT,
        "renew the target every ",
    ),
    "a state encoded as zero": (
        lambda: corridor(AT_ZERO, learning_rate=0.2),
        lambda: corridor(SEEN, learning_rate=0.2),
        ZERO,
        "add a constant to the observations",
    ),
    "a step above the limit": (
        lambda: corridor(SEEN, learning_rate=5.0),
        lambda: corridor(SEEN, learning_rate=0.2),
        STEP,
        "divide the step by ",
    ),
}


def found(subject):
    return tuple(value_learning.findings(subject, BUDGETS["quick"], KEY))


def marks(findings):
    return {f.name: f.mark for f in findings}


@pytest.mark.parametrize("name", ZOO)
def test_zoo_with_twins_and_cures(name):
    sick, healthy, what, begins = ZOO[name]
    twin = found(healthy())
    assert marks(twin) == dict.fromkeys((ZERO, TIED, DISCOUNT, STEP, GROWTH, FROZEN, RUN, BIAS), "fine")
    assert value_learning.answer(twin).startswith("Yes: ")
    assert list(value_learning.actions(healthy(), twin)) == []
    subject = sick()
    before = found(subject)
    assert causes(before, value_learning.EXPLAINS)[0].finding.name == what
    assert marks(before)[what] == "problem"
    assert value_learning.answer(before).startswith("No: ")
    action, *_ = value_learning.actions(subject, before)
    assert action.what.startswith(begins)
    assert action.treats == what
    after = marks(found(action.apply(subject, key=KEY)))
    assert after[what] == "fine"
    assert "problem" not in after.values()
    trial = tried(action, subject, KEY)
    assert trial.line.endswith("inside what was promised.")


def test_numbers_of_the_rank_one_features():
    findings = {f.name: f for f in found(one_state(0.95))}
    assert findings[DISCOUNT].value == pytest.approx(0.8316, abs=5e-5)
    assert findings[STEP].value == 0
    assert findings[BIAS].mark == "look"
    # each value can be reached, so that a target that is fitted is Bellman's contraction
    assert findings[FROZEN].value == pytest.approx(0.95, rel=1e-6)
    # the run and what the kernels promise go two ways
    assert findings[RUN].premises[0].holds
    assert findings[RUN].value > 10
    assert "half of what is stable" in findings[GROWTH].sentence
    near = {f.name: f for f in found(one_state(0.8))}
    assert near[DISCOUNT].mark == "look"


def test_a_target_that_waits_and_one_that_waits_too_short():
    known = {"learning_rate": 8.0}
    patient = {f.name: f for f in found(one_state(0.95, target_every=4096, **known))}
    assert (patient[DISCOUNT].mark, patient[GROWTH].mark) == ("fine", "fine")
    assert "target network that makes it stable" in patient[DISCOUNT].sentence
    hasty = {f.name: f for f in found(one_state(0.95, target_every=2, **known))}
    assert (hasty[DISCOUNT].mark, hasty[GROWTH].mark) == ("problem", "problem")


def test_where_no_target_helps_the_discount_must_fall():
    # θ to 2θ: beyond 1/2 both grow
    moves = history(np.ones((1, 1, 1)), np.zeros(1, int), [1], np.full((1, 1, 1), 2.0))
    subject = QSubject(Linear(jnp.ones(1)), moves, beta=0.8, learning_rate=0.1)
    findings = found(subject)
    assert {f.name: f for f in findings}[FROZEN].mark == "look"
    (action,) = value_learning.actions(subject, findings)
    assert action.what == "lower the discount to 0.25, which is another task"
    assert tried(action, subject, KEY).line.endswith("inside what was promised.")


def test_opposite_states_of_an_odd_network_are_tied():
    opposite = np.concatenate([SEEN[:2], -SEEN[:2]])
    findings = {f.name: f for f in found(corridor(opposite, learning_rate=0.1))}
    assert (findings[TIED].mark, findings[TIED].value) == ("look", 8.0)
    assert findings[ZERO].mark == "fine"


def test_nothing_to_learn_with():
    moves = history(np.zeros((2, 3)), np.zeros(2, int), [0, 1], np.zeros((2, 3)))
    params = {"w": jnp.ones((3, 4)), "v": jnp.ones((4, 2))}
    findings = found(QSubject(Network(apply, params), moves, beta=0.5))
    assert marks(findings) == {ZERO: "problem", TIED: "fine", GROWTH: "not applicable"}
    assert value_learning.answer(findings).startswith("No: 2 of the values")


def test_the_numbers_are_those_of_td_stability():
    subject = corridor(SEEN)
    spectrum = td_stability(subject.network, subject.transitions, 0.5)
    step = {f.name: f for f in found(subject)}[STEP]
    assert step.value == pytest.approx(float(spectrum.largest_step), rel=1e-3)
    assert "no learning_rate= was given" in step.sentence


def test_a_whole_audit_as_page_and_as_json():
    report = audit(one_state(0.95, learning_rate=8.0), attempts=1)
    assert [s.title for s in report.sections] == [value_learning.TITLE]
    page = html(report)
    assert "Will value learning be stable?" in page
    assert "transitions" in page
    assert "inside what was promised" in page
    facts = json.loads(json.dumps(report.as_dict(), default=str))["subject"]
    assert (facts["transitions"], facts["actions"], facts["target_every"]) == (2, 2, 1)


MADE = """
import jax.numpy as jnp, numpy as np
from corollary import Network
from corollary.audit import QSubject
from corollary.reinforcement import History

def make():
    x, no = np.ones((1, 1), np.float32), np.zeros(1, bool)
    network = Network(lambda w, x: w * x, jnp.ones(1))
    return QSubject(network, History(x, np.zeros(1, int), x[:, 0], 2 * x, no, no), beta=0.8)
"""


def test_from_the_command_line(tmp_path, capsys):
    (tmp_path / "made.py").write_text(MADE)
    subject = load(f"{tmp_path / 'made.py'}:make")
    assert repr(subject) == "<QSubject of 1 parameters, 1 action, 1 transition, discount 0.8>"
    from corollary._console import audit_lines

    audit_lines(json.loads(json.dumps(audit(subject).as_dict(), default=str)), "report.html")
    said = " ".join(capsys.readouterr().out.split())
    assert "1 parameters in 1 arrays, 1 action, 1 transitions, 0.8 discount" in said
    assert "Will value learning be stable? No: from the discount 0.5 on the update is unstable" in said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"beta": 1.0}, "beta must be in"),
        ({"learning_rate": -1.0}, "learning_rate must be positive"),
        ({"target_every": 0}, "target_every must be"),
        ({"transitions": 3}, "transitions must be a History"),
        ({"network": Network(lambda p, x: jnp.log(x @ p), -jnp.ones(2))}, "the values must be finite, got NaN or inf"),
        ({"network": Network(lambda p, x: x @ jnp.ones(2), {})}, "network must have at least one floating-point array"),
    ],
)
def test_sentences(change, sentence):
    sound = one_state(0.5)
    options = {"network": sound.network, "transitions": sound.transitions, "beta": 0.5} | change
    with pytest.raises(SubjectError, match=sentence):
        QSubject(options.pop("network"), options.pop("transitions"), **options)


def test_facts_are_replaced_by_name():
    subject = one_state(0.5, learning_rate=1.0)
    assert subject.replaced(beta=0.25).beta == 0.25
    assert subject.replaced(target_every=3).learning_rate == 1.0
    with pytest.raises(SubjectError, match="no fact 'steps' to be replaced"):
        subject.replaced(steps=3)
