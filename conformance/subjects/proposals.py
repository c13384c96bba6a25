"""Which parameter of a class may hold which weight of an operator, from names and shapes.

Whether a candidate holds is for its calls to say.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..errors import UsageError
from ..execution.survey import Role, Survey, Weight
from .candidate import Candidate
from .feed_forward import EXCHANGED, functions_of, hidden_of, maps_of, told_by_shape
from .handed import WANTED, call_of
from .kinds import (
    CAUSAL,
    CONTEXTS,
    DIM,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KINDS,
    KV_HEADS,
    LAYERS,
    MASKS,
    SECTIONS,
    VOCAB,
    Kind,
    outputs_first,
    part_of,
)
from .layers import layered
from .unfit import differences

MOST = 48
"""Candidates that are tried."""
ATTENDING = ("multi_head", "rotary_self_attention")
"""Operators that are attention with its maps."""
POSITIONED = ("transformer_block", "rotary_self_attention")
"""Operators whose positions a class may be handed as tables."""
OPTIONAL = ("kv_heads", "rotary_dim")
"""Options that are none by default, and so in the factory."""
ONE_PLUS = ("q_norm", "k_norm")
"""Weights of norms that a class may keep as what is added to one."""
GIVEN = {"rotary_self_attention": ONE_PLUS, "feed_forward": ("w_gate",)}
"""Optional weights that a class which has them cannot do without."""
EPSILONS = (1e-5, 1e-6, 1e-8)


def roles(operator: str) -> tuple[Role, ...]:
    """What the constructor's parameters may mean; a `UsageError` for an operator for which nothing is proposed."""
    if operator not in KINDS:
        raise UsageError(
            f"no mapping is proposed for {operator} (but for {', '.join(KINDS)}); "
            "attnspec.module(...) takes one that you write, as docs/modules.md shows"
        )
    return tuple((role, text, x) for role, (text, x) in KINDS[operator].sizes.items())


def candidates(operator: str, survey: Survey) -> list[Candidate]:
    """What the class may be, the likeliest first; a `UsageError` says which parameter is of no known part."""
    kind = KINDS[operator]
    if "layers" in kind.sizes:
        survey = replace(survey, weights=layered(survey.weights, LAYERS))
    if unlike := differences(operator, survey.weights):
        raise UsageError(
            f"{_name(survey)} is not a {operator} as attnspec defines it: {'; '.join(unlike)}{_inner(survey)}"
        )
    mappings = _mappings(operator, kind, survey)
    called = _called(operator, survey)
    fixed = _fixed(operator, survey, called, mappings[0])
    one_key = operator in ATTENDING and _has_one_key(survey)
    requires = _required(operator, survey, called, mappings[0], one_key)
    factory = _factory(kind, survey, one_key)
    head = replace(called, factory=factory, operator=operator, framework=survey.framework, requires=requires)
    calls = [head]
    if operator in POSITIONED and survey.framework == "torch" and (masked := call_of(survey.takes, masked=True)):
        calls.insert(0, replace(head, call=masked, keywords={}))
    if operator in ATTENDING and "wo" not in mappings[0]:
        calls = [each for call in calls for each in _projected(call)]
    made = [replace(call, weights=weights, fixed=one) for call in calls for weights in mappings for one in fixed]
    return made[:MOST]


def _name(survey: Survey) -> str:
    """The name of the class that was built."""
    return survey.built.partition("(")[0].rpartition(".")[2]


def _has_one_key(survey: Survey) -> bool:
    """Whether all query heads share one head of keys and values, by the width of what holds them."""
    widths = {"qkv": DIM + 2 * HEAD_DIM, "kv": 2 * HEAD_DIM, "k": HEAD_DIM}
    if {"kv_heads", "heads"} & {*survey.uses} != {"heads"}:
        return False
    named = [(part_of(w.path, _with_sections(["q", "k", "v", "o"])), w) for w in survey.weights]
    return any(widths.get(part) in w.shape for part, w in named)


def _projected(head: Candidate) -> list[Candidate]:
    """The calls of attention that has no last matrix, which is applied to what it returns, or to the first of that."""
    if head.call:
        taken, _, body = head.call.partition(": ")
    else:
        inputs, passed = head.arguments()
        taken, body = f"lambda module, {', '.join(inputs)}", f"module({', '.join(passed)})"
    return [
        replace(head, call=f"{taken}, wo: {body}{first} @ wo", inputs="", keywords={}, options={})
        for first in ("", "[0]")
    ]


