"""Fourier transforms, windows and the mel scale. Complex numbers are a last axis of two."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from corollary.onnx._table import affordable, integers, operator, static


def _complex(x):
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _pairs(z):
    return jnp.stack([z.real, z.imag], -1)


@operator("DFT")
def dft_by_attribute(node, x, length=None):
    return _dft(node, x, length, node["axis"])


@operator("DFT", since=20)
def dft(node, x, length=None, axis=None):
    return _dft(node, x, length, -2 if axis is None else integers(axis, "the axis of DFT")[0])


def _dft(node, x, length, axis):
    axis = axis % x.ndim
    n = None if length is None else integers(length, "the length of DFT")[0]
    z = _complex(jnp.asarray(x))
    if not node["onesided"]:
        return _pairs((jnp.fft.ifft if node["inverse"] else jnp.fft.fft)(z, n, axis)).astype(x.dtype)
    if node["inverse"]:
        return jnp.fft.irfft(z, n, axis)[..., None].astype(x.dtype)
    return _pairs(jnp.fft.rfft(z, n, axis)).astype(x.dtype)


@operator("STFT")
def stft(node, signal, step, window=None, length=None):
    """The transforms of frames of a signal (batch, length, 1 or 2), each under a window."""
    step = integers(step, "the step of STFT")[0]
    if length is not None:
        size = integers(length, "the length of a frame of STFT")[0]
    else:
        size = signal.shape[1] if window is None else window.shape[0]
    starts = np.arange(0, signal.shape[1] - size + 1, step)
    signal = jnp.asarray(signal)
    signal = signal if signal.ndim == 3 else signal[..., None]  # which others take for real, and write too
    frames = _complex(signal)[:, starts[:, None] + np.arange(size)]
    frames = frames if window is None else frames * window
    return _pairs((jnp.fft.rfft if node["onesided"] else jnp.fft.fft)(frames)).astype(signal.dtype)


#: windows by name as cosines: the coefficients of 1, cos and cos of the double angle, with alternating signs
WINDOWS = {
    "HannWindow": (0.5, 0.5),
    "HammingWindow": (25 / 46, 21 / 46),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def _type(number):
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(number)


@operator(*WINDOWS)
def window(node, size):
    (n,) = affordable(integers(size, "the size of a window"), node.op)
    angle = 2 * np.pi * np.arange(n) / (n if node["periodic"] else max(n - 1, 1))
    terms = [(-1) ** k * c * np.cos(k * angle) for k, c in enumerate(WINDOWS[node.op])]
    return sum(terms).astype(_type(node["output_datatype"]))


@operator("MelWeightMatrix")
def mel_weight_matrix(node, bins, length, rate, low, high):
    """Triangles at even distances on the mel scale, over the frequencies of a transform: (frequencies, bins)."""
    bins, length, rate = (integers(a, "the sizes of MelWeightMatrix")[0] for a in (bins, length, rate))
    low, high = (float(np.ravel(static(a, "the edges of MelWeightMatrix"))[0]) for a in (low, high))
    # the steps are such that the upper edge is not among them
    mels = np.linspace(*(2595 * np.log10(1 + f / 700) for f in (low, high)), bins + 2, endpoint=False)
    edges = np.floor((length + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype(int)
    weights = np.zeros(affordable((length // 2 + 1, bins), "MelWeightMatrix"))
    for k, (start, middle, end) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rising, falling = np.arange(start, middle), np.arange(middle, end)
        weights[rising, k] = (rising - start) / max(middle - start, 1)
        weights[falling, k] = (end - falling) / max(end - middle, 1)
        weights[middle, k] = 1
    return weights.astype(_type(node["output_datatype"]))
