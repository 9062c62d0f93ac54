"""Certificates of the audit are trained for a few steps only: how good they are is for the room's own tests."""

import pytest

from corollary.audit.sections import _certificates


@pytest.fixture(scope="session", autouse=True)
def short_certificates():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_certificates, "STEPS", {"quick": 60})
        yield
