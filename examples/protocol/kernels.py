"""Softmax and RMS norm behind attnspec's protocol, with NumPy alone: attnspec check 'exec:python kernels.py'.

A question is one line of JSON, arrays are in files that it names, and an answer is one line of JSON.
"""

import json
import os
import sys

import numpy as np


def softmax(x):
    """X [..., n]; a row of minus infinities gives zeros. Computed in float32 at least."""
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    high = wide.max(-1, keepdims=True, initial=-np.inf)
    powers = np.exp(wide - np.where(np.isinf(high), 0, high))
    total = powers.sum(-1, keepdims=True)
    return {"p": (powers / np.where(total > 0, total, 1)).astype(x.dtype)}


def rms_norm(x, weight=None, eps=1e-5):
    """X [..., dim], weight [dim]; an option that is not given is at the default of its operator."""
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    y = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps)
    return {"out": (y if weight is None else y * weight).astype(x.dtype)}


FUNCTIONS = {"softmax_numpy": softmax, "rms_norm_numpy": rms_norm}
CAPABILITIES = {
    "protocol": 1,
    "functions": [
        {"name": "softmax_numpy", "operator": "softmax", "dtypes": ["float32", "float16"], "strides": True},
        {"name": "rms_norm_numpy", "operator": "rms_norm", "takes": ["weight", "eps"], "strides": True},
    ],
}


def array(said, file):
    """An input, as it lies in the file."""
    dtype = np.dtype(said["dtype"])
    return np.ndarray(said["shape"], dtype, file, said["offset"], [n * dtype.itemsize for n in said["strides"]])


def answer(question):
    """What is answered to a question, besides its id."""
    if question["ask"] == "capabilities":
        return CAPABILITIES
    if question["ask"] != "call" or question["function"] not in FUNCTIONS:
        return {"error": {"kind": "question", "says": "this is no question that is known"}}
    if question["dtype"] not in ("float32", "float16"):
        return {"error": {"kind": "unsupported", "says": f"{question['dtype']} is not known"}}
    with open(question["arrays"], "rb") as file:
        room = bytearray(file.read())
    inputs = {name: array(said, room) for name, said in question["inputs"].items()}
    try:
        outputs = FUNCTIONS[question["function"]](**inputs, **question["options"])
    except TypeError as error:
        return {"error": {"kind": "unsupported", "says": str(error)}}
    except Exception as error:
        return {"error": {"kind": "failed", "says": f"{type(error).__name__}: {error}"}}
    said, at = {}, 0
    with open(question["results"], "wb") as file:
        for name, x in outputs.items():
            said[name] = {"dtype": str(x.dtype), "shape": x.shape, "offset": at}
            at += file.write(x.tobytes())
    return {"outputs": said}


def main():
    """Answer every question; what anything else prints goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            question = json.loads(line)
            found = {"id": question["id"], **answer(question)}
        except (ValueError, KeyError, TypeError) as error:
            found = {"id": None, "error": {"kind": "question", "says": f"{type(error).__name__}: {error}"}}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
