"""Tokenizers of strangers that would take time or memory without end, or fail at a text, are refused."""

import base64
import json
import resource
import subprocess
import sys

import pytest

from wenmai.core.errors import FormatError
from wenmai.text.charsmap import charsmap
from wenmai.text.tokenizer import Tokenizer

WORDS = {"type": "WordLevel", "vocab": {"<unk>": 0, "</s>": 1, "a": 2}, "unk_token": "<unk>"}
PIECES = [["<unk>", 0.0], ["</s>", 0.0], ["▁", -1.0]]


def made(**parts) -> str:
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return json.dumps({"version": "1.0", "added_tokens": [], **empty, "model": WORDS, **parts})


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def sequence(*steps):
    return {"type": "Sequence", "normalizers": list(steps)}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def mapped(text):
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap({"a": text})).decode()}


THOUSANDFOLD = replace({"String": "a"}, "a" * 1000)
HOSTILE = {
    "a group repeats": {"pre_tokenizer": split("(a+)+$")},
    "1e\\+12 times": {"normalizer": sequence(*[THOUSANDFOLD] * 4)},
    "1.03e\\+06 times": {"normalizer": sequence(*[sequence(replace({"Regex": "x*"}, "y" * 100))] * 3)},
    "1e\\+04 times": {"normalizer": sequence(mapped("a" * 100), mapped("a" * 100))},
    "map of characters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "////fwAA"}},
    "200 steps": {"normalizer": sequence(*[{"type": "NFC"}] * 199)},
    "before a text": {"normalizer": {"type": "Prepend", "prepend": "a" * 10_000}},
    "times as long": {"decoder": replace({"String": ""}, "a" * 1000)},
    "no length": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "max_input": {"model": WORDS | {"type": "WordPiece", "max_input_chars_per_word": 10**9}},
    "what is unknown, '\\[no\\]'": {"model": WORDS | {"unk_token": "[no]"}},
    "unk_id is missing": {"model": {"type": "Unigram", "vocab": PIECES, "unk_id": None, "byte_fallback": False}},
    "damaged": {"normalizer": sequence(3)},
}
SCRIPT = """
import sys
from wenmai.core.errors import FormatError
from wenmai.text.tokenizer import Tokenizer
try:
    Tokenizer.of_json(sys.stdin.read(), "FILE").encode("aaaa" * 9 + "!")
except FormatError as error:
    print(error)
"""


def refused(text: str) -> subprocess.CompletedProcess[str]:
    """Encodes in a process with bounded time and memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, preexec_fn=limit, check=True)


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_files_are_refused_in_bounded_time_and_memory(message):
    with pytest.raises(FormatError, match=f"^FILE: .*{message}"):
        Tokenizer.of_json(made(**HOSTILE[message]), "FILE")


@pytest.mark.parametrize("parts", [HOSTILE["a group repeats"], HOSTILE["1e\\+12 times"]])
def test_nothing_else_is_said(parts):
    found = refused(made(**parts))
    assert found.stdout.startswith("FILE: is refused")
    assert found.stderr == ""


def test_a_part_that_is_named_twice_cannot_hide():
    text = made(normalizer="HERE").replace('"HERE"', json.dumps(sequence(*[THOUSANDFOLD] * 4)), 1)
    text = text[:-1] + ', "normalizer": null}'
    assert Tokenizer.of_json(text, "FILE").encode("a").ids == [2]


def test_what_the_library_fails_at_is_explained():
    trie = (4).to_bytes(4, "little") + b"\xff\xff\xff\x3f" + b"\0"
    broken = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(trie).decode()}
    found = refused(made(normalizer=broken))
    assert found.stdout.startswith("the tokenizer of this model is damaged: it fails at a text")
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    "normalizer",
    [
        sequence(mapped("x" * 18), replace({"Regex": " {2,}"}, " ")),  # XLM-R
        sequence({"type": "Prepend", "prepend": "▁"}, replace({"String": " "}, "▁")),  # Llama
        sequence({"type": "NFC"}, replace({"Regex": r"\s+"}, " "), {"type": "Lowercase"}),  # CLIP
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
    ],
)
def test_usual_steps_are_harmless(normalizer):
    content = json.loads(made(normalizer=normalizer))
    if content["normalizer"]["type"] == "BertNormalizer":
        content["normalizer"]["strip_accents"] = None
    assert Tokenizer.of_json(json.dumps(content), "FILE").encode("a").ids in ([0], [2])
