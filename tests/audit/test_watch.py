"""Watching a training: it changes nothing, keeps to its share, and says the right sentence."""

import gc
import re
import time
import tracemalloc
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import landscape, nets
from corollary.audit import Subject, SubjectError, Watch, WatchWarning, _looks, _spending, watch
from corollary.audit._history import Recent, Thinned

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).astype(np.float32)
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
NETWORK = nets.MLP((4, 8, 2), nets.relu, key=jax.random.key(0))
DATA, TEST = (X[:80], Y[:80]), (X[80:], Y[80:])


def subject(**known):
    return Subject(NETWORK, "cross_entropy", DATA, TEST, **({"batch_size": 20} | known))


class Clock:
    """Time that passes only when a training says so."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(_spending, "WALL", found)
    monkeypatch.setattr(_spending, "Working", lambda: found)
    return found


@pytest.fixture
def made(clock):
    return watch(subject(), report=None)


@eqx.filter_jit
def update(network, x, y, rate):
    def loss(network):
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(network)(x), y).mean()

    value, slope = eqx.filter_value_and_grad(loss)(network)
    return eqx.apply_updates(network, jax.tree.map(lambda g: -rate * g, slope)), value


def trained(watching, clock, steps, *, rate=lambda step: 0.1, batch=None, seed=0):
    """A loop of one's own; every step takes a second."""
    network, rng = NETWORK, np.random.default_rng(seed)
    for step in range(steps):
        rows = rng.choice(80, 20, replace=False) if batch is None or batch(step) is None else batch(step)
        network, loss = update(network, X[rows], Y[rows], jnp.float32(rate(step)))
        clock.time += 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WatchWarning)
            watching(step, network, loss)
    return network


# --- what it measures


def test_a_healthy_loop_is_measured_and_not_warned(made, clock):
    trained(made, clock, 130)
    assert made.alarms == ()
    wanted = "loss update_size distance_from_start fresh_loss held_out_loss training_loss gradient_norm sharpness"
    wanted += " hessian_trace overshoot curvature_along_step norm inner_product orthogonality early_stopping"
    for name in wanted.split():
        assert type(made.latest[name]) is float, name
        assert np.isfinite(made.course(name)).all()
    assert made.latest["dead units, layers.0.weight"] <= 0.5
    assert made.histograms["histogram"].sum() > 0
    assert made.course("loss").shape == (130, 2)
    assert all(made.taken[kind] > 0 for kind in ("losses", "step", "batch", "held", "units", "everything"))
    assert "step 129" in repr(made)


def test_everything_is_what_it_says_it_is():
    looks = _looks.looks(subject(batch_size=None))
    other = jax.tree.map(lambda a: 0.9 * a, looks.arrays)
    found = jax.device_get(_looks.everything(looks, looks.arrays, other, np.arange(80), jax.random.key(0)))
    hessian = landscape.hessian(NETWORK, "cross_entropy", DATA)
    values = np.linalg.eigvalsh(np.asarray(hessian.dense()))
    np.testing.assert_allclose(found["loss"], hessian.value(), rtol=1e-5)
    gradient = np.concatenate([np.ravel(a) for a in jax.tree.leaves(hessian.gradient())])
    np.testing.assert_allclose(found["gradient_norm"], np.linalg.norm(gradient), rtol=1e-4)
    np.testing.assert_allclose(found["sharpness"], values[-1], rtol=1e-2)
    assert abs(found["hessian_trace"] - values.sum()) < 6 * found["hessian_trace_error"]
    noise = landscape.gradient_noise(NETWORK, "cross_entropy", DATA)
    np.testing.assert_allclose(found["trace"], noise.trace * 80 / 79, rtol=1e-4)
    step = np.concatenate([0.1 * np.ravel(a) for a in jax.tree.leaves(looks.arrays)])
    np.testing.assert_allclose(found["update_size"], np.linalg.norm(step), rtol=1e-4)
    # between two points of a smooth loss the mean curvature lies between the least and the largest nearby
    assert values[0] - 0.5 < found["curvature_along_step"] < values[-1] + 0.5
    assert found["histogram"].sum() == found["histogram_by_parameter"].sum() == 80 * hessian.size


def test_the_size_of_a_step_in_a_large_network_is_estimated_from_some_of_its_parameters():
    big = [RNG.normal(size=(400, 300)), RNG.normal(size=300)]
    other = [a + 0.01 * RNG.normal(size=a.shape) for a in big]
    apart = np.linalg.norm(np.concatenate([(a - b).ravel() for a, b in zip(big, other, strict=True)]))
    sampled = _looks.spread(big, np.concatenate) - _looks.spread(other, np.concatenate)
    assert len(sampled) < 10_000
    assert abs(np.linalg.norm(sampled) / apart - 1) < 0.03


# --- it changes nothing


