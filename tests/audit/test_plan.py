"""Large networks: sections take fewer examples, products and outputs, and say so."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit import _data, _plan, audit
from corollary.audit._budget import BUDGETS, SECTIONS, Budget
from corollary.audit._cost import cost
from corollary.audit.report import html

RNG = np.random.default_rng(0)
N, D, K = 64, 6, 10
X, Y = RNG.normal(size=(N, D)).astype(np.float32), RNG.integers(0, K, N)
NETWORK = eqx.nn.MLP(D, K, 8, 1, key=jax.random.key(0))
START = eqx.nn.MLP(D, K, 8, 1, key=jax.random.key(1))


def subject():
    return Subject(NETWORK, "cross_entropy", (X, Y), (X, Y), initial=START, learning_rate=0.1, batch_size=8)


def test_operations_are_counted_as_often_as_they_run():
    x = jnp.ones((3, 5))
    once = cost(Network(lambda w, x: w @ x, jnp.ones((4, 5))), x)
    assert once == (2 * 4 * 5, 4, 1)
    looped = Network(lambda w, x: jax.lax.scan(lambda h, _: (w @ h, None), x, length=7)[0], jnp.ones((5, 5)))
    assert cost(looped, x).operations == 7 * 2 * 5 * 5
    assert cost(looped, x).steps == 1  # what is compiled

    def convolved(w, x):
        return jax.lax.conv_general_dilated(x[None], w, (1, 1), "VALID")[0]

    image = jnp.ones((3, 2, 8, 8))
    # 4 channels of 6 by 6 places, each a sum over 2 channels of 3 by 3
    found = cost(Network(convolved, jnp.ones((4, 2, 3, 3))), image)
    assert found.operations == pytest.approx(2 * (4 * 6 * 6) * (2 * 3 * 3), rel=0.2)


def test_a_plan_of_a_small_network_is_the_whole_budget():
    plan = _plan.curvature(subject(), BUDGETS["quick"], jax.random.key(0))
    assert (plan.products, plan.basis, plan.batch_size, plan.steps, plan.probes) == (120, None, 1024, 48, 24)
    assert plan.method == "hutch++"
    assert len(plan.data[1]) == N
    assert _plan.kernel(subject(), BUDGETS["quick"], jax.random.key(0)) == (256, None)


def test_less_work_means_fewer_products_then_fewer_examples_then_fewer_outputs():
    one = subject()
    forward = _plan.forward(one)
    less = Budget("less", examples=2048, kernel=256, products=120, work=6 * forward * 64 * 40)
    plan = _plan.curvature(one, less, jax.random.key(0))
    assert (plan.products, len(plan.data[1])) == (40, 64)
    least = Budget("least", examples=2048, kernel=256, products=120, work=1.0, memory=8 * one.size)
    plan = _plan.curvature(one, least, jax.random.key(0))
    assert (plan.products, len(plan.data[1]), plan.basis, plan.method) == (12, 2, 6, "hutchinson")
    patient = Budget("patient", examples=2048, kernel=256, products=120, work=6 * forward * 8 * 12 / 4)
    assert len(_plan.curvature(one, patient, jax.random.key(0)).data[1]) == 8
    examples, outputs = _plan.kernel(one, least, jax.random.key(0))
    assert (examples, len(outputs)) == (8, 1)
    kernels = 1 if one.test is None else 2
    kernels *= 1 if one.initial_params is None else 2
    some = Budget("some", examples=2048, kernel=256, products=120, work=kernels * 3 * forward * 16 * 4)
    assert len(_plan.kernel(one, some, jax.random.key(0))[1]) == 4


def test_an_audit_with_next_to_nothing_says_what_it_looked_at(monkeypatch):
    one = subject()
    monkeypatch.setitem(BUDGETS, "quick", Budget("quick", 2048, 256, 120, work=1.0, memory=8 * one.size))
    report = audit(one)
    assert [s.failed for s in report.sections] == [None] * len(SECTIONS)
    found = {f.name: f for f in report.findings}
    said = {name: " ".join(p.measured for p in f.premises) for name, f in found.items()}
    assert "8 of 64" in said["signal by layer"]
    assert "2 of 64 examples" in said["sharpness against 2/η"]
    assert "16 of 64 examples" in said["noise scale"]
    assert "8 of 64 examples, 1 of 10 outputs" in said["regime"]
    assert "mean over 1 of 10 outputs" in said["condition of the tangent kernel"]
    assert "taken of 1 of 10 outputs" in found["regression with the final kernel"].sentence
    assert "4 steps" in said["flat directions"]
    assert found["trace of the Hessian"].interval[0] < found["trace of the Hessian"].interval[1]


def test_of_a_long_program_what_would_take_many_minutes_to_compile_is_left_out(monkeypatch):
    one = subject()
    least = Budget("quick", 2048, 256, 120, work=1.0, memory=8 * one.size, steps=one.cost.steps)
    assert _plan.too_long(one, least) is None
    monkeypatch.setitem(BUDGETS, "quick", replace(least, steps=one.cost.steps - 1))
    report = audit(one)
    assert [s.failed for s in report.sections] == [None] * len(SECTIONS)
    left = {f.name for f in report.findings if f"a program of {one.cost.steps} steps" in f.sentence}
    first = {"signals of the layers", "largest stable step", "condition of the tangent kernel", "steps to fit"}
    then = {
        "regime",
        "slope and curvature",
        "noise scale",
        "bounds, norms and shuffled labels",
        "accuracy under attack",
    }
    last = {"attributions of the worst mistakes", "most harmful training example", "how far influence can be believed"}
    assert left == first | then | last | {"labels most likely wrong", "chance to halve the loss of a blind guess"}
    measured = {f.name for f in report.findings if f.value is not None}
    assert measured >= {"scale of the inputs", "confidence of the softmax", "distance travelled", "median margin"}
    assert all("--budget full" in f.sentence for f in report.findings if f.name in left)
    assert report.subject["left_out"].startswith("Left out, and measured with --budget full: signals of the layers, ")
    assert report.subject["left_out"] in html(report)
    assert _plan.too_long(one, BUDGETS["full"]) is None


def test_data_that_would_take_too_long_are_sampled(monkeypatch):
    monkeypatch.setattr(_data, "OUTPUTS", 20 * K)
    part = subject()
    assert (part.count(), len(part.labels()), len(part.outputs())) == (N, 20, 20)
    assert part.notes[0] == (
        "of 64 training examples 20, drawn at random, were looked at: all of them would take too long or too much "
        "memory."
    )
    monkeypatch.setattr(_data, "WORK", 1.0)
    assert len(subject().labels()) == 8