def _fixed(operator: str, survey: Survey, called: Candidate, weights: Mapping[str, object]) -> list[dict[str, str]]:
    """The options that a class may have in all calls, where its constructor does not take them."""
    kind = KINDS[operator]
    fixed: list[dict[str, str]] = [{}]
    if operator == "multi_head":
        fixed = [{"causal": "True"}, {}] if called.same else [{}, {"causal": "True"}]
    if operator == "rotary_self_attention":
        fixed = [{}, {"causal": "False"}]
    if operator == "feed_forward":
        fixed = [{"activation": f'"{function}"'} for function in functions_of(_name(survey))]
    if (kind.epsilon or "q_norm" in weights) and "eps" not in survey.uses:
        fixed = [{**one, "eps": repr(eps)} for one in fixed for eps in EPSILONS]
    if "base" in kind.sizes and "base" not in survey.uses and "base" not in called.call:
        fixed = [{**one, "base": "10000.0"} for one in fixed]
    if operator in ATTENDING and "heads" not in survey.uses:
        fixed = [{**one, "heads": "1"} for one in fixed]
    return fixed


def _required(
    operator: str, survey: Survey, called: Candidate, weights: Mapping[str, object], one_key: bool
) -> tuple[str, ...]:
    """What holds of all calls: heads as wide as tokens, weights that are given, hidden units as a multiple of them."""
    given = [f"not single({name})" for name in GIVEN.get(operator, ()) if name in weights]
    if operator == "feed_forward":
        times = hidden_of(survey) // DIM
        return (*given, *(() if "hidden" in survey.uses else (f"hidden == {times} * dim",)))
    if operator == "rotary_self_attention" and not ("head_dim" in survey.uses and "heads" not in called.call):
        given.insert(0, "width == dim")
    return (*given, "kv_width * heads == width") if one_key else tuple(given)


def _inner(survey: Survey) -> str:
    """What of it can be checked by itself: the class of its attention."""
    found = [name for name in survey.inner if "attention" in name.lower() or "attn" in name.lower()]
    return f"; its parts can be checked separately, such as {found[0]}" if found else ""


def _factory(kind: Kind, survey: Survey, one_key: bool) -> str:
    names = ["kv_heads=None"] if one_key else []
    for role in survey.uses:
        found = re.findall(r"\b[a-z_]+\b", kind.sizes[role][0])
        names += [f"{name}=None" if name in OPTIONAL else name for name in found if name != "or"]
    unique = sorted(dict.fromkeys(names), key=lambda name: "=" in name)
    return f"lambda *, {', '.join(unique)}: {survey.built}" if unique else f"lambda: {survey.built}"


def _called(operator: str, survey: Survey) -> Candidate:
    """How the call is made, by the names of its parameters."""
    empty = Candidate("", operator, {})
    wanted = [name for name, required in survey.takes if required and name not in (*MASKS, *CAUSAL)]
    keywords = {name: "None" for name, required in survey.takes if required and name in MASKS}
    keywords |= {name: "False" for name, required in survey.takes if required and name in CAUSAL}
    single = operator != "multi_head"
    if operator in POSITIONED and (len(wanted) > 1 or keywords) and (call := call_of(survey.takes)):
        return replace(empty, call=call)
    if operator == "multi_head" and (tables := [name for name in wanted if name in WANTED]):
        raise UsageError(f"the call takes {', '.join(tables)}, of which multi_head knows nothing")
    taken = "tokens" if operator == "decoder" else "x"
    if not wanted or len(wanted) > (1 if single else 3):
        raise UsageError(
            f"the call takes {', '.join(wanted) or 'nothing'}, of which {operator} has "
            f"{taken if single else 'x, context'} alone; "
            f"write attnspec.module(..., call=lambda module, {taken}: module(...)), as docs/modules.md shows"
        )
    if single:
        return replace(empty, keywords=keywords)
    further = [name for name, required in survey.takes if not required and name in CONTEXTS]
    if len(wanted) == 1 and further:
        return replace(empty, inputs=f'{{"x": 0, "context": "{further[0]}"}}', keywords=keywords)
    if len(wanted) == 1:
        return replace(empty, same=True, keywords=keywords)
    if len(wanted) == 2:
        return replace(empty, inputs='("x", "context")', keywords=keywords)
    said = "".join(f", {name}={x}" for name, x in keywords.items())
    return replace(empty, call=f"lambda module, x, context: module(x, context, context{said})")


# Weights