def test_fit_ends_with_the_same_bits(clock):
    options = dict(steps=90, batch_size=20, key=jax.random.key(1), progress=False, every=40)
    plain = nets.fit(NETWORK, "cross_entropy", DATA, optax.adam(0.01), **options)
    watching = watch(subject(), report=None)
    pause = watching.pause

    def later(step):  # every step takes a second here too
        clock.time += pause(step)
        return pause(step)

    watching.pause = later
    watched = nets.fit(NETWORK, "cross_entropy", DATA, optax.adam(0.01), watch=watching, **options)
    assert np.array_equal(plain.losses, watched.losses)
    for a, b in zip(*(jax.tree.leaves(eqx.filter(t.network, eqx.is_array)) for t in (plain, watched)), strict=True):
        assert np.array_equal(a, b)
    assert watching.taken["losses"] == 90
    np.testing.assert_allclose(watching.course("loss")[:, 1], plain.losses)
    assert watching.taken["step"] > 5


def test_fit_refuses_what_is_no_watch():
    with pytest.raises(TypeError, match="watch must be a corollary.audit.watch"):
        nets.fit(NETWORK, "cross_entropy", DATA, optax.sgd(0.1), steps=1, progress=False, watch=3)


# --- what it takes


def test_the_share_is_kept_whatever_a_look_takes(clock):
    spending = _spending.Spending(0.05, {"a": 0.5, "b": 0.5}, {"a": 1, "b": 1}, clock)

    def look(seconds):
        clock.time += seconds

    for kind, seconds in (("a", 0.3), ("b", 7.0)):
        spending.expect(kind, lambda s=seconds: look(s))
    rng = np.random.default_rng(0)
    for step in range(5000):
        clock.time += 1.0
        spending.arrive(step)
        for kind, seconds in (("a", 0.3), ("b", 7.0)):
            if spending.due(kind, step):
                spending.spend(kind, step, lambda s=seconds: look(s * rng.uniform(0.5, 2)))
        spending.leave()
    assert 0.045 < spending.share_spent < 0.052
    assert spending.taken["a"] > 100
    assert spending.taken["b"] > 10


def test_time_that_other_programs_take_is_nobody_s():
    now = _spending.Working()
    began, wall = now(), time.perf_counter()
    time.sleep(0.2)
    assert now() - began < 0.1
    sum(i * i for i in range(300_000))
    assert 0 < now() - began <= time.perf_counter() - wall


def test_waiting_for_the_device_is_the_training_s_time(clock):
    spending = _spending.Spending(0.5, {"a": 1.0}, {"a": 1}, clock)
    spending.arrive(0)
    clock.time += 1.0
    spending.leave()
    spending.arrive(1)
    spending.wait(lambda: setattr(clock, "time", clock.time + 9.0))
    spending.leave()
    assert spending.watching == 1.0


def test_memory_is_bounded(made, clock):
    for step in range(3000):
        clock.time += 1e-3  # too little for most looks
        made(step, NETWORK, 0.5 + 0.1 * RNG.random())
    assert len(made._pending) < 64
    assert len(made.course("loss")) <= 512
    kept = made._alarms
    assert max(len(kept._losses.last()), len(kept._sizes.last())) <= 16 * 41


def test_nothing_is_kept_of_the_looks(made, clock):
    """The arrays that live, and what Python holds, after many looks of every kind, are those of a few."""

    def held():
        gc.collect()
        return len(jax.live_arrays()), tracemalloc.get_traced_memory()[0]

    def on(first, last):
        for step in range(first, last):
            clock.time += 100.0  # enough for every look
            network, _ = update(NETWORK, X[:20], Y[:20], jnp.float32(0))
            made(step, network, 1.0 + 0.1 * RNG.normal())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WatchWarning)
        on(0, 1000)
        tracemalloc.start()
        try:
            on(1000, 1100)
            before = held()
            on(1100, 1700)
            after = held()
        finally:
            tracemalloc.stop()
    assert min(made.taken[kind] for kind in ("losses", "step", "batch", "held", "units", "everything")) >= 10
    assert after[0] <= before[0]
    assert after[1] - before[1] < 50_000  # 83 bytes a step


def test_looks_that_take_long_are_not_crowded_out(clock):
    """Losses are read whatever they take, and short looks would fill what is left of the share."""
    parts = {"losses": 0.1, "short": 0.5, "long": 0.4}
    spending = _spending.Spending(0.05, parts, dict.fromkeys(parts, 1), clock)
    took = {"losses": 2e-4, "short": 5e-4, "long": 5e-3}

    def look(kind):
        clock.time += took[kind]

    for kind in parts:
        spending.expect(kind, lambda kind=kind: look(kind))
    for step in range(4000):
        clock.time += 5e-3
        spending.arrive(step)
        if step % 2:
            spending.spend("losses", step, lambda: look("losses"))
        for kind in ("short", "long"):
            if spending.due(kind, step):
                spending.spend(kind, step, lambda kind=kind: look(kind))
        spending.leave()
    assert spending.share_spent == pytest.approx(0.05, rel=0.05)
    # of the 5 % the losses take 2, and the rest is divided as the parts say
    assert spending.used["long"] / spending.used["short"] == pytest.approx(0.8, rel=0.1)


