"""Tokenizers of others: GPT-1's and GPT-2's pairs of files, and the ways to name a tokenizer."""

import json
import lzma
from pathlib import Path

import pytest
import tokenizers

from wenmai.core.errors import FormatError, SettingError
from wenmai.text.pieces import StreamTokenizerConfig, TokenizerConfig, absolute_source
from wenmai.text.shown import shown_token
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.vocabulary_files import read_tokenizer, read_vocabulary

GPT1 = {"<unk>": 0, ".": 1, "l": 2, "o": 3, "w": 4, ".</w>": 5, "w</w>": 6, "lo": 7, "low</w>": 8, "\n</w>": 9}
GPT1_MERGES = ["l o", "lo w</w>"]
TEXTS = [
    "Hello, world! It's 1998... don't — été\tnaïve 汉字 ☃ C++ a_b <unk> \n</w>",
    "The Quick “brown” fox isn't jumping; over 3.14 lazy-dogs (twice)",
    "",
    "  \n ",
]


def byte_vocabulary(*merges: str) -> dict[str, int]:
    tokens = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    return {token: number for number, token in enumerate([*tokens, *merges, "<|endoftext|>"])}


def write_pair(folder: Path, vocab: object, merges: list[str], names=("vocab.json", "merges.txt")) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / names[0]).write_text(json.dumps(vocab), encoding="utf-8")
    (folder / names[1]).write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    return folder


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    return write_pair(tmp_path / "pair", byte_vocabulary("lo", "low", "Ġlow"), ["l o", "lo w", "Ġ low"])


def test_gpt2s_pieces_are_of_bytes_and_any_text_comes_back(pair):
    tokenizer = read_tokenizer(pair)
    assert tokenizer.encode("low low l☃").tokens == ["low", "Ġlow", "Ġ", "l", "â", "ĺ", "ĥ"]
    for text in ["low low\n lo", "汉字 ☃ \x00\x7f", " two  spaces ", "<|endoftext|> is text"]:
        found = tokenizer.encode(text)
        assert tokenizer.decode(found.ids) == text
        assert tokenizer.eos_id not in found.ids
    assert {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id} == {259}
    assert tokenizer.vocab_size == 260
    assert not tokenizer.nameless


def test_bytes_are_written_as_gpt2_does(pair):
    tokenizer = read_tokenizer(pair)
    spelt = {0: "Ā", 10: "Ċ", 32: "Ġ", 127: "ġ"}
    assert {byte: tokenizer.encode(chr(byte)).tokens[0] for byte in spelt} == spelt
    assert [token for text in ("\xa0", "\xad", "ÿ") for token in tokenizer.encode(text).tokens] == list("ÂłÂŃÃ¿")


def test_gpt1s_words_end_in_a_mark_and_lines_in_a_token(tmp_path):
    tokenizer = read_tokenizer(write_pair(tmp_path / "gpt1", GPT1, GPT1_MERGES))
    found = tokenizer.encode("LOW low. z lo")
    assert found.tokens == ["low</w>", "low</w>", ".</w>", "<unk>", "l", "<unk>"]
    assert tokenizer.decode(found.ids[:3]) == "low low ."
    assert (tokenizer.unk_id, tokenizer.eos_id, tokenizer.pad_id) == (0, 9, 9)
    again = tmp_path / "tokenizer.json"
    tokenizer.save(again)
    assert Tokenizer.load(again).fingerprint == tokenizer.fingerprint


def test_the_vocabulary_of_gpt1(shared_data):
    tokenizer = read_tokenizer(shared_data / "vocab/gpt1")
    assert tokenizer.vocab_size == 40_478
    assert (tokenizer.unk_id, tokenizer.eos_id) == (0, 40_477)
    text = "The bachelorette, who'd been unknown."
    assert tokenizer.encode(text).tokens[:3] == ["the</w>", "bachelorette</w>", ",</w>"]
    assert tokenizer.decode(tokenizer.encode(text).ids) == "the bachelorette , who ' d been unknown ."


