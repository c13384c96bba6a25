"""The sizes that a plain function refuses."""

import pytest
import torch

import attnspec

KERNEL = """
import torch


def attention(q, k, v, causal=False, scale=None):
    {check}
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
        scores = scores.masked_fill(columns > rows + k.shape[-2] - q.shape[-2], -torch.inf)
    return {result}
"""
RIGHT = "scores.softmax(-1).nan_to_num(0) @ v"


def checked(tmp_path, check, result=RIGHT, profile="smoke", **options):
    (tmp_path / "kernel.py").write_text(KERNEL.replace("{check}", check).replace("{result}", result))
    given = {"profile": profile, "dtypes": "float32", "explain_time": 0, **options}
    return attnspec.check(f"{tmp_path / 'kernel.py'}:attention", **given)


def notes(report):
    return [note for cell in report.cells for note in cell.get("run", {}).get("notes", ()) if "refuses" in note]


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("assert q.shape[-1] in (16, 32, 64, 128)", "head_dim other than 16, 32, 64, 128"),
        ("assert q.shape[-1] in (128, 256)", "head_dim other than 128, 256"),
        ("assert q.shape[-1] == v.shape[-1], 'equal widths'", "value_dim other than head_dim"),
        ("assert q.shape[-2] == k.shape[-2]", "k_len other than q_len"),
        (
            "if k.shape[-2] % 16:\n        raise ValueError('pad the keys')",
            "k_len other than multiples of 16",
        ),
    ],
)
def test_what_a_function_refuses_by_a_statement_of_its_own_is_not_tried(tmp_path, check, says):
    report = checked(tmp_path, check)
    assert {"attention": "conformant"} == report.verdicts, report
    [note] = dict.fromkeys(notes(report))
    assert says in note, note
    tried = {cell["law"] for cell in report.cells if cell["verdict"] == "pass" and cell["mechanism"] == "attention"}
    assert len(tried) > 20


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("q.unflatten(-2, (-1, 16))", "q_len other than multiples of 16"),
        ("k = k.unflatten(-2, (-1, 4)).flatten(-3, -2)", "k_len other than multiples of 4"),
        ("k + torch.zeros(1 << q.shape[-1].bit_length() - 1)", "head_dim other than 1, 2, 4, 8, 16, 32, 64, 128, 256"),
        ("q.view(*q.shape[:2], k.shape[2] // 16, 16, q.shape[3])", "k_len other than q_len"),
    ],
)
def test_who_fails_on_all_sizes_but_multiples_or_powers_of_two_is_not_tried_there(tmp_path, check, says):
    report = checked(tmp_path, check)
    assert {"attention": "conformant"} == report.verdicts, report
    assert says in str(report), report


@pytest.mark.parametrize(
    "check",
    [
        "q @ v if k.shape[2] % 16 and len(q) != 1 else 0",  # not on all other lengths
        "q @ v if k.shape[2] % 16 or k.shape[2] == 96 else 0",  # not on no multiple
        "q @ v if q.shape[-1] not in (8, 24, 64) else 0",  # no multiples of anything
        "torch.zeros(k.shape[2] // 16 * 16 or 1) + torch.zeros(k.shape[2])",  # one of them is broadcast to the other
    ],
)
def test_who_fails_on_other_sizes_is_refuted(tmp_path, check):
    report = checked(tmp_path, check)
    assert {"attention": "violated"} == report.verdicts
    assert "fails for" not in str(report)


def test_a_wrong_function_of_few_sizes_is_refuted(tmp_path):
    report = checked(tmp_path, "assert q.shape[-1] in (64, 128) and q.shape == k.shape == v.shape", "scores @ v")
    assert {"attention": "violated"} == report.verdicts


@pytest.mark.parametrize(
    "check", ["torch.zeros(3) + torch.zeros(q.shape[-1] // 16 * 16)", "raise OSError('no device')"]
)
def test_what_goes_wrong_below_a_function_is_no_refusal(tmp_path, check):
    report = checked(tmp_path, check)
    assert {"attention": "violated"} == report.verdicts
    assert not notes(report)


GRADIENT = """
import torch


def attention_bwd(do, q, k, v):
    k, v = (x.repeat_interleave({times}, 1) for x in (k, v))
    p = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
    flowing = do @ v.transpose(-1, -2)
    ds = p * (flowing - (p * flowing).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
    return ds @ k, ds.transpose(-1, -2) @ q, p.transpose(-1, -2) @ do
"""


def gradient(tmp_path, times):
    (tmp_path / "backward.py").write_text(GRADIENT.replace("{times}", times))
    return attnspec.check(
        f"{tmp_path / 'backward.py'}:attention_bwd", profile="smoke", dtypes="float32", explain_time=0
    )


