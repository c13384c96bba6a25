"""Draft tokens that a target model verifies: both witnesses by hand, and functions of FlashInfer's interfaces."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.adapters.controls import speculation as controls
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

Q = np.array([[[0.5, 0.5, 0.0], [0.2, 0.2, 0.6]]])
P = np.array([[[0.25, 0.5, 0.25], [0.5, 0.2, 0.3], [0.1, 0.6, 0.3]]])


def defined(**values):
    return {name: np.asarray(x) for name, x in Frame(library()["draft_verification"], values).outputs().items()}


WITNESS = pytest.mark.parametrize("witness", [defined, reference.draft_verification])


@WITNESS
@pytest.mark.parametrize(
    ("drafts", "uniforms", "tokens", "residual"),
    [
        ([0, 2], [0.4, 0.4, 0.7], [0, 2, 2], [0.1, 0.6, 0.3]),
        ([0, 2], [0.4, 0.6, 0.7], [0, 0, -1], [1.0, 0.0, 0.0]),
        ([0, 2], [0.6, 0.1, 0.7], [2, -1, -1], [0.0, 0.0, 1.0]),
        ([1, 0], [0.9, 0.9, 0.05], [1, 0, 0], [0.1, 0.6, 0.3]),
    ],
)
def test_a_draft_is_accepted_by_the_ratio_of_its_chances(witness, drafts, uniforms, tokens, residual):
    found = witness(draft_probs=Q, target_probs=P, drafts=np.array([drafts]), uniforms=np.array([uniforms]))
    accepted = sum(token >= 0 for token in tokens) - 1
    assert ([tokens], [accepted]) == (found["tokens"].tolist(), found["accepted"].tolist())
    np.testing.assert_allclose(found["residual"], [residual], atol=1e-12)


@WITNESS
@pytest.mark.parametrize(
    "fewer",
    [
        {"drafts": np.array([[0, 2]]), "lens": np.array([1])},
        {"drafts": np.array([[0, -1]]), "draft_probs": Q * [[1], [0]]},
    ],
)
def test_behind_fewer_drafts_the_chances_are_those_of_the_target_there(witness, fewer):
    found = witness(**{"draft_probs": Q, "target_probs": P, "uniforms": np.array([[0.4, 0.1, 0.6]]), **fewer})
    assert [[0, 1, -1]] == found["tokens"].tolist()
    np.testing.assert_allclose(found["residual"], P[:, 1], atol=1e-12)


def test_the_reference_refuses_chances_of_too_few_positions():
    with pytest.raises(ValueError, match="those of one position more"):
        reference.draft_verification(Q, P[:, :-1], np.array([[0, 2]]), np.array([[0.4, 0.6, 0.7]]))


def test_drafts_from_the_draft_model_leave_the_chances_of_the_target_model():
    rng, n = np.random.default_rng(3), 40000
    drafts = np.stack([rng.choice(3, n, p=q) for q in Q[0]], 1)
    given = (np.repeat(Q, n, 0), np.repeat(P, n, 0), drafts)
    tokens = reference.speculative_sampling(*given, seed=5)["tokens"]
    np.testing.assert_allclose(np.bincount(tokens[:, 0], minlength=3) / n, P[0, 0], atol=0.01)
    second = tokens[tokens[:, 1] >= 0, 1]
    np.testing.assert_allclose(np.bincount(second, minlength=3) / len(second), P[0, 1], atol=0.01)


def by_uniforms(residual_of):
    def chain_speculative_sampling(
        draft_probs,
        draft_token_ids,
        uniform_samples,
        target_probs,
        maybe_output_accepted_token_num=None,
        maybe_output_emitted_token_num=None,
        deterministic=True,
    ):
        found = controls.control_drafts_at_once(
            draft_probs, residual_of(target_probs), draft_token_ids, uniform_samples
        )
        return found["tokens"], found["accepted"], found["accepted"]

    return chain_speculative_sampling


def by_seed(kept):
    def chain_speculative_sampling(
        draft_probs,
        draft_token_ids,
        target_probs,
        maybe_output_accepted_token_num=None,
        maybe_output_emitted_draft_token_num=None,
        deterministic=True,
        generator=None,
        seed=None,
        offset=None,
    ):
        q = draft_probs if kept else draft_probs.sqrt() / draft_probs.sqrt().sum(-1, keepdim=True).clamp(min=1e-9)
        found = controls.control_speculation_by_races(q, target_probs, draft_token_ids, seed=seed)
        return found["tokens"], found["accepted"], found["accepted"]

    return chain_speculative_sampling


def checked(function):
    return attnspec.check(function, profile="smoke", dtypes=("float32",), explain_time=0)


@pytest.mark.parametrize(
    ("right", "wrong", "operator"),
    [
        (by_uniforms(lambda p: p), by_uniforms(lambda p: torch.cat((p[:, 1:], p[:, -1:]), 1)), "draft_verification"),
        (by_seed(kept=True), by_seed(kept=False), "speculative_sampling"),
    ],
    ids=["uniforms", "seed"],
)
def test_functions_are_checked_by_the_parameters_of_flashinfer(right, wrong, operator):
    report = checked(right)
    assert report.conformant, report
    assert {operator} == {cell["operator"] for cell in report.lines if cell["kind"] == "cell"}
    assert not checked(wrong).conformant
