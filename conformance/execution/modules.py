"""Modules of each framework: their parameters by path, and how a weight is written into one.

Frameworks are told by the types of what a factory has made, and imported by nobody else.
This file imports nothing of its package but its neighbour, so that it works where the package is hidden.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from .mapping import MappingError

Pieces = list[tuple[Any, Any]]
"""Numbers of entries, and what they are to hold: an array or a number."""


class Filling(Protocol):
    """A module that can be filled and called."""

    shapes: dict[str, tuple[int, ...]]
    """The parameters by path."""
    further: dict[str, tuple[int, ...]]
    """What else may be filled and need not be, as the buffers of torch."""
    aliases: dict[str, str]
    """Of parameters that go by several paths, the one in `shapes` by each of them."""

    def fill(self, name: str, pieces: Pieces) -> None:
        """Write into a parameter; entries that are in no piece stay as they are."""
        ...

    def call(self, call: Callable[[Any], Any]) -> Any:
        """What a function of the module returns, in the arrays that it was given."""
        ...

    def given(self, x: Any) -> Any:
        """An input as the module takes it."""
        ...


def filling(made: Any, arrays: list[Any], first_call: Callable[[Any], Any]) -> Filling:
    """What a factory has made as a module of its framework; `first_call` makes a call, for those that it builds."""
    kinds = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(made).__mro__}
    linen = any(base.__module__.startswith("flax.linen") for base in type(made).__mro__)
    like = next((x for x in arrays if _of(x, "torch")), None)
    if "keras.Layer" in kinds:
        return KerasLayer(made, like, arrays, first_call)
    if "torch.Module" in kinds:
        if like is None:
            raise MappingError(f"{type(made).__name__} is a module of torch: declare framework='torch'")
        floats = [x for x in arrays if _of(x, "torch") and x.dtype.is_floating_point]
        return TorchModule(made, floats[0] if floats else like)
    if like is not None and "flax.Module" in kinds:
        raise MappingError(f"{type(made).__name__} is a module of Flax: declare framework='numpy'")
    if "flax.Module" in kinds and linen:
        return LinenModule(made, arrays, first_call)
    if "flax.Module" in kinds:
        return NnxModule(made)
    raise MappingError(f"the factory made {_kind(made)}, which is not a module of torch, Flax or Keras")


def _of(x: Any, package: str) -> bool:
    return type(x).__module__.partition(".")[0] == package


def _kind(x: Any) -> str:
    name = type(x).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """A stretch in which a module may draw what is not kept: the random states stay as they were."""
    states, torch = (random.getstate(), np.random.get_state()), sys.modules.get("torch")
    try:
        with torch.random.fork_rng(devices=[]) if torch else contextlib.nullcontext():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


class TorchModule:
    """An `nn.Module` in the dtype and on the device of the case, in evaluation mode."""

    def __init__(self, module: Any, like: Any) -> None:
        self.module = module.to(device=like.device, dtype=like.dtype).eval()
        self._held: dict[str, Any] = {}
        self.shapes, self.further = {}, {}
        self.aliases: dict[str, str] = {}
        """A parameter that goes by several paths, by the others."""
        first: dict[int, str] = {}
        for name, x in module.named_parameters(remove_duplicate=False):
            self.aliases[name] = first.setdefault(id(x), name)
            if self.aliases[name] == name:
                self.shapes[name], self._held[name] = tuple(x.shape), x
        for name, x in module.named_buffers():
            self.further[name], self._held[name] = tuple(x.shape), x

    def fill(self, name: str, pieces: Pieces) -> None:
        import torch

        x = self._held[name]
        with torch.no_grad():
            flat = x.detach().reshape(-1).clone()
            for entries, values in pieces:
                at = torch.from_numpy(entries.reshape(-1)).to(flat.device)
                flat[at] = values.reshape(-1).to(flat.dtype) if isinstance(values, torch.Tensor) else float(values)
            x.copy_(flat.reshape(x.shape))

    def call(self, call: Callable[[Any], Any]) -> Any:
        return call(self.module)

    def given(self, x: Any) -> Any:
        return x


class _Arrays:
    """What the modules of Flax have in common: parameters that are written in NumPy, and arrays of JAX."""

    _values: dict[str, Any]

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.further: dict[str, tuple[int, ...]] = {}
        self.aliases: dict[str, str] = {}
        self._plain = False
        """Whether inputs are arrays of NumPy, so that outputs are to be."""

    def fill(self, name: str, pieces: Pieces) -> None:
        import jax.numpy as jnp

        dtype = next((np.asarray(x).dtype for _, x in pieces if not isinstance(x, float)), None)
        flat = np.array(self._values[name]).reshape(-1)
        flat = flat if dtype is None else flat.astype(dtype)
        for entries, values in pieces:
            flat[entries.reshape(-1)] = values if isinstance(values, float) else np.asarray(values).reshape(-1)
        self._values[name] = jnp.asarray(flat.reshape(self.shapes[name]))

    def given(self, x: Any) -> Any:
        import jax.numpy as jnp

        self._plain = self._plain or isinstance(x, np.ndarray)
        return jnp.asarray(x)

    def _returned(self, x: Any) -> Any:
        import jax

        return jax.tree.map(np.array, x) if self._plain else x


class LinenModule(_Arrays):
    """A `flax.linen.Module`: its variables are made by its own `init`, on the arrays of the first case."""

    def __init__(self, module: Any, arrays: list[Any], first_call: Callable[[Any], Any]) -> None:
        super().__init__()
        import flax.linen as nn
        import jax
        from flax.traverse_util import flatten_dict

        self.module = module
        made = nn.init(first_call, module)(jax.random.key(0))
        self._others = {name: x for name, x in made.items() if name != "params"}
        self._values = {name: np.array(x) for name, x in flatten_dict(made.get("params", {}), sep=".").items()}
        self.shapes = {name: x.shape for name, x in self._values.items()}

    def call(self, call: Callable[[Any], Any]) -> Any:
        from flax.traverse_util import unflatten_dict

        bound = self.module.bind({**self._others, "params": unflatten_dict(self._values, sep=".")})
        return self._returned(call(bound))


class NnxModule(_Arrays):
    """A `flax.nnx.Module`, its parameters by their paths."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        from flax import nnx

        self.module = module
        if hasattr(module, "eval"):
            module.eval()
        found = dict(nnx.to_flat_state(nnx.state(module, nnx.Param)))
        self._paths = {".".join(map(str, path)): path for path in found}
        self._values = {name: np.array(found[path][...]) for name, path in self._paths.items()}
        self.shapes = {name: x.shape for name, x in self._values.items()}

    def call(self, call: Callable[[Any], Any]) -> Any:
        from flax import nnx

        held = dict(nnx.to_flat_state(nnx.state(self.module, nnx.Param)))
        filled = [(path, held[path].replace(self._values[name])) for name, path in self._paths.items()]
        nnx.update(self.module, nnx.from_flat_state(filled))
        return self._returned(call(self.module))


