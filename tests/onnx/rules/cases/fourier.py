"""Rows of Fourier transforms."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, constant, normal, run_time


def _dft(x: Tensor, *rest: Tensor | None, note: str = "", opset: int = 20, **attributes: Any) -> Case:
    return Case("DFT", [x, *rest], attributes, note, opset=opset)


def _to_real(x: np.ndarray, size: np.ndarray) -> np.ndarray:
    return np.fft.irfft(x[..., 0] + 1j * x[..., 1], n=int(size), axis=1)[..., None]


def _irfft(x: Tensor, size: int, note: str) -> Case:
    """A length that does not fit the number of frequencies: ONNX Runtime gets most of these wrong."""
    attributes = {"inverse": 1, "onesided": 1}
    return Case("DFT", [x, constant(size)], attributes, note, opset=20, forward=_to_real, second_order=False)


DFT = [
    # Real and complex, forward and inverse, along the last and another axis.
    _dft(normal(2, 5, 1)),
    _dft(normal(2, 4, 2)),
    _dft(normal(2, 5, 1), inverse=1),
    _dft(normal(2, 4, 2), inverse=1),
    _dft(normal(3, 2, 2), None, constant(0), note="axis 0"),
    _dft(normal(2, 4, 3, 2), None, constant(-3), note="axis -3", inverse=1),
    _dft(normal(2, 4, 3, 1), None, run_time(1), note="axis at run time"),
    _dft(normal(2, 4, 3, 2), run_time(5), run_time(-3), note="axis and length at run time", inverse=1),
    # Shorter and longer than the signal.
    _dft(normal(2, 4, 1), constant(6), note="longer"),
    _dft(normal(2, 4, 2), constant(3), note="shorter"),
    _dft(normal(2, 4, 2), constant(6), note="longer", inverse=1),
    _dft(normal(2, 5, 2), constant(3), note="shorter", inverse=1),
    _dft(normal(2, 5, 2), run_time(3), note="shorter at run time"),
    # The lower half of the frequencies, of even and odd lengths, and back.
    _dft(normal(2, 6, 1), onesided=1),
    _dft(normal(2, 5, 1), onesided=1),
    _dft(normal(2, 5, 1), constant(8), onesided=1, note="longer"),
    _dft(normal(2, 5, 1), constant(3), onesided=1, note="shorter"),
    _dft(normal(2, 4, 2), onesided=1, inverse=1),
    _dft(normal(2, 4, 2), constant(7), onesided=1, inverse=1, note="odd"),
    _dft(normal(2, 3, 2), constant(7), onesided=1, inverse=1, note="longer"),
    _irfft(normal(2, 3, 2), 8, "longer and even"),
    _irfft(normal(2, 5, 2), 4, "shorter and even"),
    _irfft(normal(2, 5, 2), 5, "shorter and odd"),
    _dft(
        normal(3, 2, 2), run_time(4), run_time(0), onesided=1, inverse=1, note="axis and length at run time"
    ),
    # Before the axis became an input.
    _dft(normal(2, 5, 1), opset=18, note="axis 1 by default"),
    _dft(normal(2, 5, 3, 2), opset=18, axis=2, inverse=1),
    _dft(normal(2, 4, 2), constant(5), opset=18, axis=-2, note="longer"),
    _dft(normal(0, 5, 1), note="empty batch"),
]

STFT = [
    Case("STFT", [normal(2, 12, 1), constant(4), normal(5)], note="gaps"),
    Case("STFT", [normal(1, 11, 1), constant(3), normal(6)], note="overlapping"),
    Case("STFT", [normal(1, 9, 2), constant(2), normal(4)], {"onesided": 0}),
    Case("STFT", [normal(1, 9, 2), constant(2), normal(4), constant(4)], {"onesided": 1}, note="complex"),
    Case("STFT", [normal(1, 10, 1), constant(3), None, constant(7)], {"onesided": 0}, note="no window"),
    Case("STFT", [normal(1, 10, 1), run_time(3), normal(4)], note="step at run time"),
    Case("STFT", [normal(1, 10, 1), run_time(2), None, run_time(4)], note="length at run time"),
]

CASES = [*DFT, *STFT]
