"""Ways to damage the files of a sample, each by a number: all prefixes, all bits of heads, edits of every field, draws.

A *sample* is what a reader accepts: the names of files in a folder, and their contents.
"""

import json
import os
import random
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

__all__ = ["PARTS", "Damage", "Sample", "bombs", "packed"]

Sample = Mapping[str, bytes]

PARTS = {  # what is done: how much of what is tried of a subject at most; the last two take what is left
    "structures": 0.2,
    "links and pipes": 0.2,
    "edits of fields": 0.3,
    "prefixes": 0.25,
    "bits of heads": 0.15,
    "weights": 0.1,
    "splices": 0.1,
    "mutations": 1.0,
}
HEAD_BYTES = 64
VALUES: tuple[Any, ...] = (  # that no field should have, or few
    None, True, False, 0, 1, 2, 3, -1, 0.5, -0.5, 1e308, float("nan"), float("inf"), 2**31 - 1, 2**31, 2**63, 10**30,
    "", "x", "NaN", "-inf", "../../../../etc/passwd", "/dev/zero", "\0", "\ud800", "a" * 10_000,
    [], [[]], [0, -1], ["a", "a"], [None] * 300, {}, {"x": 1}, {"type": "x"}, [1] * 1_000, [2**40, 2**40], "1e999",
)  # fmt: skip
_TOKENS = (  # that matter to some reader
    b"\n", b"\r\n", b"\t", b" ", b"  ", b"\0", b"\v", b"\f", b"\x1c", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8",
    b"\xc2\xa0", b"\xe3\x80\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\x8f",
    b"-", b"+", b".", b"e", b"1e999", b"nan", b"inf", b"-1", b"0", b"9" * 20, b"0x10", b"1_0", b"\xd9\xa1",
    b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"#", b"&a", b"*a", b"!!", b"<unk>", b"<s>", b"</s>",
    b"__label__", b"\\u0000", b"\\ud800", b"\\data\\", b"\\end\\", b"null", b"true", b"\xff" * 8, b"\0" * 8,
)  # fmt: skip
_WORDS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
_NUMBER = re.compile(rb"\d+")
_FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 0.0)


class _Removed:
    """Stands for a field that is taken out."""


_REMOVED = _Removed()


@dataclass(frozen=True)
class Damage:
    """All ways to damage some samples.

    Attributes:
        samples: What is damaged; in one file at a time.
        structures: Makes hostile samples, which are tried as they are; they are large.
        kept: Files that stay as they are.
        weights: Endings of files whose numbers are changed in place.
        streams: Whether a pipe or a device is read to its end as any other text, so that none is tried.
    """

    samples: Sequence[Sample]
    structures: Callable[[], Iterable[Sample]] = tuple
    kept: tuple[str, ...] = ()
    weights: tuple[str, ...] = (".safetensors",)
    streams: bool = False

    @cached_property
    def files(self) -> list[tuple[int, str, bytes]]:
        """What can be damaged: number of the sample, name of the file, content."""
        return [
            (number, name, content)
            for number, sample in enumerate(self.samples)
            for name, content in sample.items()
            if name not in self.kept
        ]

    @cached_property
    def _structures(self) -> list[Sample]:
        return [*self.structures()]

    @cached_property
    def _edits(self) -> list[tuple[int, str, tuple[Any, ...]]]:
        """Each field of each file with fields."""
        return [
            (number, name, path)
            for number, name, content in self.files
            if (form := _form(name)) is not None
            for path in _paths(form.load(content))
        ]

    def count(self, part: str, most: int) -> int:
        """Returns how many there are of a part, at most ``most`` of what is drawn."""
        sizes = {
            "structures": len(self._structures) if part == "structures" else 0,
            "links and pipes": len(self.files) * len(_SPECIAL),
            "edits of fields": len(self._edits) * (len(VALUES) + 1),
            "prefixes": sum(len(content) for _, _, content in self.files),
            "bits of heads": sum(8 * min(HEAD_BYTES, len(content)) for _, _, content in self.files),
            "weights": most if any(name.endswith(self.weights) for _, name, _ in self.files) else 0,
        }
        return sizes.get(part, most)

    def write(self, part: str, number: int, draw: random.Random, folder: Path) -> None:
        """Writes a damaged sample into a folder.

        Args:
            part: The kind of damage.
            number: Which.
            draw: What is random about it.
            folder: Where.
        """
        if part == "structures":
            _write(folder, self._structures[number])
            return
        if part == "edits of fields":
            place, value = divmod(number, len(VALUES) + 1)
            which, name, path = self._edits[place]
            form, content = _form(name), self.samples[which][name]
            assert form is not None
            new = VALUES[value] if value < len(VALUES) else _REMOVED
            _write(folder, {**self.samples[which], name: form.dump(_edited(form.load(content), path, new), content)})
            return
        if part == "links and pipes":
            kind, place = divmod(number, len(self.files))
            which, name, content = self.files[place]
            _write(folder, {other: data for other, data in self.samples[which].items() if other != name})
            made = _SPECIAL[kind]
            if not (self.streams and made in _ENDLESS):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                made(folder / name, content)
            return
        which, name, damaged = self._bytes(part, number, draw)
        _write(folder, {**self.samples[which], name: damaged})

    def _bytes(self, part: str, number: int, draw: random.Random) -> tuple[int, str, bytes]:
        if part == "prefixes":
            for which, name, content in self.files:
                if number < len(content):
                    return which, name, content[:number]
                number -= len(content)
        if part == "bits of heads":
            for which, name, content in self.files:
                bits = 8 * min(HEAD_BYTES, len(content))
                if number < bits:
                    return which, name, _flipped(content, number)
                number -= bits
        if part == "weights":
            which, name, content = draw.choice([one for one in self.files if one[1].endswith(self.weights)])
            return which, name, _other_weights(name, content, draw)
        which, name, content = draw.choice(self.files)
        if part == "splices":
            other = draw.choice(self.files)[2]
            place, begin, end = draw.randint(0, len(content)), *sorted(draw.randint(0, len(other)) for _ in range(2))
            return which, name, content[:place] + other[begin:end] + (content[place:] if draw.random() < 0.5 else b"")
        return which, name, _mutated(content, draw)