@pytest.mark.parity
def test_ids_are_those_of_transformers(pair, shared_data):
    theirs = pytest.importorskip("transformers")
    merges = [tuple(line.split(" ")) for line in (pair / "merges.txt").read_text("utf-8").splitlines()[1:]]
    gpt2 = theirs.GPT2Tokenizer(vocab=json.loads((pair / "vocab.json").read_text("utf-8")), merges=merges)
    folder = shared_data / "vocab/gpt1"
    vocab = json.loads(lzma.decompress((folder / "encoder_bpe_40000.json.xz").read_bytes()))
    lines = lzma.decompress((folder / "vocab_40000.bpe.xz").read_bytes()).decode().split("\n")[1:-1]
    gpt1 = theirs.OpenAIGPTTokenizer(vocab=vocab, merges=[tuple(line.split(" ")) for line in lines])
    for ours, other in ((read_tokenizer(pair), gpt2), (read_tokenizer(folder), gpt1)):
        for text in TEXTS:
            plain = text.replace("<unk>", "")  # there special tokens in a text are special
            assert ours.encode(plain).ids == other(plain)["input_ids"]


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
@pytest.mark.parametrize("packed", [False, True])
def test_a_tokenizer_can_be_named_in_every_way(names, packed, tmp_path, monkeypatch):
    folder = write_pair(tmp_path / "pair", byte_vocabulary("lo"), ["l o"], names)
    if packed:
        for name in names:
            (folder / f"{name}.xz").write_bytes(lzma.compress((folder / name).read_bytes()))
            (folder / name).unlink()
        names = [f"{name}.xz" for name in names]
    expected = read_vocabulary(folder / names[0], folder / names[1]).fingerprint
    read_tokenizer(folder).save(tmp_path / "tokenizer.json")
    monkeypatch.chdir(tmp_path)
    for source in (
        "pair",
        f"pair/{names[0]},pair/{names[1]}",
        f"pair/{names[1]}, pair/{names[0]}",
        "tokenizer.json",
    ):
        absolute = absolute_source(source)
        assert all(Path(part).is_absolute() for part in absolute.split(","))
        assert read_tokenizer(source).fingerprint == read_tokenizer(absolute).fingerprint == expected
    assert read_tokenizer(tmp_path).fingerprint == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", None, "has merges.txt, but not the vocab.json that belongs to it"),
        ("merges.txt", None, "has vocab.json, but not the merges.txt"),
        ("vocab.json", b"{", "is not a tokenizer in JSON"),
        ("vocab.json", b"[1]", "expected a JSON object"),
        ("vocab.json", b"{}", "ids are 0 to 0"),
        ("vocab.json", b'{"a": 0, "b": "1"}', "ids are 0 to 1"),
        ("vocab.json", b'{"a": 0, "b": true}', "ids are 0 to 1"),
        ("vocab.json", b'{"a": 0, "b": 0}', "ids are 0 to 1"),
        ("vocab.json", b'{"a": 0, "b": 4000000000}', "ids are 0 to 1"),
        ("vocab.json", b'{"a": 0, "b": 1}', "neither the 256 characters that stand for bytes, nor"),
        ("vocab.json", b'{"a</w>": 0, "<unk>": 1}', "merges.txt: does not fit .*vocab.json"),
        ("vocab.json", b"\xff\xfe", "is not UTF-8"),
        ("vocab.json", b"[" * 100_000, "is not a tokenizer in JSON"),
        ("merges.txt", b"#version: 0.2\nl o\nl o w\n", "line 3 is no merge"),
        ("merges.txt", b"l o\n\nlo w\n", "line 2 is no merge"),
        ("merges.txt", b"l o\nx\n", "line 2 is no merge"),
        ("merges.txt", b"l o\nq qq\n", "merges.txt: does not fit .*vocab.json"),
        ("merges.txt", lzma.compress(b"l o\n" * 9)[:-20], "xz data is damaged"),
    ],
)
def test_damaged_pairs(name, content, message, pair):
    if content is None:
        (pair / name).unlink()
    else:
        (pair / name).write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_tokenizer(pair)


# --- vocab.txt ------------------------------------------------------------------------------------------------------