class KerasLayer:
    """A layer of Keras: its weights by the attributes that hold its layers, and by their own names."""

    def __init__(self, layer: Any, like: Any, arrays: list[Any], first_call: Callable[[Any], Any]) -> None:
        self.module, self._tensors = layer, like is not None
        self._dtype = next((x.dtype for x in arrays if "float" in str(x.dtype)), None)
        first_call(layer)  # which builds it
        self._held = dict(_variables(layer))
        trained = {id(x) for x in layer.trainable_weights}
        self.aliases: dict[str, str] = {}
        self.shapes = {name: tuple(x.shape) for name, x in self._held.items() if id(x) in trained}
        self.further = {name: tuple(x.shape) for name, x in self._held.items() if id(x) not in trained}

    def fill(self, name: str, pieces: Pieces) -> None:
        x = self._held[name]
        flat = _plain(x.value).reshape(-1).copy()
        for entries, values in pieces:
            flat[entries.reshape(-1)] = values if isinstance(values, float) else _plain(values).reshape(-1)
        x.assign(flat.reshape(x.shape))  # float32 holds every entry of fewer bits

    def call(self, call: Callable[[Any], Any]) -> Any:
        found = call(self.module)
        if self._tensors:
            return found
        from keras import tree

        return tree.map_structure(lambda x: _plain(x).astype(self._dtype), found)

    def given(self, x: Any) -> Any:
        return x


def _plain(x: Any) -> Any:
    """The entries as an array of NumPy."""
    if _of(x, "torch"):
        x = x.detach().cpu()
        x = (x if str(x.dtype) == "torch.float64" else x.float()).numpy()
    x = np.asarray(x)
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _variables(layer: Any, start: str = "", seen: frozenset[int] = frozenset()) -> Iterator[tuple[str, Any]]:
    """The variables of a layer and of those that its attributes hold."""
    if id(layer) in seen:
        return
    inner = {name: x for name, x in _attributes(layer).items() if name not in INTERNAL}
    layers: list[tuple[str, Any]] = []
    for name, x in inner.items():
        if isinstance(x, list | tuple):
            layers += [(f"{start}{name}.{at}.", one) for at, one in enumerate(x)]
        elif isinstance(x, Mapping):
            layers += [(f"{start}{name}.{key}.", one) for key, one in x.items()]
        else:
            layers.append((f"{start}{name}.", x))
    for path, one in layers:
        if hasattr(one, "trainable_weights"):
            yield from _variables(one, path, seen | {id(layer)})
    held = {id(x) for _, one in layers if hasattr(one, "weights") for x in one.weights}
    yield from ((f"{start}{x.name}", x) for x in layer.weights if id(x) not in held)


INTERNAL = ("_layers", "_trainable_variables", "_non_trainable_variables", "_seed_generators", "_metrics", "_modules")
"""Attributes in which Keras lists what others hold."""


def _attributes(layer: Any) -> dict[str, Any]:
    """The attributes of a layer, which torch keeps apart where it is the backend."""
    return {**vars(layer), **(vars(layer).get("_modules") or {})}
