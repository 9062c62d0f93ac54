"""Will it train: the numbers against computations by hand, and sick networks beside healthy twins."""

import itertools
import math
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made import made

from corollary.audit._budget import BUDGETS, Budget
from corollary.audit.finding import MARKS, causes, short
from corollary.audit.sections import (
    _attackable,
    _attention,
    _decayed,
    _first_steps,
    _inputs,
    _longer,
    _signals,
    _targets,
    _units,
    trainability,
)
from corollary.audit.sections._start import start_of
from corollary.evidence import claims

KEY = jax.random.key(0)
STEP = "largest stable step"
QUICK = Budget("test", examples=256, kernel=32, products=120, work=1e12)


def _apply(activation, params, x):
    for w, b in params[:-1]:
        x = activation(x @ w + b)
    w, b = params[-1]
    return x @ w + b


TANH, RELU = partial(_apply, jnp.tanh), partial(_apply, jax.nn.relu)


def _draw(sizes, gain, key=KEY):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.random.normal(k, (a, b)) * math.sqrt(gain / a), jnp.zeros(b))
        for k, (a, b) in zip(keys, itertools.pairwise(sizes), strict=True)
    ]


def _data(n=128, d=16, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    return x, (x @ rng.normal(size=(d, classes))).argmax(1)


SIZES = (16, 32, 32, 32, 4)
DEEP = (16, *(24,) * 9, 4)


def _subject(apply=RELU, start=None, data=None, loss="cross_entropy", **known):
    """A network whose training has not begun: nothing here depends on the trained weights."""
    start = _draw(SIZES, 2.0) if start is None else start
    return made(apply, start, loss, _data() if data is None else data, **({"initial": start} | known))


def _found(subject, budget=QUICK, until=None):
    """The findings by name, up to one of them: what follows is not computed."""
    found = {}
    for finding in trainability.findings(subject, budget, KEY):
        found[finding.name] = finding
        if finding.name == until:
            break
    return found


def _layers(subject, budget=QUICK):
    """What is found without curvature and kernels."""
    return _found(subject, budget, "confidence of the softmax")


def _worst(found):
    return max((f.mark for f in found.values()), key=MARKS.index)


# --- healthy


@pytest.fixture(scope="module")
def healthy():
    return _found(_subject(learning_rate=0.05, steps=300))


def test_healthy_network_is_fine(healthy):
    assert {name: f.mark for name, f in healthy.items() if f.mark != "fine"} == {}
    assert len(healthy) == 14


def test_findings_are_complete(healthy):
    known = set(claims())
    for finding in healthy.values():
        assert finding.claim in known
        assert finding.theorem
        assert finding.premises
        assert finding.sentence.endswith(".")
        assert math.isfinite(finding.value)


def test_deep_tanh_network_at_xavier_is_fine():
    found = _layers(_subject(TANH, _draw(DEEP, 1.0)))
    assert _worst(found) == "fine", [f.sentence for f in found.values() if f.mark != "fine"]


# --- numbers


def test_profiles_by_hand(healthy):
    params, (x, y) = _draw(SIZES, 2.0), _data()
    signals, h = [], x
    for w, b in params:
        signals.append(np.asarray(h @ w + b, float))
        h = np.maximum(signals[-1], 0)
    delta = np.exp(signals[-1])
    delta = delta / delta.sum(1, keepdims=True) - np.eye(4)[y]
    backward = []
    for i in reversed(range(3)):
        delta = (delta @ np.asarray(params[i + 1][0], float).T) * (signals[i] > 0)
        backward.append(np.mean(np.sum(delta**2, 1)))
    # of four layers the last, with a scale of its own, is left out
    forward = [np.mean(z**2) for z in signals[:3]]
    for name, profile in (("signal by layer", forward), ("gradient by layer", backward)):
        slope = np.polyfit(np.arange(3), np.log(profile), 1)[0]
        np.testing.assert_allclose(healthy[name].value, np.exp(slope), rtol=1e-4)
    slopes = [abs(math.log(healthy[n].value)) for n in ("signal by layer", "gradient by layer")]
    np.testing.assert_allclose(healthy["depth that can be reached"].value, math.log(1e12) / max(slopes), rtol=1e-5)
    dead = [np.all(z <= 0, axis=0) for z in signals[:3]]
    np.testing.assert_allclose(healthy["dead units"].value, 100 * np.mean(dead), atol=1e-4)


def test_stable_step_by_hand():
    params, (x, y) = _draw((16, 8, 4), 2.0), _data()
    flat, unravel = jax.flatten_util.ravel_pytree(params)

    def loss(p):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(RELU(unravel(p), x)), jnp.asarray(y)[:, None], 1))

    top = np.linalg.eigvalsh(np.asarray(jax.jit(jax.hessian(loss))(flat), float))[-1]
    found = _found(_subject(RELU, params))["largest stable step"]
    # Lanczos stops at a residual of 1 % of the sharpness
    np.testing.assert_allclose(found.value, 2 / top, rtol=1e-2)
    assert found.interval[0] <= 2 / top <= found.interval[1]