BERT = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "he", "cafe", "café", "##s", "北", "!"]


def write_pieces(folder: Path, *, tokens=BERT, text=None, **config) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*tokens, ""]) if text is None else text, encoding="utf-8", newline="")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_ids_of_berts_pieces_are_their_lines(tmp_path):
    for source in (write_pieces(tmp_path), tmp_path / "vocab.txt"):
        tokenizer = read_tokenizer(source)
        assert [tokenizer.id(token) for token in BERT] == list(range(len(BERT)))
        roles = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
        assert roles == (0, 2, 3, 4, 5)
        assert (tokenizer.bos_id, tokenizer.eos_id) == (3, 4)
        assert tokenizer.encode("Hes CAFÉ北x [MASK]!").tokens == ["he", "##s", "cafe", "北", *["[UNK]"] * 4, "!"]
        assert tokenizer.encode_masked("he [MASK]!").tokens == ["he", "[MASK]", "!"]


def test_a_blank_line_is_a_token_that_spells_nothing(tmp_path):
    tokenizer = read_tokenizer(write_pieces(tmp_path, tokens=[*BERT, ""]))
    number = len(BERT)
    assert [tokenizer.decode(ids) for ids in ([number], [number, 6], [6, number, 11])] == ["", "he", "he!"]
    assert shown_token(tokenizer, number) == ""


def test_tokens_may_be_added_behind_the_vocabulary(tmp_path, caplog):
    number = len(BERT)
    folder = write_pieces(
        tmp_path,
        added_tokens_decoder={
            "0": {"content": "[PAD]", "special": True},
            str(number + 1): {"content": "hes", "single_word": True, "special": False},
        },
    )
    (folder / "added_tokens.json").write_text(json.dumps({"newtok": number}))
    tokenizer = read_tokenizer(folder)
    assert tokenizer.encode("he newtok hes heshe").tokens == ["he", "newtok", "hes", "[UNK]"]
    assert (tokenizer.vocab_size, tokenizer.id("newtok"), tokenizer.id("hes")) == (number + 2, number, number + 1)
    assert not caplog.messages
    assert read_tokenizer(folder, most=number).vocab_size == number  # a model whose embeddings did not grow
    for wrong in ({"newtok": number + 7}, {"\ud800": number}, {"": number}, {"hes": number}, {"newtok": [1]}):
        caplog.clear()
        (folder / "added_tokens.json").write_text(json.dumps(wrong))
        assert read_tokenizer(folder).vocab_size == number
        assert "are not read: they do not follow the vocabulary" in caplog.text
    caplog.clear()
    (folder / "added_tokens.json").unlink()
    for wrong in ("x", 1, None, {"content": ["x"]}):
        write_pieces(tmp_path, added_tokens_decoder={str(number): wrong})
        assert read_tokenizer(folder).vocab_size == number


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"do_lower_case": True, "tokenizer_class": "BertTokenizerFast"}, ["cafe", "cafe", "he", "北", "北"]),
        ({"do_lower_case": True, "strip_accents": False}, ["café", "café", "he", "北", "北"]),
        ({"do_lower_case": False}, ["[UNK]", "café", "he", "北", "北"]),
        ({"do_lower_case": False, "strip_accents": True}, ["[UNK]", "cafe", "he", "北", "北"]),
        ({"tokenize_chinese_chars": False}, ["cafe", "cafe", "[UNK]"]),
        ({"unk_token": {"content": "[UNK]"}, "do_lower_case": None}, ["cafe", "cafe", "he", "北", "北"]),
    ],
)
def test_how_text_is_cut_is_said_beside_the_vocabulary(config, expected, tmp_path):
    assert read_tokenizer(write_pieces(tmp_path, **config)).encode("CAFÉ café he北北").tokens == expected


def test_a_vocabulary_with_capital_letters_keeps_case(tmp_path):
    for tokens, expected in (
        ([*BERT, "He"], "He"),
        ([*BERT, "##AB"], "[UNK]"),
        ([*BERT, "[unused99]", "<S>"], "he"),  # nobody writes these
    ):
        assert read_tokenizer(write_pieces(tmp_path, tokens=tokens)).encode("He").tokens == [expected]


