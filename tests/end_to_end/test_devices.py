"""Adapters of kernels for devices hand on what a call has: `packages/` has their parameters, and computes on a CPU."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnspec.cases.profiles import PROFILES
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.mechanisms.loader import library
from attnspec.subjects.registered import find, shipped
from attnspec.subjects.targets import subject

PACKAGES = Path(__file__).resolve().parents[1] / "packages"
NAMES = {"aiter", "attending", "flash_attn", "flash_attn_interface", "flashinfer", "planned"}
SUBJECTS = [one.name for one in shipped() if one.package.partition(".")[0] in NAMES]


@pytest.fixture(autouse=True)
def packages(monkeypatch):
    monkeypatch.syspath_prepend(PACKAGES)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


def judged(one, dtype="bfloat16"):
    mechanism = library()[one.operator]
    request = Request(subject(replace(one, devices=())), mechanism, dtype, PROFILES["smoke"])
    return run(request).cells


@pytest.mark.parametrize("name", SUBJECTS)
def test_an_adapter_hands_on_what_a_call_has(name):
    cells = judged(find(name))
    assert [] == [(cell.law, cell.says) for cell in cells if cell.bad and cell.level == "must"]
    assert "pass" == next(cell.verdict for cell in cells if cell.law == "definition")


def test_a_parameter_that_is_not_handed_on_is_found(monkeypatch):
    import flash_attn

    def without_scale(*given, softmax_scale, own=flash_attn.flash_attn_func, **more):
        return own(*given, **more)

    monkeypatch.setattr(flash_attn, "flash_attn_func", without_scale)
    assert "fail" == next(cell.verdict for cell in judged(find("flash_attention")) if cell.law == "definition")


@pytest.mark.parametrize("kind", ["", "_gradient"])
@pytest.mark.parametrize("backend", ["efficient", "cudnn"])
def test_a_kernel_of_torch_is_chosen_by_its_name(backend, kind, monkeypatch):
    chosen = []

    class Chosen:
        def __init__(self, backend):
            chosen.append(backend)

        __enter__ = __exit__ = lambda *_: None

    monkeypatch.setattr("torch.nn.attention.sdpa_kernel", Chosen)
    judged(find(f"torch_sdpa_{backend}{kind}"))
    names = {"efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
    assert {getattr(torch.nn.attention.SDPBackend, names[backend])} == {*chosen}