@pytest.mark.parametrize("rate", [0.05, None])
def test_steps_to_fit_by_iterating(rate):
    data = (x := _data(24)[0], np.sin(x[:, :1]))
    params = _draw((16, 64, 1), 2.0)
    found = _found(_subject(RELU, params, data, "squared", learning_rate=rate))
    jacobian = jax.vmap(lambda x: jax.flatten_util.ravel_pytree(jax.grad(lambda p: RELU(p, x[None])[0, 0])(params))[0])
    j = np.asarray(jacobian(jnp.asarray(x)), float)
    values = np.linalg.eigvalsh(j @ j.T)
    np.testing.assert_allclose(found["condition of the tangent kernel"].value, values[-1] / values[0], rtol=1e-2)
    step = 24 / values[-1] if rate is None else rate
    residual = data[1] - np.asarray(RELU(params, x))
    # far more parameters than examples: the kernel can take away all of it
    size, count = np.linalg.norm(residual), 0
    while np.linalg.norm(residual) > size / 10:
        residual, count = residual - step / 24 * j @ (j.T @ residual), count + 1
    low, high = found["steps to fit"].interval
    # one step more or less for rounding
    assert low - 1 <= count <= high + 1
    assert low <= found["steps to fit"].value <= high < 1.3 * low + 2