def _mappings(operator: str, kind: Kind, survey: Survey) -> list[dict[str, str | tuple[str, ...]]]:
    sizes = {"head_dim": HEAD_DIM, "vocab": VOCAB, "dim": DIM, "n": DIM, "width": DIM, "hidden": HIDDEN}
    grouped = "kv_heads" in survey.uses
    if operator in ATTENDING and "heads" not in survey.uses:
        sizes["width"] = HEAD_DIM if "head_dim" in survey.uses else DIM
    single = operator in ATTENDING and _has_one_key(survey)
    sizes["kv_width"] = sizes["kv_dim"] = KV_HEADS * HEAD_DIM if grouped else HEAD_DIM if single else sizes["width"]
    parts = {(part, len(axes)): name for name, (part, axes) in kind.weights.items()}
    choices: list[list[dict[str, str]]] = []
    held: dict[str, Weight] = {}
    if operator == "feed_forward":
        sizes["hidden"] = hidden_of(survey)
        named = maps_of(survey, sizes["hidden"])
    else:
        named = told_by_shape(_named(kind, survey.weights))
    for part, weight in named:
        options = list(_held(weight, part.rstrip("?"), parts, kind, sizes, grouped))
        if part in EXCHANGED:  # names that say neither
            options += _held(weight, EXCHANGED[part], parts, kind, sizes, grouped)
        if not options:
            raise UsageError(
                f"{weight.path} {list(weight.shape)} seems to be {part}, but does not have its shape"
                f"{_wanted_shape(part, kind, sizes, survey)}; "
                "write attnspec.module(..., weights={...}), as docs/modules.md shows"
            )
        for name in options[0]:
            if name in held and {part, *(p for p, w in named if w is held[name])} != {"embedding", "head"}:
                raise UsageError(f"{weight.path} and {held[name].path} are both taken for {name}")
            held[name] = weight
        choices.append(options)
    missing = [name for name, (_, axes) in kind.weights.items() if name not in held and _wanted(name, axes, operator)]
    if missing:
        known = ", ".join(f"{w.path} {list(w.shape)}" for w in survey.weights)
        raise UsageError(f"no parameter is known to hold {', '.join(missing)} of {operator} (there are: {known})")
    return [_joined(kind, each) for each in itertools.islice(_alike(choices), MOST)]


def _joined(kind: Kind, chosen: Sequence[Mapping[str, str]]) -> dict[str, str | tuple[str, ...]]:
    """The mapping of what was chosen for each parameter; a weight that several hold has all of their texts."""
    texts = {name: tuple(one[name] for one in chosen if name in one) for name in kind.weights}
    return {name: each[0] if len(each) == 1 else each for name, each in texts.items() if each}


def _wanted_shape(part: str, kind: Kind, sizes: Mapping[str, int], survey: Survey) -> str:
    """The shape that a part is to have, in words; and which size the constructor does not take."""
    axes = next((axes for own, axes in kind.weights.values() if own == part), ())
    missing = "hidden" in axes and "hidden" not in survey.uses
    untold = ", for the constructor takes no hidden size" if missing else ""
    if survey.left:
        untold += f"; nothing is known of {', '.join(survey.left)} in the constructor"
    return f" [{', '.join(f'{axis}={sizes[axis]}' for axis in axes)}]{untold}" if axes else ""


def _wanted(name: str, axes: tuple[str, ...], operator: str) -> bool:
    """Whether a weight is never left out, as a bias of attention may be."""
    optional = {"feed_forward": "w_gate"}.get(operator, "wo")
    return operator not in (*ATTENDING, "feed_forward") or (len(axes) == 2 and name != optional)


def _alike(choices: list[list[dict[str, str]]]) -> Iterator[tuple[dict[str, str], ...]]:
    """One of each; parameters with as many choices make the same one, as a fused matrix and its bias do."""
    counts = list(dict.fromkeys(len(one) for one in choices))
    for places in itertools.product(*(range(count) for count in counts)):
        chosen = dict(zip(counts, places, strict=True))
        yield tuple(one[chosen[len(one)]] for one in choices)


def _named(kind: Kind, weights: Sequence[Weight]) -> list[tuple[str, Weight]]:
    """The part that each parameter is; those whose names say nothing come in the order of what is left."""
    parts = list(dict.fromkeys(part for part, _ in kind.weights.values()))
    if parts == ["norm"]:
        return [("norm", weight) for weight in weights]
    wanted = _with_sections(parts)
    found, unnamed = [], []
    for weight in weights:
        part = part_of(weight.path, wanted)
        found.append((part, weight)) if part else unnamed.append(weight)
    said = {own for part, _ in found for own in SECTIONS.get(part, (part,))}
    ordered = parts if "attention_norm" not in parts else []  # the order of a whole block says little
    left = iter([part for part in ordered if part not in said])
    holders = dict.fromkeys(weight.path.rpartition(".")[0] or weight.path for weight in unnamed)
    guessed = {holder: next(left, "") for holder in holders}
    for weight in unnamed:
        part = guessed[weight.path.rpartition(".")[0] or weight.path]
        if not part:
            raise UsageError(
                f"unknown parameter {weight.path} {list(weight.shape)}; "
                f"write attnspec.module(..., weights={{...}}, leave=({weight.path!r},)), as docs/modules.md shows"
            )
        found.append((part, weight))
    return found