def test_a_number_too_long_for_an_id_is_none(tmp_path):
    with pytest.raises(FormatError, match=r"no vocab.txt of BERT, .* lacks \[UNK\]"):
        read_tokenizer(write_pieces(tmp_path, tokens=[f"[UNK]\t{'9' * 5000}"]))


def test_other_spellings_of_the_same_file(tmp_path, caplog):
    expected = read_tokenizer(write_pieces(tmp_path / "usual")).fingerprint
    forms = {
        "windows": "\ufeff" + "\r\n".join(BERT),
        "ernie": "".join(f"{token}\t{number}\n" for number, token in enumerate(BERT)),
        "shuffled": "".join(f"{token}\t{number}\n" for number, token in reversed([*enumerate(BERT)])),
    }
    for name, text in forms.items():
        assert read_tokenizer(write_pieces(tmp_path / name, text=text)).fingerprint == expected
    tokenizer = read_tokenizer(write_pieces(tmp_path / "twice", tokens=[*BERT, "", "he"]))
    assert tokenizer.id("he") == 13  # as for transformers
    assert 6 in tokenizer.nameless
    assert not caplog.messages  # nothing is added to the vocabulary


def test_published_vocabularies(shared_data):
    tokenizer = read_tokenizer(shared_data / "vocab/bert/scibert_scivocab_cased_vocab.txt.gz")
    assert tokenizer.vocab_size == 31_116
    assert tokenizer.encode("The Cell").tokens == ["The", "Cell"]
    ernie = read_tokenizer(shared_data / "vocab/ernie")
    assert ernie.vocab_size == 17_964
    assert (ernie.pad_id, ernie.cls_id, ernie.sep_id, ernie.mask_id) == (0, 1, 2, 3)
    assert ernie.encode("的一").ids == [5, 7]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"text": ""}, r"lacks \[UNK\]"),
        ({"text": "".join(f"{token}\t{n}\n" for n, token in enumerate(BERT, 1))}, "are not all numbers from 0 to"),
        ({"tokens": ["[UNK]", "a"]}, "has no token for the end of a sequence; expected one of"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "is cut by BertJapaneseTokenizer otherwise than by BERT's"),
        ({"do_basic_tokenize": False}, "otherwise than by BERT's"),
        ({"unk_token": "<unk>"}, "lacks <unk>"),
        ({"text": "\n".join(BERT) + "\n" * 9_000 + "x"}, "but ids up to 9011; models have a row for each id"),
    ],
)
def test_what_is_no_vocabulary_of_bert(files, message, tmp_path):
    with pytest.raises(FormatError, match=message):
        read_tokenizer(write_pieces(tmp_path, **files))
    (tmp_path / "tokenizer_config.json").write_text("[")
    with pytest.raises(FormatError, match=r"tokenizer_config\.json: is not a tokenizer in JSON"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json"])
def test_the_class_that_cuts_text_is_named_beside_the_vocabulary(name, pair, tmp_path):
    pieces = write_pieces(tmp_path / "pieces")
    words = write_pair(tmp_path / "words", GPT1, GPT1_MERGES)
    # The one finds Japanese words first, the others keep capitals, or cut numbers into digits.
    for folder, kind, usual in (
        (pieces, "BertJapaneseTokenizer", "BERT"),
        (words, "HerbertTokenizerFast", "GPT"),
        (pair, "Qwen2Tokenizer", "GPT"),
    ):
        (folder / name).write_text(json.dumps({"tokenizer_class": kind}))
        message = f"is cut by {kind.removesuffix('Fast')} otherwise than by {usual}'s, says the {name} beside it"
        with pytest.raises(FormatError, match=message):
            read_tokenizer(folder)
    for folder, kind in ((pieces, "ErnieTokenizer"), (words, "OpenAIGPTTokenizer"), (pair, "RobertaTokenizerFast")):
        (folder / name).write_text(json.dumps({"tokenizer_class": kind}))
        read_tokenizer(folder)
    (pair / "config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer"}))
    (pair / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    read_tokenizer(pair)  # as for transformers, the file of the tokenizer comes first
    for content in ("[]", "{", '{"tokenizer_class": null}'):
        (pair / name).write_text("{}")
        (pair / "config.json").write_text(content)  # of something else
        read_tokenizer(pair)


def test_a_space_before_the_first_word(pair, caplog):
    (pair / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    tokenizer = read_tokenizer(pair)
    assert tokenizer.encode("low").tokens == ["Ġlow"]
    (pair / "tokenizer_config.json").unlink()
    read_tokenizer(pair).save(pair / "tokenizer.json")
    assert read_tokenizer(pair).encode("low").tokens == ["low"]
    (pair / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True, "do_lower_case": True}))
    assert not caplog.messages
    assert read_tokenizer(pair).fingerprint == tokenizer.fingerprint
    assert caplog.messages == [
        f"{pair}/tokenizer.json: add_prefix_space=true is taken from the tokenizer_config.json beside it, "
        "as transformers does"
    ]


