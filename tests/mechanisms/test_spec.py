"""House rules that hold of every shipped specification."""

import re

import numpy as np
import pytest

from attnspec import reference
from attnspec.cases.plans import directed
from attnspec.cases.samples import Sample
from attnspec.mechanisms.definition import Frame, refused
from attnspec.mechanisms.documents import read
from attnspec.mechanisms.lint import faults
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import Mechanism
from attnspec.mechanisms.references import reference_outputs
from attnspec.mechanisms.schema import spec_folder
from attnspec.subjects.claims import Claims

EVERY = pytest.mark.parametrize("mechanism", library().values(), ids=library())
OPERATORS = {mechanism.operator for mechanism in library().values()}
FEWEST_MISTAKES = {"attention": 20}
SMALL = 50_000


def samples(mechanism) -> list[Sample]:
    """The scenarios and worked examples, each as a case of its own."""
    claims = Claims(frozenset({*mechanism.optional, *mechanism.options}), ("float64",))
    return [Sample(mechanism, case, "float64", claims=claims) for case in directed(mechanism, claims, 0)]


@EVERY
def test_the_file_is_named_after_the_mechanism(mechanism: Mechanism):
    assert str(read(spec_folder() / f"{mechanism.name}.yaml")["mechanism"]) == mechanism.name


def test_every_operator_has_a_specification_and_a_reference_of_its_name():
    assert sorted(OPERATORS) == sorted(reference.__all__)
    assert OPERATORS <= set(library())
    assert all(callable(getattr(reference, operator)) for operator in OPERATORS)


@EVERY
def test_an_operator_is_its_own_and_a_further_mechanism_has_its_signature(mechanism: Mechanism):
    operator = library()[mechanism.operator]
    assert operator.operator == operator.name
    assert operator.required == mechanism.required
    assert operator.outputs == mechanism.outputs


@EVERY
def test_every_name_is_snake_case(mechanism: Mechanism):
    sections = (
        mechanism.sizes,
        mechanism.inputs,
        mechanism.options,
        mechanism.definition,
        mechanism.conventions,
        *mechanism.conventions.values(),
        mechanism.requires,
        mechanism.laws,
        mechanism.mistakes,
        mechanism.rejects,
        mechanism.scenarios,
        mechanism.regimes,
        mechanism.examples,
    )
    names = [mechanism.name, *(name for section in sections for name in section)]
    assert [] == [name for name in names if not re.fullmatch("[a-z][a-z0-9]*(_[a-z0-9]+)*", name)]


@EVERY
def test_there_are_enough_known_mistakes(mechanism: Mechanism):
    assert len(mechanism.mistakes) >= FEWEST_MISTAKES.get(mechanism.name, 5)


@EVERY
def test_there_are_laws_scenarios_and_sources(mechanism: Mechanism):
    assert len(mechanism.laws) >= 3
    assert len(mechanism.scenarios) >= 1
    assert all(len(source) > 20 for source in mechanism.sources)
    assert mechanism.title
    assert mechanism.summary.endswith(".")


@EVERY
def test_the_linter_has_nothing_to_say(mechanism: Mechanism):
    assert [] == [str(fault) for fault in faults(mechanism)]


@EVERY
def test_no_two_laws_or_mistakes_are_the_same(mechanism: Mechanism):
    laws = [(law.when.text, law.holds.text) for law in mechanism.laws.values()]
    mistakes = [str(mistake.change) for mistake in mechanism.mistakes.values()]
    for sentences in ([law.says for law in mechanism.laws.values()], [m.says for m in mechanism.mistakes.values()]):
        assert sorted(set(sentences)) == sorted(sentences)
    assert (len(laws), len(mistakes)) == (len(set(laws)), len(set(mistakes)))


@EVERY
def test_every_scenario_is_admissible(mechanism: Mechanism):
    wanted = {*mechanism.scenarios, *(f"example:{name}" for name in mechanism.examples)}
    drawn = samples(mechanism)
    assert wanted == {sample.case.scenario for sample in drawn}
    for sample in drawn:
        assert None is refused(mechanism, sample.values)


@EVERY
def test_every_worked_example_holds_of_the_definition_and_of_the_reference(mechanism: Mechanism):
    for sample in samples(mechanism):
        kind, _, name = sample.case.scenario.partition(":")
        if kind != "example":
            continue
        for outputs in (Frame(mechanism, sample.values).outputs(), reference_outputs(mechanism, sample.values)):
            for output, printed in mechanism.examples[name].gives.items():
                found = np.asarray(outputs[output])
                assert np.shape(printed.value) == found.shape
                with np.errstate(invalid="ignore"):
                    distance = np.where(found == printed.value, 0.0, np.abs(found - printed.value))
                assert np.all(distance <= printed.tolerance), f"{name}: {output} = {found.tolist()}"


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_every_operator_has_a_worked_example_unless_chance_decides(operator):
    assert library()[operator].examples or library()[operator].random


@EVERY
def test_definition_and_reference_agree_on_every_scenario(mechanism: Mechanism):
    for sample in samples(mechanism):
        if sample.entries > SMALL:
            continue
        frame, other = Frame(mechanism, sample.values).outputs(), reference_outputs(mechanism, sample.values)
        for output in set(mechanism.outputs) & set(other) - set(mechanism.random):
            found = np.asarray(frame[output], np.float64)
            known = np.isfinite(found)  # what the definition leaves open is NaN
            np.testing.assert_allclose(
                np.asarray(other[output], np.float64)[known],
                found[known],
                rtol=1e-9,
                atol=1e-9,
                err_msg=f"{sample.case.label}: {output}",
            )
