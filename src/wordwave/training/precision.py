"""Which floating-point format matrix products are computed in."""

from __future__ import annotations

import os
import platform

import torch

from wordwave.training.config import Precision

_X86 = ("x86_64", "amd64")
_ISA_WITH_BF16 = ("DEFAULT", "ALL", "AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX512_CORE_AMX")
"""Values of ONEDNN_MAX_CPU_ISA that leave oneDNN its bf16 instructions; later ones extend these."""


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether to autocast to bf16; `auto` does where the processor has instructions for it."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and has_native_bf16()


def has_native_bf16() -> bool:
    """Whether this CPU multiplies bf16 matrices itself.

    oneDNN accepts bf16 on every AVX-512 processor and emulates it where the processor has neither
    avx512_bf16 nor AMX, several times slower than fp32. On ARM it accepts only what is native.
    """
    accepted = torch.backends.mkldnn.is_available() and bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    if platform.machine().lower() not in _X86:
        return accepted
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "DEFAULT"
    allowed = limit.upper().startswith((*_ISA_WITH_BF16, "AVX10"))
    instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return accepted and allowed and instructions
