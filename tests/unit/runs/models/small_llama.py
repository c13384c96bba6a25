"""A small Llama as people write it after transformers."""

import torch
from torch import nn
from torch.nn import functional as F


class LlamaRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def rotate_half(x):
    x1, x2 = x.chunk(2, -1)
    return torch.cat((-x2, x1), -1)


class LlamaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.d = config.hidden_size // self.heads
        self.q_proj = nn.Linear(config.hidden_size, self.heads * self.d, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=config.attention_bias)
        self.o_proj = nn.Linear(self.heads * self.d, config.hidden_size, bias=config.attention_bias)

    def forward(self, x, position_embeddings):
        b, n, _ = x.shape
        cos, sin = position_embeddings
        q = self.q_proj(x).view(b, n, self.heads, self.d).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.kv, self.d).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.kv, self.d).transpose(1, 2)
        q = q * cos.unsqueeze(1) + rotate_half(q) * sin.unsqueeze(1)
        k = k * cos.unsqueeze(1) + rotate_half(k) * sin.unsqueeze(1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, n, -1)), None


class LlamaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=config.mlp_bias)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.self_attn = LlamaAttention(config)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden_states, position_embeddings):
        h = hidden_states + self.self_attn(self.input_layernorm(hidden_states), position_embeddings)[0]
        return (h + self.mlp(self.post_attention_layernorm(h)),)


class LlamaModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(LlamaDecoderLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids):
        d = self.config.hidden_size // self.config.num_attention_heads
        inv = 1 / self.config.rope_theta ** (torch.arange(0, d, 2).float() / d)
        a = torch.outer(torch.arange(input_ids.shape[1]).float(), inv)
        a = torch.cat((a, a), -1)[None]
        h = self.embed_tokens(input_ids)
        for layer in self.layers:
            h = layer(h, (a.cos(), a.sin()))[0]
        return self.norm(h)


class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids, labels=None):
        return {"logits": self.lm_head(self.model(input_ids)), "loss": None}
