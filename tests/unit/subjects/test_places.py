"""What the places of parameters say of them."""

import torch

from attnspec.mechanisms.loader import library
from attnspec.subjects.places import called_as_inputs, misplaced, placed


def test_inputs_that_are_known_by_their_places_alone_are_told():
    attention = library()["attention"]
    assert {"other": "k", "third": "v"} == placed(lambda query, other, third, sm_scale=None: None, attention)
    assert {} == placed(lambda q, key, values: None, attention)


def test_a_name_that_says_another_input_than_its_place_is_told():
    attention = library()["attention"]
    assert ("key", "q", "its name says k") == misplaced(lambda key, q, v: None, attention)
    assert ("is_causal_at_all", "k", "its name says a flag") == misplaced(lambda q, is_causal_at_all: None, attention)
    assert ("lse", "k", "its name says lse") == misplaced(lambda out, lse, sinks: None, attention)
    assert ("causal", "v", "its name says causal") == misplaced(lambda q, k, causal: None, attention)
    assert misplaced(lambda a, b, c: None, attention) is None
    assert misplaced(lambda out, b, c: None, attention) is None


def test_a_number_or_indices_at_the_place_of_an_array_are_told_by_name_or_annotation():
    def tables(tokens: int, device: torch.device):
        pass

    def angles(x, start: "int"):
        pass

    routing, rotary = library()["moe_routing"], library()["rotary"]
    assert ("tokens", "x", "its name says length") == misplaced(tables, rotary)
    assert ("start", "positions", "its annotation says int") == misplaced(angles, rotary)
    assert ("num_choices", "logits", "its name says a count") == misplaced(lambda num_choices, k: None, routing)
    assert ("topk_indices", "logits", "its name says indices") == misplaced(lambda topk_indices, k: None, routing)
    attention = library()["attention"]
    assert ("indexer_topk", "v", "its name says indices") == misplaced(lambda q, kv, indexer_topk: None, attention)
    assert misplaced(lambda x, position_ids: None, rotary) is None
    line = "moe_routing(topk_indices=logits, num_experts=experts)"
    assert ("topk_indices", "logits", "its name says indices") == misplaced(
        lambda topk_indices, num_experts: None, routing, line
    )


def test_an_object_at_the_place_of_an_array_is_told():
    def flattened(cfg: dict):
        pass

    rotary = library()["rotary"]
    assert ("cfg", "x", "its name says no array") == misplaced(flattened, rotary)
    assert ("rope_config", "x", "its name says no array") == misplaced(lambda rope_config, positions: None, rotary)
    assert ("blocks", "x", "its annotation says dict") == misplaced(annotated({"blocks": dict}), rotary)
    assert misplaced(lambda x_block, positions: None, rotary) is None


def test_an_array_at_the_place_of_a_size_is_told_by_its_annotation():
    sinusoidal = library()["sinusoidal"]
    assert ("t", "length", "its annotation says Tensor") == misplaced(annotated({"t": torch.Tensor}), sinusoidal)
    assert misplaced(annotated({"t": int}), sinusoidal) is None


def test_the_size_that_a_letter_may_say_is_no_input_by_name():
    rotary = library()["rotary"]
    assert {"S": "x", "D": "positions"} == placed(lambda S, D, device: None, rotary)


def test_a_number_is_no_array_unless_the_input_is_a_single_one():
    dequantize = library()["dequantize"]
    assert misplaced(annotated({"scale": float}), dequantize) is None
    assert ("codes", "codes", "its annotation says int") == misplaced(annotated({"codes": int}), dequantize)


def test_a_function_that_is_only_told_how_large_the_first_input_is_lacks_it():
    like = "rotary(seq_len=length, n_elem=size(reshape(x, -1)))"
    told = ("n_elem", "x", "its name says how many entries that has")
    assert told == misplaced(lambda seq_len, n_elem: None, library()["rotary"], like)
    assert misplaced(lambda x, n_elem: None, library()["rotary"], "rotary(x=x, n_elem=size(reshape(x, -1)))") is None


def test_inputs_that_names_say_are_told():
    loss = library()["cross_entropy"]
    assert {"logits", "labels"} == called_as_inputs(lambda logits, labels: None, loss)
    assert {"logits"} == called_as_inputs(lambda logits, other: None, loss)


def annotated(annotations):
    """A function with one parameter, and its annotation."""
    ((name, annotation),) = annotations.items()
    functions = (lambda t: t, lambda blocks: blocks, lambda codes: codes, lambda codes, scale: codes)
    function = next(one for one in functions if name in one.__code__.co_varnames)
    function.__annotations__ = {name: annotation}
    return function
