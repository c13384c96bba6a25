"""Gated linear recurrences as people write them: only the right ones conform.

Nothing is said of them but their names and parameters.
"""

import torch

from .test_plain_functions import conforming, refuted


def stepped(decay, x, state, *, by=1):
    """States along an axis of tokens, and the last one."""
    state, rows = torch.zeros_like(x.select(by, 0)).float() if state is None else state.float(), []
    for t in range(x.shape[by]):
        state = decay.select(by, t).float() * state + x.select(by, t).float()
        rows.append(state)
    return torch.stack(rows, by).to(x.dtype), state


def linear_scan(x, a, h0=None, return_state=False):
    out, last = stepped(a, x, h0)
    return (out, last) if return_state else out


def lru_scan(x, log_a):
    return stepped(log_a.float().exp(), x, None)[0]


def gated_linear_recurrence(a, b, h0):
    return stepped(a, b, h0, by=0)


def rnn_scan(forget, inputs, initial_state=None):
    return stepped(forget, inputs, initial_state, by=2)


def linear_rnn(gates, tokens, reverse=False):
    turned = [y.flip(1) if reverse else y for y in (gates, tokens)]
    out = stepped(*turned, None)[0]
    return out.flip(1) if reverse else out


def hgrn_of_logarithms(x, g):
    return stepped(g.float().exp(), x, None)[0]


def linear_scan_of_a_state_that_lasts(x, a, h0=None, return_state=False):
    out, last = stepped(a, x, None)
    if h0 is not None:
        out, last = (out + h0[:, None]).to(x.dtype), last + h0
    return (out, last) if return_state else out


def lru_scan_to_base_two(x, log_a):
    return stepped(log_a.float().exp2(), x, None)[0]


def gated_linear_recurrence_of_the_rest(a, b, h0):
    return stepped(a, (1 - a) * b, h0, by=0)


def rnn_scan_one_token_late(forget, inputs, initial_state=None):
    return stepped(forget.roll(1, 2), inputs, initial_state, by=2)


def linear_rnn_of_factors_in_order(gates, tokens, reverse=False):
    out = stepped(gates, tokens.flip(1) if reverse else tokens, None)[0]
    return out.flip(1) if reverse else out


RIGHT = [linear_scan, lru_scan, gated_linear_recurrence, rnn_scan, linear_rnn, hgrn_of_logarithms]
WRONG = [
    linear_scan_of_a_state_that_lasts,
    lru_scan_to_base_two,
    gated_linear_recurrence_of_the_rest,
    rnn_scan_one_token_late,
    linear_rnn_of_factors_in_order,
]


def is_tested_as_a_recurrence(function, report):
    tested = {cell["law"] for cell in report.cells if cell["verdict"] == "pass"}
    assert "recurrence" in tested, tested


test_a_right_function_conforms = conforming(RIGHT, is_tested_as_a_recurrence)
test_a_wrong_function_does_not = refuted(WRONG)
