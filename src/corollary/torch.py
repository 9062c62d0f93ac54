"""A watch over a training in PyTorch: a line in a loop, a callback of Lightning, a callback of skorch.

    watching = Watch(module, "cross_entropy", (x, y), (x_test, y_test), batch_size=64)
    for step, batch in enumerate(batches):
        loss = train_step(module, batch)
        watching(step, loss)

    lightning.Trainer(callbacks=[watching])
    skorch.NeuralNetClassifier(module, callbacks=[("watch", watching)])

The module is read once, as `Network.from_torch` does, in its `eval` mode; afterwards its weights and buffers are copied
when there is something to look at. Neither Lightning nor skorch needs to be installed: the hooks have their names.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from corollary._types import LossLike
from corollary._validate import whole
from corollary.audit import Subject, SubjectError, _looks, _spending
from corollary.audit._errors import sentences
from corollary.audit.watch import Watch as _Watch
from corollary.network import Network

__all__ = ["Watch"]


class Watch(_Watch):
    """`corollary.audit.Watch` of a PyTorch module in training; `loss`, `train` and `test` are those of a `Subject`.

    `train` and `test` are arrays or tensors, as many of the examples as fit in memory. The training is not changed: not
    its random numbers either. Further keywords, such as `batch_size=` and `learning_rate=`, are those of `Subject`.
    """

    def __init__(
        self,
        module: Any,
        loss: LossLike,
        train: tuple,
        test: tuple | None = None,
        share: float = 0.05,
        *,
        report: str | PathLike | None = "watch.html",
        **known: Any,
    ):
        try:
            import torch
        except ImportError:
            raise ValueError("PyTorch modules need torch: pip install 'corollary[torch]'.") from None
        train, test = _arrays(train), None if test is None else _arrays(test)
        example = _first(train[0])
        with sentences(), torch.random.fork_rng(devices=[]):
            network = Network.from_torch(module, example)
        self.module, self._seen, self._network, self._torch = module, 0, network, torch
        super().__init__(Subject(network, loss, train, test, **known), share, report=report)

    def __call__(self, step: int, loss: Any) -> None:
        """After a step of the optimiser: its number, and the loss that it saw."""
        self._pending.append((whole("step", step, 0), _number(loss)))
        self._seen = step + 1
        self._observe(step, self._copied)

    def _copied(self):
        """The arrays of the network with the module's weights as they are now."""
        held = dict(self.module.named_parameters(remove_duplicate=False)) | dict(self.module.named_buffers())
        network = self._network
        params = {name: _as_now(held, name, a) for name, a in network.params.items()}
        # what is no buffer of the module is a constant of its program
        buffers = network.buffers and {
            name: _as_now(held, name, a) if name in held else a for name, a in network.buffers.items()
        }
        tree = jax.tree.structure(self._looks.arrays)
        return tree.unflatten(jax.tree.leaves((params, buffers)))

    def _sampled(self, arrays: Callable) -> np.ndarray:
        """Entries of the module's own parameters: to see the size of a step nothing else has to be copied."""
        held = dict(self.module.named_parameters(remove_duplicate=False))
        own = [_kept(held, name, a).detach() for name, a in self._network.params.items()]
        return _numpy(_looks.spread(own, self._torch.cat)).copy()

    def _clock(self) -> Callable[[], float]:
        on_host = all(p.device.type == "cpu" for p in self.module.parameters())
        return super()._clock() if on_host else _spending.WALL

    # --- Lightning

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Lightning calls this after every batch; `outputs` is what `training_step` returned."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self(self._seen, loss)

    def on_train_end(self, trainer: Any = None, pl_module: Any = None, **ignored: Any) -> None:
        """The last page; Lightning gives trainer and module, skorch the net."""
        self.save()

    @property
    def state_key(self) -> str:
        """Under which Lightning keeps what a callback wants to be kept: nothing."""
        return type(self).__qualname__

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state_dict: dict) -> None:
        pass

    # --- skorch

    def initialize(self) -> Watch:
        return self

    def get_params(self, deep: bool = True) -> dict:
        return {}

    def set_params(self, **params: Any) -> Watch:
        return self

    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool = True, loss: Any = None, **ignored: Any
    ) -> None:
        """Skorch calls this after every batch, of the training and of the validation."""
        if training and loss is not None:
            self.module = getattr(net, "module_", self.module)
            self(self._seen, loss)

    def __getattr__(self, name: str) -> Any:
        # the other hooks of both, and what they ask a callback for
        if name.startswith(("on_", "setup", "teardown")):
            return _nothing
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _nothing(*args: Any, **kwargs: Any) -> None:
    """A hook in which nothing is done."""


def _kept(held: dict, name: str, read) -> Any:
    """A tensor of the module, which must be the one that was read."""
    if name not in held:
        raise SubjectError(f"the module has changed: it no longer has {name}. Make a new Watch.")
    if tuple(held[name].shape) != read.shape:
        raise SubjectError(
            f"the module has changed: {name} had the shape {read.shape} when it was read, and has "
            f"{tuple(held[name].shape)} now. Make a new Watch."
        )
    return held[name]


def _as_now(held: dict, name: str, read) -> Any:
    """A weight of the module as it is now, copied: the module goes on to change its own in place."""
    return jnp.asarray(_numpy(_kept(held, name, read)).copy(), read.dtype)


def _numpy(value: Any) -> np.ndarray:
    """A tensor as an array, in numbers that NumPy has."""
    if not hasattr(value, "detach"):
        return np.asarray(value)
    tensor = value.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy()


def _arrays(data: Any) -> Any:
    """The same with tensors as arrays."""
    if isinstance(data, tuple | list):
        return tuple(_arrays(part) for part in data)
    return {name: _arrays(part) for name, part in data.items()} if isinstance(data, dict) else _numpy(data)


def _first(x: PyTree) -> PyTree:
    return jax.tree.map(lambda a: a[0], x)


class _Later:
    """The loss of a step as a tensor, read when it is needed: reading it at once would wait for the device."""

    def __init__(self, tensor: Any):
        self._tensor = tensor.detach().clone()

    def __float__(self) -> float:
        return float(self._tensor)


def _number(loss: Any) -> Any:
    return _Later(loss) if hasattr(loss, "detach") else loss
