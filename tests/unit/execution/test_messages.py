"""What processes tell one another of functions."""

import inspect
from typing import Optional

import pytest
import torch

from attnspec.adapters import Adapter
from attnspec.execution.messages import adapter_of, annotation_of, declaration


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (torch.Tensor, "Tensor"),
        ("torch.Tensor", "Tensor"),
        (int, "int"),
        (inspect.Parameter.empty, ""),
        (Optional[int], "Optional"),  # noqa: UP045 - as it is written
        ("int | None", ""),
        ("x" * 64, ""),
    ],
)
def test_an_annotation_is_told_by_its_last_word(annotation, says):
    assert says == annotation_of(inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=annotation))


def test_an_annotation_is_known_in_another_process():
    def sinusoidal(t: torch.Tensor, dim: int, scale=1.0): ...

    told = adapter_of(declaration(Adapter("sinusoidal", "sinusoidal", sinusoidal, "torch"))).function
    found = [annotation_of(p) for p in inspect.signature(told).parameters.values()]
    assert ["Tensor", "int", ""] == found