def guessed_by_order(operator: str, survey: Survey) -> bool:
    """Whether some parameter's name says nothing, so that its place was guessed from the order."""
    parts = list(dict.fromkeys(part for part, _ in KINDS[operator].weights.values()))
    return parts[0] == "q" and any(not part_of(weight.path, _with_sections(parts)) for weight in survey.weights)


def _with_sections(parts: list[str]) -> list[str]:
    """Parts, and the parameters that may hold several of them."""
    return parts + [whole for whole, sections in SECTIONS.items() if set(sections) <= set(parts)]


def _held(
    weight: Weight,
    part: str,
    parts: Mapping[tuple[str, int], str],
    kind: Kind,
    sizes: Mapping[str, int],
    grouped: bool,
) -> Iterator[dict[str, str]]:
    """The texts of the weights that a parameter may hold, each way in which its shape allows that."""
    if part == "norm":
        last = "bias" if weight.path.rpartition(".")[2] in ("bias", "beta", "b", "shift") else "weight"
        if last in kind.weights and weight.shape == (DIM,):
            yield {last: weight.path}
        return
    rank = min(len(weight.shape), 2)
    own = [parts[one, rank] for one in SECTIONS.get(part, (part,)) if (one, rank) in parts]
    if len(own) != len(SECTIONS.get(part, (part,))):
        return
    if len(own) > 1:
        yield from _fused(weight, own, kind, sizes, grouped)
        return
    name = own[0]
    expected = tuple(sizes[axis] for axis in kind.weights[name][1])
    plain, turned = [{name: weight.path}], [{name: f"{weight.path}.T"}]
    if len(weight.shape) == 3:
        yield from _by_head(weight, name)
    elif rank == 1:
        yield from plain if weight.shape == expected else []
        if part in ONE_PLUS and weight.shape == expected:
            yield {name: f"1 + {weight.path}"}
    else:
        fits = plain * (weight.shape == expected), turned * (weight.shape == expected[::-1])
        yield from (fits[1] or fits[0]) if outputs_first(weight) else [*fits[0], *fits[1]]


def _by_head(weight: Weight, name: str) -> Iterator[dict[str, str]]:
    """A weight with an axis of heads."""
    axes = {DIM: "dim", HEADS: "heads", KV_HEADS: "heads", HEAD_DIM: "d"}
    if sorted(axes.get(n, "") for n in weight.shape) == ["d", "dim", "heads"]:
        joined = "dim (heads d)" if name != "wo" else "(heads d) dim"
        yield {name: f"{weight.path} | {' '.join(axes[n] for n in weight.shape)} -> {joined}"}


def _fused(
    weight: Weight, own: list[str], kind: Kind, sizes: Mapping[str, int], grouped: bool
) -> Iterator[dict[str, str]]:
    """Several weights in one parameter: side by side, or head by head."""
    out = kind.weights[own[0]][1][-1]
    widths = [sizes[kind.weights[name][1][-1]] for name in own]
    joined, vector = sum(widths), len(weight.shape) == 1
    if vector and weight.shape != (joined,):
        return
    turned = not vector and weight.shape == (joined, DIM)
    if not vector and not turned and weight.shape != (DIM, joined):
        return
    last, first = (".T", "") if turned else ("", "" if vector else ":, ")
    count = len(own)
    if len(set(widths)) > 1:
        kv = kind.weights[own[1]][1][-1]
        edges = [f":{out}", f"{out}:{out} + {kv}", f"{out} + {kv}:"]
        yield {name: f"{weight.path}[{first}{edge}]{last}" for name, edge in zip(own, edges, strict=True)}
        return
    yield {name: f"{weight.path}[{first}{at}/{count}]{last}" for at, name in enumerate(own)}
    if out == "hidden":
        yield {name: f"{weight.path}[{first}{count - 1 - at}/{count}]{last}" for at, name in enumerate(own)}
        return
    if grouped and out != "width":
        return
    for inner in (f"heads {count} d", f"heads d {count}"):
        left = f"({inner})" if vector else f"({inner}) dim" if turned else f"dim ({inner})"
        right = f"{count} (heads d)" if vector else f"{count} dim (heads d)"
        yield {name: f"{weight.path} | {left} -> {right} [{at}]" for at, name in enumerate(own)}
