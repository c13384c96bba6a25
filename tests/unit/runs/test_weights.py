"""Classes as people write them, from `attnspec init` to a check of what it has written."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.errors import UsageError
from attnspec.runs.weights import operator_of, snake

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, embed_dim, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (p(x).view(b, n, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, d)), None


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size)))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.c_attn(x).split(d, dim=2))
        scores = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        y = scores.masked_fill(self.bias[:n, :n] == 0, float("-inf")).softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, n, d))


class GroupedAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads):
        super().__init__()
        self.n_heads, self.n_kv_heads, head_dim = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * head_dim, bias=False)
        self.wo = nn.Linear(n_heads * head_dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q = self.wq(x).view(b, n, self.n_heads, -1).transpose(1, 2)
        k, v = (w(x).view(b, n, self.n_kv_heads, -1).transpose(1, 2) for w in (self.wk, self.wv))
        k, v = (t.repeat_interleave(self.n_heads // self.n_kv_heads, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, n, d))


class FaultyAttention(Attention):
    def forward(self, x):
        return 2 * super().forward(x)[0]


class RankedAttention(nn.Module):
    def __init__(self, dim, num_heads, rank):
        super().__init__()
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text(MODEL)


def called(*arguments):
    return CliRunner().invoke(main, [*arguments])


@pytest.mark.parametrize(
    ("name", "variable", "says", "part"),
    [
        ("Attention", "attention", "8 weights", "    returns=0,\n"),
        ("CausalSelfAttention", "causal_self_attention", "8 weights", '"bk": "c_attn.bias[1/3]"'),
        ("GroupedAttention", "grouped_attention", "4 weights", "n_kv_heads=kv_heads or heads"),
    ],
)
def test_what_is_written_for_a_class_as_people_write_it_is_conformant(name, variable, says, part):
    result = called("init", f"my_model.py:{name}")
    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout.startswith(f"{name} is treated as multi_head: {says}, right in ")
    text = Path("my_model_attnspec.py").read_text()
    assert part in text
    assert "uncertain" not in text + result.stdout
    law = ("--law", "multi_head.definition")
    checked = called("check", "my_model_attnspec.py", "--profile", "smoke", *law)
    assert f"CONFORMANT      {variable} (float32) " in checked.stdout


NNX = """
import jax
from flax import nnx


class Attention(nnx.Module):
    def __init__(self, dim: int, heads: int, *, rngs: nnx.Rngs):
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nnx.Linear(dim, dim, rngs=rngs) for _ in range(4))

    def __call__(self, x):
        b, t, d = x.shape
        q, k, v = (w(x).reshape(b, t, self.heads, -1) for w in (self.wq, self.wk, self.wv))
        return self.wo(jax.nn.dot_product_attention(q, k, v).reshape(b, t, d))
"""


def test_what_is_written_for_a_module_of_flax_is_conformant():
    pytest.importorskip("flax")
    Path("my_flax.py").write_text(NNX)
    result = called("init", "my_flax.py:Attention")
    assert result.stdout.startswith("Attention is treated as multi_head: 8 weights, right in "), result.stderr
    text = Path("my_flax_attnspec.py").read_text()
    assert '"wq": "wq.kernel",' in text
    assert "import my_flax\nfrom flax import nnx\n\nimport attnspec\n" in text
    law = ("--law", "multi_head.definition")
    checked = called("check", "my_flax_attnspec.py", "--profile", "smoke", *law)
    assert "CONFORMANT      attention (float32) " in checked.stdout


def test_a_block_with_layer_norm_is_told_to_be_another(tmp_path):
    block = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)

    def forward(self, x):
        return self.ln1(x)
"""
    Path("block.py").write_text(block)
    result = called("init", "block.py:Block")
    says = "Block is not a transformer_block as attnspec defines it: ln1 is a LayerNorm, and the norms of"
    assert says in result.stderr


def test_where_nothing_agrees_the_likeliest_is_written_and_called_uncertain():
    result = called("init", "my_model.py:FaultyAttention")
    says = "none of 2 mappings agrees with the definition; this one is right in 0 of 2 cases"
    says += ": attnspec check shows where it is wrong"
    assert f"FaultyAttention is uncertain: {says}\n" in result.stdout
    text = Path("my_model_attnspec.py").read_text()
    assert f"# uncertain: {says}\nfaulty_attention = attnspec.module(\n" in text
    assert '"wk": "k_proj.weight.T",' in text


def test_a_class_that_cannot_be_built_is_told_and_nothing_is_written():
    result = called("init", "my_model.py:RankedAttention")
    assert 6 == result.exit_code
    assert result.stderr.startswith(
        "attnspec: RankedAttention cannot be built: nothing is known of 'rank'; write a factory that gives what it"
    )
    assert [Path("my_model.py")] == list(Path().rglob("*.py"))
    assert not Path(".github").exists()


def test_the_operator_is_told_by_the_name_of_the_class():
    names = ["LlamaRMSNorm", "SwiGLU", "FeedForward", "MyLayerNorm", "Multi_Head", "TransformerBlock"]
    expected = ["rms_norm", "swiglu", "swiglu", "layer_norm", "multi_head", "transformer_block"]
    assert expected == [operator_of(name) for name in names]
    with pytest.raises(UsageError, match=r"^the name 'Strange' does not say which operator it is; add --operator"):
        operator_of("Strange")
    assert "causal_self_attention" == snake("CausalSelfAttention")
