"""What gives no result where the subject raises an error explains more than what has one there."""

import pytest

from attnspec.cases.profiles import Profile
from attnspec.diagnosis.naming import diagnose
from attnspec.judging.cells import Request
from attnspec.judging.engine import run
from attnspec.judging.shrinking import made_small
from attnspec.language.expressions import Expression
from attnspec.mechanisms.loader import library
from attnspec.runs.explaining import headline
from attnspec.subjects.stand_ins import DefinitionSubject

pytestmark = pytest.mark.usefixtures("steady")

SCENARIOS = Profile("scenarios", covering=8, draws=0, admitted=1)


def named(text):
    """The name of a definition of attention that forgets by channels whose factor is a text."""
    m = library()["wkv7"]
    changed = DefinitionSubject(m, "changed", {"factor": Expression(text, m.definition["factor"].scope)})
    result = run(Request(changed, m, "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = next(cell.failure for cell in result.cells if cell.bad and cell.failure.outcome.fault is None)
    return diagnose(result.bench, failure, 0).name


def test_a_mistake_is_named_where_the_subject_answers_every_call():
    assert "wkv7.always_by_the_root" == named("key_dim ** -0.5")


def test_a_swapped_test_for_an_option_is_told_by_the_errors_without_it():
    assert "scale != none" in named("key_dim ** -0.5 if scale != none else scale")


class Sometimes(DefinitionSubject):
    """A definition with a changed line where an option is given."""

    def __init__(self, mechanism, line, text, option):
        super().__init__(mechanism, "sometimes", {line: Expression(text, mechanism.definition[line].scope)})
        self.option = option

    def frame(self, call, changes, unchanged=None):
        return super().frame(call, changes if call.options.get(self.option) is not None else {}, unchanged)


def test_of_edits_that_give_the_same_on_nearly_every_case_under_a_condition_the_right_one_is_told():
    m = library()["rotary_frequencies"]
    text = m.definition["slow_at"].text.replace("2 * log(base)", "4 * log(base)")
    result = run(
        Request(
            Sometimes(m, "slow_at", text, "attention_factor"), m, "float32", SCENARIOS, laws=frozenset({"definition"})
        )
    )
    failure = made_small(headline([cell for cell in result.cells if cell.bad], m).failure, result)
    told = diagnose(result.bench, failure, 0)
    assert "slow_at: 2 * log(base) -> 4 * log(base) where attention_factor is given" == told.name


class Where(DefinitionSubject):
    """A definition with a changed line where something is so of its inputs."""

    def __init__(self, mechanism, line, text, holds):
        near = mechanism.definition.get(line) or next(iter(mechanism.definition.values()))
        super().__init__(mechanism, "where", {line: Expression(text, near.scope)})
        self.holds = holds

    def frame(self, call, changes, unchanged=None):
        return super().frame(call, changes if self.holds(call.inputs) else {}, unchanged)


def likeness(subject):
    m = subject.mechanism
    result = run(Request(subject, m, "float32", SCENARIOS, laws=frozenset({"definition"})))
    failure = made_small(headline([cell for cell in result.cells if cell.bad], m).failure, result)
    return diagnose(result.bench, failure, 0)


def test_a_condition_is_no_narrower_than_where_the_subject_raises_errors():
    m = library()["latent_cache_write"]
    text = m.definition["hit"].text.replace("page_size", "pages")
    told = likeness(Where(m, "hit", text, lambda inputs: inputs["k_rope"].shape[-1] == 1))
    assert (
        "hit: target == range(pages * page_size)[:, none] -> target == range(pages * pages)[:, none] where rope_dim = 1"
        == told.name
    )


def test_a_condition_that_holds_on_all_cases_at_first_is_told():
    m = library()["policy_loss"]
    text = "where(range(length) == 0, gather(importance, 0 * range(items), 0), importance)"
    told = likeness(Where(m, "importance", text, lambda inputs: inputs["log_probs"].shape[1] >= 3))
    assert "where length >= 3" in told.name


def test_of_two_edits_of_a_line_the_costlier_one_is_told_where_it_alone_is_right_under_its_condition():
    m = library()["packed_attention"]
    text = f"({m.definition['k_item'].text}) * kv_heads"
    told = likeness(Where(m, "k_item", text, lambda inputs: inputs["k"].shape[1] >= 3))
    assert told.name.endswith("* kv_heads where kv_heads >= 3")
    assert not any("mean" in name for name in told.others)


def test_an_edit_of_a_line_that_no_case_tells_from_what_is_told_is_told_with_it():
    m = library()["generate"]
    text = "where(range(layers)[:, none] == 0, gather(mlp_norm, 0 * range(dim), -1), mlp_norm)"
    told = likeness(Where(m, "mlp_norm", text, lambda inputs: True))
    assert any("for the first of layers" in name for name in (told.name, *told.others))


def test_what_raises_errors_on_fresh_cases_alone_is_no_mistake_that_has_results_there():
    m = library()["padded_pack_gradient"]
    text = m.definition["in_window"].text.replace("distance >= -window_right", "row >= -window_right")
    told = likeness(Where(m, "in_window", text, lambda inputs: True))
    line = (
        "in_window: window_right == none or distance >= -window_right -> window_right == none or row >= -window_right"
    )
    assert line == told.name


def test_of_several_conditions_that_fit_the_one_is_told_that_cases_tell_from_the_others():
    m = library()["decoder"]
    told = likeness(Where(m, "blocks", "first", lambda inputs: inputs["wk"].shape[2] >= 3))
    assert "decoder.second_layer_skipped where kv_dim >= 4" == told.name


def test_a_condition_holds_also_where_the_line_that_it_is_about_raises_errors():
    m = library()["deformable_attention_gradient"]
    text = m.definition["off_down"].text.replace("row", "(first // broad[:, none])")
    told = likeness(Where(m, "off_down", text, lambda inputs: len(inputs["spatial_shapes"]) % 2 == 1))
    assert "off_down: row -> first // broad[:, none] where levels is odd" == told.name
    assert not any("-> down[..., none]" in name for name in told.others)


def test_a_mistake_under_a_condition_is_no_edit_of_a_line_that_it_leaves_out():
    m = library()["bidirectional_pages"]
    text = m.definition["row_within"].text.replace("row[..., none] >=", "(-row)[..., none] >=")
    told = likeness(Where(m, "row_within", text, lambda inputs: inputs["q"].shape[2] >= 3))
    line = "row_within: row[..., none] >= spans[:, none, :, 0] -> (-row)[..., none] >= spans[:, none, :, 0]"
    assert f"{line} where heads >= 3" == told.name


def test_an_edit_of_the_line_beside_it_is_told_where_it_alone_is_right_everywhere():
    m = library()["hstu_attention"]
    number = m.definition["number"].text.replace("last", "item")
    told = f"context > 0 and {number}[:, none] == 0 and {number} < item"
    text = m.definition["allowed"].text.replace("from_context", f"({told})")
    assert f"allowed: from_context -> {told}" == likeness(Where(m, "allowed", text, lambda inputs: True)).name
