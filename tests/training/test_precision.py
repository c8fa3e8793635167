"""`--precision auto` chooses bf16 only where the processor multiplies it natively."""

import platform

import pytest
import torch

from wordwave.training.devices import has_native_bf16, uses_bf16

CPU = torch.device("cpu")


@pytest.fixture
def processor(monkeypatch):
    """Play a processor: its architecture, what oneDNN accepts, and the instructions it has."""

    def play(machine, *, accepted=True, avx512_bf16=False, amx=False, limit=None):
        for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
            monkeypatch.delenv(name, raising=False)
        if limit is not None:
            monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
        monkeypatch.setattr(platform, "machine", lambda: machine)
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
        monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: accepted)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)

    return play


@pytest.mark.parametrize(
    ("machine", "has", "native"),
    [
        pytest.param("x86_64", {"accepted": False}, False, id="AVX2"),
        pytest.param("x86_64", {}, False, id="AVX-512 that emulates bf16"),
        pytest.param("x86_64", {"avx512_bf16": True}, True, id="AVX-512 with bf16"),
        pytest.param("AMD64", {"avx512_bf16": True}, True, id="the same under Windows"),
        pytest.param("x86_64", {"amx": True}, True, id="AMX"),
        pytest.param("x86_64", {"amx": True, "limit": "avx2"}, False, id="oneDNN held to AVX2"),
        pytest.param("x86_64", {"amx": True, "limit": "AVX512_CORE"}, False, id="held to AVX-512"),
        pytest.param(
            "x86_64", {"amx": True, "limit": "AVX512_CORE_AMX_FP16"}, True, id="held to AMX"
        ),
        pytest.param("aarch64", {"accepted": False}, False, id="ARM without bf16"),
        pytest.param("aarch64", {"accepted": True}, True, id="ARM with bf16"),
    ],
)
def test_auto_follows_the_instructions_of_the_processor(processor, machine, has, native):
    processor(machine, **has)
    assert has_native_bf16() is native
    assert uses_bf16("auto", CPU) is native


@pytest.mark.parametrize("has", [{}, {"avx512_bf16": True}])
def test_a_precision_that_is_asked_for_is_used(processor, has):
    processor("x86_64", **has)
    assert uses_bf16("bf16", CPU)
    assert not uses_bf16("fp32", CPU)