def test_what_a_look_costs_the_next_step_is_paid_too(clock):
    """Every look makes the step after it longer; beside the same loop without looks the share is kept."""
    spending, rng = _spending.Spending(0.05, {"a": 1.0}, {"a": 1}, clock), np.random.default_rng(0)
    plain = looks = 0
    for step in range(4000):
        took = rng.uniform(0.9, 1.1)
        plain += took
        clock.time += took + (0.4 if spending._looked else 0.0)
        spending.arrive(step)
        if spending.due("a", step):
            looks += 1
            spending.spend("a", step, lambda: setattr(clock, "time", clock.time + 0.1))
        spending.leave()
    assert looks > 100
    assert 0.045 < clock.time / plain - 1 < 0.055
    assert spending._after.seconds == pytest.approx(0.4, abs=0.03)
    assert spending.share_spent == pytest.approx(0.05, abs=0.005)


def test_a_compiled_loop_is_stopped_as_often_as_the_share_pays(clock):
    """A stop costs as much as a third of a step, whether there is something to look at or not."""
    parts = {"losses": 0.1, "a": 0.9}
    spending, rng = _spending.Spending(0.05, parts, dict.fromkeys(parts, 1), clock), np.random.default_rng(0)
    plain = step = stops = 0
    while step < 20_000:
        steps = spending.steps_until_due(step, ("a",) if 10_000 < step < 10_200 else ())
        step, stops = step + steps, stops + 1
        took = rng.uniform(0.95, 1.05) * steps
        plain += took
        clock.time += took + 0.3
        spending.arrive(step - 1)
        for kind in parts:
            if spending.due(kind, step):
                spending.spend(kind, step, lambda kind=kind: setattr(clock, "time", clock.time + 0.01))
        spending.leave(stopped=True)
    assert 500 < stops < 5000
    assert 0.04 < clock.time / plain - 1 < 0.06


def test_what_a_stop_costs_stands_out_of_steps_of_uneven_speed():
    """Long stretches vary by more than a stop costs; short ones show it."""
    found = []
    for seed in range(20):
        after, rng, speed = _spending.Afterwards(), np.random.default_rng(seed), 1.0
        for i in range(200):
            steps = (1, 8)[i % 2] if i < 16 else int(rng.integers(1, 6))
            speed = 0.9 * speed + 0.1 + rng.normal(0, 0.03)
            after.saw(True, steps, 1.6 + 20 * steps * speed)
        found.append(after.seconds)
    assert 1.1 < np.mean(found) < 1.8
    assert np.std(found) < 0.5
    assert _spending.Afterwards().seconds == 0


def test_a_visit_without_steps_says_nothing():
    after = _spending.Afterwards()
    after.saw(True, 0, 5.0)
    assert after._seen == 0


def test_without_room_nothing_is_due(clock):
    """Where the share is spent, what its own part could pay for does not hold up every step."""
    spending = _spending.Spending(0.05, {"a": 1.0}, {"a": 1}, clock)
    spending.arrive(0)
    clock.time += 100.0  # a look that was held up
    spending.leave()
    assert spending._paid["a"] + spending.expected("a") / 0.05 < 10
    for step in range(1, 1000):
        clock.time += 1.0
        assert spending.nothing_due(step), step
    clock.time += 1000.0
    assert not spending.nothing_due(1001)


def test_urgent_looks_come_earlier_but_not_without_room(clock):
    def first(urgent):
        clock.time = 0.0
        spending = _spending.Spending(0.05, {"a": 1.0}, {"a": 50}, clock)
        spending.arrive(0)
        spending.spend("a", 0, lambda: setattr(clock, "time", clock.time + 1.0))
        spending.leave(urgent=urgent)
        for step in range(1, 100):
            clock.time += 1.0
            if not spending.nothing_due(step):
                spending.arrive(step)
                assert spending.urgently("a") if urgent else spending.due("a", step)
                return step
        return None

    assert 10 < first({"a"}) < 25 < 50 <= first(())


def test_a_kind_rests_between_two_looks(clock):
    spending = _spending.Spending(0.5, {"a": 1.0}, {"a": 1}, clock, {"a": 7.0})
    seen = []
    for step in range(50):
        clock.time += 1.0
        spending.arrive(step)
        if spending.due("a", step):
            spending.spend("a", step, lambda step=step: seen.append(step))
        spending.leave()
    assert np.diff(seen).tolist() == [7] * (len(seen) - 1)