def test_case_is_taken_from_beside_a_tokenizer_json(tmp_path):
    read_tokenizer(write_pieces(tmp_path, do_lower_case=False)).save(tmp_path / "tokenizer.json")
    assert read_tokenizer(tmp_path).encode("HE").tokens == ["[UNK]"]
    settings = {"do_lower_case": True, "strip_accents": None}
    for kind, expected in {
        None: "he",
        "BertTokenizerFast": "he",
        "PreTrainedTokenizerFast": "[UNK]",  # to which the file alone says it
        "TokenizersBackend": "[UNK]",
    }.items():
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": kind}))
        assert read_tokenizer(tmp_path).encode("HE").tokens == [expected]


def test_what_has_no_effect_is_said(pair, tmp_path, caplog):
    read_tokenizer(pair).save(tmp_path / "tokenizer.json")
    read_tokenizer(tmp_path)
    assert not caplog.messages
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    backend.enable_truncation(3)
    backend.enable_padding()
    backend.save(str(tmp_path / "tokenizer.json"))
    read_tokenizer(tmp_path)
    assert caplog.messages == [
        f"{tmp_path}/tokenizer.json: has sections that have no effect here: truncation (texts are encoded whole), "
        "padding (models pad their own batches)"
    ]
    caplog.clear()
    (pair / "added_tokens.json").write_text("{}")
    read_tokenizer(pair)
    assert caplog.messages[0].startswith(f"{pair}/added_tokens.json: is not read")


def test_what_names_no_tokenizer(pair, tmp_path):
    for source, message in {
        tmp_path / "nowhere": "nowhere: no such file",
        tmp_path: "has no tokenizer; expected tokenizer.json, vocab.txt, or vocab.json with merges.txt or encoder.json",
        pair / "vocab.json": r"is a vocabulary without its merges; name both, as .*vocab.json,MERGES",
        pair / "merges.txt": r"is no vocab.txt of BERT, one token a line: it lacks \[UNK\]",
        f"{pair}/vocab.json,{pair}/merges.txt,x": "names 3 files",
        f"{pair}/vocab.json,{pair}/gone.txt": "no such file",
    }.items():
        with pytest.raises(FormatError, match=message):
            read_tokenizer(source)


def test_no_row_is_made_for_ids_without_tokens(tmp_path):
    content = {"model": {"type": "WordLevel", "vocab": {"<unk>": 0, "</s>": 1, "a": 4}, "unk_token": "<unk>"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.vocab_size == 5
    assert tokenizer.nameless == {2, 3}
    content["model"]["vocab"]["a"] = 4_000_000_000
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match="has 3 tokens, but ids up to 4000000000"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize(("setting", "value"), [("kind", "words"), ("vocab_size", 500), ("lowercase", True)])
def test_settings_that_a_file_leaves_without_effect(setting, value):
    with pytest.raises(SettingError, match=f"{setting}={value} has no effect with file=here"):
        StreamTokenizerConfig(file="here", **{setting: value})
    assert StreamTokenizerConfig(file="here").kind == TokenizerConfig().kind
