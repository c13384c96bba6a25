"""Losses of texts, which make the targets themselves: those of the next token."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def causal_lm_cross_entropy(logits, labels, vocab_size, ignore_index=-100):
    """As transformers has it."""
    labels = F.pad(labels, (0, 1), value=ignore_index)
    shift_labels = labels[..., 1:].contiguous()
    return F.cross_entropy(logits.view(-1, vocab_size), shift_labels.view(-1), ignore_index=ignore_index)


def cross_entropy_loss(logits, labels):
    """As transformers had it."""
    shift_logits, shift_labels = logits[..., :-1, :].contiguous(), labels[..., 1:].contiguous()
    return F.cross_entropy(shift_logits.view(-1, shift_logits.shape[-1]), shift_labels.view(-1))


def cross_entropy_of_texts(logits, tokens):
    """Of a batch of texts, each with its next tokens."""
    log_p = torch.log_softmax(logits[:, :-1], -1)
    next_tokens = tokens[:, 1:, None]
    return -log_p.gather(-1, next_tokens).mean()


def linear_cross_entropy(hidden, weight, labels, shift_labels=None):
    """As unsloth has it."""
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=-100)[..., 1:]
    return F.cross_entropy(hidden @ weight.T, shift_labels)


def cross_entropy_of_tokens(logits, labels):
    """The next token is none of what it speaks of."""
    return F.cross_entropy(logits, labels)


def cross_entropy(logits, labels):
    """Nothing in it says that these are other targets."""
    return F.cross_entropy(logits[:-1], labels[1:])


def cross_entropy_shifted_twice(logits, labels):
    shift_labels = F.pad(labels, (0, 2), value=-100)[2:]
    return F.cross_entropy(logits, shift_labels)


def cross_entropy_of_the_next(logits, labels):
    return F.cross_entropy(logits, labels.roll(-1, 0))


TEXT = "are those of a text, where each token is the target of the"
SAID = {
    causal_lm_cross_entropy: (TEXT, ""),
    cross_entropy_loss: (TEXT, ""),
    linear_cross_entropy: (TEXT, ""),
    cross_entropy_of_texts: (TEXT, ""),
    cross_entropy_of_tokens: ("", TEXT),
}
WRONG = [cross_entropy, cross_entropy_shifted_twice, cross_entropy_of_the_next]


def as_it_is_said(function, report):
    read, not_read = SAID[function]
    assert read in str(report)
    assert not not_read or not_read not in str(report)
    assert "gradients are not checked" not in str(report)


test_a_right_function_conforms = conforming(SAID, as_it_is_said)
test_a_wrong_function_does_not = refuted(WRONG)
