"""A set is made of what was asked for, and the same bytes again."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from attnspec.errors import UsageError
from attnspec.mechanisms.loader import Specs, library
from attnspec.vectors import sets
from attnspec.vectors.sets import Asked, chosen, files
from attnspec.vectors.tensors import decoded

SOFTMAX = Asked(("softmax",))


def written(asked):
    return {name: data for name, data, _ in files(asked, library())}


def index(asked):
    return json.loads(written(asked)["index.json"])


@pytest.mark.parametrize("small", [True, False])
def test_the_same_seed_gives_the_same_bytes(small):
    asked = replace(SOFTMAX, small=small, dtypes=("bfloat16",))
    assert written(asked) == written(asked)


def test_another_seed_gives_other_inputs():
    first, second = (written(replace(SOFTMAX, seed=seed)) for seed in (0, 1))
    assert first["softmax.float32.safetensors"] != second["softmax.float32.safetensors"]


def test_every_array_of_the_index_is_in_the_file():
    found = written(replace(SOFTMAX, dtypes=("float32", "float16")))
    said = json.loads(found["index.json"])
    for stated in said["mechanisms"]:
        tensors = decoded(found[stated["file"]])
        named = {}
        for vector in said["vectors"]:
            if vector["dtype"] == stated["dtype"]:
                named |= {x["tensor"]: x["shape"] for x in vector["inputs"].values()}
                named |= {x[key]: x["shape"] for x in vector["outputs"].values() for key in ("expected", "bound")}
        for relation in said["relations"]:
            if relation["dtype"] == stated["dtype"]:
                named |= {x["tensor"]: x["shape"] for call in relation["calls"] for x in call["inputs"].values()}
                sides = (relation["left"], relation["right"])
                own = [relation["bound"], *(side["constant"] for side in sides)]
                own += [term[key] for side in sides for term in side["terms"] for key in ("factors", "places")]
                named |= {name: relation["shape"] for name in own if name}
        assert named == {name: [*x.shape] for name, x in tensors.items()}
        assert stated["dtype"] in {str(x.dtype) for x in tensors.values()}


def test_laws_between_several_calls_are_stated_and_a_small_set_has_few_of_them():
    asked = replace(SOFTMAX, dtypes=("float16",))
    small, full = (index(replace(asked, small=one))["relations"] for one in (True, False))
    assert {x["law"] for x in small} < {x["law"] for x in full}
    assert {"shift_invariant", "reordered", "one_row", "doubled"} <= {x["law"] for x in full}
    refuted = [{name for x in found for name in x["refutes"]} for found in (small, full)]
    assert refuted[0] == refuted[1]
    assert all(len(x["calls"]) > 1 for x in full)


def test_an_operator_stands_for_its_mechanisms_and_a_mechanism_for_itself():
    assert {"attention", "causal_mask", "alibi"} <= {m.name for m in chosen(Asked(("attention",)), library())}
    assert ["causal_mask"] == [m.name for m in chosen(Asked(("causal_mask", "causal_mask")), library())]


def test_mechanisms_from_outside_have_vectors_and_the_command_names_their_folder():
    folder = str(Path(__file__).parents[3] / "examples/private/specs")
    found = {name: data for name, data, _ in files(Asked(("quiet_softmax",)), Specs((folder,)).library())}
    said = json.loads(found["index.json"])
    assert ["quiet_softmax"] == [stated["mechanism"] for stated in said["mechanisms"]]
    assert said["provenance"]["command"].endswith(f" --seed 0 --spec {shlex.quote(folder)}")


def test_the_command_says_all_that_was_asked_for():
    asked = Asked(("softmax",), ("float16",), {"empty_row": "nans"}, "fp16", ("causal", "scale"), False, 3)
    told = "attnspec vectors softmax --dtype float16 --convention empty_row=nans --grade fp16 --takes causal,scale"
    assert f"{told} --full --seed 3" == asked.command
    assert "attnspec vectors --all --dtype float32 --small --seed 0" == Asked().command


def test_a_declared_word_is_followed_and_the_rest_are_told():
    plain, declared = index(SOFTMAX), index(replace(SOFTMAX, words={"empty_row": "nans"}))
    assert (["empty_row"], []) == tuple(x["mechanisms"][0]["undeclared"] for x in (plain, declared))
    assert {"empty_row": "nans"} == declared["mechanisms"][0]["conventions"]
    assert "empty_row = zeros" in declared["mechanisms"][0]["mistakes"]
    assert plain["mechanisms"][0]["digest"] == library()["softmax"].digest


def test_only_what_is_taken_is_passed(monkeypatch):
    monkeypatch.setattr(sets, "PROFILE", sets.PROFILES["smoke"])
    found = index(Asked(("multi_query",), takes=("causal",)))
    passed = {name for vector in found["vectors"] for name in (*vector["inputs"], *vector["options"])}
    assert {"q", "k", "v", "causal"} >= passed


def test_what_cannot_be_passed_is_left_out_with_the_reason():
    found = index(Asked(("softmax", "padding_mask", "dropout"), takes=()))
    assert {"padding_mask", "dropout"} == found["left_out"].keys()
    assert "does not take mask" in found["left_out"]["padding_mask"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Asked(("softmx",)), "unknown mechanism 'softmx'; did you mean 'softmax'?"),
        (replace(SOFTMAX, dtypes=("fp16",)), "unknown dtype 'fp16'; did you mean 'float16'?"),
        (replace(SOFTMAX, words={"empty": "nans"}), "no mechanism here has a convention 'empty'"),
        (replace(SOFTMAX, words={"empty_row": "nan"}), "empty_row has no word 'nan'; did you mean 'nans'?"),
        (replace(SOFTMAX, grade="fp"), "unknown grade 'fp'"),
        (replace(SOFTMAX, takes=("causl",)), "no mechanism here has an option or optional input 'causl'"),
        (Asked(("dropout",)), "nothing of this has vectors: dropout: its outputs are random"),
    ],
)
def test_what_is_not_known_is_told(asked, told):
    with pytest.raises(UsageError) as error:
        written(asked)
    assert told in str(error.value)


def test_some_mechanisms_of_every_kind_have_vectors(monkeypatch):
    monkeypatch.setattr(sets, "PROFILE", sets.PROFILES["smoke"])
    names = ("beam_search", "decay_groups", "model_flops", "alibi_slopes", "rotary_frequencies", "top_p_filter")
    found = index(Asked(names))
    assert [*names] == [stated["mechanism"] for stated in found["mechanisms"]]
