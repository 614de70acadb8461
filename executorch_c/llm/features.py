"""Log-mel features of audio, as Whisper's: NumPy only."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from executorch_c._arrays import Array

SAMPLE_RATE = 16000
WINDOW, HOP = 400, 160
"""Samples of a window, and between windows: 25 and 10 ms."""
LINEAR_HZ, LINEAR_MELS = 1000.0, 15.0
"""Below this frequency the mel scale is linear."""
PER_MEL = np.log(6.4) / 27
FLOOR, RANGE = 1e-10, 8.0
"""Smallest power, and the range below the largest, in decades."""


def _to_hz(mels: Array) -> Array:
    linear = mels * LINEAR_HZ / LINEAR_MELS
    above: Array = LINEAR_HZ * np.exp(PER_MEL * (mels - LINEAR_MELS))
    return np.where(mels < LINEAR_MELS, linear, above)


def _to_mels(hz: float) -> float:
    if hz < LINEAR_HZ:
        return hz * LINEAR_MELS / LINEAR_HZ
    return LINEAR_MELS + float(np.log(hz / LINEAR_HZ) / PER_MEL)


@lru_cache(maxsize=4)
def mel_filters(n_mels: int) -> Array:
    """Return triangular filters of equal area, float64 [n_mels, WINDOW // 2 + 1]."""
    nyquist = SAMPLE_RATE / 2
    bins = np.linspace(0, nyquist, WINDOW // 2 + 1)
    edges = _to_hz(np.linspace(0, _to_mels(nyquist), n_mels + 2))
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    filters: Array = np.maximum(0, np.minimum(rising, falling))
    filters *= (2 / (edges[2:] - edges[:-2]))[:, None]
    return filters


def log_mel(
    audio: object, n_mels: int = 80, samples: int = 480000, sample_rate: int = SAMPLE_RATE
) -> Array:
    """Return log-mel features, float32 [n_mels, samples // 160].

    Args:
        audio: Mono samples, floats in [-1, 1] or int16; padded with zeros, or cut, to `samples`.
        n_mels: Number of mel bands (80; 128 for Whisper large-v3).
        samples: Length; 480,000 are 30 s.
        sample_rate: Must be 16,000.

    Raises ValueError for another sample rate or shape, or for samples that are not finite.
    """
    if sample_rate != SAMPLE_RATE:
        raise ValueError(
            f"`sample_rate` is {sample_rate}, expected {SAMPLE_RATE}: resample the audio"
        )
    wave = np.asarray(audio)
    if wave.ndim != 1 or wave.dtype.kind not in "fiu":
        raise ValueError(
            f"audio: found {wave.dtype} of shape {wave.shape}, expected one channel of samples"
        )
    wave = wave / 32768.0 if wave.dtype.kind in "iu" else wave.astype(np.float64)
    if not np.isfinite(wave).all():
        raise ValueError("audio: some samples are not finite")
    wave = np.pad(wave[:samples], (0, max(0, samples - wave.size)))
    wave = np.pad(wave, WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(wave, WINDOW)[::HOP][: samples // HOP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    mels = np.log10(np.maximum(mel_filters(n_mels) @ power.T, FLOOR))
    mels = np.maximum(mels, mels.max() - RANGE)
    result: Array = ((mels + 4) / 4).astype(np.float32)
    return result
