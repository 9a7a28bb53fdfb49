"""Tokenizers in folders of Hugging Face, both ways."""

import json
from typing import get_args

import pytest
import tokenizers
import torch

from tests.formats.encoders import SIZES, TEXTS, make, reference, shaken
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.formats.huggingface.bert import framed_tokenizer
from wenmai.inference.families import backbone_like
from wenmai.inference.masked_model import MaskedModel
from wenmai.models.bert import Bert, BertConfig
from wenmai.text.pieces import OPTIONAL_SPECIALS, TokenizerKind
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig


@pytest.mark.parity
@pytest.mark.parametrize("segments", [2, 1, 0])
def test_the_written_tokenizer_puts_the_special_tokens_around_texts(segments, tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    write_huggingface(tmp_path / "out", make(tokenizer, segments=segments), tokenizer)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    cls, sep = [tokenizer.cls_id], [tokenizer.sep_id]
    for text in [*TEXTS, "a new ☃ text 汉字 "]:
        found = other(text)
        assert found["input_ids"] == cls + tokenizer.encode(text).ids + sep
        assert ("token_type_ids" in found) == (segments == 2)
    one, two = (tokenizer.encode(text).ids for text in TEXTS[:2])
    found = other(TEXTS[0], TEXTS[1])
    assert found["input_ids"] == cls + one + sep + two + sep
    if segments == 2:
        assert found["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert other.mask_token_id == tokenizer.mask_id
    assert other("one [MASK]")["input_ids"] == cls + tokenizer.encode("one").ids + [tokenizer.mask_id] + sep
    assert other.model_max_length == 20
    batched = other(TEXTS, padding=True, return_tensors="pt")
    model = theirs.AutoModel.from_pretrained(tmp_path / "out")
    assert model(**batched).last_hidden_state.shape[:2] == batched["input_ids"].shape
    assert read_huggingface(tmp_path / "out").tokenizer.fingerprint == tokenizer.fingerprint


@pytest.mark.parity
@pytest.mark.parametrize("kind", [kind for kind in get_args(TokenizerKind) if kind != "chinese"])  # which is refused
def test_tokenizers_of_every_kind_are_written(kind, tmp_path):
    theirs = pytest.importorskip("transformers")
    size = 60 if kind == "unigram" else 300
    roles = tuple(OPTIONAL_SPECIALS)
    trained = Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocab_size=size, min_count=None), roles=roles)
    model = shaken(Bert(BertConfig(**SIZES), vocab_size=trained.vocab_size))
    write_huggingface(tmp_path / "out", model, trained)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in [*TEXTS, "two  one ☃ zzz", " ten"]:
        ids = [trained.cls_id, *trained.encode(text).ids, trained.sep_id]
        assert other(text)["input_ids"] == ids, text
    assert read_huggingface(tmp_path / "out").tokenizer.fingerprint == trained.fingerprint


