"""A watch over PyTorch: the module ends with the same bits, the hooks of Lightning and skorch are there."""

import numpy as np
import pytest

from corollary.audit import SubjectError, _spending

torch = pytest.importorskip("torch")

from corollary.torch import Watch  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)


class Clock:
    time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(_spending, "Working", lambda: found)
    return found


def module():
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Dropout(0.1)
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, 2))


def watched(model, **options):
    data = (torch.tensor(X[:60]), torch.tensor(Y[:60])), (X[60:], Y[60:])
    return Watch(model, "cross_entropy", *data, batch_size=15, report=None, **options)


def train(model, after, steps):
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    for step in range(steps):
        rows = torch.randint(0, 60, (15,))
        loss = torch.nn.functional.cross_entropy(model(torch.tensor(X)[rows]), torch.tensor(Y)[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        after(step, loss)


@pytest.fixture
def followed(clock):
    """A module that was trained, and the watch that followed it."""
    model = module()
    watching = watched(model)

    def after(step, loss):
        clock.time += 1.0
        watching(step, loss)

    train(model, after, 70)
    return model, watching


def test_a_loop_ends_with_the_same_bits_and_everything_is_measured(followed):
    model, watching = followed
    plain = module()
    train(plain, lambda step, loss: None, 70)
    for a, b in zip(plain.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert model.training
    assert watching.alarms == ()
    assert watching.taken["losses"] == 70
    for name in ("update_size", "held_out_loss", "fresh_loss", "sharpness", "gradient_norm", "dead units, 0.weight"):
        assert type(watching.latest[name]) is float, name


def test_what_is_looked_at_are_the_weights_and_statistics_of_now(followed):
    model, watching = followed
    watching._held(70, watching._copied())
    rows = watching._fixed["test"]
    with torch.no_grad():
        model.eval()
        ours = torch.nn.functional.cross_entropy(model(torch.tensor(X[60:])[rows]), torch.tensor(Y[60:])[rows])
    np.testing.assert_allclose(watching.latest["held_out_loss"], float(ours), rtol=1e-4)


def test_a_module_that_changed_is_one_sentence(followed, clock):
    model, watching = followed
    model[4] = torch.nn.Linear(8, 3)
    clock.time += 100.0
    with pytest.raises(SubjectError, match=r"the module has changed: 4.bias had the shape \(2,\) .* has \(3,\) now"):
        watching(80, 0.5)
    del model[4]
    clock.time += 100.0
    with pytest.raises(SubjectError, match="the module has changed: it no longer has 4"):
        watching(90, 0.5)


def test_the_hooks_of_lightning_and_skorch(followed, clock):
    _, watching = followed
    clock.time += 100.0
    watching.setup(None, None, stage="fit")
    watching.on_fit_start(None, None)
    watching.on_train_batch_end(None, None, {"loss": torch.tensor(0.25)}, None, 0)
    watching.on_train_batch_end(None, None, None, None, 1)  # a step that was skipped has no loss
    clock.time += 100.0
    watching.on_batch_end(type("Net", (), {"module_": watching.module}), batch=None, training=True, loss=0.5)
    watching.on_batch_end(None, training=False, loss=9.0)
    watching.on_epoch_end(None, dataset_train=None)
    watching.on_train_end(None, X=None, y=None)
    assert watching.course("loss")[-2:].tolist() == [[70, 0.25], [71, 0.5]]
    assert watching.initialize() is watching
    assert watching.set_params() is watching
    assert watching.get_params() == watching.state_dict() == {}
    watching.load_state_dict({})
    assert watching.state_key == "Watch"
    with pytest.raises(AttributeError, match="no attribute 'unknown'"):
        _ = watching.unknown


def test_what_is_no_module_is_one_sentence():
    with pytest.raises(SubjectError, match="module must be a torch.nn.Module, got int"):
        Watch(3, "cross_entropy", (X, Y), report=None)
