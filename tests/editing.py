"""Change files of masters, to see what a change is worth."""

import re
from pathlib import Path


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Replace the first match of a pattern in a file, which must change the file."""
    text = path.read_text(encoding="utf-8")
    changed = re.sub(pattern, replacement, text, count=1, flags=re.MULTILINE | re.DOTALL)
    assert changed != text
    path.write_text(changed, encoding="utf-8")
