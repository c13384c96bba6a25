"""The smallest first calls of a function, and whether it survives them."""

from contextlib import nullcontext

import pytest

from attnspec.adapters import Adapter
from attnspec.execution.calling import Reply
from attnspec.execution.faults import Fault
from attnspec.judging.first_call import differentiated, noticed
from attnspec.judging.smallest import first_calls
from attnspec.mechanisms.loader import library
from attnspec.subjects.subject import AdapterSubject
from attnspec.subjects.targets import subject


def test_the_smallest_of_the_first_scenarios_come_first():
    one = subject(Adapter("softmax", "softmax", lambda x: x, "torch"))
    sizes = [call.inputs["x"].size for call in first_calls(one, "cpu")]
    assert 2 == len(sizes)
    assert sizes == sorted(sizes)
    assert sizes[-1] <= 16


class Silent:
    """A caller of which every call ends in the same fault; it notes the framework of each."""

    def __init__(self, kind, framework, made):
        self.kind, self.framework, self.made = kind, framework, made

    def session(self):
        return nullcontext()

    def call(self, call):
        self.made.append(self.framework)
        return Reply(fault=Fault(self.kind, "no answer"))


def silent(kind, **known):
    """A function of which every call ends in the same fault, and the frameworks of its calls so far."""
    made = list[str]()
    adapter = Adapter("softmax", "softmax", lambda x: x, "torch", guessed=True, **known)
    mechanism = library()["softmax"]
    return AdapterSubject(
        adapter, mechanism, declared=False, supervise=lambda one, *_: Silent(kind, one.framework, made)
    ), made


@pytest.mark.parametrize(("kind", "tried"), [("died", 4), ("hung", 2)])
def test_what_ends_its_process_is_called_no_more(kind, tried):
    subject, made = silent(kind, perhaps=("torch", "numpy"))
    assert () == noticed(subject, "cpu")
    assert tried + 2 == len(made)
    assert "numpy" == made[-1], "whose processes begin fastest"


def test_the_gradients_of_what_ends_its_process_are_not_checked():
    subject, made = silent("died")
    assert (None, ("its gradients are not checked: its first calls end their process",)) == differentiated(
        subject, "cpu", library()
    )
    assert 3 == len(made)


def test_what_refuses_its_first_calls_is_tried_further():
    subject, made = silent("raised", perhaps=("torch", "numpy"))
    noticed(subject, "cpu")
    assert len(made) > 12
    assert "torch" == made[-1]


def test_in_this_process_no_call_is_made_to_see_whether_it_survives():
    made = list[str]()
    adapter = Adapter("softmax", "softmax", lambda x: made.append("called") or x, "torch", guessed=False)
    noticed(AdapterSubject(adapter, library()["softmax"]), "cpu")
    assert [] == made
