"""Every script under examples/ runs, at a small size."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from corollary.data import mnist

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SMALL = {
    "architectures/graphs.py": ["--quick"],
    "architectures/long_memory.py": ["--quick"],
    "architectures/masked_language_model.py": ["--quick"],
    "architectures/mnist_cnn.py": ["--quick"],
    "architectures/mnist_vit.py": ["--quick"],
    "architectures/point_clouds.py": ["--quick"],
    "architectures/shakespeare.py": ["--quick"],
    "architectures/translation.py": ["--quick"],
    "attribution/features.py": ["--steps", "20", "--mistakes", "1", "--background", "2"],
    "attribution/whom_to_blame.py": ["--steps", "20", "--mistakes", "2", "--named", "1"],
    "attribution/mislabelled.py": ["--images", "300", "--wrong", "10", "--width", "8", "--epochs", "1"],
    "differential/mnist_depth.py": ["--quick"],
    "differential/neural_ode.py": ["--iterations", "20", "--width", "8"],
    "differential/neural_sde.py": ["--tiny"],
    "generalization/certificate.py": ["--steps", "30"],
    "generalization/double_descent.py": ["--train", "12", "--most", "48"],
    "generative/judge.py": ["--quick"],
    "generative/mnist_diffusion.py": ["--quick"],
    "generative/mnist_flow.py": ["--quick"],
    "generative/mnist_vae.py": ["--quick"],
    "generative/wgan_mnist.py": ["--quick"],
    "generative/probe.py": ["--quick"],
    "kernels/all_of_mnist.py": ["--train", "300", "--test", "100"],
    "kernels/quickstart.py": ["--width", "32", "--time", "2"],
    "kernels/flax_model.py": ["--images", "4", "--channels", "4"],
    "kernels/large_cnn.py": ["--images", "6", "--width", "4", "--size", "16"],
    "kernels/many_points.py": [],
    "kernels/pooled_convolution.py": ["--images", "8", "--channels", "8"],
    "reinforcement/cart_pole.py": ["--tiny"],
    "language/decoders.py": ["--quick"],
    "language/preferences.py": ["--quick"],
    "language/scaling_law.py": ["--quick"],
    "reinforcement/hill.py": ["--transitions", "600", "--grid", "8", "--fine", "20", "--starts", "-0.4"],
    "reinforcement/stability.py": ["--moves", "12"],
    "robustness/adversarial_mnist.py": ["--quick"],
    "robustness/distance_to_the_boundary.py": ["--examples", "20", "--steps", "30", "--radii", "0", "0.1"],
    "robustness/smoothing.py": ["--steps", "30", "--votes", "50"],
}


def run(name, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_every_example_is_tested():
    assert {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_example_runs(name, monkeypatch, capsys):
    if "flax" in name:
        pytest.importorskip("flax")
    assert run(name, SMALL[name], monkeypatch, capsys).strip()


def test_one_table_of_samplers(monkeypatch, capsys, tmp_path):
    vae, other = str(tmp_path / "vae.npz"), str(tmp_path / "other.npz")
    run("generative/mnist_vae.py", ["--quick", "--out", vae], monkeypatch, capsys)
    digits, labels = mnist("train")
    np.savez(other, x=digits[:60], labels=labels[:60])
    table = run("generative/judge.py", ["--quick", vae, other], monkeypatch, capsys)
    *_, real, of_vae, of_other = (re.split(r"  +", line.strip()) for line in table.splitlines())
    assert [real[0], of_vae[0], of_other[0]] == ["real", "vae", "other"]
    assert re.fullmatch(r"\d+\.\d\d nats, binary", of_vae[1])
    assert of_vae[-1].endswith("% read")
    assert of_other[-1].endswith("%")
    assert of_other[-2].startswith("0 of 40")
    assert abs(float(of_other[1])) < 1e-3  # the real ones