@pytest.mark.parity
def test_a_masked_token_is_filled_by_the_pipeline_of_transformers(tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    model = make(tokenizer)
    write_huggingface(tmp_path / "out", model, tokenizer)
    fill = theirs.pipeline("fill-mask", model=str(tmp_path / "out"), device=-1)
    found = fill("one [MASK] three", top_k=3)
    ids = [tokenizer.cls_id, *tokenizer.encode("one").ids, tokenizer.mask_id, *tokenizer.encode("three").ids]
    ids = torch.tensor([[*ids, tokenizer.sep_id]])
    with torch.no_grad():
        logits = model.heads["mlm"](model(ids))[0]
    place = ids[0].tolist().index(tokenizer.mask_id)
    best = logits[place].softmax(-1).topk(3)
    assert [one["token"] for one in found] == best.indices.tolist()
    assert [one["score"] for one in found] == pytest.approx(best.values.tolist(), abs=1e-5)


WORDS = [
    "hello",
    "world",
    ",",
    "!",
    "un",
    "##aff",
    "##able",
    "北",
    "京",
    "is",
    "nice",
    "naive",
    "cafe",
    "[",
    "]",
    "<",
    ">",
]
BYTES = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def published(theirs, family):
    """A tokenizer as the classes of transformers make it."""
    if family == "Bert":
        letters = [f"{before}{letter}" for before in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
        named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters]
        return theirs.BertTokenizer(vocab={token: number for number, token in enumerate(dict.fromkeys(named))})
    named = ["<s>", "<pad>", "</s>", "<unk>", *BYTES, "he", "ll", "<mask>"]
    vocab = {token: number for number, token in enumerate(named)}
    return theirs.RobertaTokenizer(vocab=vocab, merges=[("h", "e"), ("l", "l")])


@pytest.mark.parity
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_tokenizers_of_transformers_come_back(family, tmp_path):
    theirs = pytest.importorskip("transformers")
    cutter = published(theirs, family)
    sizes = {"pad_token_id": 1, "max_position_embeddings": 22} if family == "Roberta" else {}
    reference(family, "ForMaskedLM", vocab_size=300, **sizes).save_pretrained(tmp_path / "in")
    cutter.save_pretrained(tmp_path / "in")
    found = read_huggingface(tmp_path / "in")
    assert found.module.config.max_length == 20
    write_huggingface(tmp_path / "out", found.module, found.tokenizer)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ["Hello world, unaffable!", "北京 is nice", " odd\u3000white\tspace\u00a0\u200b ", "naïve Café 😀", ""]:
        ids = [found.tokenizer.cls_id, *found.tokenizer.encode(text).ids, found.tokenizer.sep_id]
        assert cutter(text)["input_ids"] == other(text)["input_ids"] == ids, text
    masked = f"Hello {cutter.mask_token}, you"
    assert found.tokenizer.mask_id in cutter(masked)["input_ids"]
    assert cutter(masked)["input_ids"] == other(masked)["input_ids"]
    assert dict(cutter("a", "b")) == dict(other("a", "b"))
    if family == "Roberta":  # the two files of old
        (tmp_path / "in" / "tokenizer.json").unlink()
        (tmp_path / "in" / "vocab.json").write_text(json.dumps(cutter.get_vocab()), encoding="utf-8")
        (tmp_path / "in" / "merges.txt").write_text("#version: 0.2\nh e\nl l\n")
        again = read_huggingface(tmp_path / "in").tokenizer
        assert again.encode(masked).ids == found.tokenizer.encode(masked).ids
        roles = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
        assert [getattr(again, role) for role in roles] == [getattr(found.tokenizer, role) for role in roles]


@pytest.mark.parity
@pytest.mark.parametrize("lowercase", [True, False])
def test_a_vocabulary_with_its_settings_is_a_tokenizer(lowercase, tmp_path):
    theirs = pytest.importorskip("transformers")
    vocab = published(theirs, "Bert").get_vocab()
    cutter = theirs.BertTokenizer(vocab=vocab, do_lower_case=lowercase)
    reference("Bert", "ForMaskedLM", vocab_size=len(vocab)).save_pretrained(tmp_path / "in")
    tokens = sorted(vocab, key=vocab.__getitem__)
    (tmp_path / "in" / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    settings = {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"}
    (tmp_path / "in" / "tokenizer_config.json").write_text(json.dumps(settings))
    found = read_huggingface(tmp_path / "in")
    write_huggingface(tmp_path / "out", found.module, found.tokenizer)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in [
        "Hello WORLD, unaffable!",
        "北京 is nice",
        " odd\u3000white\tspace\u00a0\u200b ",
        "naïve Café 😀",
        "un-[]",
    ]:
        ids = [found.tokenizer.cls_id, *found.tokenizer.encode(text).ids, found.tokenizer.sep_id]
        assert cutter(text)["input_ids"] == other(text)["input_ids"] == ids, text


@pytest.mark.parametrize("segments", [0, 1, 2, 4])
@pytest.mark.parametrize("first", ["[CLS]", "<s>"])
def test_pairs_are_framed_as_the_encoder_reads_them(first, segments):
    names = {"[CLS]": "[PAD] [UNK] [CLS] [SEP] [MASK]", "<s>": "<pad> <unk> <s> </s> <mask>"}[first]
    words = [*names.split(), "he", "cat"]
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: at for at, word in enumerate(words)}, words[1]))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.add_special_tokens(words[:5])
    tokenizer = Tokenizer.of_json(backend.to_str(), "here")
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "max_length": 12}
    encoder = Bert(BertConfig(**sizes, segments=segments), vocab_size=tokenizer.vocab_size)
    backbone = backbone_like(MaskedModel(encoder, tokenizer))
    written = tokenizers.Tokenizer.from_str(json.dumps(framed_tokenizer(tokenizer, segments=segments)))
    found = written.encode("he", "cat he")
    row = backbone.framed(*backbone.ids(["he", "cat he"]))
    assert found.ids == row.tokens
    assert row.tokens.count(tokenizer.sep_id) == (3 if (first, segments) == ("<s>", 1) else 2)
    assert set(found.type_ids) == ({0, 1} if segments > 1 else {0})
