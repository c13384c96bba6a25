"""Losses with targets as rows, and divergences of which each token has its own."""

import torch
import torch.nn.functional as F

from .test_plain_functions import conforming, refuted


def cross_entropy(logits, labels):
    """As optax has it: a loss for each row."""
    return -(labels * torch.log_softmax(logits, -1)).sum(-1)


def soft_target_cross_entropy(x, target):
    """As timm has it."""
    return -(target * torch.log_softmax(x, -1)).sum(-1).mean()


def cross_entropy_of_classes(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


def cross_entropy_of_either(logits, targets):
    return F.cross_entropy(logits, targets)


def kl_divergence(log_predictions, targets):
    return (targets * (torch.where(targets == 0, 0, targets.log()) - log_predictions)).sum(-1)


def kl_divergence_with_log_targets(log_predictions, log_targets):
    return (log_targets.exp() * (log_targets - log_predictions)).sum(-1)


def cross_entropy_of_sigmas(logits, labels):
    return -(labels * F.logsigmoid(logits)).sum(-1)


def cross_entropy_over_tokens(logits, target):
    return -(target * torch.log_softmax(logits, 0)).sum(-1).mean()


def kl_divergence_of_targets(log_predictions, log_targets):
    return (log_targets.exp() * log_targets).sum(-1)


ROWS = "has a row for each token, one at its class and zero elsewhere"
TOKENS = "the losses of the tokens are returned, whose sum is the loss"
SAID = {
    cross_entropy: (ROWS, ""),
    soft_target_cross_entropy: (ROWS, ""),
    cross_entropy_of_classes: ("", ROWS),
    cross_entropy_of_either: ("", ROWS),
    kl_divergence: (TOKENS, ROWS),
    kl_divergence_with_log_targets: (TOKENS, ROWS),
}
WRONG = [cross_entropy_of_sigmas, cross_entropy_over_tokens, kl_divergence_of_targets]


def as_it_is_said(function, report):
    """What is as the operator has it is read so, whatever else it would take."""
    read, not_read = SAID[function]
    assert read in str(report)
    assert not not_read or not_read not in str(report)


test_a_right_function_conforms = conforming(SAID, as_it_is_said)
test_a_wrong_function_does_not = refuted(WRONG)
