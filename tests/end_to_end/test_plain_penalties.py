"""A repetition penalty as it is written for one sequence: of one number, for all tokens before."""

import pytest
import torch

import attnspec

from .test_plain_functions import conforming, refuted


def repetition_penalty(logits, input_ids, penalty):
    score = torch.gather(logits, 1, input_ids)
    score = torch.where(score < 0, score * penalty, score / penalty)
    return logits.scatter(1, input_ids, score)


def apply_repetition_penalty(logits, prev_ids, penalty=1.2):
    return repetition_penalty(logits, prev_ids, penalty)


def repetition_penalty_of_sets(logits, tokens, penalty):
    logits = logits.clone()
    for row, own in zip(logits, tokens.tolist(), strict=True):
        for token in set(own):
            row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
    return logits


def repetition_penalty_that_divides(logits, input_ids, penalty):
    return logits.scatter(1, input_ids, torch.gather(logits, 1, input_ids) / penalty)


def repetition_penalty_of_lists(logits, tokens, penalty):
    logits = logits.clone()
    for row, own in zip(logits, tokens.tolist(), strict=True):
        for token in own:
            row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
    return logits


def repetition_penalty_but_for_the_last(logits, input_ids, penalty):
    return repetition_penalty(logits, input_ids[:, :-1], penalty)


RIGHT = (repetition_penalty, apply_repetition_penalty, repetition_penalty_of_sets)
WRONG = {
    repetition_penalty_that_divides: "always_divided",
    repetition_penalty_of_lists: "repetition_for_each_token",
    repetition_penalty_but_for_the_last: "",
}


def it_is_called_with_a_penalty(function, report):
    (definition,) = (cell for cell in report.cells if cell["law"] == "definition")
    assert {"token_penalties"} == {cell["mechanism"] for cell in report.cells}
    assert definition["cases"] > 5


@pytest.mark.parametrize("function", [f for f, mistake in WRONG.items() if mistake])
def test_a_wrong_one_has_a_name(function):
    report = attnspec.check(function, dtypes=("float32",), isolate=False)
    (likeness,) = (cell["witness"]["likeness"] for cell in report.failures if "witness" in cell)
    assert f"token_penalties.{WRONG[function]}" == likeness["name"]


test_a_right_function_conforms = conforming(RIGHT, it_is_called_with_a_penalty, "quick")
test_a_wrong_function_does_not = refuted(WRONG)
