import jax
import numpy as np
import pytest

from corollary.data import (
    adding_baseline,
    adding_problem,
    book_sequence_table,
    copy_baseline,
    copy_problem,
    plant_series,
)


def test_adding_problem_marks_one_number_in_each_half_and_adds_them():
    x, y = map(np.asarray, adding_problem(2000, 11, key=jax.random.key(0)))
    assert x.shape == (2000, 11, 2)
    assert y.shape == (2000,)
    numbers, marks = x[..., 0], x[..., 1]
    assert (marks[:, :5].sum(1) == 1).all()
    assert (marks[:, 5:].sum(1) == 1).all()
    assert set(np.argmax(marks[:, :5], 1)) == set(range(5))
    assert set(np.argmax(marks[:, 5:], 1)) == set(range(6))
    first, second = np.where(marks)[1].reshape(-1, 2).T
    rows = np.arange(2000)
    np.testing.assert_allclose(y, numbers[rows, first] + numbers[rows, second], rtol=1e-6)
    assert numbers.min() >= 0
    assert numbers.max() <= 1
    # five standard errors of a variance estimated from 2,000 sums of two uniform numbers
    assert abs(np.mean((y - 1) ** 2) - adding_baseline()) < 5 * np.std((y - 1) ** 2) / np.sqrt(2000)


def test_copy_problem_repeats_the_word_after_the_signal():
    x, y = map(np.asarray, copy_problem(500, 7, key=jax.random.key(1), symbols=3, remembered=4))
    assert x.shape == y.shape == (500, 15)
    np.testing.assert_array_equal(y[:, -4:], x[:, :4])
    np.testing.assert_array_equal(y[:, :-4], 0)
    np.testing.assert_array_equal(x[0, 4:], [0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0])
    np.testing.assert_array_equal(x[:, 4:], np.broadcast_to(x[0, 4:], (500, 11)))
    assert set(np.unique(x[:, :4])) == {1, 2, 3}
    # the frequencies of the symbols, and the cross-entropy of guessing among them
    assert np.abs(np.bincount(x[:, :4].ravel())[1:] / 2000 - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 2000)
    assert copy_baseline(7, 3, 4) == pytest.approx(4 * np.log(3) / 15)


def test_table_of_the_book():
    x, y = book_sequence_table()
    rows = [(1.025, -0.041), (0.893, -0.033), (1.068, -0.029), (1.035, -0.026), (1.028, -0.024)]
    np.testing.assert_allclose(np.stack([x, y], 1), rows, rtol=1e-6)


def test_plant_series_follows_its_inputs():
    x, y = map(np.asarray, plant_series(50, key=jax.random.key(2), memory=0.8, noise=0.5, start=0.3))
    z = 0.3
    for t in range(50):
        z = 0.8 * z + 0.2 * (x[t] - 1)
        assert y[t] == pytest.approx(np.tanh(z), abs=1e-6)


def test_bad_arguments():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="length must be at least 2, got 1"):
        adding_problem(3, 1, key=key)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        adding_problem(0, 10, key=key)
    with pytest.raises(TypeError, match="length must be an integer"):
        copy_problem(3, 2.5, key=key)
    with pytest.raises(ValueError, match="symbols must be at least 2, got 1"):
        copy_problem(3, 5, key=key, symbols=1)
    with pytest.raises(ValueError, match="remembered must be at least 1, got 0"):
        copy_baseline(3, remembered=0)
    with pytest.raises(ValueError, match=r"memory must be in \[0, 1\], got 1.5"):
        plant_series(5, key=key, memory=1.5)
    with pytest.raises(ValueError, match="noise must be positive, got 0.0"):
        plant_series(5, key=key, noise=0.0)
