"""The whole audit of networks that others designed, read from PyTorch: no section stops."""

import jax
import numpy as np
import pytest
from torch_models import made

from corollary import Network, Subject
from corollary.audit import audit

pytest.importorskip("torch", reason="torch is not installed: pip install 'corollary[zoo]'")
pytestmark = pytest.mark.zoo

N = 16
# images, tokens with a mask, and language models, of which every token has a target
AUDITED = {
    "transformers vit": (2,),
    "transformers bert": (2,),
    "transformers distilbert": (2,),
    "transformers gpt2": (50, 8),
    "transformers llama": (50, 8),
    "transformers mamba": (50, 8),
    "torchvision shufflenet_v2_x0_5": (5,),
}


@pytest.mark.parametrize("name", AUDITED)
@pytest.mark.timeout(1800)
def test_the_whole_audit(name, capsys):
    module, example, output = made(name)
    rng = np.random.default_rng(0)

    def several(a):
        if a.dtype.kind == "f":
            return rng.normal(size=(N, *a.shape)).astype(a.dtype)
        return np.stack([a] * N) if a.max() < 2 else rng.integers(3, 50, size=(N, *a.shape))  # masks stay as they are

    classes, *places = AUDITED[name]
    y = rng.integers(classes, size=(N, *places))
    with jax.enable_x64(False):
        subject = Subject(
            Network.from_torch(module, example, output=output),
            "cross_entropy",
            (jax.tree.map(several, example), y),
            (jax.tree.map(several, example), y),
            learning_rate=0.01,
            batch_size=4,
        )
        report = audit(subject, budget="quick")
    with capsys.disabled():
        found = [len(section.findings) for section in report.sections]
        print(f"\n| {name} | {subject.size:,} | {sum(found)} findings | {report.seconds:.0f} s |")
    assert not [section.failed for section in report.sections if section.failed]
    assert all(found)
