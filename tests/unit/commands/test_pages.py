"""The pages of `attnspec list` and `attnspec explain`."""

import re
from collections import Counter

import pytest

from attnspec.adapters import Adapter
from attnspec.commands.listing import listed
from attnspec.commands.pages import _pages, explained
from attnspec.errors import UsageError
from attnspec.judging.contracts import CONTRACTS
from attnspec.language.functions import FUNCTIONS
from attnspec.mechanisms.library import Library
from attnspec.mechanisms.loader import library
from attnspec.mechanisms.mechanism import LAYOUTS
from attnspec.numerics.formats import FORMATS
from attnspec.numerics.grades import GRADES
from attnspec.reporting.glossary import LAYOUT_SAYS, STANDINGS, meanings
from attnspec.subjects.registered import shipped

LISTS = ("mechanisms", "laws", "operators", "adapters", "mistakes", "conventions", "functions")


def first_words(what):
    return [line.split()[0] for line in listed(what) if line[:1].strip()]


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("mechanisms", r"softmax +softmax +\d+ +\d+ +\d+   Softmax"),
        ("laws", r"softmax\.sums_to_one   The entries of a row add up to one\."),
        ("laws", r"contract\.shape   Every output has the shape that the definition gives it\."),
        ("laws", r"alibi_slopes\.no_heads   Refused: There is at least one head\.   \(should\)"),
        ("operators", r"softmax\(x \[rows, n\]\)"),
        ("operators", r"alibi_slopes\(\*, heads=required\)"),
        ("adapters", r"torch_softmax +softmax +float32 bfloat16 float16 float64 +torch\.nn\.functional\.softmax .*"),
        ("mistakes", r"softmax\.base_two   Powers of two take the place of exponentials\."),
        ("mistakes", r"softmax\.floored_maximum   .*   seen: flashinfer-ai/flashinfer#4267, .*"),
        ("mistakes", r"fault:sum_of_the_block   Where the maximum rises, the sum starts anew\."),
        ("mistakes", r"fault:grid_of_65535   .*   seen: flashinfer-ai/flashinfer#3125, .*"),
        ("conventions", r"softmax: empty_row"),
        ("conventions", r"    nans +A row of minus infinities gives NaN\."),
        ("functions", r"    exp\(x\) +The exponential\."),
        ("functions", r"    normal\(n, .*\) +Normal numbers .*"),
    ],
)
def test_everything_can_be_listed(what, line):
    assert any(re.fullmatch(line, shown) for shown in listed(what))


def test_every_mechanism_and_every_adapter_is_listed_once():
    assert ["mechanism", *library()] == first_words("mechanisms")
    assert [adapter.name for adapter in shipped()] == first_words("adapters")


@pytest.mark.parametrize("what", ["mechanisms", "laws", "adapters", "mistakes"])
def test_whatever_is_listed_can_be_explained(what):
    for name in first_words(what)[what == "mechanisms" :]:
        assert name in next(iter(explained(name))) or library()[name].title == next(iter(explained(name)))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("softmax", "Softmax"),
        ("softmax", "    base_two             Powers of two take the place of exponentials."),
        ("softmax", "    gives p = [[0.0900306, 0.2447285, 0.665241]]"),
        ("softmax", "softmax(x [rows, n])"),
        ("softmax", "    attnspec check torch_softmax --mechanism softmax"),
        (
            "softmax",
            "    floored_maximum      The maximum starts at a finite number, and rows that lie below it vanish.",
        ),
        ("softmax", "                         Seen: flashinfer-ai/flashinfer#4267, flashinfer-ai/flashinfer#4401."),
        ("softmax", "attnspec audit --mechanism softmax --table shows what each law refutes."),
        ("alibi_slopes", "    some: heads > 0"),
        ("alibi_slopes", "    no_heads             There is at least one head. (should)"),
        ("einsum", "    matrix_product       'ij,jk->ik'"),
        ("causal_mask", "Definition (that of attention)"),
        ("causal_mask", "        top_left: The first query sees the first key alone, whatever the lengths are."),
        (
            "causal_mask",
            "    decode:             head_dim = 8, value_dim = 8, batch = 2, kv_heads = 2, q_len = 1, k_len = 9",
        ),
        ("beam_search", "    gives tokens = [[1, 0], [0, 0]]"),
        ("decay_groups", "    gives decayed = [false, false, true, true, true]"),
        ("model_flops", "    layers = 1, heads = 1, kv_heads = none, dim = 1, head_dim = none, hidden = 1, vocab = 1,"),
        ("softmax.ratio", "    n > 1 and all(abs(x) < 40)"),
        ("softmax.definition", "    total: sum(terms, keep = true)"),
        ("softmax.definition", "               else 1 / size(x))"),
        ("softmax.base_two", "        instead of exp(shift(x))"),
        ("softmax.base_two", "attnspec check mistake:softmax.base_two shows the laws that refute it."),
        ("alibi_slopes.no_heads", "    A call must be refused: There is at least one head."),
        ("empty_row", "    nans: A row of minus infinities gives NaN."),
        ("convention.empty_row", "    @adapter('softmax', conventions={'empty_row': 'zeros'})"),
        ("softmax.convention.empty_row", "    zeros: A query that may see no key returns zeros."),
        ("contract.dtype", "    Every output has the dtype of the inputs, or its own."),
        (
            "softmax.contract.dtype",
            "    Cast the result to the dtype of the first input; a logsumexp stays in float32.",
        ),
        ("bf16", "    bfloat16: fp32 -> bf16 (standard) -> bf16_naive"),
        ("torch_softmax", "    conventions: {'empty_row': 'nans'}"),
        (
            "fault:grid_of_65535",
            "seen in flashinfer-ai/flashinfer#3125, pytorch/pytorch#142228, fla-org/flash-linear-attention#172",
        ),
        ("fault:grid_of_65535", "attnspec check fault:grid_of_65535 shows the laws that refute it."),
        ("exp", "    The exponential."),
        ("normal", "    Normal numbers with mean 0 and standard deviation `spread`, in the shape n."),
    ],
)
def test_every_kind_of_name_has_a_page(name, line):
    assert line in list(explained(name))


