"""Files from strangers: whatever results, cases, waivers or evidence hold, they are read or refused in words."""

import copy
import json
import os
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnspec.cli import main
from attnspec.data.records import DEEPEST, record
from attnspec.data.records import anything as no_shape
from attnspec.diagnosis.stored import find
from attnspec.errors import Error, Exit
from attnspec.mechanisms import evidence
from attnspec.mechanisms.loader import library
from attnspec.reporting import matrix
from attnspec.reporting.chain import Chain
from attnspec.reporting.results import read

DEEP = "[" * 5000 + "]" * 5000
ATTACKS = {
    "empty": b"",
    "nul": b"\0" * 100,
    "not utf-8": b'{"kind": "run\xff"}\n',
    "half a character": b'{"kind": "\\ud800"}\n',
    "a number": b"5\n",
    "a list": b"[]\n",
    "null": b"null\n",
    "a text": b'"run"\n',
    "deep": DEEP.encode(),
    "deeper": b"[" * 2_000_000,
    "deep objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "infinite": b'{"kind": "run", "seed": Infinity}\n',
    "nan": b'{"kind": "run", "seed": NaN}\n',
    "beyond": b'{"kind": "run", "seed": 1e999}\n',
    "many digits": b'{"kind": "run", "seed": ' + b"9" * 5000 + b"}\n",
    "twice": b'{"kind": "run", "kind": "run"}\n',
    "yaml": b"version: 1\nwaivers: []\n",
    "cut off": b'{"kind": "ru',
}
ANSWERS = ["--reason", "r", "--issue", "i", "--owner", "o", "--expires", "2999-01-01"]
COMMANDS = {
    "report": ["report", "FILE"],
    "report --markdown": ["report", "--markdown", "FILE"],
    "report --github": ["report", "--github", "FILE"],
    "replay": ["replay", "FILE"],
    "waive": ["waive", "FILE", *ANSWERS],
    "check --waivers": ["check", "mistake:softmax.base_two", "--law", "share", "--waivers", "FILE"],
    "waive --waivers": ["waive", "KEPT", *ANSWERS, "--waivers", "FILE"],
    "check --resume": ["check", "mistake:softmax.base_two", "--law", "share", "--resume", "--report-dir", "REPORT"],
}
SPECIAL = ["a pipe", "a device", "a folder", "nothing", "a long name"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of a mistake: the text of its results, and of a case that it has kept."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(name, "1")
        CliRunner().invoke(main, ["check", "mistake:softmax.base_two", "--profile", "smoke", "--mechanism", "softmax"])
    case = min((folder / "attnspec-report/cases").glob("*.json"))
    return (folder / "attnspec-report/results.ndjson").read_text(), case.read_text()


def special(kind, path):
    """A path of that kind."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    return {"a device": Path("/dev/zero"), "a long name": Path("n" * 5000 + path.suffix)}.get(kind, path)


def asked(command, path, kept):
    """The exit code and the errors of a command that is given a file, which is one of the report folder if it is to."""
    words = COMMANDS[command]
    if "REPORT" in words:
        Path("out").mkdir()
        if path.exists() or path.is_symlink():
            Path("out/results.ndjson").symlink_to(path.resolve())
    Path("kept.json").write_text(kept[1])
    found = {"FILE": str(path), "KEPT": "kept.json", "REPORT": "out"}
    result = CliRunner().invoke(main, [found.get(word, word) for word in words])
    return result.exit_code, result.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_of_anything_is_refused_in_words(command, attack, kept):
    path = Path("f.yaml" if "waivers" in command else "f.json")
    path.write_bytes(ATTACKS[attack])
    if (command, attack) == ("check --waivers", "yaml"):
        pytest.skip("it is a file of waivers")
    code, said = asked(command, path, kept)
    good = [Exit.USAGE] if "waivers" not in command or attack != "yaml" else [Exit.USAGE, Exit.CONFORMANT]
    assert (True, True) == (code in good, said.startswith("attnspec: ") or not said)
    assert len(said) < 2000


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "check --resume"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_regular_file_is_not_opened(command, kind, kept):
    path = special(kind, Path("f.yaml" if "waivers" in command else "f.json"))
    if (command, kind) in (("replay", "a device"), ("waive", "a device")):
        Path("zero.json").symlink_to("/dev/zero")
        path = Path("zero.json")
    code, said = asked(command, path, kept)
    allowed = (
        [Exit.USAGE, Exit.CONFORMANT, Exit.VIOLATED] if kind == "nothing" and "waivers" in command else [Exit.USAGE]
    )
    assert code in allowed
    assert len(said) < 7000


def test_a_pipe_in_the_place_of_results_is_not_waited_for(kept):
    Path("out").mkdir()
    os.mkfifo("out/results.ndjson")
    result = CliRunner().invoke(main, [{"REPORT": "out"}.get(word, word) for word in COMMANDS["check --resume"]])
    assert Exit.INTERNAL != result.exit_code


# Damaged files


VALUES = [
    None,
    True,
    -1,
    0,
    3,
    2**70,
    1.5,
    "",
    "x",
    "\x1b[31m",
    "../../x",
    [],
    [[]],
    {},
    {"x": {}},
    "n" * 300,
    [1] * 50,
]


def places(x, at=()):
    """The paths of all values in a record."""
    yield at
    for key, item in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from places(item, (*at, key))


def damaged(data, chance):
    """A copy of a record with a value changed, removed or added somewhere."""
    made = copy.deepcopy(data)
    *way, last = chance.choice([at for at in places(data) if at])
    inner = made
    for step in way:
        inner = inner[step]
    kind = chance.randrange(4)
    if kind == 0:
        del inner[last]
    elif kind == 1 and isinstance(inner, dict):
        inner[chance.choice(["x", "kind", "name", ""])] = chance.choice(VALUES)
    else:
        inner[last] = chance.choice(VALUES)
    return made


def test_damaged_results_are_shown_or_refused_whoever_computed_their_digests(kept):
    chance = random.Random(5)
    lines = [{k: x for k, x in json.loads(line).items() if k != "chain"} for line in kept[0].splitlines()]
    few = [line for line in lines if line["kind"] != "cell"] + [c for c in lines if "witness" in c or "run" in c]
    ended = {"refused": 0, "shown": 0}
    for _ in range(400):
        number = chance.randrange(len(few))
        changed = [damaged(line, chance) if at == number else line for at, line in enumerate(few)]
        chain = Chain()
        Path("f.ndjson").write_text("".join(map(chain.text, changed)))
        try:
            found = [read(Path("f.ndjson"))]
        except Error as error:
            ended["refused"] += str(error).startswith("f.ndjson")
            continue
        cells, heads = [*matrix.merged(found), *matrix.lacking(found)], [found[0][0]]
        for render in (matrix.text, matrix.markdown):
            assert list(render(heads, cells, matrix.unfinished(found), matrix.shortcomings(found)))
        ended["shown"] += 1
    assert 400 == sum(ended.values())
    assert min(ended.values()) > 40


def test_damaged_cases_are_replayed_or_refused(kept):
    chance = random.Random(6)
    case = json.loads(kept[1])
    codes = set()
    for number in range(150):
        changed = damaged(case if number % 2 else {**case, "case": damaged(case["case"], chance)}, chance)
        Path("f.json").write_text(json.dumps(changed))
        try:
            find("f.json", Path("."))
        except Error:
            codes.add(Exit.USAGE)
            continue
        if changed["target"] == case["target"]:
            result = CliRunner().invoke(main, ["replay", "f.json"])
            codes.add(result.exit_code)
            assert result.exit_code in (0, 1, 4), (changed, result.stderr)
    assert {0, 1, 4} >= codes > {4}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"key": "../../etc/x"}, "key is not a key of a case; expected letters and digits"),
        ({"dtype": "float8"}, 'dtype is "float8"; expected one of '),
        ({"mechanism": "sofmax"}, "unknown mechanism 'sofmax'; did you mean 'softmax'?"),
        ({"law": "shar"}, "softmax has no law 'shar'"),
        ({"words": {}, "declared": []}, "words has no word of empty_row; expected one of zeros, nans, mean_value"),
        ({"declared": ["x"]}, "declared has conventions without a word"),
        ({"broken": 5}, "broken is 5; expected a list"),
        ({"device": "cuda:x\n"}, "device is not a device; expected a name such as cpu, cuda:1 or tpu"),
        ({"case.scenario": "none"}, "softmax has no scenario 'none'"),
        ({"case.regime": "none"}, "softmax has no regime 'none'"),
        ({"case.fixed": {"n": -1}}, "case.fixed has -1 for the size n; expected an integer up to 1,000,000"),
        ({"case.fixed": {"n": 10**9}}, "case.fixed has 1000000000 for the size n; expected an integer up to 1,0"),
        ({"case.fixed": {"m": 1}}, "case.fixed has 'm', which softmax has not"),
        (
            {"case.literals": {"x": {"dtype": "float64", "shape": [2**60], "entries": []}}},
            "case.literals.x has 0 entri",
        ),
        (
            {"case.literals": {"x": {"dtype": "object", "shape": [0], "entries": []}}},
            'case.literals.x.dtype is "object"',
        ),
        ({"case.literals": {"x": {"dtype": "float64", "shape": [1], "entries": ["1"]}}}, "case.literals.x has a text "),
    ],
)
def test_what_a_case_cannot_say_is_told(kept, changes, says):
    case = json.loads(kept[1])
    for at, x in changes.items():
        outer, _, inner = at.rpartition(".")
        (case[outer] if outer else case)[inner] = x
    Path("f.json").write_text(json.dumps(case))
    with pytest.raises(Error) as caught:
        find("f.json", Path("."))
    assert says in str(caught.value)


# Evidence


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", ":1:2: not JSON: "),
        (DEEP, ":1: nested more than"),
        ("[]", ":1: it is a list; expected an object; derive it anew: attnspec audit --derive --mechanism softmax"),
        ('{"digest": "x", "milliseconds": {}}', ":1: the key 'shows' is missing"),
        ('{"digest": "x", "milliseconds": {"a": "1"}, "shows": {}}', ':1: milliseconds.a is "1"; expected a number'),
        (
            '{"digest": "x", "milliseconds": {"a": 1}, "shows": {"m": "9"}}',
            ":1: shows.m is not a digit from 0 to 4 for",
        ),
        ('{"digest": "x", "milliseconds": {}, "shows": {}, "more": 1}', ":1: the key 'more' has no meaning"),
    ],
)
def test_damaged_evidence_is_told_with_its_line(text, says, monkeypatch):
    monkeypatch.setattr(evidence, "FOLDER", Path("."))
    Path("softmax.json").write_text(text)
    with pytest.raises(Error) as caught:
        evidence.evidence_of(library()["softmax"])
    assert f"softmax.json{says}" == str(caught.value)[: 12 + len(says)]


# Records


@pytest.mark.parametrize("depth", [1, DEEPEST - 1])
def test_what_is_nested_as_deep_as_is_allowed_is_read(depth):
    assert json.loads("[" * depth + "]" * depth) == record("[" * depth + "]" * depth, no_shape, "f.json")


def test_a_fault_of_json_has_its_line_and_column():
    with pytest.raises(Error, match=r"f\.json:4:3: not JSON: expecting ',' delimiter"):
        record("[1,\n 2\n  3]", no_shape, "f.json", 2)
