"""A loop of one's own: a run interrupted and taken up again against the same run in one go."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.nets import resumable

KEY = jax.random.key(0)
SGD = optax.sgd(0.1)


@jax.jit
def stretch(x, first):
    """Three steps of a random walk whose steps are functions of the key and of their numbers."""

    def step(x, number):
        x = 0.9 * x + jax.random.normal(jax.random.fold_in(KEY, number), x.shape)
        return x, x[0]

    return jax.lax.scan(step, x, first + jnp.arange(3))


def run(path, **changes):
    arguments = {"data": np.arange(4.0), "optimiser": SGD, "key": KEY, "size": 5} | changes.pop("arguments", {})
    return resumable(
        **{"stretch": stretch, "start": jnp.zeros(2), "steps": 12, "every": 3, "checkpoint": path}
        | changes
        | {"arguments": arguments}
    )


def test_a_run_taken_up_again_ends_with_the_same_bits(tmp_path):
    straight = run(tmp_path / "straight")
    assert straight.values.shape == (4, 3)
    run(tmp_path / "broken", steps=6)
    again = run(tmp_path / "broken")
    np.testing.assert_array_equal(straight.end, again.end)
    np.testing.assert_array_equal(straight.values, again.values)
    x = np.zeros(2)
    for number in range(12):
        x = 0.9 * x + np.asarray(jax.random.normal(jax.random.fold_in(KEY, number), (2,)))
    np.testing.assert_allclose(straight.end, x, rtol=1e-5)


def test_what_is_done_is_not_done_again(tmp_path):
    firsts = []

    def noted(x, first):
        if not isinstance(first, jax.core.Tracer):  # the shapes of what it returns are looked at too
            firsts.append(int(first))
        return stretch(x, first)

    run(tmp_path / "run", stretch=noted, steps=6)
    run(tmp_path / "run", stretch=noted)
    run(tmp_path / "run", stretch=noted)
    assert firsts == [0, 3, 6, 9]


def test_a_file_of_another_run_is_refused_by_name(tmp_path):
    path = tmp_path / "run"
    run(path, steps=3)
    for changes, names in (
        ({"data": np.arange(4.0) + 1e-9}, "data"),
        ({"optimiser": optax.sgd(0.2)}, "optimiser"),
        ({"key": jax.random.key(1)}, "key"),
        ({"size": 6}, r"size \(5, not 6\)"),
        ({"size": None, "key": jax.random.key(1)}, r"key, size \(5, not None\)"),
        ({"more": 1}, r"more \(None, not 1\)"),
    ):
        with pytest.raises(ValueError, match=f"is of a run with another {names}: give the arguments of that run"):
            run(path, arguments=changes)
    assert run(path, arguments={"optimiser": optax.sgd(0.1)}).values.shape == (4, 3)  # the same, written anew


def test_under_other_versions_functions_are_not_compared(tmp_path, monkeypatch):
    run(tmp_path / "run", steps=3)
    monkeypatch.setattr("platform.python_version", lambda: "3.9.1")
    assert run(tmp_path / "run", arguments={"optimiser": optax.sgd(0.2)}).values.shape == (4, 3)
    with pytest.raises(ValueError, match="with another data"):
        run(tmp_path / "run", arguments={"data": np.ones(4)})


def test_sentences(tmp_path):
    (tmp_path / "damaged").write_bytes(b"no checkpoint")
    for changes, sentence in (
        ({"stretch": 3}, "stretch must be a function of progress and a step, got int"),
        ({"every": 5}, "every must divide steps, got 5 and 12"),
        ({"checkpoint": tmp_path / "damaged"}, "is damaged, or no checkpoint of this version"),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence):
            run(tmp_path / "run", **changes)
    with pytest.raises(TypeError, match="arguments must be a mapping from names to values, got int"):
        resumable(stretch, jnp.zeros(2), steps=3, every=3, checkpoint=tmp_path / "run", arguments=3)
    with pytest.raises(TypeError, match="it cannot be kept inside jit or vmap"):
        jax.vmap(lambda x: run(tmp_path / "run", start=x).end)(jnp.zeros((2, 2)))
