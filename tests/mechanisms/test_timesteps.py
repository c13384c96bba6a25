"""Embeddings of timesteps: exact digits, and functions as models have them, right and wrong."""

from pathlib import Path

import mpmath
import numpy as np
import pytest
from click.testing import CliRunner

from attnspec import reference
from attnspec.cli import main
from attnspec.mechanisms.definition import Frame
from attnspec.mechanisms.loader import library

OPTIONS = {"dim": 9, "cosines_first": False, "downscale": 0, "scale": 1.0, "base": 10000.0}


def defined(timesteps, **options):
    mechanism = library()["timestep_embedding"]
    frame = Frame(mechanism, {**mechanism.defaults, "timesteps": timesteps, **options})
    frame.check_domain()
    return frame.outputs()["out"]


@pytest.mark.parametrize("witness", [defined, reference.timestep_embedding])
@pytest.mark.parametrize(
    "change", [{}, {"cosines_first": True}, {"downscale": 1, "dim": 6}, {"scale": 0.5, "base": 100.0}]
)
def test_both_witnesses_have_the_digits_of_the_formula(witness, change):
    options = {**OPTIONS, **change}
    timesteps = np.array([0.0, 0.25, 999.0])
    half, first = options["dim"] // 2, options["cosines_first"]
    expected = np.zeros((3, options["dim"]))
    with mpmath.workdps(40):
        for row, k in np.ndindex(3, half):
            omega = mpmath.mpf(options["base"]) ** (-mpmath.mpf(k) / (half - options["downscale"]))
            angle = options["scale"] * mpmath.mpf(timesteps[row]) * omega
            both = (mpmath.cos(angle), mpmath.sin(angle)) if first else (mpmath.sin(angle), mpmath.cos(angle))
            expected[row, [k, half + k]] = [float(x) for x in both]
    np.testing.assert_allclose(witness(timesteps, **options), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("change", [{"dim": 1}, {"dim": 2, "downscale": 1}, {"base": 0.0}])
@pytest.mark.parametrize("witness", [defined, reference.timestep_embedding])
def test_what_has_too_few_frequencies_is_refused(witness, change):
    with pytest.raises(Exception):  # noqa: B017, PT011 - of either kind
        witness(np.ones(1), **{**OPTIONS, **change})


KERNELS = """
import math
import torch


def get_timestep_embedding(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1,
                           max_period=10000):
    half = embedding_dim // 2
    exponent = -math.log(max_period) * torch.arange(half, dtype=torch.float32) / (half - downscale_freq_shift)
    angle = scale * (timesteps[:, None].float() * torch.exp(exponent)[None])
    emb = torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1)
    if flip_sin_to_cos:
        emb = torch.cat([emb[:, half:], emb[:, :half]], dim=-1)
    return torch.nn.functional.pad(emb, (0, embedding_dim % 2))


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32) / half)
    args = t[:, None].float() * freqs[None]
    return torch.nn.functional.pad(torch.cat([torch.cos(args), torch.sin(args)], dim=-1), (0, dim % 2))


def time_embedding(timesteps, embedding_dim):
    half = embedding_dim // 2
    freqs = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(10000) / (half - 1)))
    args = timesteps.float()[:, None] * freqs[None]
    return torch.nn.functional.pad(torch.cat([torch.sin(args), torch.cos(args)], dim=1), (0, embedding_dim % 2))
"""


@pytest.fixture
def checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def check(name, text=KERNELS):
        Path("kernels.py").write_text(text)
        return CliRunner().invoke(main, ["check", f"kernels.py:{name}"])

    return check


@pytest.mark.parametrize("name", ["get_timestep_embedding", "timestep_embedding", "time_embedding"])
def test_functions_as_models_have_them_conform(checked, name):
    result = checked(name)
    assert 0 == result.exit_code, result.output


@pytest.mark.parametrize(
    ("own", "wrong", "mistake"),
    [
        ("if flip_sin_to_cos:", "if not flip_sin_to_cos:", "orders_exchanged"),
        ("/ (half - downscale_freq_shift)", "/ half", "downscale_ignored"),
        ("timesteps[:, None].float()", "timesteps[:, None].long()", "whole_steps"),
        ("(0, embedding_dim % 2))", "(embedding_dim % 2, 0))", "zeros_in_front"),
    ],
)
def test_faults_are_refuted_and_named(checked, own, wrong, mistake):
    assert own in KERNELS
    result = checked("get_timestep_embedding", KERNELS.replace(own, wrong, 1))
    assert 1 == result.exit_code, result.output
    assert f"timestep_embedding.{mistake}" in result.output
