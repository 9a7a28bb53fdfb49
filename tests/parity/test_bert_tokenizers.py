"""Ids of BERT's and RoBERTa's tokenizers beside ``transformers``, on ten thousand lines of all kinds."""

import json
import lzma
import random
import unicodedata
import zlib
from pathlib import Path

import pytest

from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.vocabulary_files import read_tokenizer

theirs = pytest.importorskip("transformers")

pytestmark = [pytest.mark.parity, pytest.mark.shared_data]

COUNT = 10_000
ODD = [
    *"\t\r\x0b\x0c\x1c\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000 ",  # white space
    *"\x00\x01\x07\x1b\x7f\x9f\xad\u200b\u200d\u200e\u2060\ufeff\ufffd\ue000\U000f0000",  # controls
    *"\u0300\u0301\u0327\u0338\u05b0\u064b\u0e31\u20dd\ufe0f\U0001d165",  # marks
    *"İıſßẞŉǅΣςÅÅﬁﬀＡｂ①½Ⅷ℡㎏",  # case and compatible characters
    *"。，、；：？！…—～·「」《》“”‘’¡¿«»§¶†‡•‰′″‹›⁂€£¥$+<=>^`|~@#_[]{}\\",
    *"가각힣ㄱㅎひらカナｶﾅ漢字北京鿿㐀豈\U00020000\U0002a6d6\U0002b740\U0002f800\U00030000〇々",
    *"😀👍🏽👩‍👩‍👧🇨🇳☃✓→∑√∞",
    *"ابتनमस्तेไทยЖжЁёĐđłøæþ",
]
WORDS = [
    "don't",
    "He's",
    "3.14",
    "x2",
    "www.example.org",
    "ABC",
    "naïve",
    "a" * 100,
    "b" * 101,
    "[mask]",
    "café",
    "##ing",
]


def _odd(draw: random.Random) -> str:
    return "".join(draw.choice(ODD if draw.random() < 0.5 else [*WORDS, " ", " "]) for _ in range(draw.randrange(40)))


@pytest.fixture(scope="module")
def lines(shared_data) -> list[str]:
    """English, Chinese and odd lines; none spells a special token, which is text here and not there."""
    draw = random.Random(7)
    found = [_odd(draw) for _ in range(4_000)]
    for name in ("enwiki/enwiki.txt.xz", "zhwiki/zhwiki_hans.txt.xz", "wikitext-2/wiki.valid.tokens.xz"):
        content = lzma.decompress((shared_data / name).read_bytes()).decode().split("\n")
        found += [line for line in content[:: len(content) // 4_000 or 1] if line][:2_000]
    specials = ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<unk>", "<pad>", "<mask>")
    for special in specials:
        found = [line.replace(special, "") for line in found]
    assert len(found) >= COUNT
    return found[-COUNT:]


def agree(ours: Tokenizer, other, lines: list[str]) -> None:
    for start in range(0, len(lines), 1000):
        part = lines[start : start + 1000]
        expected = other(part, add_special_tokens=False)["input_ids"]
        for line, one, two in zip(part, ours.encode_batch(part), expected, strict=True):
            assert one == two, repr(line)


def vocabulary_file(shared_data: Path, folder: Path) -> Path:
    packed = (shared_data / "vocab/bert/scibert_scivocab_cased_vocab.txt.gz").read_bytes()
    path = folder / "vocab.txt"
    path.write_bytes(zlib.decompress(packed, 31))
    return path


@pytest.mark.parametrize(
    "config",
    [
        {"do_lower_case": False},
        {"do_lower_case": True},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
    ],
)
def test_ids_of_a_published_vocabulary(config, lines, shared_data, tmp_path):
    path = vocabulary_file(shared_data, tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    agree(read_tokenizer(tmp_path), theirs.BertTokenizerFast(str(path), **config), lines)


@pytest.mark.parametrize("lower", [False, True])
def test_ids_of_the_algorithm_in_python(lower, lines, shared_data, tmp_path):
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    path = vocabulary_file(shared_data, tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    # It brings cleaned text to normalisation form C, which neither BERT's own program nor the other one does, and makes
    # Σ at the end of a word ς. Of what is no character yet, and of newer marks, versions of Unicode think differently.
    composed = [unicodedata.normalize("NFC", line) for line in lines[::4] if "Σ" not in line]
    plain = [line for line in composed if not {"Cn", "Co", "Mn"} & set(map(unicodedata.category, line))]
    assert len(plain) > 1_500
    agree(read_tokenizer(tmp_path), BertTokenizerLegacy(str(path), do_lower_case=lower), plain)


@pytest.mark.parametrize("lower", [False, True])
def test_a_trained_vocabulary_is_read_by_transformers(lower, lines, tmp_path):
    config = TokenizerConfig(kind="wordpiece", vocab_size=3_000, lowercase=lower)
    ours = Tokenizer.train(lines[::5], config, roles=("cls", "sep", "mask"))
    ours.save(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": lower})
    )
    loaded = theirs.AutoTokenizer.from_pretrained(tmp_path)
    agree(ours, loaded, lines)
    assert (loaded.pad_token_id, loaded.mask_token_id) == (ours.pad_id, ours.mask_id)
    path = tmp_path / "plain" / "vocab.txt"
    path.parent.mkdir()
    path.write_text("".join(f"{ours.token(number)}\n" for number in range(ours.vocab_size)), encoding="utf-8")
    agree(ours, theirs.BertTokenizerFast(str(path), do_lower_case=lower), lines[::10])


@pytest.mark.parametrize("space", [False, True])
def test_ids_of_roberta(space, lines, tmp_path):
    trained = Tokenizer.train(lines[::5], TokenizerConfig(kind="byte-bpe", vocab_size=1_000, nfc=False))
    model = json.loads(trained.to_json())["model"]
    names = {"<s>": "<s>", "<pad>": "<pad>", "</s>": "</s>", "<unk>": "<unk>"}
    vocab = {token: number for token, number in model["vocab"].items() if token not in names}
    vocab = {token: number for number, token in enumerate([*names, *vocab, "<mask>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    merges = [" ".join(pair) for pair in model["merges"]]
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    settings = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": space}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours = read_tokenizer(tmp_path)
    mask = theirs.AddedToken("<mask>", lstrip=True, special=True)  # as published
    other = theirs.AutoTokenizer.from_pretrained(tmp_path, mask_token=mask)
    agree(ours, other, lines)
    roles = (ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id)
    assert roles == (
        other.pad_token_id,
        other.unk_token_id,
        other.cls_token_id,
        other.sep_token_id,
        other.mask_token_id,
    )
    if not space:  # else they put a space behind every mask
        for text in ("Paris is the <mask> of France.", "<mask> is<mask>.", "a  <mask> b"):
            assert ours.encode_masked(text).ids == other(text, add_special_tokens=False)["input_ids"]


def test_masks_in_texts(lines, shared_data, tmp_path):
    path = vocabulary_file(shared_data, tmp_path)
    ours, other = read_tokenizer(path), theirs.BertTokenizerFast(str(path), do_lower_case=False)
    draw = random.Random(3)
    for line in lines[::20]:
        cut = draw.randrange(len(line) + 1)
        text = f"{line[:cut]}[MASK]{line[cut:]}"
        assert ours.encode_masked(text).ids == other(text, add_special_tokens=False)["input_ids"]
        assert (
            ours.encode_masked(text).offsets
            == other(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        )
