"""Is it robust? The zoo of this section with healthy twins, over seeds; what cannot be attacked is said in a sentence.

All networks but the one that rounds its inputs have one architecture and data of one shape: they share programs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made import made

from corollary import Network, Subject
from corollary.audit import _plan
from corollary.audit._budget import BUDGETS, Budget
from corollary.audit.finding import Finding, causes
from corollary.audit.sections import _attackable, _attacked, _changes, _hardening, _input_scale, robustness
from corollary.robustness import QuantisedInput

# the last input is always 0
D, USED, WIDTH, K, N, TESTS = 32, 31, 48, 3, 240, 128
SEEDS = (0, 1, 2)
FRAGILE = 300
SCALE, HIDES, ATTACK = "inputs at another scale", "gradients that lead attacks astray", "accuracy under attack"
RANDOM, MARGINS, COPY = (
    "accuracy under random noise",
    "margin over Lipschitz constant",
    "what a smoothed copy certifies",
)
CHANGES = "noise, shift, scale and missing inputs"
QUICK, KEY = BUDGETS["quick"], jax.random.key(0)


def apply(params, x):
    h = jax.nn.relu(x @ params["w"] + params["b"])
    return h @ params["v"] + params["c"]


def start(seed):
    keys = jax.random.split(jax.random.key(seed))
    w = jax.random.normal(keys[0], (D, WIDTH)) * (2 / D) ** 0.5
    v = jax.random.normal(keys[1], (WIDTH, K)) * WIDTH**-0.5
    return {"w": w, "b": jnp.zeros(WIDTH), "v": v, "c": jnp.zeros(K)}


@jax.jit
def trained(params, x, y):
    optimiser = optax.adam(0.01)

    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(apply(p, x), y).mean()

    def step(carry, _):
        p, memory = carry
        updates, memory = optimiser.update(jax.grad(loss)(p), memory)
        return (optax.apply_updates(p, updates), memory), None

    return jax.lax.scan(step, (params, optimiser.init(params)), None, length=200)[0][0]


def blobs(seed, n):
    rng = np.random.default_rng((seed, n))
    y = rng.integers(0, K, n)
    centres = 0.8 * np.random.default_rng(seed).normal(size=(K, D))
    used = np.arange(D) < USED
    return np.where(used, centres[y] + rng.normal(size=(n, D)), 0).astype(np.float32), y


def subject(seed, change=lambda params: params, train=None, test=None):
    """A network trained on blobs, with what is changed about its weights and data afterwards."""
    given = blobs(seed, N), blobs(seed, TESTS)
    end = trained(start(seed), *given[0])
    return made(apply, change(end), "cross_entropy", train or given[0], test or given[1])


def found(subject, budget=QUICK):
    return {f.name: f for f in robustness.findings(subject, budget, KEY)}


def first_cause(findings):
    return causes(list(findings.values()), robustness.EXPLAINS)[0].finding.name


def fragile(params):
    """Weights of an input that never varies are never corrected: no example shows them, and every attack does."""
    return params | {"w": params["w"].at[USED:].multiply(FRAGILE)}


def times(factor, data):
    return factor * data[0], data[1]


@pytest.fixture(scope="module")
def healthy():
    return {seed: found(subject(seed)) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_wrong_with_a_healthy_network(healthy, seed):
    findings = healthy[seed]
    assert list(findings) == [SCALE, HIDES, ATTACK, RANDOM, MARGINS, COPY, CHANGES]
    assert {f.mark for f in findings.values()} == {"fine"}
    assert robustness.answer(list(findings.values())).startswith("Yes: attacks of a tenth of ")
    assert list(robustness.actions(None, list(findings.values()))) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fragile_network_and_its_cure(healthy, seed):
    sick = subject(seed, fragile)
    # on the data it is the healthy network, bit for bit
    np.testing.assert_array_equal(sick.outputs("test"), subject(seed).outputs("test"))
    findings = found(sick)
    assert findings[ATTACK].mark == "problem"
    assert first_cause(findings) == ATTACK
    assert [findings[name].mark for name in (SCALE, HIDES, CHANGES)] == ["fine"] * 3
    # random noise of the same size does far less
    assert findings[RANDOM].value / 100 > 2 * findings[ATTACK].value
    assert robustness.answer(list(findings.values())).startswith("No: ")
    (action,) = robustness.actions(sick, list(findings.values()))
    assert action.what.startswith("train against attacks within ")
    cured = action.apply(sick, key=jax.random.key(seed + 1))
    after = found(cured)
    assert {f.mark for f in after.values()} == {"fine"}
    low, high = action.effect.interval
    assert low - 0.02 <= action.effect.measured(cured) <= high + 0.02
    # what is advised for another disease leaves it
    (other,) = [_hardening.to_scale(subject(seed, test=times(255, blobs(seed, TESTS))), findings[SCALE])]
    assert found(other.apply(sick.replaced(test=times(255, sick.test)), key=KEY))[ATTACK].mark == "problem"


def rounded(change=lambda params: params):
    """The network behind a quantiser, finer than any attack: the same classes, and no gradient anywhere."""
    network = QuantisedInput(subject(0, change).network, 601, -6.0, 6.0)
    return Subject(network, "cross_entropy", blobs(0, N), blobs(0, TESTS))


def test_gradients_hidden_by_rounding(healthy):
    findings = found(rounded())
    assert findings[HIDES].mark == "problem"
    assert first_cause(findings) == HIDES
    assert "at 100 % of them the slope is zero" in findings[HIDES].sentence
    # the number is that of questions, and that of the network without rounding up to the examples that were asked about
    assert findings[ATTACK].mark == "fine"
    assert "Gradients alone would leave" in findings[ATTACK].sentence
    low, high = findings[ATTACK].interval
    assert low <= healthy[0][ATTACK].value <= high
    assert robustness.answer(list(findings.values())).startswith("Partly: attacks that only ask ")


def test_a_fragile_network_that_hides_its_gradients():
    sick = rounded(fragile)
    findings = found(sick)
    assert findings[HIDES].mark == "problem"
    assert findings[ATTACK].mark in ("look", "problem")  # of half as many examples less is certain
    assert first_cause(findings) == HIDES
    assert robustness.answer(list(findings.values())).startswith(("No: attacks of", "Partly: attacks of"))
    action, _ = robustness.actions(sick, list(findings.values()))
    assert action.what.startswith("attack without gradients")
    # by gradients it seems to lose nothing at all
    assert action.effect.now == pytest.approx(1 - sick.error("test"), abs=0.05)
    # and by questions as much as without the rounding
    low, high = action.effect.interval
    assert low <= _hardening.left(subject(0, fragile)) <= high < action.effect.now
    assert action.apply(sick, key=KEY) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_test_inputs_off_by_255(seed):
    sick = subject(seed, test=times(255, blobs(seed, TESTS)))
    finding = _input_scale.judge(_input_scale.measure(sick, _attackable.attackable(sick, QUICK, KEY)))
    assert finding.mark == "problem"
    assert "times larger than the training inputs" in finding.sentence
    (action,) = robustness.actions(sick, [finding])
    assert action.what == "divide the test inputs by 255"
    treated = action.apply(sick, key=KEY)
    np.testing.assert_allclose(treated.test[0], blobs(seed, TESTS)[0], rtol=1e-5)
    after = _input_scale.judge(_input_scale.measure(treated, _attackable.attackable(treated, QUICK, KEY)))
    assert after.mark == "fine"
    assert action.effect.measured(treated) == pytest.approx(action.effect.then)


def test_what_is_said_of_another_scale_is_what_was_counted():
    even = _input_scale.Scales(100, (0.5, 2.0), (3, 0), (4, 9), 1.0, 60, 0.5)
    assert "it is right on no more examples: the inputs are at its own" in _input_scale.judge(even).sentence
    # a few more, but right on fewer than one answer for all would be
    few = _input_scale.judge(even._replace(gains=(9, 0), losses=(0, 9), right=1))
    assert few.mark == "fine"
    assert few.value == 9
    assert "it is right on 9 % more examples at best" in few.sentence


def test_all_inputs_divided_by_255():
    sick = subject(0, lambda p: p | {"c": p["c"] + jnp.array([1.0, 0.0, 0.0])}, *(
        times(1 / 255, blobs(0, n)) for n in (N, TESTS)
    ))  # fmt: skip
    findings = found(sick)
    assert findings[SCALE].mark == "problem"
    assert first_cause(findings) == SCALE
    assert "multiplied by" in findings[SCALE].sentence
    (action,) = robustness.actions(sick, list(findings.values()))
    assert action.what.startswith("multiply the inputs by ")
    assert action.effect.then < action.effect.now - 0.2
    assert found(action.apply(sick, key=KEY))[SCALE].mark == "fine"


def test_both_ends_and_the_radius_0(healthy):
    spec = healthy[0][ATTACK].figure.spec
    rows = [row for layer in spec["layer"] for row in layer["data"]["values"] if "accuracy" in row and "what" in row]
    at = {what: {r["radius"]: r["accuracy"] for r in rows if r["what"] == what} for what in {r["what"] for r in rows}}
    clean = 1 - subject(0).error("test")
    assert at["attacked"][0.0] == at["certified"][0.0] == at["random"][0.0] == pytest.approx(clean)
    assert all(at["attacked"][r] >= at["certified"][r] for r in at["attacked"])
    assert np.all(np.diff(list(at["attacked"].values())) <= 0)
    assert at["random"][0.1] >= at["attacked"][0.1]


def test_what_is_found_is_another_class_and_no_certificate_is_broken():
    one = subject(0)
    victim = _attackable.attackable(one, QUICK, KEY)
    everywhere = np.argmin(np.linalg.norm(victim.x[:1] - one.train[0], axis=1) + 1e9 * (one.train[1] == victim.y[0]))
    np.testing.assert_array_equal(victim.towards[0], one.train[0][everywhere])
    moved = victim.x + 0.5 * (victim.towards - victim.x)
    far = _attacked._turned(one, victim, moved)
    turned = np.argmax(apply(one.network.params, moved), 1) != victim.y
    np.testing.assert_array_equal(np.isfinite(far), turned)
    np.testing.assert_allclose(far[turned], np.linalg.norm(moved - victim.x, axis=1)[turned] / victim.unit, rtol=1e-5)
    # a slope that is steeper than it says would be found out
    with pytest.raises(ArithmeticError, match="within a certified distance"):
        _attacked.measure(one, victim, np.full(len(victim.x), victim.unit), QUICK, KEY)


def test_missing_inputs_that_nobody_can_do_without():
    """A network that lives on one input alone does not bear that it is missing; noise it does."""
    right = np.ones(200, bool)
    after = np.stack([right, right, right, np.arange(200) < 20])
    names = ("noise", "shift", "scale", "missing inputs")
    sick = _changes.judge(_changes.Changes(right, names, names, after))
    assert sick.mark == "problem"
    assert "has not learned to bear missing" in sick.sentence
    twin = _changes.judge(_changes.Changes(right, names, names, np.stack([right] * 4)))
    assert twin.mark == "fine"


X, Y = blobs(0, 24)
KINDS = {
    "a regression": (
        lambda: Subject(Network(apply, start(0)), "squared", (X, np.ones((24, K)) * X[:, :1])),
        "gives no example a class",
    ),
    "tokens": (
        lambda: Subject(
            Network(lambda w, x: w[x].mean(0) * x[0], jnp.ones((5, K))), "cross_entropy", (np.ones((24, 4), int), Y)
        ),
        "whole numbers, such as words, and the tokens are used beside their embeddings",
    ),
    "several inputs": (
        lambda: Subject(Network(lambda p, x: apply(p, x[0] + x[1]), start(0)), "cross_entropy", ((X, X), Y)),
        "several inputs",
    ),
    "a class per place": (
        lambda: Subject(
            Network(lambda w, x: w * jnp.stack([x, -x], -1), jnp.ones(())), "cross_entropy", (X, (X > 0).astype(int))
        ),
        "no example a class of its own",
    ),
    "one class": (lambda: Subject(Network(apply, start(0)), "cross_entropy", (X, 0 * Y)), "one class"),
    "few examples": (lambda: Subject(Network(apply, start(0)), "cross_entropy", (X[:9], Y[:9])), "fewer than 16"),
    "copies": (lambda: Subject(Network(apply, start(0)), "cross_entropy", (0 * X, Y)), "a copy with another label"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_attacked(kind):
    make, sentence = KINDS[kind]
    (finding,) = robustness.findings(make(), QUICK, KEY)
    assert (finding.name, finding.mark) == (ATTACK, "not applicable")
    assert sentence in finding.sentence
    assert robustness.answer([finding]).startswith("Cannot tell: ")


def test_a_network_that_has_learned_nothing():
    constant = subject(0, lambda p: jax.tree.map(jnp.zeros_like, p))
    *_, finding = robustness.findings(constant, QUICK, KEY)
    assert (finding.name, finding.mark) == (ATTACK, "not applicable")
    assert "no answers that an attack could turn" in finding.sentence


def test_what_is_too_much_is_left_out_in_a_sentence():
    one = subject(0)
    (finding,) = robustness.findings(one, Budget("quick", 2048, 256, 120, work=1e5), KEY)
    assert "--budget full" in finding.sentence
    (finding,) = robustness.findings(one, Budget("quick", 2048, 256, 120, work=1e12, steps=one.cost.steps - 1), KEY)
    assert "a program of" in finding.sentence
    # in between fewer examples and shorter searches
    forward = _plan.forward(one)
    assert _attackable._effort(one, QUICK) == (8, 20, 256)
    less = Budget("quick", 2048, 256, 120, work=5 * 20 * 5 * 48 * forward)
    assert _attackable._effort(one, less) == (5, 8, 20)


@pytest.mark.parametrize(("share", "word"), [(0.3, "Partly"), (0.9, "Yes")])
def test_few_right_answers_are_no_yes(share, word):
    hidden = Finding("gradients that lead attacks astray", "fine", "No.", 0.0, exact=True)
    attack = Finding("accuracy under attack", "fine", "So.", share, (share - 0.05, share + 0.05))
    assert robustness.answer((hidden, attack)).startswith(word)


def test_what_has_hardly_left_its_start_has_no_scale_of_its_own():
    """Outputs near a constant are right more often at many another scale."""
    found = _input_scale.Scales(256, (0.25, 4.0), (5, 60), (5, 13), 1.0, 34, 0.12)
    assert _input_scale.judge(found).mark == "fine"
    # at a scale of its own a network makes good half of a blind guess's errors
    assert _input_scale.judge(found._replace(gains=(5, 160))).mark == "problem"


def test_a_scale_that_makes_it_worse_is_not_advised(monkeypatch):
    sick = subject(0, test=times(0.2, blobs(0, TESTS)))
    monkeypatch.setattr(_input_scale, "treated", lambda *_: (-1.0, ("test",)))
    assert _hardening.to_scale(sick, None) is None