def test_who_fails_where_heads_share_keys_is_not_tried_there(tmp_path):
    report = gradient(tmp_path, "1")
    assert {"attention_bwd": "conformant"} == report.verdicts, report
    assert "fails unless heads == kv_heads, with RuntimeError" in str(report)


def test_who_gives_a_wrong_shape_where_heads_share_keys_is_refuted(tmp_path):
    report = gradient(tmp_path, "q.shape[1] // k.shape[1]")
    assert {"attention_bwd": "violated"} == report.verdicts, report


ROWS = """
import torch


def softmax(x):
    rows, n = {shape}
    shifted = (x.float() - x.float().amax(-1, keepdim=True)).exp()
    return (shifted / shifted.sum({axis}, keepdim=True)).to(x.dtype)
"""


@pytest.mark.parametrize(
    ("shape", "axis", "verdict"),
    [("x.shape", "-1", "conformant"), ("x.shape", "0", "violated"), ("x.shape[-2:]", "1", "violated")],
)
def test_who_takes_rows_of_one_axis_is_given_no_others(tmp_path, shape, axis, verdict):
    (tmp_path / "rows.py").write_text(ROWS.replace("{shape}", shape).replace("{axis}", axis))
    report = attnspec.check(f"{tmp_path / 'rows.py'}:softmax", dtypes="float32", explain_time=0)
    assert {"softmax": verdict} == report.verdicts, report
    told = "fails unless ndim(x) == 2, with ValueError:" in str(report)
    assert told is (shape == "x.shape")


def test_who_refuses_everything_is_given_no_limits(tmp_path):
    report = checked(tmp_path, "raise NotImplementedError('soon')")
    assert not notes(report)
    assert "conformant" != report.verdicts["attention"]


def test_sizes_are_asked_for_in_the_layout_that_a_function_reads(tmp_path):
    turned = "assert q.shape[2] == k.shape[2]\n    q, k, v = (x.transpose(1, 2) for x in (q, k, v))"
    report = checked(tmp_path, turned, f"({RIGHT}).transpose(1, 2)")
    assert {"attention": "conformant"} == report.verdicts, report
    assert not [note for note in notes(report) if "k_len" in note]


def test_sizes_are_found_in_the_layout_in_which_there_are_some(tmp_path):
    turned = (
        "assert q.shape[1] % 16 == 0 and k.shape[1] % 16 == 0\n    q, k, v = (x.transpose(1, 2) for x in (q, k, v))"
    )
    report = checked(tmp_path, turned, f"({RIGHT}).transpose(1, 2)")
    assert {"attention": "conformant"} == report.verdicts, report
    assert [note for note in notes(report) if "refuses q_len other than multiples of 16" in note]


def test_no_other_layout_is_looked_into_where_the_first_case_is_answered(tmp_path):
    assert not notes(checked(tmp_path, "assert q.shape[1] == k.shape[1], 'no groups'"))


def unless(function, **declared):
    """What a plain function is found to fail without, and whether it conforms."""
    report = attnspec.check(function, dtypes="float32", isolate=False, explain_time=0, **declared)
    found = [note for cell in report.cells for note in cell.get("run", {}).get("notes", ()) if "unless" in note]
    return [note.partition(",")[0].removeprefix("fails unless ") for note in dict.fromkeys(found)], bool(report)


def of_two_axes(x):
    rows, _ = x.shape
    return torch.softmax(x, -1) if rows else x


def of_two_or_three_axes(x):
    assert_axes = {2: 1, 3: 1}[x.ndim]
    return torch.softmax(x, -1) * assert_axes


def of_rows_flattened(x):
    return torch.softmax(x.reshape(-1, x.shape[-1]), -1)


def of_small_rows(x):
    return torch.softmax(x, -1) if x.ndim == 2 else torch.softmax(x, -1)[..., :0]


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (of_two_axes, (["ndim(x) == 2"], True)),
        (of_two_or_three_axes, (["ndim(x) >= 2", "ndim(x) <= 3"], True)),
        (of_rows_flattened, ([], False)),  # a result of another shape is wrong, and no refusal
        (of_small_rows, ([], False)),
    ],
)
def test_an_error_on_all_cases_of_other_axes_is_told_and_not_tried(function, found):
    assert found == unless(function, operator="softmax")


def test_what_a_function_asks_for_is_given_in_every_call():
    def filtered(logits, k, p):
        kept = torch.stack([row >= row.topk(int(n)).values[-1] for row, n in zip(logits, k, strict=True)])
        return logits.masked_fill(~kept, -torch.inf) if p is None else logits / 0

    conditions, conforms = unless(filtered, operator="filter_rows")
    assert (["not single(k)"], False) == (conditions, conforms)


def test_an_error_on_some_cases_is_a_failure():
    def softmax(x):
        if x.shape[-1] > 16:
            return torch.softmax(x, -1)[0, 0, 0, 0, 0]
        return torch.softmax(x, -1)

    assert ([], False) == unless(softmax)


