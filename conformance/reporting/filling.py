"""A module as a function, in a program: built for the sizes of a call, filled with its weights, called.

The lines read the declaration in the file of the module, which a stand-in for attnspec has noted down.
"""

IMPORTS = ("import fnmatch", "import inspect", "import re")
NOTED = '''modules = {}


def noted(factory, operator="", **said):
    """Keep what is declared of a module under its name."""
    own = said.get("name") or getattr(factory, "__name__", "")
    modules[operator if own in ("", "<lambda>") else own] = factory, said
    return factory


'''
"""What stands for `attnspec.module`."""
LINES = '''def place(text, n, sizes):
    """What one part of an index means along an axis of n entries: 0/3 is a section."""
    if found := re.fullmatch(r"\\s*(\\d+)/(\\d+)\\s*", text):
        which, count = map(int, found.groups())
        return slice(which * n // count, (which + 1) * n // count)
    ends = [eval(end, dict(sizes)) if end.strip() else None for end in text.split(":")]
    return slice(*ends) if ":" in text else ends[0]


def arranged(x, rest, sizes):
    """The entries of a parameter in the order of the weight, as a declaration says."""
    while rest := rest.strip():
        if rest.startswith(".T"):
            x, rest = x.T, rest[2:]
        elif rest.startswith("["):
            inside, _, rest = rest[1:].partition("]")
            x = x[tuple(place(part, n, sizes) for part, n in zip(inside.split(","), x.shape))]
        else:
            from einops import rearrange

            pattern, bracket, rest = rest[1:].partition("[")
            number = r"(?<!\\w)([2-9]|[1-9]\\d+)(?!\\w)"
            known = {f"len{n}": int(n) for n in re.findall(number, pattern)}
            known |= {axis: n for axis, n in sizes.items() if re.search(rf"\\b{axis}\\b", pattern)}
            x, rest = rearrange(x, re.sub(number, r"len\\1", pattern).strip(), **known), bracket + rest
    return x


def in_order(path):
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in path.split(".")]


def fill(made, weights, given, sizes, absent):
    """Write the weights of a call into the parameters of a module."""
    held = {**dict(made.named_parameters(remove_duplicate=False)), **dict(made.named_buffers())}
    for weight, texts in weights.items():
        for text in [texts] if isinstance(texts, str) else texts:
            plus, path, rest = re.fullmatch(r"(?:(-?[\\d.]+)\\s*\\+\\s*)?([^\\s\\[\\]|+]+)(.*)", text.strip()).groups()
            while path.endswith(".T"):
                path, rest = path[:-2], f".T{rest}"
            for at, one in enumerate(sorted(fnmatch.filter(held, path), key=in_order)):
                x = given.get(weight)
                x = torch.tensor(absent[weight]) if x is None else x[at] if "*" in path else x
                flat = held[one].data.view(-1)
                entries = arranged(torch.arange(len(flat)).reshape(held[one].shape), rest, sizes)
                values = (x - float(plus or 0)).to(flat.dtype).to(flat.device)
                flat[entries.reshape(-1).to(flat.device)] = values.expand(entries.shape).reshape(-1)


def filled(name, required, axes, absent):
    """The module of a declaration as a function of all that a call is told."""
    factory, said = modules[name]
    weights, leave, options = said["weights"], said.get("leave") or {}, said.get("options") or {}
    inputs = said.get("inputs") or (("tokens",) if "embedding" in weights else ("x",))
    if not isinstance(inputs, dict):
        inputs = {each: at for at, each in enumerate([inputs] if isinstance(inputs, str) else inputs)}
    if not isinstance(options, dict):
        options = {each: each for each in ([options] if isinstance(options, str) else options)}

    def function(*arrays, **given):
        given = {**dict(zip(required, arrays)), **given}
        tensors = {each: x for each, x in given.items() if hasattr(x, "shape")}
        sizes = {each: x for each, x in given.items() if each not in tensors}
        for each, x in tensors.items():
            sizes |= {axis: n for axis, n in zip(reversed(axes.get(each, ())), reversed(x.shape)) if axis}
        like = next(x for x in tensors.values() if x.is_floating_point())
        known = {"dtype": like.dtype, "device": like.device, **sizes}
        made = factory(**{each: known[each] for each in inspect.signature(factory).parameters if each in known})
        made = made.to(device=like.device, dtype=like.dtype).eval()
        with torch.no_grad():
            if isinstance(leave, dict):
                for pattern, x in leave.items():
                    for each, parameter in made.named_parameters():
                        if x is not None and fnmatch.fnmatch(each, pattern):
                            parameter.fill_(x)
            fill(made, weights, given, sizes, absent)
        passed = {each: x for each, x in given.items() if each not in weights and each not in (said.get("same") or {})}
        if said.get("call"):
            own = [*inspect.signature(said["call"]).parameters][1:]
            result = said["call"](made, **{each: x for each, x in passed.items() if each in own})
        else:
            places = sorted((each for each, at in inputs.items() if isinstance(at, int)), key=inputs.get)
            named = {each: at for each, at in {**inputs, **options}.items() if each not in places and each in passed}
            keywords = {**{at: passed[each] for each, at in named.items()}, **(said.get("keywords") or {})}
            result = made(*(passed[each] for each in places if each in passed), **keywords)
        returns = said.get("returns")
        if returns is None:
            return result
        return getattr(result, returns) if isinstance(returns, str) and hasattr(result, returns) else result[returns]

    return function


'''
