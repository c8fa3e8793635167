"""Tolerances that follow from the arithmetic, so that they hold on every processor.

Vector units, thread counts and libraries (MKL, oneDNN, onnxruntime) add the same numbers in another
order. A sum of n terms then differs by at most about n·ε times the sum of their magnitudes, so the
difference between two kernels, or a kernel and a float64 oracle, is a few ε times n times the size
of what is added.
"""

import pytest
import torch


def rounding(*, terms=1, size=1.0, dtype=torch.float32):
    """What two orders of the same arithmetic may differ by, for `assert_close`.

    Args:
        terms: roundings on the way to a result: the length of the longest sum, added over layers
            and time steps that follow each other.
        size: magnitude of what is added, which bounds the error where it cancels to nearly 0.
        dtype: in which it is computed.
    """
    relative = 4 * terms * torch.finfo(dtype).eps  # a product and a sum on either side
    return {"rtol": relative, "atol": relative * size}


def approx(expected, *, terms=1, size=1.0, dtype=torch.float32):
    """`pytest.approx` for numbers that were computed in `dtype`; its own 1e-6 is 8 ε of float32."""
    close = rounding(terms=terms, size=size, dtype=dtype)
    return pytest.approx(expected, rel=close["rtol"], abs=close["atol"])
