"""Keys and values written to slots: both witnesses by hand, functions of vLLM's interfaces, and slots gone wrong."""

import numpy as np
import pytest
import torch

import attnspec
from attnspec import reference
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library


def defined(operator):
    return lambda **values: {name: np.asarray(x) for name, x in Frame(library()[operator], values).outputs().items()}


def written(**values):
    return {"new_rows": reference.latent_cache_write(**values)}


CACHE = np.arange(12.0).reshape(3, 2, 1, 2)
NEW = 100 + np.arange(6.0).reshape(3, 1, 2)
SLOTS = np.array([5, -1, 2])
EXPECTED = [[0, 1], [2, 3], [104, 105], [6, 7], [8, 9], [100, 101]]


@pytest.mark.parametrize("witness", [defined("cache_write"), reference.cache_write])
def test_tokens_go_to_their_slots_and_padding_nowhere(witness):
    found = witness(k=NEW, v=-NEW, key_cache=CACHE, value_cache=CACHE, slots=SLOTS)
    assert EXPECTED == found["keys"].reshape(6, 2).tolist()
    assert [-104, -105] == found["values"].reshape(6, 2)[2].tolist()


@pytest.mark.parametrize("witness", [defined("coded_cache_write"), reference.cache_write])
def test_codes_are_the_nearest_ones_of_quotients_within_the_range(witness):
    given = {"k": NEW[:1], "v": 30 * NEW[:1], "key_cache": CACHE, "value_cache": CACHE, "slots": np.array([0])}
    found = witness(**given, k_scale=np.array([0.5]), v_scale=np.array([2.0]))
    assert ([192, 208], [448, 448]) == (
        found["keys"].reshape(6, 2)[0].tolist(),
        found["values"].reshape(6, 2)[0].tolist(),
    )


@pytest.mark.parametrize("witness", [defined("scaled_cache_write"), reference.scaled_cache_write])
def test_each_token_and_head_has_a_scale_at_its_slot(witness):
    k = np.array([[[1.27, -0.5]], [[254.0, 2.1]]])
    scales = np.full((3, 2, 1), 9.0)
    given = {"k": k, "v": -k, "key_cache": CACHE, "value_cache": CACHE, "slots": np.array([4, 1])}
    found = witness(**given, key_scales=scales, value_scales=scales)
    assert [[127, -50], [127, 1]] == found["keys"].reshape(6, 2)[[4, 1]].tolist()
    assert [[-127, 50], [-127, -1]] == found["values"].reshape(6, 2)[[4, 1]].tolist()
    np.testing.assert_allclose(found["new_key_scales"].ravel(), [9, 2, 9, 9, 0.01, 9], rtol=1e-12)


@pytest.mark.parametrize("witness", [defined("latent_cache_write"), written])
def test_a_latent_lies_before_its_rotary_key(witness):
    found = witness(latent=NEW[:, 0, :1], k_rope=NEW[:, 0, 1:], rows=CACHE[:, :, 0], slots=SLOTS)
    assert EXPECTED == np.asarray(found["new_rows"]).reshape(6, 2).tolist()


@pytest.mark.parametrize("operator", ["cache_write", "scaled_cache_write"])
def test_the_reference_refuses_slots_beyond_the_cache(operator):
    scales = {"key_scales": CACHE[..., 0], "value_scales": CACHE[..., 0]} if operator == "scaled_cache_write" else {}
    with pytest.raises(ValueError, match="a slot inside them"):
        getattr(reference, operator)(k=NEW, v=NEW, key_cache=CACHE, value_cache=CACHE, slots=SLOTS + 1, **scales)


def writing(slots_of=lambda slots: slots, *, scaled=True):
    def reshape_and_cache_flash(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale):
        slots = slots_of(slot_mapping)
        page, place = slots // key_cache.shape[1], slots % key_cache.shape[1]
        for cache, came, scale in ((key_cache, key, k_scale), (value_cache, value, v_scale)):
            step = scale if scaled else 1.0
            new = {"fp8": (came.float() / step).clamp(-448, 448), "auto": came}[kv_cache_dtype]
            at = (slots >= 0) | (slots_of(torch.tensor([-1])) >= 0)
            cache[page[at], place[at]] = new[at].to(cache.dtype)

    return reshape_and_cache_flash


def latents(padded):
    def concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale):
        at = (slot_mapping >= 0) | padded
        slots = slot_mapping[at]
        kv_cache[slots // kv_cache.shape[1], slots % kv_cache.shape[1]] = torch.cat((kv_c, k_pe), 1)[at]

    return concat_and_cache_mla


def failing(function):
    report = attnspec.check(function, profile="smoke", dtypes=("float32",), explain_time=0)
    cells = [cell for cell in report.lines if cell["kind"] == "cell"]
    return report.conformant, {cell["mechanism"] for cell in cells if cell["verdict"] == "fail"}


def test_a_function_that_writes_in_place_is_checked_with_numbers_and_with_codes():
    assert (True, set()) == failing(writing())
    assert (False, {"coded_cache_write"}) == failing(writing(scaled=False))


@pytest.mark.parametrize("slots_of", [lambda slots: slots.clamp(min=0), lambda slots: slots % 10**6 % 12])
def test_padding_that_is_written_somewhere_is_found(slots_of):
    assert "cache_write" in failing(writing(slots_of))[1]


def test_a_function_that_writes_latents_is_checked():
    assert (True, set()) == failing(latents(padded=False))
    assert (False, {"latent_cache_write"}) == failing(latents(padded=True))


FLASHINFER = """
def append_paged_kv_cache(
    append_key, append_value, batch_indices, positions, paged_kv_cache, kv_indices, kv_indptr, kv_last_page_len,
    kv_layout="NHD",
):
    size = paged_kv_cache.shape[2]
    page = kv_indices[(kv_indptr[batch_indices.long()] + positions // size).long()].long()
    paged_kv_cache[page, 0, (positions % size).long()] = append_key
    paged_kv_cache[page, 1, (positions % size).long()] = append_value
"""


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("kv_indices[(", "kv_indices.sort().values[(", "got"),
        ("] = append_value", "] = append_key", "Like"),
        ("page, 1,", "page, 0,", "cache_write.values_not_written in values"),
    ],
)
def test_pages_of_keys_and_values_in_one_array_are_written(right, wrong, says, tmp_path):
    source, faulty = tmp_path / "right.py", tmp_path / "faulty.py"
    source.write_text(FLASHINFER)
    assert right in FLASHINFER
    faulty.write_text(FLASHINFER.replace(right, wrong))
    report = attnspec.check(f"{source}:append_paged_kv_cache", laws="cache_write.definition", isolate=False)
    assert "is treated as append_paged_kv_cache" in str(report).splitlines()[0]
    assert report.conformant, report
    text = str(attnspec.check(f"{faulty}:append_paged_kv_cache", laws="cache_write.definition", isolate=False))
    assert "NOT CONFORMANT" in text
    assert says in text, text