def test_a_try_that_was_held_up_does_not_count(clock):
    spending = _spending.Spending(0.5, {"a": 1.0, "b": 1.0}, {"a": 1, "b": 1}, clock)
    for kind, seconds in (("a", iter([0.02, 0.02, 0.03, 0.001] + 99 * [0.01])), ("b", iter([5.0]))):
        spending.expect(kind, lambda seconds=seconds: setattr(clock, "time", clock.time + next(seconds)))
    assert spending.expected("a") == pytest.approx(0.001)
    assert spending.expected("b") == pytest.approx(5.0)  # what takes long is not tried again and again


def test_where_the_share_is_spent_only_losses_are_read(made, clock):
    visits, arrive = [], made._time.arrive
    made(0, NETWORK, 0.5)
    clock.time += 10.0
    made._time._watching = 1.0  # twice the share
    made._time.arrive = lambda step: visits.append(step) or arrive(step)
    for step in range(1, 2000):
        clock.time += 1e-3
        made(step, NETWORK, 0.5 + 0.1 * RNG.random())
    assert len(visits) <= 2000 // 16 + 1
    assert made.taken["losses"] >= 1984


def test_a_course_keeps_means_of_equally_many_in_bounded_room():
    course = Thinned(8)
    for step in range(100):
        course.add(step, float(step))
    points = course.points
    assert 4 <= len(points) <= 8
    widths = np.diff(points[:, 1])
    np.testing.assert_allclose(widths, widths[0])
    course.add(100, np.nan)  # is no number to be drawn
    np.testing.assert_array_equal(course.points, points)


def test_recent_numbers():
    recent = Recent(3)
    recent.add(np.array([1.0]))
    assert recent.last().tolist() == [1]
    recent.add(np.arange(2.0, 9))
    assert recent.last().tolist() == [6, 7, 8]
    assert recent.last(2).tolist() == [7, 8]
    assert recent.total == 8


# --- what goes wrong


def test_a_step_that_grows_is_named(made, clock):
    trained(made, clock, 160, rate=lambda step: 0.02 if step < 140 else 0.6)
    named = [a for a in made.alarms if a.name == "step"]
    assert named
    assert 140 <= named[0].step <= 160
    assert re.match(r"Step 1\d\d: the step grew \d+(\.\d)?-fold at once, and the loss", named[0].sentence)


def test_a_batch_that_repeats_is_named(made, clock):
    trained(made, clock, 200, batch=lambda step: np.arange(20) if step >= 150 else None)
    assert [a.name for a in made.alarms] == ["batch"]
    assert 150 <= made.alarms[0].step <= 200
    assert "look like one and the same" in made.alarms[0].sentence


def test_a_network_of_another_kind_is_refused_in_one_sentence(made, clock):
    other = nets.MLP((4, 9, 2), nets.relu, key=jax.random.key(0))
    clock.time += 1.0
    made(0, NETWORK, 0.5)
    clock.time += 100.0
    with pytest.raises(ValueError, match=r"network.*must have shape \(8, 4\) as in the network, got \(9, 4\)"):
        made(1, other, 0.5)


def test_wrong_arguments_are_one_sentence(tmp_path):
    with pytest.raises(TypeError, match="subject must be a Subject, got int"):
        watch(3)
    with pytest.raises(SubjectError, match="share must be"):
        watch(subject(), 1.5)
    with pytest.raises(SubjectError, match="there is no folder"):
        watch(subject(), report=tmp_path / "none" / "watch.html")


def test_a_course_that_is_not_there_is_one_sentence(made):
    with pytest.raises(SubjectError, match="no course of 'nothing' yet"):
        made.course("nothing")


# --- the page


def test_the_page_is_one_file_without_scripts_that_is_replaced(tmp_path, clock):
    path = tmp_path / "watch.html"
    watching = watch(subject(), report=path)
    before = path.read_text()
    for step in range(60):
        clock.time += 1.0
        watching(step, NETWORK, 0.5)
    clock.time += 1.0
    with pytest.warns(WatchWarning, match="the loss is not finite"):
        watching(60, NETWORK, np.nan)
    watching.save()
    after = path.read_text()
    assert after != before
    assert [p.name for p in tmp_path.iterdir()] == ["watch.html"]
    assert "<script" not in after
    assert "http-equiv='refresh'" in after
    assert "Step 60: the loss is not finite" in after
    assert not re.search(r"(src|href)=['\"]?http", after)
    assert "Largest eigenvalue of the Hessian" in after


def test_without_held_out_data_and_batches_the_rest_is_looked_at(clock):
    watching = Watch(Subject(NETWORK, "cross_entropy", DATA), report=None)
    assert "held" not in watching.taken
    assert watching._alarms.batch_size is None
    watching.save()