def test_a_name_that_one_mechanism_has_is_enough():
    names = Counter(name for m in library().values() for name in (*m.laws, *m.mistakes, *m.rejects))
    (m, law) = next((m, law) for m in library().values() for law in m.laws if names[law] == 1)
    own = list(explained(m.address(law)))
    assert own == list(explained(law))[: len(own)]  # what else goes by that name comes after it


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sofmax", "nothing is named 'sofmax'; did you mean 'softmax'?"),
        ("sums_to_on", "nothing is named 'sums_to_on'; did you mean 'sums_to_one'?"),
        ("softmax.sums_to_on", "nothing is named 'softmax.sums_to_on'; did you mean 'softmax.sums_to_one'?"),
        ("no_heads", "nothing is named 'no_heads'; one of alibi_bias.no_heads, alibi_slopes.no_heads"),
        ("softmax.contract.size", "nothing is named 'contract.size'"),
        ("zzzz", "nothing is named 'zzzz'"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name, message):
    with pytest.raises(UsageError) as caught:
        explained(name)
    assert str(caught.value).startswith(message)


def test_pages_fit_a_terminal():
    names = [*FUNCTIONS, *GRADES, *(f"contract.{c}" for c in CONTRACTS), *first_words("mistakes")]
    names += [m.address(law) for m in library().values() for law in list(m.laws)[:1]]
    names += [c for m in library().values() for c in m.conventions]
    pages = _pages(library(), library().values())
    assert [] == [name for name in {*names, *library()} for line in pages[name]() if len(line) > 100]
    assert [] == [line for line in listed("operators") if len(line) > 100]


def test_an_adapter_that_is_not_installed_is_listed_with_the_command_that_installs_it(monkeypatch):
    known = [
        Adapter("extra", "softmax", len, "numpy", package="no_such_package", extra="onnx", summary="Of an extra."),
        Adapter("other", "softmax", len, "numpy", package="no_such_package.kernels", summary="Of a package."),
    ]
    monkeypatch.setattr("attnspec.subjects.registered._declared", lambda: known)
    extra, other = listed("adapters")
    assert extra.endswith("Of an extra.   not installed: pip install 'attnspec[onnx]'")
    assert other.endswith("Of a package.   not installed: pip install no_such_package")
    assert "    not installed: pip install 'attnspec[onnx]'" == list(explained("extra"))[-1]


def explanation(name):
    return "\n".join(explained(name))


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("bottom_right", "bottom_right (a word of the convention causal_alignment of attention)"),
        ("zeros", "    A query that may see no key returns zeros."),
        ("zeros", "zeros (a scenario of layer_norm)"),
        ("crowd", "crowd (a scenario of aft_full)"),
        ("float32", "float32 (a dtype)"),
        ("transposed", "transposed (a memory layout of inputs)"),
        ("NOT CONFORMANT", "NOT CONFORMANT (of a report)"),
        ("not_tested", "    No case could decide the law; the cell says why."),
    ],
)
def test_a_word_of_a_report_is_explained(word, line):
    assert line in explanation(word).splitlines()


def test_every_word_that_a_report_may_print_is_explained():
    words = {*FORMATS, *LAYOUTS, *STANDINGS, *GRADES, *CONTRACTS}
    for m in library().values():
        words.update((m.name, *m.scenarios, *m.regimes, *m.examples, *m.conventions, *m.inputs, *m.options, *m.outputs))
        words.update(word for named in (*m.conventions.values(), *m.vocabulary.values()) for word in named)
    paged = {*_pages(library(), library().values())}
    assert [] == [w for w in sorted(words) if not {w, f"contract.{w}"} & paged and not any(meanings(w, library()))]


def test_every_layout_is_said():
    assert sorted(LAYOUTS) == sorted(LAYOUT_SAYS)


def test_a_word_that_is_nearly_known_gets_a_hint():
    with pytest.raises(UsageError, match="did you mean 'bottom_right'"):
        explained("botom_right")


def test_the_page_of_a_law_reads_no_mechanism_that_it_does_not_name():
    fresh = Library(library().files)
    list(explained("softmax.share", fresh))
    assert {"softmax"} == set(fresh._read)


@pytest.mark.parametrize("name", ["bf16", "contract.state", "torch_sdpa_math", "cumsum", "fault:boundary_key_twice"])
def test_the_page_of_what_no_specification_names_reads_none(name):
    fresh = Library(library().files)
    list(explained(name, fresh))
    assert set() == set(fresh._read)


def test_the_page_of_a_convention_reads_the_mechanisms_that_name_it():
    fresh = Library(library().files)
    list(explained("causal_alignment", fresh))
    assert {name for name, file in fresh.files.items() if "causal_alignment" in file.text} == set(fresh._read)


def test_a_finding_has_a_page():
    lines = list(explained("torch-causal-scale"))
    assert "torch 2.13.0: causal attention with a scale of zero or less is NaN" == lines[0]
    assert "torch-causal-scale: open; torch >=2.13.0" in lines
    assert {"Program:", "Prints:", "    attnspec check torch_sdpa --law causal_mask.sees_past"} <= {*lines}