def _write(folder: Path, sample: Sample) -> None:
    for name, content in sample.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _flipped(content: bytes, bit: int) -> bytes:
    place = bit // 8
    return content[:place] + bytes([content[place] ^ 1 << bit % 8]) + content[place + 1 :]


def _mutated(content: bytes, draw: random.Random) -> bytes:
    """Changes a few places."""
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        size = len(content)
        place = draw.randint(0, size)
        length = draw.choice((1, 1, 2, 4, 16, 200))
        kind = draw.randrange(8)
        if kind == 0 and size:
            content = _flipped(content, draw.randrange(8 * size))
        elif kind == 1 and size:
            place = draw.randrange(size)
            content = content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]
        elif kind == 2:
            content = content[:place] + content[place + length :]
        elif kind == 3:
            content = content[:place] + content[place : place + length] * draw.choice((2, 2, 3, 50)) + content[place:]
        elif kind == 4:
            content = content[:place] + draw.choice(_TOKENS) + content[place:]
        elif kind == 5:
            token = draw.choice(_TOKENS)
            content = content[:place] + token + content[place + len(token) :]
        elif kind == 6 and (numbers := list(_NUMBER.finditer(content))):
            number = draw.choice(numbers)
            content = content[: number.start()] + str(draw.choice(_WORDS)).encode() + content[number.end() :]
        elif kind == 7:
            width = draw.choice((4, 8))
            word = (draw.choice(_WORDS) & (1 << 8 * width) - 1).to_bytes(width, "little")
            content = content[:place] + word + content[place + width :]
    return content


