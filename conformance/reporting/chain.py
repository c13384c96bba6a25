"""The digests of the lines of a results file: each line has its own, and that of the line before it.

So a line that was changed, removed, added or moved after it was written is found. It is not a signature: who computes
the digests anew can write anything.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

START = "0" * 16
"""What the first line follows."""
_LINKED = re.compile(r'(\{.*), "chain": "([0-9a-f]{16})-([0-9a-f]{16})"\}')


class Chain:
    """A file's lines, one after the other."""

    def __init__(self) -> None:
        self.last = START

    def text(self, line: Mapping[str, Any]) -> str:
        """The next line of a file that is written."""
        content = json.dumps(line, allow_nan=False)
        before, self.last = self.last, _digest(self.last, content)
        return f'{content[:-1]}, "chain": "{before}-{self.last}"}}\n'

    def content(self, text: str) -> tuple[str, str]:
        """The next line of a file that is read without its digests, and what is wrong with them."""
        linked = _LINKED.fullmatch(text)
        if linked is None:
            return text, "it has no digest at its end, as every line of results has"
        content, before, own = f"{linked[1]}}}", linked[2], linked[3]
        if own != _digest(before, content):
            return content, "it was changed after it was written: its digest is not that of what it says"
        if before != self.last:
            return content, "it does not follow the line before it: lines were removed, added or moved"
        self.last = own
        return content, ""


def _digest(before: str, content: str) -> str:
    return hashlib.blake2b(f"{before}{content}".encode(), digest_size=8).hexdigest()
