r"""SentencePiece's normalization: before a text is cut, characters are replaced and runs of white space are collapsed.

Full-width letters become ordinary letters, ligatures are taken apart, and an accent after a letter is combined with it.
This cannot be undone: decoding gives the normalized text, not the text that was typed.
"""

from collections.abc import Iterable

import regex

_KEY_ENDS = 1 << 8
_FURTHER = 1 << 9
_NO_LABEL = 1 << 31


class CharacterMap:
    r"""The character replacements of a SentencePiece model, read from their precompiled form.

    The precompiled form is the size of a trie in four bytes, the trie, and the replacement texts. The trie is a double
    array of 32-bit units, one for each node. If the children of a node begin at :math:`o`, the child for byte :math:`b`
    is unit :math:`o \oplus b`, provided that this unit has the label :math:`b` in its lowest bits. Bit 8 says that a
    key ends at the node. Unit :math:`o` then holds the key's value, the offset of its replacement, which ends before a
    zero byte.

    Args:
        precompiled: the field ``precompiled_charsmap`` of a model; empty if nothing is replaced.

    Raises:
        ValueError: if the map is truncated or malformed.

    Source: Kudo and Richardson (2018), section 3.4, and their normalizer; Aoe (1989) for double arrays; GT-40, UCL-09.

    >>> units = [0] * 98
    >>> units[0] = 1 << 10  # the root: its children begin at 0 ^ 1
    >>> units[1 ^ ord("a")] = 1 << 10 | 1 << 8 | ord("a")  # a key ends here; its children begin at 96 ^ 1
    >>> units[97] = 1 << 31 | 0  # its value: the replacement at offset 0
    >>> trie = b"".join(unit.to_bytes(4, "little") for unit in units)
    >>> replacements = CharacterMap(len(trie).to_bytes(4, "little") + trie + b"AAA" + bytes(1))
    >>> replacements.longest_match(b"banana", 1)
    (2, b'AAA')
    """

    def __init__(self, precompiled: bytes):
        size = int.from_bytes(precompiled[:4], "little")
        trie, self._texts = precompiled[4 : 4 + size], precompiled[4 + size :]
        if precompiled and (not size or size % 4 or len(trie) < size or self._texts[-1:] != b"\0"):
            raise ValueError(f"precompiled has {len(precompiled)} bytes and is truncated or malformed")
        self._units = [int.from_bytes(trie[i : i + 4], "little") for i in range(0, len(trie), 4)]
        for i, unit in enumerate(self._units):
            if unit & _KEY_ENDS and not unit & _NO_LABEL:
                first = self._children(i)
                value = self._units[first] ^ _NO_LABEL if first < len(self._units) else len(self._texts)
                if value >= len(self._texts):
                    raise ValueError(f"precompiled is malformed: unit {i} of its trie leads to no replacement")

    def _children(self, i: int) -> int:
        """The index at which the children of a node begin."""
        unit = self._units[i]
        return i ^ (unit >> 10 << (8 if unit & _FURTHER else 0))

    def longest_match(self, data: bytes, start: int) -> tuple[int, bytes] | None:
        """Find the longest key that begins at an offset.

        Args:
            data: UTF-8.
            start: an offset in it.

        Returns:
            The offset at which the key ends, and its replacement; None if no key begins at ``start``.
        """
        units, found, node = self._units, None, 0
        for offset in range(start, len(data) if units else 0):
            node = self._children(node) ^ data[offset]
            if node >= len(units) or units[node] & (_NO_LABEL | 0xFF) != data[offset]:
                break
            if units[node] & _KEY_ENDS:
                found = offset + 1, units[self._children(node)] ^ _NO_LABEL
        if found is None:
            return None
        end, text = found
        return end, self._texts[text : self._texts.index(0, text)]


class Normalizer:
    """Replace characters, from left to right and with the longest match at each offset; then collapse white space.

    Args:
        precompiled: the replacements, as in :class:`CharacterMap`.
        collapsed: the characters whose runs become one space, or nothing at the beginning of the text; "" for none.
        stripped: the characters that are removed from the end of the text.
        protected: texts in which nothing is replaced.

    Raises:
        ValueError: if the map is truncated or malformed.

    Source: Kudo and Richardson (2018), section 3.4; GT-40, UCL-09.

    >>> Normalizer()("  two   words ", prefix=" ")
    ' two words'
    """

    def __init__(
        self, precompiled: bytes = b"", *, collapsed: str = " ", stripped: str = " ", protected: Iterable[str] = ()
    ):
        self.precompiled, self.collapsed, self.stripped, self.protected = (
            precompiled,
            collapsed,
            stripped,
            tuple(protected),
        )
        self._map = CharacterMap(precompiled)
        self._protected = tuple(text.encode() for text in sorted(self.protected, key=len, reverse=True))
        self._run = regex.compile(f"[{regex.escape(collapsed)}]+") if collapsed else None

    def __call__(self, text: str, prefix: str = "") -> str:
        """Normalize a text, and put the prefix before it if it is not empty.

        A ▁ in the text becomes a space, as in SentencePiece.
        """
        if not text:
            return ""
        text = self._replaced(text) if self.precompiled else text
        if self._run:
            text = self._run.sub(" ", text).removeprefix(" ")
        return (prefix + text.replace("▁", " ")).rstrip(self.stripped) if text else ""

    def _replaced(self, text: str) -> str:
        data, offset, parts = text.encode("utf-8", "surrogatepass"), 0, []
        while offset < len(data):
            lead = data[offset]
            end = offset + (1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)
            new = data[offset:end]
            if data.startswith(self._protected, offset):
                new = next(text for text in self._protected if data.startswith(text, offset))
                end = offset + len(new)
            elif found := self._map.longest_match(data, offset):
                end, new = found
            parts.append(new)
            offset = end
        return b"".join(parts).decode("utf-8", "surrogatepass")
