"""Language models and their blocks as people write them, from `attnspec init` to a check of what it has written."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import UsageError
from attnspec.execution.survey import Weight
from attnspec.subjects.handed import call_of
from attnspec.subjects.layers import layered
from attnspec.subjects.unfit import differences

MODELS = Path(__file__).with_name("models")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for model in MODELS.glob("*.py"):
        shutil.copy(model, tmp_path)


def called(*arguments):
    return CliRunner().invoke(main, [*arguments])


@pytest.mark.parametrize(
    ("model", "name", "says", "parts"),
    [
        (
            "meta_llama",
            "Transformer",
            "decoder: 11 weights",
            ['"embedding": ("tok_embeddings.weight", "output.weight"),', '"wk": "layers.*.attention.wk.weight.T",'],
        ),
        (
            "meta_llama",
            "TransformerBlock",
            "transformer_block: 9 weights",
            ["module(x, freqs_cis=turns(x, heads, base))", 'conventions={"pairing": "neighbours"}'],
        ),
        (
            "small_llama",
            "LlamaForCausalLM",
            "decoder: 11 weights",
            ["returns='logits'", '"mlp_norm": "model.layers.*.post_attention_layernorm.weight",'],
        ),
        (
            "small_llama",
            "LlamaDecoderLayer",
            "transformer_block: 9 weights",
            ["=(twice(x, heads, base).cos()"],
        ),
        (
            "modern_gpt",
            "TinyGPT",
            "decoder: 11 weights",
            [
                '"wk": "h.*.c_attn.weight[1/3].T"',
                '"w_down": "h.*.w3.weight.T"',
                'fixed={"eps": 1e-06, "base": 10000.0}',
            ],
        ),
    ],
)
def test_what_is_written_for_a_model_as_people_write_it_is_conformant(model, name, says, parts):
    result = called("init", f"{model}.py:{name}")
    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout.startswith(f"{name} is treated as {says}, right in ")
    text = Path(f"{model}_attnspec.py").read_text()
    assert [] == [part for part in parts if part not in text]
    assert "uncertain" not in text + result.stdout
    laws = ("--law", f"{says.partition(':')[0]}.definition", "--law", "contract.independence")
    checked = called("check", f"{model}_attnspec.py", "--profile", "smoke", *laws)
    assert "\nCONFORMANT " in checked.stdout, checked.stdout


def test_a_model_that_is_another_is_told_in_what():
    result = called("init", "nano_gpt.py:GPT")
    assert 4 == result.exit_code
    says = (
        "attnspec: GPT is not a decoder as attnspec defines it: transformer.wpe.weight is a table of positions, but "
        "decoder rotates queries and keys; transformer.h.*.ln_1, transformer.h.*.ln_2 and 1 more are each a LayerNorm, "
        "and the norms of decoder are those of rms_norm; transformer.h.*.mlp.c_fc.weight is the first of two matrices "
        "of a feed-forward, but decoder has three, with a gate; its parts can be checked separately, "
        "such as CausalSelfAttention\n"
    )
    assert says == result.stderr
    assert [] == list(Path().glob("*_attnspec.py"))


BLOCK = [
    *((f"attn.{x}_proj.weight", (60, 60), "Linear") for x in "qkvo"),
    *((f"mlp.{x}_proj.weight", (88, 60), "Linear") for x in ("gate", "up")),
    ("mlp.down_proj.weight", (60, 88), "Linear"),
    ("norm1.weight", (60,), "RMSNorm"),
    ("norm2.weight", (60,), "RMSNorm"),
]


def weights(*more):
    return [Weight(*one) for one in [*BLOCK, *more]]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], []),
        (
            [("attn.q_proj.bias", (60,), "Linear"), ("attn.k_proj.bias", (60,), "Linear")],
            ["attn.q_proj.bias and 1 more add a bias, and the maps of transformer_block have none"],
        ),
        (
            [("attn.q_norm.weight", (10,), "RMSNorm")],
            ["attn.q_norm.weight normalises queries or keys, which transformer_block does not"],
        ),
    ],
)
def test_what_a_block_has_beside_is_told(more, says):
    assert says == differences("transformer_block", weights(*more))


def test_layers_are_one_where_they_are_alike():
    stack = [Weight(f"h.{at}.{one.path}", one.shape, one.holder) for at in range(2) for one in weights()]
    found = layered([Weight("wte.weight", (47, 60), "Embedding"), *stack], 2)
    assert ["wte.weight", *(f"h.*.{one.path}" for one in weights())] == [one.path for one in found]
    with pytest.raises(UsageError, match=r"^h\.\* has 2 layers where 3 are asked for, and decoder is defined for one"):
        layered(stack, 3)


def test_a_call_that_wants_the_unknown_is_not_guessed():
    assert "lambda module, x: module(x, mask=causal_mask(x), start_pos=0)" == call_of(
        [("x", True), ("mask", True), ("start_pos", True), ("cache", False)]
    )
    assert "" == call_of([("x", True), ("strange", True)])


def test_a_wrong_model_is_mapped_with_the_epsilon_that_it_has():
    wrong = Path("meta_llama.py").read_text().replace("repeat_interleave(self.n_rep, 2)", "tile(1, 1, self.n_rep, 1)")
    wrong = wrong.replace("norm_eps: float = 1e-5", "norm_eps: float = 1e-6").replace("norm_eps", "of_norms")
    Path("wrong_llama.py").write_text(wrong)
    result = called("init", "wrong_llama.py:Transformer")
    assert "agrees with the definition; this one is right in" in result.output
    assert 'fixed={"eps": 1e-06' in Path("wrong_llama_attnspec.py").read_text()
