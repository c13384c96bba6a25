"""Beam search of Hugging Face transformers.

Source: transformers/generation/utils.py (GenerationMixin._beam_search).
The model is a table: the logits of the next token are the row of the current one, and generation normalises them by
log-softmax in float32. No token ends a sequence, and scores are not divided by the length.
Beams beyond the number of sequences there are so far start at -1e9, so more of them than there are at the end cannot be
returned.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import Unsupported, adapter


@functools.cache
def table_model() -> Any:
    """The class of a causal model whose logits are rows of a table."""
    import torch
    from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutput

    class TableConfig(PretrainedConfig):
        model_type = "table"

    class TableModel(PreTrainedModel, GenerationMixin):
        config_class = TableConfig
        main_input_name = "input_ids"

        def __init__(self, config: Any, table: Any) -> None:
            super().__init__(config)
            self.table = torch.nn.Parameter(table, requires_grad=False)
            self.post_init()

        def forward(self, input_ids: Any, **_: Any) -> Any:
            return CausalLMOutput(logits=self.table[input_ids])

        def prepare_inputs_for_generation(self, input_ids: Any, *_: Any, **__: Any) -> dict[str, Any]:
            return {"input_ids": input_ids}

    config: Any = TableConfig
    return lambda table: TableModel(config(vocab_size=len(table), use_cache=False), table)


@adapter("beam_search", package="transformers", extra="transformers")
def transformers_beams(log_probs: Any, *, start: int, width: int, length: int) -> Any:
    """GenerationMixin.generate with num_beams, on a model that is a table."""
    import torch
    from transformers import GenerationConfig

    if width > len(log_probs) ** length:
        raise Unsupported("there are fewer sequences than beams")
    asked = GenerationConfig(
        num_beams=width,
        num_return_sequences=width,
        max_new_tokens=length,
        do_sample=False,
        use_cache=False,
        length_penalty=0.0,
        early_stopping=False,
        eos_token_id=None,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    made = table_model()(log_probs.clone()).generate(torch.tensor([[start]]), generation_config=asked)
    tokens = made.sequences[:, 1:]
    if width == 1:  # a single beam is greedy search, which returns no scores of sequences
        steps = torch.stack([torch.log_softmax(step[0].float(), -1) for step in made.scores])
        return {"tokens": tokens, "scores": steps.gather(1, tokens.T).sum().reshape(1)}
    return {"tokens": tokens, "scores": made.sequences_scores}
