"""Single tokens as text that tells them apart: with the space before them, and bytes where they are no characters."""

import re

from wenmai.text.tokenizer import Tokenizer

__all__ = ["shown_token"]

_UNREADABLE = "\ufffd"  # what a decoder gives for bytes that are no whole character
_SPACE = "▁"  # before pieces of words that begin with a space, which decoders take from the beginning of a text
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that byte-level pieces write as they are
_BYTES = {chr(byte): byte for byte in _PRINTED} | {
    chr(256 + place): byte for place, byte in enumerate(sorted({*range(256)} - {*_PRINTED}))
}  # Radford et al. 2019, in their code
_LOST = re.compile("[\udc80-\udcff]+")  # bytes as surrogateescape keeps them


def shown_token(tokenizer: Tokenizer, number: int) -> str:
    """Returns the text of a token.

    Bytes that are no whole character are written as ``<0xE6 0x88>``, and so is a line feed, which looks like the end of
    a line otherwise. The token of a beginning word has a space before it where there is another within words.

    Args:
        tokenizer: The tokenizer.
        number: The id of the token.
    """
    piece, text = tokenizer.token(number), tokenizer.decode([number])
    if text == "\n":
        return _named(b"\n")
    if _UNREADABLE in text:
        if not all(letter in _BYTES for letter in piece):
            return piece  # such as <0xE6>
        spelled = bytes(_BYTES[letter] for letter in piece).decode("utf-8", "surrogateescape")
        return _LOST.sub(lambda found: _named(found[0].encode("utf-8", "surrogateescape")), spelled)
    if text and piece == _SPACE + text:
        return " " + text
    return text or piece


def _named(content: bytes) -> str:
    return f"<{' '.join(f'0x{byte:02X}' for byte in content)}>"
