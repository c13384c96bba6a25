"""The addresses of a site, which stay the same from build to build."""

from __future__ import annotations

import hashlib
import re

from ..mechanisms.mechanism import Mechanism

PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
THREAD = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")
ADDRESS = re.compile(r"https?://\S+[^\s.,;)]")


def slug(name: str) -> str:
    """A name as a part of an address: itself where it is plain, else what is plain of it and a digest."""
    if PLAIN.fullmatch(name) and ".." not in name:
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60]
    return f"{plain or 'x'}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


def of_mechanism(name: str) -> str:
    return f"mechanisms/{slug(name)}.html"


def of_subject(name: str) -> str:
    return f"implementations/{slug(name)}.html"


def of_badge(name: str) -> str:
    return f"badges/{slug(name)}.svg"


def of_report(run: str) -> str:
    return f"reports/{run}.html"


def of_changes(before: str, after: str) -> str:
    return f"changes/{before}..{after}.html"


def of_law(m: Mechanism, name: str) -> str:
    """Where a law, the definition or a call that is refused stands; nothing for a contract."""
    anchors = {"definition": "definition", **{law: f"law-{law}" for law in m.laws}}
    anchors |= {reject: f"refused-{reject}" for reject in m.rejects}
    anchors |= {f"convention.{name}": f"convention-{name}" for name in m.conventions}
    return f"{of_mechanism(m.name)}#{anchors[name]}" if name in anchors else ""


def threads(text: str) -> tuple[tuple[str, str], ...]:
    """A text in pieces, each with the address that it links to, or nothing."""
    pieces: list[tuple[str, str]] = []
    end = 0
    for found in re.finditer(f"{THREAD.pattern}|{ADDRESS.pattern}", text):
        thread = f"https://github.com/{found['repository']}/issues/{found['number']}" if found["number"] else found[0]
        pieces += [(text[end : found.start()], ""), (found[0], thread)]
        end = found.end()
    return tuple(piece for piece in (*pieces, (text[end:], "")) if piece[0])


def prose(text: str, link: str = "") -> tuple[tuple[str, str, str], ...]:
    """A text of a finding in pieces: what each is (`text`, `code` or `link`), its words, and what it links to.

    The first words in brackets are those that the link belongs to.
    """
    pieces: list[tuple[str, str, str]] = []
    end, left = 0, link
    for found in re.finditer(r"`(?P<code>[^`]+)`|\[(?P<words>[^]]+)\]", text):
        if found["words"] and not left:
            continue
        pieces.append(("text", text[end : found.start()], ""))
        pieces.append(("code", found["code"], "") if found["code"] else ("link", found["words"], left))
        left = left if found["code"] else ""
        end = found.end()
    return tuple(piece for piece in (*pieces, ("text", text[end:], "")) if piece[1])