def _other_weights(name: str, content: bytes, draw: random.Random) -> bytes:
    """Changes numbers in place: a few, or a stretch of them, to some that are odd, or just other ones."""
    head = 8 + int.from_bytes(content[:8], "little") if name.endswith(".safetensors") else 0
    numbers = np.frombuffer(content[head : head + (len(content) - head) // 4 * 4], "<f4").copy()
    if not len(numbers):
        return content
    begin = draw.randrange(len(numbers))
    end = min(len(numbers), begin + draw.choice((1, 1, 8, 100, len(numbers))))
    kind = draw.randrange(4)
    if kind == 0:
        numbers[begin:end] = draw.choice(_FLOATS)
    elif kind == 1:
        numbers[begin:end].view("<u4")[:] = np.frombuffer(draw.randbytes(4 * (end - begin)), "<u4")
    elif kind == 2:
        numbers[begin:end] = draw.choice((1e4, -1e4, 1e10, 1e20, -1e20))
    else:
        numbers[begin:end] = numbers[begin:end][::-1].copy()
    return content[:head] + numbers.tobytes() + content[head + numbers.nbytes :]


# --- fields ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """How the fields of a file are read and written."""

    load: Callable[[bytes], Any]
    dump: Callable[[Any, bytes], bytes]


def _dumped_json(value: Any, _: bytes) -> bytes:
    return json.dumps(value).encode()


def _dumped_yaml(value: Any, _: bytes) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")


def _head(content: bytes) -> Any:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def _with_head(value: Any, content: bytes) -> bytes:
    head = json.dumps(value).encode()
    return len(head).to_bytes(8, "little") + head + content[8 + int.from_bytes(content[:8], "little") :]


_FORMS = {
    ".json": _Form(json.loads, _dumped_json),
    ".yaml": _Form(yaml.safe_load, _dumped_yaml),
    ".safetensors": _Form(_head, _with_head),
}


def _form(name: str) -> _Form | None:
    return _FORMS.get(Path(name).suffix)


def _paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields where the fields are; of long lists those of the first and the last items alone."""
    yield before
    if isinstance(value, dict):
        for name, inside in value.items():
            yield from _paths(inside, (*before, name))
    elif isinstance(value, list):
        for place in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            yield from _paths(value[place], (*before, place))


def _edited(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Puts another value into a field, or takes it out."""
    if not path:
        return {} if new is _REMOVED else new
    inside = value
    for step in path[:-1]:
        inside = inside[step]
    if new is _REMOVED:
        del inside[path[-1]]
    else:
        inside[path[-1]] = new
    return value


# --- what is no file ------------------------------------------------------------------------------------------------


def _socket(path: Path, _: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as made:  # names of sockets are short
        here = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{here}/{path.name[:20]}")
        finally:
            os.close(here)
    if path.name[:20] != path.name:
        (path.parent / path.name[:20]).rename(path)


def _linked(path: Path, content: bytes) -> None:
    """A link to a good file outside."""
    target = path.parent / f"{path.name}-elsewhere"
    target.write_bytes(content)
    path.symlink_to(target)


_ENDLESS: tuple[Callable[[Path, bytes], object], ...] = (
    lambda path, _: os.mkfifo(path),
    lambda path, _: path.symlink_to("/dev/zero"),
)
_SPECIAL: tuple[Callable[[Path, bytes], object], ...] = (
    lambda path, _: None,  # missing
    *_ENDLESS,
    lambda path, _: path.symlink_to("/dev/null"),
    lambda path, _: path.symlink_to(path.name),
    lambda path, _: path.symlink_to("nothing-there"),
    lambda path, _: path.symlink_to("/"),
    lambda path, _: path.mkdir(),
    lambda path, _: path.write_bytes(b""),
    _linked,
    _socket,
)


# --- hostile contents for any reader --------------------------------------------------------------------------------


def packed(content: bytes) -> dict[str, bytes]:
    """Returns a content as it is compressed by each of the known programs, by the ending of its name."""
    import bz2
    import gzip
    import lzma

    import zstandard

    return {
        ".gz": gzip.compress(content, mtime=0),
        ".bz2": bz2.compress(content),
        ".xz": lzma.compress(content),
        ".zst": zstandard.compress(content),
    }


def bombs(samples: Sequence[Sample], *, compressed: bool = True) -> Iterator[Sample]:
    """Yields samples in which a file is replaced by what is hard to read in little time or memory.

    Args:
        samples: The good ones.
        compressed: Whether compressed files are read too.
    """
    for sample in samples:
        for name, good in sample.items():
            for content in _plain_bombs():
                yield {**sample, name: content}
            for content in _packed_bombs(good) if compressed else ():
                yield {**sample, name: content}


@cache
def _plain_bombs() -> tuple[bytes, ...]:
    mebi = 1 << 20
    return (
        b"",
        b"\n",
        b"\0",
        b"\0" * 4096,
        b"\xff" * 4096,
        b" " * mebi,
        b"\n" * mebi,
        b"\r" * mebi,
        b"\t\n" * (mebi // 2),
        b"a" * (2 * mebi),
        b"a " * mebi,
        b"a\n" * (mebi // 4),
        b"1" * mebi,
        b"0 " * mebi,
        b"[" * 100_000,
        b"{" * 100_000,
        b'{"a":' * 100_000,
        b"- " * 100_000,
        b"? " * 20_000,
        b'"' * 100_000,
        b"\\" * 100_000,
        b"[" * 5_000 + b"]" * 5_000,
        b"&a [" + b"*a," * 20_000 + b"*a]",
        b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9) if n else b"x") for n in range(30)),
        b"\xef\xbb\xbf",
        b"\xff\xfea\0\n\0",
        b"\x1f\x8b\x08" + b"\0" * 30,
        b"BZh91AY&SY" + b"\0" * 30,
        b"\xfd7zXZ\0" + b"\0" * 30,
        b"\x28\xb5\x2f\xfd" + b"\0" * 30,
        b"\x50\x2a\x4d\x18\xff\xff\xff\x7f",
        b"\x28\xb5\x2f\xfd\x04\xa0" + b"\0" * 20,  # a window of 1 GiB
        (2**63).to_bytes(8, "little") + b"{}",
        (2**40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}",
    )


def _packed_bombs(good: bytes) -> Iterator[bytes]:
    """Much of the same in little space, alone, and before, in and behind what is good."""
    import zstandard

    middle = good.find(b"\n", len(good) // 2) + 1
    for filler in (b"\n", b" ", b"\r\n", b"\0", b"a", b"a b\n"):
        much = filler * (8 << 20 >> (len(filler) > 1))
        for before, behind in ((b"", b""), (b"", good), (good[:middle], good[middle:]), (good, b"")):
            yield bytes(bytearray(zstandard.compress(before + much + behind)))  # without the space it was made in
