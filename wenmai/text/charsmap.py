"""Maps of characters in the form that tokenizers read: the ``precompiled_charsmap`` of SentencePiece.

It is a size in bytes (uint32, little endian), a trie of the UTF-8 bytes of the characters, and the texts that they
become, each closed by a NUL. The trie is a double array of uint32 units (Aoe 1989, as darts-clone writes it): the unit
at ``place`` leads by the byte ``label`` to the unit at ``place ^ offset ^ label``. A NUL ends a character; its unit
holds where the text begins.

| bits of a unit | meaning |
|---|---|
| 0 to 7 | the byte that leads here |
| 8 | a character ends here |
| 10 to 30 | the offset |
| 31 | this unit is the end of a character: the other bits are where its text begins |

Source: https://github.com/google/sentencepiece/blob/master/src/normalizer.cc,
https://github.com/s-yata/darts-clone. A tokenizer looks up each grapheme of fewer than six bytes by its first
character, and each character of a longer one.
"""

import struct
from collections.abc import Mapping
from typing import Any

__all__ = ["charsmap"]

_ENDS, _OFFSET, _VALUE = 1 << 8, 10, 1 << 31
_BLOCK = 256  # units: the array is a multiple of it, so that any byte leads to a unit


def charsmap(mapping: Mapping[str, str]) -> bytes:
    """Returns a map of characters for ``tokenizers.normalizers.Precompiled``.

    Args:
        mapping: Character to text; those that become themselves are left out.
    """
    root: dict[int, Any] = {}  # byte to the next node; NUL to where the text begins
    texts = bytearray()
    for character, text in sorted(mapping.items()):
        if character != text:
            node = root
            for byte in character.encode():
                node = node.setdefault(byte, {})
            node[0] = len(texts)
            texts += text.encode() + b"\0"
    units = _double_array(root)
    return struct.pack(f"<{1 + len(units)}I", 4 * len(units), *units) + texts


def _double_array(root: dict[int, Any]) -> list[int]:
    """Lays the nodes of a trie out such that no two units share a place.

    Nodes with several ways on are laid out from left to right; those with nothing but an end then fill the gaps.
    """
    units = {0: 0}
    bases: set[int] = set()  # place ^ offset of the nodes so far; two nodes with the same one would share labels
    branches, ends = [(root, 0)], list[tuple[dict[int, Any], int]]()

    def lay(node: dict[int, Any], place: int, base: int) -> int:
        while base in bases or any(base ^ label in units for label in node):
            base += 1
        bases.add(base)
        units[place] |= (base ^ place) << _OFFSET | (_ENDS if 0 in node else 0)
        for label, below in node.items():
            units[base ^ label] = label if label else below | _VALUE
            if label:
                (ends if below.keys() == {0} else branches).append((below, base ^ label))
        return base

    for nodes in (branches, ends):
        base = 1
        while nodes:
            base = lay(*nodes.pop(), base)
    return [units.get(place, 0) for place in range(_BLOCK * (1 + max(units) // _BLOCK))]
