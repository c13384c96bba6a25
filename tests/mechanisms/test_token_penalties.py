"""Penalties for tokens that were there before: both witnesses by hand, and functions of vLLM's interface."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import penalties as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(**values):
    return np.asarray(Frame(library()["token_penalties"], values).outputs()["out"])


WITNESS = pytest.mark.parametrize("witness", [defined, reference.token_penalties])
TOKENS = {"prompt": np.array([[0, 1, 1]]), "generated": np.array([[1, 2, 2, -1]])}


@WITNESS
@pytest.mark.parametrize(
    ("penalties", "expected"),
    [
        ({}, [4.0, -4.0, 1.0, 2.0]),
        ({"repetition": 2.0}, [2.0, -8.0, 0.5, 2.0]),
        ({"presence": 0.5}, [4.0, -4.5, 0.5, 2.0]),
        ({"frequency": 0.25}, [4.0, -4.25, 0.5, 2.0]),
        ({"repetition": 2.0, "presence": 0.5, "frequency": 0.25}, [2.0, -8.75, -0.5, 2.0]),
    ],
)
def test_each_penalty_is_for_its_own_tokens(witness, penalties, expected):
    given = {name: np.array([x]) for name, x in penalties.items()}
    found = witness(logits=np.array([[4.0, -4.0, 1.0, 2.0]]), **TOKENS, **given)
    np.testing.assert_allclose(found, [expected], rtol=1e-12)


def test_the_reference_refuses_rows_without_tokens():
    with pytest.raises(ValueError, match="every row has a prompt"):
        reference.token_penalties(np.ones((2, 4)), **TOKENS)


def penalised(divided):
    def apply_penalties(
        logits,
        prompt_tokens_tensor,
        output_tokens_tensor,
        presence_penalties,
        frequency_penalties,
        repetition_penalties,
    ):
        n = logits.shape[1]
        tokens = [torch.where(x == n, -1, x) for x in (prompt_tokens_tensor, output_tokens_tensor)]
        found = controls.control_penalties_by_counts(
            logits, *tokens, None if divided else repetition_penalties, presence_penalties, frequency_penalties
        )
        if divided:
            there = torch.stack([torch.isin(torch.arange(n), torch.cat(row)) for row in zip(*tokens, strict=True)])
            found = found - logits + torch.where(there, logits / repetition_penalties[:, None], logits)
        return logits.copy_(found)

    return apply_penalties


def test_functions_are_checked_by_the_parameters_of_vllm():
    def checked(function):
        return attnspec.check(function, profile="smoke", dtypes=("float32",), explain_time=0)

    report = checked(penalised(divided=False))
    assert report.conformant, report
    assert {"token_penalties"} == {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}
    assert not checked(penalised(divided=True)).conformant