def of_every_call(logits, k, p):
    raise KeyError(logits.shape)


def without_k_now_and_then(logits, k, p, calls=[]):  # noqa: B006 - it is to remember
    """An error at every second call without k."""
    calls += [k] if k is None else []
    if k is None and len(calls) % 2:
        raise KeyError(len(calls))
    return top_k(logits, torch.full((len(logits),), logits.shape[1]) if k is None else k)


def top_k(logits, k, p=None):
    kept = [row >= row.topk(min(int(n), len(row))).values[-1] for row, n in zip(logits, k, strict=True)]
    return logits.masked_fill(~torch.stack(kept), -torch.inf)


@pytest.mark.parametrize("function", [of_every_call, without_k_now_and_then])
def test_there_is_no_limit_without_an_answer_within_or_with_one_beyond(function):
    conditions, conforms = unless(function, operator="filter_rows")
    assert (False, False) == ("not single(k)" in conditions, conforms)


def cross_entropy(logits, targets):
    """Right where some tokens are left out, and an error where all are."""
    kept = targets != -100
    assert_some = {True: 1.0}[bool(kept.any())] if len(targets) else 1.0
    chosen = logits.float().log_softmax(-1).gather(1, targets.clamp(min=0)[:, None])[:, 0]
    return -(chosen * kept).sum() / kept.sum() * assert_some


def test_who_is_right_beyond_a_limit_is_called_there():
    conditions, conforms = unless(cross_entropy, operator="cross_entropy")
    assert ([], False) == (conditions, conforms)


def copied(tmp_path, check, result=RIGHT, **options):
    """The verdict on a function, and what is said of arrays that are not contiguous."""
    report = checked(tmp_path, check, result, **options)
    found = {note for cell in report.cells for note in cell.get("run", {}).get("notes", ()) if "contiguous" in note}
    return report.verdicts["attention"], found


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("k.view(-1)", "RuntimeError: view size is not compatible"),
        ("assert k.is_contiguous(), 'keys are contiguous'", "AssertionError: keys are contiguous"),
    ],
)
def test_a_function_that_fails_on_arrays_that_are_not_contiguous_is_passed_copies(tmp_path, check, says):
    verdict, found = copied(tmp_path, check)
    (note,) = found
    assert "conformant" == verdict
    assert note.startswith(f"fails where arrays are not contiguous, with {says}")
    assert note.endswith(": tried on contiguous copies")
    assert "violated" == copied(tmp_path, check, "scores @ v")[0]


def test_one_that_fails_on_copies_as_well_is_passed_what_there_is(tmp_path):
    assert set() == copied(tmp_path, "assert not k.is_contiguous() or len(k) < 2")[1]


def test_one_that_reads_such_arrays_wrongly_is_refuted(tmp_path):
    wrong = "k = k.as_strided(k.shape, torch.empty(k.shape).stride())"
    assert "violated" == copied(tmp_path, wrong, profile="quick", exitfirst=True)[0]


ALIGNED = """
import torch


def grouped_mm(x, w, group_sizes):
    for array in (x, w):
        assert array.stride(-1) == 1, "rows of channels"
        if array.stride(-2) * array.element_size() % 16:
            raise RuntimeError("strides should be multiple of 16 bytes")
    ends = [0, *group_sizes.cumsum(0).tolist()]
    parts = [x[a:b] @ m for a, b, m in zip(ends, ends[1:], w{order})]
    return torch.cat([*parts, x.new_zeros(len(x) - ends[-1], w.shape[-1])])
"""


@pytest.mark.parametrize(
    ("dtypes", "chunk"),
    [(["float32"], 4), (["bfloat16"], 8), (["float32", "bfloat16"], 8), (["bfloat16", "float32"], 8)],
)
def test_rows_of_so_many_bytes_are_found_for_each_width_in_all_dtypes(tmp_path, dtypes, chunk):
    (tmp_path / "kernel.py").write_text(ALIGNED.replace("{order}", ""))
    report = attnspec.check(f"{tmp_path / 'kernel.py'}:grouped_mm", profile="smoke", dtypes=dtypes, explain_time=0)
    assert {"grouped_mm": "conformant"} == report.verdicts, report
    for size in ("n", "outs"):
        assert f"fails for {size} other than multiples of {chunk}, with RuntimeError" in str(report), report


def test_a_wrong_function_of_such_rows_is_refuted(tmp_path):
    (tmp_path / "kernel.py").write_text(ALIGNED.replace("{order}", ".flip(0)"))
    report = attnspec.check(f"{tmp_path / 'kernel.py'}:grouped_mm", profile="smoke", dtypes="float32", explain_time=0)
    assert {"grouped_mm": "violated"} == report.verdicts, report
