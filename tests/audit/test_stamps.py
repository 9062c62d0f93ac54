"""A mark in the images of one class, and images that have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject, data
from corollary.audit.sections import _stamps

PIXELS, LABELS = (np.asarray(a) for a in data.digits())
PIXELS = PIXELS.reshape(-1, 8, 8)[:600].astype(np.float32)
LABELS = LABELS[:600]
LINEAR = Network(lambda w, x: x.reshape(-1) @ w, jnp.zeros((64, 10)))


def subject(x, y=LABELS):
    return Subject(LINEAR, "cross_entropy", (x[:400], y[:400]), (x[400:], y[400:]), initial=LINEAR)


def stamped(label=7, missing=0, value=None):
    x = PIXELS.copy()
    rows = np.flatnonzero(label == LABELS)[missing:]
    x[rows, 6:, :2] = PIXELS.max() if value is None else value
    return x


def test_images_without_a_mark():
    assert _stamps.judge(_stamps.measure(subject(PIXELS))).mark == "fine"
    # a mark that a half lacks, or that all classes have, is none
    half = stamped(missing=np.sum(LABELS == 7) // 2)
    assert _stamps.judge(_stamps.measure(subject(half))).mark == "fine"
    every = PIXELS.copy()
    every[:, 0, 0] = 1.0
    assert _stamps.judge(_stamps.measure(subject(every))).mark == "fine"


def test_a_mark_is_named_and_covered():
    sick = subject(stamped())
    found = _stamps.measure(sick)
    assert (found.label, found.places) == (7, ((6, 0), (6, 1), (7, 0), (7, 1)))
    finding = _stamps.judge(found)
    assert finding.mark == "look"
    assert "images of class 7 have the very value" in finding.sentence
    assert "(6, 0), (6, 1), (7, 0) and 1 more places" in finding.sentence
    treated = _stamps.covered(sick, found.places)
    assert _stamps.judge(_stamps.measure(treated)).mark == "fine"
    assert np.asarray(treated.test[0])[:, 6:, :2].std(0) == pytest.approx(0, abs=1e-6)
    assert _stamps.cover(sick, finding).apply(sick, key=jax.random.key(0)).error("train") < 0.5


def test_tables_and_inputs_of_two_values_are_not_asked():
    table = Network(lambda w, x: x @ w, jnp.zeros((64, 10)))
    flat = Subject(table, "cross_entropy", (stamped().reshape(-1, 64), LABELS))
    assert _stamps.measure(flat) is None
    assert _stamps.measure(subject((stamped() > 0.5).astype(np.float32))) is None
