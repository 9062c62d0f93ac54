"""Every test of this room in double precision."""

import jax
import pytest


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield
