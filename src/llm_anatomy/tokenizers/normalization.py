r"""What SentencePiece does to a text before it cuts it: characters are replaced, blanks are joined.

Full-width letters become ordinary ones, ligatures are taken apart, an accent typed after its letter is joined with it.
Nobody can undo that: decoding gives the normalized text, not the one that was typed.
"""

from collections.abc import Iterable

import regex

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
WHITE_SPACE += "\u202f\u205f\u3000"
"""The characters with Unicode's property of that name; ``str.isspace`` is true of four control characters more."""

_KEY_ENDS = 1 << 8
_FURTHER = 1 << 9
_NO_LABEL = 1 << 31


class CharacterMap:
    r"""The replacements of a precompiled map: the size of a trie in four bytes, the trie, and the new texts.

    The trie is a double array of 32-bit units, one for each node. From a node whose children begin at :math:`o`, the
    byte :math:`b` leads to unit :math:`o \oplus b`, if that unit bears the label :math:`b` in its lowest bits. Bit 8
    says that a key ends at the node; the unit at :math:`o` then holds its value, the place where the new text begins.
    A new text ends before a zero byte.

    Args:
        precompiled: as in a model's ``precompiled_charsmap``; empty where nothing is replaced.

    Raises:
        ValueError: for a map that is cut off or malformed.

    Source: Kudo and Richardson (2018), section 3.4, and their normalizer; Aoe (1989) for double arrays; GT-40, UCL-09.

    >>> units = [0] * 98
    >>> units[0] = 1 << 10  # the root: its children begin at 0 ^ 1
    >>> units[1 ^ ord("a")] = 1 << 10 | 1 << 8 | ord("a")  # a key ends here; what lies below begins at 96 ^ 1
    >>> units[97] = 1 << 31 | 0  # its value: the text at 0
    >>> trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    >>> replacements = CharacterMap(len(trie).to_bytes(4, "little") + trie + b"AAA" + bytes(1))
    >>> replacements.longest_match(b"banana", 1)
    (2, b'AAA')
    """

    def __init__(self, precompiled: bytes):
        size = int.from_bytes(precompiled[:4], "little")
        trie, self._texts = precompiled[4 : 4 + size], precompiled[4 + size :]
        if precompiled and (not size or size % 4 or len(trie) < size or self._texts[-1:] != b"\0"):
            raise ValueError(f"the character map of {len(precompiled)} bytes is cut off or malformed")
        self._units = [int.from_bytes(trie[i : i + 4], "little") for i in range(0, len(trie), 4)]
        for i, unit in enumerate(self._units):
            if unit & _KEY_ENDS and not unit & _NO_LABEL:
                below = self._below(i)
                value = self._units[below] ^ _NO_LABEL if below < len(self._units) else len(self._texts)
                if value >= len(self._texts):
                    raise ValueError(f"the character map is malformed: unit {i} of its trie leads to no text")

    def _below(self, i: int) -> int:
        """Where the children of a node begin."""
        unit = self._units[i]
        return i ^ (unit >> 10 << (8 if unit & _FURTHER else 0))

    def longest_match(self, data: bytes, start: int) -> tuple[int, bytes] | None:
        """The end of the longest key that begins there, and what is put in its place; None where no key begins.

        Args:
            data: UTF-8.
            start: a place in it.
        """
        units, found, node = self._units, None, 0
        for place in range(start, len(data) if units else 0):
            node = self._below(node) ^ data[place]
            if node >= len(units) or units[node] & (_NO_LABEL | 0xFF) != data[place]:
                break
            if units[node] & _KEY_ENDS:
                found = place + 1, units[self._below(node)] ^ _NO_LABEL
        if found is None:
            return None
        end, text = found
        return end, self._texts[text : self._texts.index(0, text)]


class Normalizer:
    """Replaces characters, from the left and the longest match at each place; then joins blanks.

    Args:
        precompiled: as in :class:`CharacterMap`.
        joined: characters of which a run becomes one space, and none at the beginning; "" for none.
        stripped: characters that are taken off at the end.
        kept: texts within which nothing is replaced.

    Raises:
        ValueError: for a map that is cut off or malformed.

    Source: Kudo and Richardson (2018), section 3.4; GT-40, UCL-09.

    >>> Normalizer()("  two   words ", prefix=" ")
    ' two words'
    """

    def __init__(self, precompiled: bytes = b"", *, joined: str = " ", stripped: str = " ", kept: Iterable[str] = ()):
        self.precompiled, self.joined, self.stripped, self.kept = precompiled, joined, stripped, tuple(kept)
        self._map = CharacterMap(precompiled)
        self._kept = tuple(text.encode() for text in sorted(self.kept, key=len, reverse=True))
        self._run = regex.compile(f"[{regex.escape(joined)}]+") if joined else None

    def __call__(self, text: str, prefix: str = "") -> str:
        """The text as it is cut into pieces, after a prefix if there is any text. A ▁ in it is a space to the model."""
        if not text:
            return ""
        text = self._replaced(text) if self.precompiled else text
        if self._run:
            text = self._run.sub(" ", text).removeprefix(" ")
        return (prefix + text.replace("▁", " ")).rstrip(self.stripped)

    def _replaced(self, text: str) -> str:
        data, place, parts = text.encode("utf-8", "surrogatepass"), 0, []
        while place < len(data):
            lead = data[place]
            end = place + (1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)
            new = data[place:end]
            if data.startswith(self._kept, place):
                new = next(text for text in self._kept if data.startswith(text, place))
                end = place + len(new)
            elif found := self._map.longest_match(data, place):
                end, new = found
            parts.append(new)
            place = end
        return b"".join(parts).decode("utf-8", "surrogatepass")
