"""How Hugging Face transformers filters logits, draws from them, and verifies the drafts of another model.

Source: transformers/generation/logits_process.py (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper,
MinPLogitsWarper) and transformers/generation/utils.py (GenerationMixin._sample), which applies them in this order and
draws by torch.multinomial from the softmax of what is left.
The top-k filter compares with the k-th largest logit, so that all its equals stay; the top-p filter sums from the least
likely entry on, in the dtype of the logits, and takes arrays of two axes.
"""

from __future__ import annotations

import functools
from typing import Any, cast

from .. import Unsupported, adapter

DTYPES = ("float32", "bfloat16", "float16", "float64")
GRADES = {"float32": "fp32", "bfloat16": "bf16_naive", "float16": "fp16_naive", "float64": "fp64"}
declared = functools.partial(adapter, dtypes=DTYPES, package="transformers", extra="transformers")


def warped(
    logits: Any, temperature: float = 1.0, k: int | None = None, p: float | None = None, least: float | None = None
) -> Any:
    """The logits after the warpers that generation would apply; `least` is the share of min-p."""
    from transformers.generation.logits_process import (
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    scores, tokens = logits.reshape(-1, logits.shape[-1]), cast(Any, None)  # which no warper looks at
    if temperature != 1.0:
        scores = TemperatureLogitsWarper(float(temperature))(tokens, scores)
    if k is not None:
        scores = TopKLogitsWarper(k)(tokens, scores)
    if p is not None:
        scores = TopPLogitsWarper(p)(tokens, scores)
    if least is not None:
        scores = MinPLogitsWarper(least)(tokens, scores)
    return scores.reshape(logits.shape)


@declared("top_k_filter", conventions={"ties": "every"})
def transformers_top_k(logits: Any, *, k: int) -> Any:
    """TopKLogitsWarper of transformers.generation."""
    return warped(logits, k=k)


@declared("top_p_filter", grade=GRADES)
def transformers_top_p(logits: Any, *, p: float) -> Any:
    """TopPLogitsWarper of transformers.generation."""
    return warped(logits, p=p)


@declared("min_p_filter", grade=GRADES)
def transformers_min_p(logits: Any, *, p: float) -> Any:
    """MinPLogitsWarper of transformers.generation."""
    return warped(logits, least=p)


@declared("sample", grade=GRADES)
def transformers_sample(
    logits: Any, *, seed: int, count: int, temperature: float = 1.0, k: int | None = None, p: float | None = None
) -> Any:
    """The warpers of transformers.generation, softmax and torch.multinomial, after torch.manual_seed."""
    import torch

    if temperature == 0:
        raise Unsupported("the temperature is positive; greedy generation does not sample")
    chances = torch.softmax(warped(logits, temperature, k, p), -1)
    with torch.random.fork_rng(devices=[logits.device] if logits.is_cuda else []):
        torch.manual_seed(seed)
        return torch.multinomial(chances, count, replacement=True)


@adapter(
    "filter_rows",
    dtypes=("float32",),
    conventions={"chance_for_p": "of_the_left"},
    package="transformers",
    extra="transformers",
)
def transformers_continuous_batching(logits: Any, temperature: Any = None, k: Any = None, p: Any = None) -> Any:
    """The warpers of continuous batching, one after the other."""
    import torch
    from transformers.generation.continuous_batching import cb_logits_processors as by_rows
    from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    for warper, numbers in (
        (by_rows.ContinuousBatchingTemperatureLogitsWarper(TemperatureLogitsWarper(0.5)), temperature),
        (by_rows.ContinuousBatchingTopKLogitsWarper(TopKLogitsWarper(1)), k),
        (by_rows.ContinuousBatchingTopPLogitsWarper(TopPLogitsWarper(0.5)), p),
    ):
        if numbers is not None:
            bits = numbers.float().view(torch.int32) if numbers.is_floating_point() else numbers.int()
            logits = warper(logits, bits)
    return logits.clone()


@adapter(
    "speculative_sampling",
    dtypes=("float32",),
    requires=("all(drafts >= 0)", "single(lens) or all(lens > 0)"),
    package="transformers",
    extra="transformers",
)
def transformers_speculative_sampling(
    draft_probs: Any, target_probs: Any, drafts: Any, lens: Any = None, *, seed: int
) -> Any:
    """_speculative_sampling, which verifies the drafts of one sequence, of items one after the other."""
    import torch
    from transformers.generation.utils import _speculative_sampling

    steps = drafts.shape[1]
    if target_probs.shape[1] != steps + 1 or draft_probs.shape[2] != target_probs.shape[2]:
        raise ValueError("the target model has the chances of every draft and of what follows")
    tokens, accepted = drafts.new_full((len(drafts), steps + 1), -1), []
    with torch.random.fork_rng(devices=[drafts.device] if drafts.is_cuda else []):
        torch.manual_seed(seed)
        for item, count in enumerate([steps] * len(drafts) if lens is None else lens.tolist()):
            one = slice(item, item + 1)
            q, p = draft_probs[one, :count].log(), target_probs[one, : count + 1].log()
            found, matches = _speculative_sampling(drafts[one, :count], q, count, p)
            tokens[item, : found.shape[1]] = found[0]
            accepted.append(int(matches))
    return {"tokens": tokens, "accepted": torch.tensor(accepted, dtype=torch.int64)}


@adapter(
    "token_penalties",
    dtypes=DTYPES,
    grade=GRADES,
    requires=("single(presence) and single(frequency)", "not any(prompt < 0) and not any(generated < 0)"),
    package="transformers",
    extra="transformers",
)
def transformers_repetition_penalty(logits: Any, prompt: Any, generated: Any, repetition: Any = None) -> Any:
    """RepetitionPenaltyLogitsProcessor, which has one penalty, of the prompt and the generated tokens of each row."""
    import torch
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    if not len(logits) == len(prompt) == len(generated):
        raise ValueError("every row has a prompt and generated tokens")
    tokens, rows = torch.cat((prompt, generated), 1).long(), []
    for row in range(len(logits)):
        one = slice(row, row + 1)
        penalty = 1.0 if repetition is None else float(repetition[row])
        rows.append(RepetitionPenaltyLogitsProcessor(penalty)(cast(Any, tokens[one]), logits[one]))
    return torch.cat(rows)
