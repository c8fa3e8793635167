"""Which numbers to multiply with."""

from __future__ import annotations

import torch

from wordwave.training.settings import Precision


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether to multiply in bf16; `auto` says yes where the processor does it natively."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # oneDNN emulates bf16 on older processors, many times slower than fp32.
    has_onednn = device.type == "cpu" and torch.backends.mkldnn.is_available()
    return has_onednn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