def test_noise_out_of_reach_is_not_waited_for():
    """Least squares on noise: the kernel has rank 3, and the time is that of what it can fit."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 2)).astype(np.float32), rng.normal(size=(24, 1)).astype(np.float32)
    found = _found(_subject(RELU, [(jnp.ones((2, 1)), jnp.zeros(1))], (x, y), "squared"))["steps to fit"]
    features = np.concatenate([x, np.ones((24, 1))], 1).astype(float)
    values, vectors = np.linalg.eigh(features.T @ features)
    residual = y - x @ np.ones((2, 1))
    gap = vectors.T @ np.linalg.lstsq(features, residual, rcond=None)[0][:, 0]
    size = [np.linalg.norm(np.sqrt(values) * (1 - values / values[-1]) ** t * gap) for t in range(200)]
    count = int(np.argmax(np.array(size) <= size[0] / 10))
    assert found.mark == "fine"
    assert found.interval[0] - 1 <= count <= found.interval[1] + 1
    never = np.linalg.norm(residual - features @ np.linalg.lstsq(features, residual, rcond=None)[0])
    assert f"{100 * never / np.linalg.norm(residual):.3g}"[:3] in found.sentence


def test_kernel_of_a_part_is_better_conditioned():
    whole = _found(_subject(), QUICK)["condition of the tangent kernel"].value
    part = _found(_subject(), Budget("less", examples=256, kernel=8, products=256, work=1e12))[
        "condition of the tangent kernel"
    ].value
    assert part < whole


# --- sick networks


def test_vanishing_signals():
    found = _layers(_subject(TANH, _draw(DEEP, 0.05)))
    assert found["signal by layer"].mark == found["gradient by layer"].mark == "problem"
    assert found["depth that can be reached"].mark == "problem"
    assert "vanishes" in found["gradient by layer"].sentence
    # the gain is the factor, as long as tanh is linear, and the signal a millionth after 9 layers
    assert 0.035 < found["signal by layer"].value < 0.065
    assert 8 < found["depth that can be reached"].value < 10.5


def test_exploding_signals():
    found = _layers(_subject(RELU, _draw(DEEP, 20.0)))
    assert found["signal by layer"].mark == found["gradient by layer"].mark == "problem"
    assert "explodes" in found["signal by layer"].sentence
    assert 7 < found["signal by layer"].value < 14
    assert found["confidence of the softmax"].mark == "problem"


def test_signals_that_training_got_over_are_not_accused():
    """A recurrent network at a usual start: the gradient has died after twenty steps back, and it learns."""
    small = [(0.2 * w, b) for w, b in _draw(DEEP, 1.0)]
    measured = _signals.measure(
        _subject(TANH, small), start_of(_subject(TANH, small), KEY), _data(), len(_data()[1]), QUICK, KEY
    )
    assert {f.mark for f in _signals.findings(measured)} == {"problem"}
    there = list(_signals.findings(measured._replace(learned=True)))
    assert {f.mark for f in there} == {"fine"}
    assert all("raining has got over it" in f.sentence for f in there)


def test_beyond_floating_point():
    """Signals of 1e30 have squares that float32 does not hold."""
    start = _draw((16, *(24,) * 8, 4), 2e8)
    found = _found(_subject(RELU, start))
    assert found["signal by layer"].mark == "problem"
    assert math.isfinite(found["signal by layer"].value)
    assert all(f.value is None or math.isfinite(f.value) for f in found.values())


def test_start_without_a_finite_loss():
    start = _draw((16, *(24,) * 16, 4), 1e9)
    found = _found(_subject(RELU, _draw((16, *(24,) * 16, 4), 2.0), initial=start))
    assert found["examples without a finite loss"].mark == "problem"
    assert found["examples without a finite loss"].value == 100


def test_short_step_takes_long():
    found = _found(_subject(learning_rate=1e-9))
    assert found["residual left after a million steps"].mark == "look"


def test_dead_units():
    start = _draw(SIZES, 2.0)
    start[1] = (start[1][0], jnp.where(jnp.arange(32) < 20, -50.0, 0.0))
    found = _layers(_subject(RELU, start))
    assert found["dead units"].mark == "problem"
    assert "1.0" in found["dead units"].sentence
    assert 100 * 20 / 96 <= found["dead units"].value < 100 * 24 / 96


def test_units_that_died_in_training():
    trained = _draw(SIZES, 2.0)
    trained[1] = (trained[1][0], jnp.full(32, -50.0))
    found = _layers(_subject(RELU, trained, initial=_draw(SIZES, 2.0)))
    assert found["dead units"].mark == "fine"
    assert found["dead units"].value < 10
    assert found["units dead after training"].mark == "problem"


@pytest.mark.parametrize(
    ("share", "learned", "mark"), [(0.3, False, "look"), (0.3, True, "fine"), (0.6, True, "problem")]
)
def test_a_few_dead_units_are_no_harm_where_training_has_learned_without_them(share, learned, mark):
    layer = SimpleNamespace(name="layers.0", units=10, dead=share)
    start = SimpleNamespace(where="At the start", premise=None)
    m = SimpleNamespace(layers=[layer], trained=[layer], start=start, seen=None, learned=learned)
    found = _units._lost(m, "dead", _units.DEAD_LOOK, _units.DEAD_PROBLEM), _units._died(m)
    assert [f.mark for f in found] == [mark, mark]
    assert [_units.SPARED in f.sentence for f in found] == [mark == "fine"] * 2


def test_all_units_of_a_layer_dead():
    start = _draw(SIZES, 2.0)
    start[1] = (start[1][0], jnp.full(32, -50.0))
    found = _layers(_subject(RELU, start))
    assert found["dead units"].mark == found["gradient by layer"].mark == found["rank of the layers"].mark == "problem"


def test_saturated_units():
    found = _layers(_subject(TANH, _draw(SIZES, 2e5)))
    assert found["saturated units"].mark == "problem"
    assert found["saturated units"].value > 90
    assert _layers(_subject(TANH, _draw(SIZES, 1.0)))["saturated units"].mark == "fine"


def test_saturated_softmax():
    start = _draw(SIZES, 2.0)
    start[-1] = (100 * start[-1][0], start[-1][1])
    found = _layers(_subject(RELU, start))["confidence of the softmax"]
    out = np.asarray(RELU(start, _data()[0]), float)
    p = np.exp(out - out.max(1, keepdims=True))
    np.testing.assert_allclose(found.value, 100 * np.mean(1 / p.sum(1) > 0.99), atol=1.0)
    assert found.mark == "problem"


def test_sure_and_right_after_training_is_fine():
    """A network that only its trained weights are known of may be as sure as it likes, if it is right."""
    x, y = _data()
    x = np.concatenate([x, 30 * np.eye(4)[y]], 1).astype(np.float32)[:, 12:]
    w = jnp.concatenate([jnp.zeros((4, 4)), jnp.eye(4)])
    found = _layers(made(TANH, [(w, jnp.zeros(4))], "cross_entropy", (x, y)))
    assert found["confidence of the softmax"].mark == "fine"
    assert found["confidence of the softmax"].value > 99


@pytest.mark.parametrize(("factor", "mark"), [(1, "fine"), (100, "problem"), (10, "look"), (1e-3, "problem")])
def test_scale_of_the_inputs(factor, mark):
    x, y = _data()
    found = _layers(_subject(data=(x * np.float32(factor), y)))["scale of the inputs"]
    assert found.mark == mark
    np.testing.assert_allclose(found.value, np.mean((factor * x.astype(float)) ** 2), rtol=1e-5)


@pytest.mark.parametrize(("factor", "mark"), [(10, "fine"), (300, "look"), (5000, "problem")])
def test_one_large_column(factor, mark):
    x, y = _data()
    x[:, 3] *= factor
    found = _layers(_subject(data=(x, y)))["scale of the inputs"]
    assert found.mark == mark
    assert ("Column 3" in found.sentence) == (factor > 100)


@pytest.mark.parametrize(("factor", "mark"), [(3.0, "fine"), (15.0, "look"), (100.0, "problem")])
def test_a_few_examples_far_larger_than_the_others(factor, mark):
    x, y = _data()
    x[[5, 90]] *= factor
    finding = _inputs.judge_largest(_inputs.measure_sizes(_subject(data=(x, y))))
    assert finding.mark == mark
    if mark != "fine":
        assert (
            "The training examples 5, 90 are" in finding.sentence
            or "The training examples 90, 5 are" in finding.sentence
        )
    # whole numbers have no size
    words = made(
        lambda p, x: p["e"][x].mean(-2), {"e": jnp.ones((9, 4))}, "cross_entropy", (np.ones((6, 3), int), y[:6])
    )
    assert _inputs.measure_sizes(words) is None


def test_examples_that_are_far_too_large_are_the_cause_and_taken_out():
    x, y = _data()
    x[[5, 90]] *= 100
    large = _subject(data=(x, y), learning_rate=1e-3, steps=40)
    names = ("scale of the inputs", _inputs.LARGEST)
    found = [f for f in _found(large, until=_inputs.LARGEST).values() if f.name in names]
    first, *_ = causes(found, trainability.EXPLAINS)
    assert first.finding.name == _inputs.LARGEST
    action = trainability._without_largest(large, first.finding)
    assert {"5", "90"} == set(action.what.rpartition(": ")[2].split(", "))
    assert action.apply(large, key=KEY).count() == len(y) - 2


def test_a_code_for_missing_values_is_named_and_replaced():
    x, y = _data()
    x[[5, 60, 90], [1, 1, 7]] = -999
    coded = _subject(data=(x, y), learning_rate=1e-2, steps=40)
    finding = _inputs.judge_largest(_inputs.measure_sizes(coded))
    assert "-999 is in them 3 times: does it stand for missing values?" in finding.sentence
    action = trainability._without_largest(coded, finding)
    assert action.what.startswith("replace -999 by the mean of the other numbers at its place")
    filled = trainability._filled(coded, -999.0).train[0]
    assert float(filled[5, 1]) == pytest.approx(np.delete(x[:, 1], [5, 60]).mean(), rel=1e-4)
    assert np.sum(filled != x) == 3
    # numbers that are far out and differ are no code
    x[[5, 60, 90], [1, 1, 7]] = (-999, 800, 1200)
    assert _inputs.measure_sizes(_subject(data=(x, y))).code is None


def test_targets_far_from_the_outputs():
    x, _ = _data()
    y = (1e3 + 50 * x[:, :1]).astype(np.float32)
    start = _draw((16, 32, 1), 2.0)

    def of(targets, end=start):
        return made(TANH, end, "squared", (x, targets), initial=start, learning_rate=0.05, steps=100)

    far = of(y)
    finding = _targets.judge(_targets.measure(far))
    assert finding.mark == "problem"
    assert finding.value == pytest.approx(np.mean(y**2), rel=1e-5)
    assert _targets.judge(_targets.measure(of((y - 1e3) / 50))).mark == "fine"
    # training has got there: the last bias is at the mean, and a little is explained
    there = [*start[:-1], (jnp.zeros((32, 1)), jnp.full(1, 1e3))]
    assert _targets.judge(_targets.measure(of(y, there))._replace(somewhere=True)).mark == "fine"
    # classes have no scale
    assert _targets.measure(_subject()) is None
    # the treated network meets them, and in its own units it is trained with the step there was
    treated = _targets._standardised(_targets.measure(far), far)
    assert treated.learning_rate == pytest.approx(0.05 / y.std() ** 2, rel=1e-3)
    np.testing.assert_allclose(treated.outputs("train"), y.mean() + y.std() * far.outputs("train"), rtol=1e-4)
    action = _targets.standardise(far, finding)
    assert action.effect.then < 0.2 * y.var() / 2


def test_a_decay_that_outweighs_the_data():
    start = _draw(SIZES, 2.0)
    small = [(1e-3 * w, b) for w, b in start]

    def pull(params, decay, steps=800):
        known = dict(initial=start, learning_rate=0.1, steps=steps, weight_decay=decay)
        return _decayed.measure(made(RELU, params, "cross_entropy", _data(), **known))

    finding = _decayed.judge(pull(small, 0.1))
    assert finding.mark == "problem"
    assert "It outweighs the data" in finding.sentence
    assert finding.value == pytest.approx(1e-3, rel=1e-3)
    # weights that are where they were, or that so little decay cannot have shrunk
    assert _decayed.judge(pull(start, 0.1)).mark == "fine"
    assert _decayed.judge(pull(small, 1e-4)).mark == "fine"
    assert pull(small, 0.0) is None
    assert pull(small, 0.1, steps=None) is None


def test_network_that_scales_its_columns_is_not_blamed():
    """A pipeline with a scaler on columns of different units, and the same network without one."""
    x, y = _data()
    units = np.where(np.arange(16) == 7, 5e3, 1.0).astype(np.float32)

    def pipeline(params, x):
        return RELU(params, x / units)

    names = "scale of the inputs"
    one = _subject(pipeline, data=(x * units, y))
    finding = _found(one, until=names)[names]
    assert finding.mark == "fine"
    assert "the network brings them to one scale itself" in finding.sentence
    assert _found(_subject(data=(x * units, y)), until=names)[names].mark == "problem"
    # attacks on a table of several units are none
    victim = _attackable.attackable(one, BUDGETS["quick"], KEY)
    assert "in which attacks and noise are measured" in _attackable.in_several_units(victim)
    even = _attackable.attackable(_subject(), BUDGETS["quick"], KEY)
    assert _attackable.in_several_units(even) is None


def test_network_that_scales_its_inputs_is_not_blamed():
    x, y = _data()

    def apply(params, x):
        return RELU(params, x / 100)

    found = _layers(_subject(apply, data=(100 * x, y)))
    assert found["scale of the inputs"].mark == "fine"


def test_collapsed_layer():
    start = _draw(SIZES, 2.0)
    w = jnp.outer(jnp.abs(start[1][0][:, 0]), start[1][0][0])
    start[1] = (w * 10, start[1][1])
    found = _layers(_subject(RELU, start))["rank of the layers"]
    assert found.mark == "problem"
    assert "1.0" in found.sentence
    np.testing.assert_allclose(found.value, 1, atol=1e-3)


def test_one_direction_is_enough_for_two_classes_after_training():
    x, _ = _data()
    trained = _draw((16, 32, 32, 2), 2.0)
    trained[1] = (10 * jnp.outer(jnp.abs(trained[1][0][:, 0]), trained[1][0][0]), trained[1][1])
    data = (x, (x[:, 0] > 0).astype(int))
    assert _layers(_subject(RELU, trained, data, initial=None))["rank of the layers"].mark == "fine"
    assert _layers(_subject(RELU, trained, data))["rank of the layers"].mark == "problem"


def test_step_beyond_the_sharpness(healthy):
    longest = healthy["largest stable step"].value
    marks = [_found(_subject(learning_rate=f * longest))["largest stable step"].mark for f in (0.5, 1.3, 6.0, 40.0)]
    assert marks == ["fine", "fine", "look", "problem"]


# --- any subject


def test_without_a_start():
    found = _found(_subject(initial=None))
    for name in ("largest stable step", "condition of the tangent kernel", "steps to fit"):
        assert found[name].mark == "not applicable"
        assert "Neither initial nor init was given" in found[name].sentence
    assert "trained weights" in found["signal by layer"].sentence
    assert found["signal by layer"].premises[0].holds is False
    assert "trained weights" in found["signal by layer"].premises[1].measured


def test_drawn_start_has_an_interval_over_draws():
    params = _draw(SIZES, 0.01)
    found = _layers(_subject(RELU, params, initial=None, init=partial(_draw, SIZES, 2.0)))["signal by layer"]
    low, high = found.interval
    # of the draws, not of the trained weights, whose factor is 0.005
    assert found.mark == "fine"
    assert 0.4 < low < found.value < high < 2.5


def test_part_of_the_data_has_an_interval_that_holds_the_whole():
    subject = _subject(data=_data(512))
    part = _found(subject, Budget("less", examples=64, kernel=8, products=64, work=1e12))
    whole = _found(subject, Budget("more", examples=512, kernel=8, products=512, work=1e12))
    for name in ("signal by layer", "gradient by layer", "scale of the inputs"):
        low, high = part[name].interval
        # at 95 %: twice as wide is beyond chance
        middle, half = part[name].value, high - low
        assert whole[name].exact
        assert abs(whole[name].value - middle) < half
    assert part["largest stable step"].premises[1].holds is False


def test_last_layer_at_zero_is_no_problem():
    start = _draw(SIZES, 2.0)
    start[-1] = (0 * start[-1][0], start[-1][1])
    found = _found(_subject(RELU, start))
    assert found["gradient by layer"].mark == "not applicable"
    assert _worst(found) == "fine"


@pytest.mark.parametrize("sizes", [(16, 32, 4), (16, 32, 32, 4)])
def test_a_head_at_zero_is_not_accused_of_a_vanishing_signal(sizes):
    start = _draw(sizes, 2.0)
    start[-1] = (0 * start[-1][0], start[-1][1])
    found = _layers(_subject(RELU, start))
    assert found["signal by layer"].mark in ("fine", "not applicable")
    assert _worst(found) == "fine"


def test_a_quadratic_loss_makes_a_long_step_certain_to_diverge():
    x, _ = _data()
    start = [(jnp.ones((16, 1)), jnp.zeros(1))]
    longest = _found(_subject(RELU, start, (x, x[:, 0]), "squared"), until=STEP)[STEP].value
    for factor, mark in ((0.9, "fine"), (1.1, "problem")):
        given = _subject(RELU, start, (x, x[:, 0]), "squared", learning_rate=factor * longest)
        assert _found(given, until=STEP)[STEP].mark == mark
    # with a hidden layer it may find a flatter place
    deep = _subject(RELU, _draw((16, 8, 1), 2.0), (x, x[:, 0]), "squared")
    longest = _found(deep, until=STEP)[STEP].value
    assert _found(deep.replaced(learning_rate=6 * longest), until=STEP)[STEP].mark == "look"


def test_answers():
    """The scale of the inputs is a cause and no answer; what is missing is named."""
    x, y = _data()
    answer = trainability.answer(tuple(_found(_subject(data=(100 * x, y), learning_rate=1e-6)).values()))
    assert not answer.startswith("Yes")
    assert not answer.split(":")[1].startswith(" the mean square of the inputs")
    unknown = trainability.answer(tuple(_found(_subject(initial=None)).values()))
    assert unknown.startswith("Cannot tell")
    assert "initial=" in unknown


def test_linear_model_and_single_output():
    x, _ = _data()
    start = [(jnp.ones((16, 1)), jnp.zeros(1))]
    found = _found(_subject(RELU, start, (x, x[:, 0]), "squared"))
    assert found["signal by layer"].mark == "not applicable"
    assert _worst(found) == "fine"
    found = _found(_subject(RELU, _draw((16, 32, 1), 2.0), (x, (x[:, 0] > 0).astype(int))))
    assert _worst(found) == "fine"
    assert "confidence of the softmax" in found


def test_network_without_layers():
    x, _ = _data()

    def apply(params, x):
        return params * x[:, :4]

    found = _found(_subject(apply, jnp.ones(4), (x, x[:, :4] + 1), "squared"))
    assert found["signals of the layers"].mark == "not applicable"
    assert found["largest stable step"].mark == "fine"


def test_fitted_from_the_start_and_a_kernel_of_zero():
    x, _ = _data()
    start = [(jnp.eye(16)[:, :4], jnp.zeros(4))]
    assert _found(_subject(RELU, start, (x, x[:, :4]), "squared"))["steps to fit"].mark == "not applicable"

    def apply(params, x):
        return 0 * RELU(params, x)

    found = _found(_subject(apply, start, (x, x[:, :4]), "squared"))
    assert found["condition of the tangent kernel"].mark == "problem"


def test_convolutional_network_on_images():
    rng = np.random.default_rng(0)
    # smooth images, as natural ones: neighbours agree
    x = np.cumsum(np.cumsum(rng.normal(size=(64, 1, 12, 12)), 2), 3)
    x = ((x - x.mean()) / x.std()).astype(np.float32)
    keys = jax.random.split(KEY, 3)
    start = {
        "a": jax.random.normal(keys[0], (8, 1, 3, 3)) * math.sqrt(2 / 9),
        "b": jax.random.normal(keys[1], (8, 8, 3, 3)) * math.sqrt(2 / 72),
        "c": jax.random.normal(keys[2], (8 * 16, 3)) * math.sqrt(2 / 128),
    }

    def apply(params, x):
        x = jax.nn.relu(jax.lax.conv(x, params["a"], (1, 1), "SAME"))
        x = jax.nn.relu(jax.lax.conv(x, params["b"], (3, 3), "SAME"))
        return x.reshape(x.shape[0], -1) @ params["c"]

    found = _layers(_subject(apply, start, (x, rng.integers(3, size=64))), BUDGETS["quick"])
    assert found["signal by layer"].mark == found["gradient by layer"].mark == "fine"
    assert found["rank of the layers"].mark == found["dead units"].mark == "fine"


def test_attention_block_by_block():
    """Queries a hundred times as large saturate the softmax at the start; a network without attention has none."""
    keys = jax.random.split(KEY, 4)
    x = jax.random.normal(keys[0], (64, 5, 4))
    y = (x[:, 0, 0] > 0).astype(int)

    def attend(params, x):
        for q, v in params[:-1]:
            x = x + jax.nn.softmax(x @ q @ jnp.swapaxes(x, 1, 2)) @ x @ v
        return x.mean(1) @ params[-1]

    def start(scale):
        blocks = [[s * jax.random.normal(k, (4, 4)) / 2, jax.random.normal(k, (4, 4)) / 4]
                  for k, s in zip(keys[1:3], (0.1, scale), strict=True)]  # fmt: skip
        return [*blocks, jax.random.normal(keys[3], (4, 2)) / 2]

    name = _attention.NAME
    for scale, low, high in ((0.1, 0.9, 1.0), (100.0, 0.0, 0.1)):
        subject = made(attend, start(0.1), "cross_entropy", (x, y), initial=start(scale), learning_rate=0.1)
        found = _found(subject, until=name)[name]
        assert low <= found.value <= high
        assert found.interval[0] <= found.value <= found.interval[1]
        assert "; after training by " in found.sentence
    assert found.sentence.startswith("At the start the entropy of the attention is")
    assert "least in block 2 of 2" in found.sentence
    assert found.figure is not None
    # a picture of one block would show two dots
    one = made(attend, start(0.1)[1:], "cross_entropy", (x, y), initial=start(0.1)[1:], learning_rate=0.1)
    assert _found(one, until=name)[name].figure is None
    x, _ = _data()
    assert name not in _layers(_subject(initial=None))


def test_inputs_that_are_all_zero_are_a_problem_whatever_the_network_makes_of_them():
    empty = _inputs.Scale(0.0, np.zeros(5), 1.0, 0)
    for kind in ("given", "trained"):
        found = _inputs.judge_scale(empty, 1.0, SimpleNamespace(kind=kind), 5)
        assert (found.mark, found.headline) == ("problem", "All inputs are zero")
    # the control: of small ones a first layer that scales them, or training, may have made the best
    small = empty._replace(size=1e-9, each=np.full(5, 1e-9))
    assert _inputs.judge_scale(small, 1.0, SimpleNamespace(kind="given"), 5).mark == "fine"
    assert _inputs.judge_scale(small, None, SimpleNamespace(kind="trained"), 5).mark == "look"


def test_what_left_its_start_did_not_lack_steps():
    """A head that was lost is worse than the start; labels that were smoothed are learned at a loss as high as it."""
    rng = np.random.default_rng(0)
    x, teacher = rng.normal(size=(128, 16)).astype(np.float32), rng.normal(size=(16, 4))
    y = (x @ teacher).argmax(1)

    def left(scale, **known):
        end = [(jnp.asarray(scale * teacher, jnp.float32), jnp.zeros(4))]
        begin = [(jnp.asarray(0.01 * rng.normal(size=(16, 4)), jnp.float32), jnp.zeros(4))]
        subject = made(RELU, end, "cross_entropy", (x, y), **({"initial": begin} | known))
        start = start_of(subject, KEY)
        return _first_steps.led_away(subject, start, np.full(128, np.log(4)))

    assert left(1.0)
    assert left(-0.3)
    assert left(0.02)
    assert not left(0.0)
    assert not left(-0.01)
    assert not left(1.0, initial=None)


def test_a_step_far_too_short_for_adam_is_lengthened_by_powers_of_ten():
    """2/λ says nothing of a step that the optimiser scales itself; what promises most among a few is advised."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 8)).astype(np.float32)
    y = (x @ rng.normal(size=(8, 3))).argmax(1)
    start = [(jnp.zeros((8, 3)), jnp.zeros(3))]
    known = dict(initial=start, learning_rate=1e-4, steps=40)
    subject = made(RELU, start, "cross_entropy", (x, y), optimiser=optax.adam(1e-4), **known)
    action = _longer.longer(None, subject, SimpleNamespace(name="steps to fit"))
    assert action.what == f"multiply the step by {short(1000)}"
    assert action.effect.then < 0.5 * action.effect.now
    plain = made(RELU, start, "cross_entropy", (x, y), **known)
    assert _longer.factors(1.0, plain) == [_longer.SAFE / 1e-4]
