"""The device that a run was asked for: whether it is there, before anything is run on it."""

from __future__ import annotations

import re

from .errors import UsageError


def check_device(device: str) -> None:
    """Raise `UsageError` for a device that is misspelt or missing."""
    if device == "cpu":
        return
    if not re.fullmatch(r"cuda(:\d+)?", device):
        raise UsageError(f"unknown device {device!r} (devices: cpu, cuda, cuda:N)")
    import torch

    if not torch.cuda.is_available():
        raise UsageError(f"device {device!r}: torch {torch.__version__} sees no CUDA device")
    count, index = torch.cuda.device_count(), int(device.partition(":")[2] or 0)
    if index >= count:
        raise UsageError(f"device {device!r}: there are {count} CUDA devices, numbered from 0")
