"""Tokenizers: training, round trips, special tokens, and files of our own and of others."""

import json
import subprocess
import sys
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError, FormatError, SettingError, VocabError
from wenmai.text.pieces import CHOICES, SPECIALS
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

KINDS = CHOICES["kind"]
LOSSLESS = ("bpe", "byte-bpe", "unigram", "characters")
TEXTS = [
    "The cat sat on the mat, and 12 dogs (all of them!) watched.",
    "It doesn't matter: 1998 was a twenty-first-century year, wasn't it?",
    "我们在北京学习中文，明天去上海。",
    "今天是2024年3月5日。",
    "</s> and <s> are text, <pad> and <unk> too",
] * 4


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    return {kind: train(kind) for kind in KINDS}


def train(kind: str, texts=TEXTS, roles=(), **settings) -> Tokenizer:
    return Tokenizer.train(iter(texts), TokenizerConfig(kind=kind, **{"vocab_size": 400} | settings), roles=roles)


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_the_first_ids_and_the_vocabulary_is_no_larger_than_asked(trained, kind):
    tokenizer = trained[kind]
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id) == (0, 1, 2, 3)
    assert [tokenizer.token(number) for number in range(4)] == list(SPECIALS)
    assert 4 < tokenizer.vocab_size <= 400
    assert all(tokenizer.id(tokenizer.token(number)) == number for number in range(tokenizer.vocab_size))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_may_ask_for_more_roles(kind, tmp_path):
    texts = [*TEXTS, "a [MASK] is a word", "[CLS] [SEP]"] * 2
    tokenizer = train(kind, texts, roles=("cls", "sep", "mask"))
    tokenizer.save(tmp_path / "tokenizer.json")
    for one in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        bert = kind == "wordpiece"
        names = ["[PAD]", "[UNK]"] if bert else [*SPECIALS]
        names += ["[CLS]", "[SEP]", "[MASK]"]
        assert [one.token(number) for number in range(len(names))] == names
        assert (one.pad_id, one.unk_id, one.bos_id, one.eos_id) == (0, 1, 2, 3)
        roles = (one.cls_id, one.sep_id, one.mask_id)
        assert roles == ((2, 3, 4) if bert else (4, 5, 6))
        assert set(roles).isdisjoint(one.encode("[CLS] a [MASK] b [SEP]").ids)
        assert one.decode([roles[0], *one.encode("cat").ids, *roles[1:]]) == one.decode(one.encode("cat").ids)
    with pytest.raises(SettingError, match=r"cls, sep, mask kind=.* needs"):
        train(kind, texts, vocab_size=260 if kind == "byte-bpe" else 5, roles=("cls", "sep", "mask"))


@pytest.mark.parametrize("kind", KINDS)
def test_without_being_asked_for_there_are_no_more_roles(kind, trained, tmp_path):
    assert (trained[kind].cls_id, trained[kind].sep_id, trained[kind].mask_id) == (None, None, None)
    tokenizer = Tokenizer.train(["[MASK] [CLS]"] * 9, TokenizerConfig(kind=kind))
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.mask_id is None  # a word of the text
    assert loaded.encode("[MASK]").ids == tokenizer.encode("[MASK]").ids


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "words", "characters"])
def test_a_small_vocabulary_keeps_to_its_size(kind):
    assert train(kind, vocab_size=20).vocab_size <= 20


@pytest.mark.parametrize("kind", LOSSLESS)
def test_decoding_gives_the_normalised_text_back(trained, kind):
    tokenizer = trained[kind]
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text).ids) == tokenizer.normalise(text) == text


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_byte_pieces_give_any_text_back(trained, text):
    tokenizer = trained["byte-bpe"]
    assert tokenizer.decode(tokenizer.encode(text).ids) == tokenizer.normalise(text)


@settings(max_examples=50, deadline=None)
@given(st.text(st.sampled_from(sorted(set("".join(TEXTS)) | set(" \n\t▁")))))
def test_known_characters_come_back_but_for_white_space(trained, text):
    for kind in ("bpe", "unigram"):
        tokenizer = trained[kind]
        assert tokenizer.normalise(text) == " ".join(text.replace("▁", " ").split())
        assert tokenizer.decode(tokenizer.encode(text).ids) == tokenizer.normalise(text)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["</s>", "<s>", "<pad>", "<unk>", " ", "<", "/s>", "a", "we", "▁"])).map("".join))
def test_text_never_becomes_a_special_token(trained, text):
    for kind, tokenizer in trained.items():
        ids = tokenizer.encode(text).ids
        assert not {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id} & set(ids), kind
        assert tokenizer.encode_batch([text]) == [ids]
        if kind == "byte-bpe":
            assert tokenizer.unk_id not in ids


def test_a_corpus_full_of_special_tokens_teaches_no_piece_that_is_one():
    for kind in KINDS:
        tokenizer = train(kind, ["a</s>b <s><s> <pad>"] * 50)
        assert not {0, 2, 3} & set(tokenizer.encode("a</s>b <s><pad>").ids), kind


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_point_into_the_source_text(trained, kind):
    text = "The cat,  1998 (我们)"
    found = trained[kind].encode(text)
    assert len(found.ids) == len(found.tokens) == len(found.offsets)
    covered = {place for start, end in found.offsets for place in range(start, end)}  # bytes may share a character
    assert covered >= {place for place, character in enumerate(text) if character != " "}
    assert all(0 <= start < end <= len(text) for start, end in found.offsets)
    assert [trained[kind].token(number) for number in found.ids] == found.tokens


def test_offsets_survive_normalisation():
    text = "Ｔhe ＣＡＴ"
    found = train("words", ["the cat"] * 2, nfkc=True, lowercase=True).encode(text)
    assert found.tokens == ["the", "cat"]
    assert [text[start:end] for start, end in found.offsets] == ["Ｔhe", "ＣＡＴ"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("kind", ["words", "wordpiece", "bpe", "characters"])
def test_places_have_the_marks_that_became_one_with_a_letter(kind, form):
    text = unicodedata.normalize(form, "un café 한국 naïf 中文️")
    tokenizer = train(kind, [text] * 3)
    for found in (tokenizer.encode(text).offsets, tokenizer.encode_batch_placed([text])[0][1].tolist()):
        assert "".join(text[start:end].strip() for start, end in found) == text.replace(" ", "")
        assert all(end <= start for (_, end), (start, _) in pairwise(found))


@pytest.mark.parametrize("kind", KINDS)
def test_empty_text_has_no_pieces(trained, kind):
    assert trained[kind].encode("").ids == []
    assert trained[kind].decode([]) == ""


def test_padding_begin_and_end_are_not_written_and_unknown_is(trained):
    tokenizer = trained["characters"]
    ids = tokenizer.encode("cat").ids
    assert tokenizer.decode([2, *ids, 3, 0, 0]) == "cat"
    assert tokenizer.decode(tokenizer.encode("c☃t").ids) == "c<unk>t"
    for kind, one in trained.items():
        ids = [one.bos_id, one.unk_id, *one.encode("cat").ids, one.eos_id, one.pad_id]
        assert one.decode(ids, skip_special_tokens=True) == "cat", kind
        shown = one.decode(ids, skip_special_tokens=False)
        assert all(name in shown for name in ("<s>", "<unk>", "cat", "</s>", "<pad>")), kind


@pytest.mark.parametrize(
    "text",
    [
        "The cat sat on the mat, and 12 dogs (all of them!) watched.",
        'He said: "It doesn\'t matter, 3.5% is well-known"; why?',
        "我们在北京学习中文，明天去上海。",
    ],
)
def test_words_are_joined_as_they_are_written(text):
    tokenizer = train("words", [text], min_count=1)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_pieces_of_words_are_joined(trained):
    text = "It doesn't matter: 12 dogs (all of them!) watched."
    assert trained["wordpiece"].decode(trained["wordpiece"].encode(text).ids) == text


def test_words_are_letters_numbers_and_marks(trained):
    tokens = (
        train("words", ["don't 3,000.5 well-known a_b!"], min_count=1).encode("don't 3,000.5 well-known a_b!").tokens
    )
    assert tokens == ["don't", "3,000.5", "well", "-", "known", "a_b", "!"]


def test_pieces_hold_no_punctuation_beside_letters_and_one_digit_at_most():
    tokenizer = train("bpe", ["end. end. 1998 1998 我end"] * 50)
    assert tokenizer.encode("end. 1998 我end").tokens == ["▁end", ".", "▁1", "9", "9", "8", "▁我", "end"]


def test_rare_words_and_characters_are_left_out():
    tokenizer = train("words", ["a a a b b c"], min_count=2)
    assert [tokenizer.token(number) for number in range(4, tokenizer.vocab_size)] == ["a", "b"]
    tokenizer = train("characters", ["aaabbc"], min_count=2)
    assert tokenizer.encode("abc").tokens == ["a", "b", "<unk>"]


def test_characters_are_those_of_the_text_most_frequent_first(trained):
    counts = Counter("".join(TEXTS))
    ordered = sorted(counts, key=lambda character: (-counts[character], character))
    found = [trained["characters"].token(number) for number in range(4, trained["characters"].vocab_size)]
    assert found == ordered[: len(found)]


@pytest.mark.parametrize("kind", KINDS)
def test_equal_texts_give_equal_files(trained, kind, tmp_path):
    again = train(kind)
    trained[kind].save(tmp_path / "one.json")
    again.save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert again.fingerprint == trained[kind].fingerprint


def test_equal_texts_give_equal_vocabularies_in_another_process():
    script = (
        "from wenmai.text.tokenizer import Tokenizer, TokenizerConfig\n"
        "texts = ['the %d cats saw %d dogs 我%s' % (i, i * i, chr(0x4e00 + i)) for i in range(200)]\n"
        "for kind in ('bpe', 'unigram', 'wordpiece'):\n"
        "    config = TokenizerConfig(kind=kind, vocab_size=600)\n"
        "    print(Tokenizer.train(texts, config).fingerprint)"
    )
    first, second = (subprocess.check_output([sys.executable, "-c", script]) for _ in range(2))
    assert first == second
    assert len(set(first.split())) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_the_same_when_loaded(trained, kind, tmp_path):
    tokenizer = trained[kind]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.fingerprint == tokenizer.fingerprint
    assert loaded.encode_batch([*TEXTS, "☃ </s>"]) == tokenizer.encode_batch([*TEXTS, "☃ </s>"])
    assert loaded.decode(range(loaded.vocab_size)) == tokenizer.decode(range(loaded.vocab_size))
    assert (loaded.pad_id, loaded.unk_id, loaded.bos_id, loaded.eos_id) == (0, 1, 2, 3)


def foreign(path: Path, model, special: list[str], pre_tokenizer=None, **options) -> Path:
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer or tokenizers.pre_tokenizers.Whitespace()
    backend.add_special_tokens(special)
    for name, value in options.items():
        setattr(backend, name, value)
    backend.enable_padding()
    backend.enable_truncation(2)
    backend.save(str(path))
    return path


def test_the_usual_names_of_others_give_the_roles(tmp_path):
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "un": 4, "##known": 5, "word": 6}
    model = tokenizers.models.WordPiece(vocab, unk_token="[UNK]")
    template = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    bert = foreign(tmp_path / "bert.json", model, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], post_processor=template)
    loaded = Tokenizer.load(bert)
    assert (loaded.pad_id, loaded.unk_id, loaded.bos_id, loaded.eos_id) == (0, 1, 2, 3)
    assert loaded.encode("unknown word other [SEP]").ids == [4, 5, 6, 1, 1, 1, 1]  # nothing added, cut or padded
    assert loaded.decode([2, 4, 5, 6, 3]) == "unknown word"


@pytest.mark.parametrize(
    ("names", "roles"),
    [
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], (2, 3, 2, 3, 4)),  # BERT, ERNIE
        (["<s>", "<pad>", "</s>", "<unk>", "<mask>"], (0, 2, 0, 2, 4)),  # RoBERTa
        (["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"], (1, 2, 3, 4, 6)),  # XLNet
        (["<unk>", "<s>", "</s>", "<pad>"], (1, 2, None, None, None)),
        (["[PAD]", "[UNK]", "[SEP]", "[MASK]"], (2, 2, None, 2, 3)),  # what ends a text does not begin it
    ],
)
def test_files_of_masked_models_have_their_roles(tmp_path, names, roles):
    unknown = next(name for name in names if "unk" in name.lower())
    model = tokenizers.models.WordLevel({name: number for number, name in enumerate(names)}, unk_token=unknown)
    loaded = Tokenizer.load(foreign(tmp_path / "tokenizer.json", model, names))
    assert (loaded.bos_id, loaded.eos_id, loaded.cls_id, loaded.sep_id, loaded.mask_id) == roles


TEMPLATE = tokenizers.processors.TemplateProcessing("</s> $A", special_tokens=[("</s>", 1)])
TEXT_ALONE = tokenizers.processors.TemplateProcessing("$A")
BYTES = tokenizers.processors.ByteLevel()


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (None, False),
        (BYTES, False),
        (TEXT_ALONE, False),
        (tokenizers.processors.Sequence([BYTES, TEXT_ALONE]), False),
        (TEMPLATE, True),
        (tokenizers.processors.Sequence([BYTES, TEMPLATE]), True),
    ],
)
def test_sections_without_effect_are_named_and_gone(step, named, tmp_path):
    model = tokenizers.models.BPE({"<unk>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4}, [("a", "b")], dropout=0.5)
    path = foreign(tmp_path / "tokenizer.json", model, ["<unk>", "</s>"], post_processor=step)
    loaded = Tokenizer.load(path)
    assert set(loaded.left_out) == {"truncation", "padding", "dropout"} | ({"post_processor"} if named else set())
    assert loaded.encode_batch(["ab ab ab"] * 20) == [[4, 4, 4]] * 20  # neither cut, nor padded, nor at random
    loaded.save(path)
    again = Tokenizer.load(path)
    assert not again.left_out
    assert again.fingerprint == loaded.fingerprint
    assert tokenizers.Tokenizer.from_file(str(path)).encode("ab").ids == [4]


def test_one_token_may_have_every_role(tmp_path):
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    vocab = {character: number for number, character in enumerate(sorted(alphabet))}
    bytes_only = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    decoder = tokenizers.decoders.ByteLevel()
    path = foreign(
        tmp_path / "gpt.json", tokenizers.models.BPE(vocab, []), ["<|endoftext|>"], bytes_only, decoder=decoder
    )
    loaded = Tokenizer.load(path)
    assert loaded.pad_id == loaded.unk_id == loaded.bos_id == loaded.eos_id == 256
    ids = loaded.encode("a<|endoftext|>我").ids
    assert 256 not in ids
    assert loaded.decode([*ids, 256]) == "a<|endoftext|>我"


def test_a_unigram_file_of_others_takes_no_special_token_from_text(tmp_path):
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), ("a", -2.0), ("<", -3.0), ("/s>", -9.0)]
    metaspace = tokenizers.pre_tokenizers.Metaspace()
    model = tokenizers.models.Unigram(pieces, unk_id=2)
    loaded = Tokenizer.load(foreign(tmp_path / "t5.json", model, ["<pad>", "</s>", "<unk>"], metaspace))
    assert loaded.encode("a</s>").tokens == ["▁", "a", "<", "/s>"]
    assert (loaded.pad_id, loaded.eos_id, loaded.unk_id, loaded.bos_id) == (0, 1, 2, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not a tokenizer in JSON"),
        (b"\xff", "not a tokenizer in JSON"),
        (b"[1]", "no 'model'"),
        (b'{"model": 3}', "no 'model'"),
        (b'{"model": {"type": "BPE"}}', "damaged"),
        (b'{"model": {"type": "Other", "vocab": {}}}', "damaged"),
    ],
)
def test_a_damaged_file_is_explained(tmp_path, content, message):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        Tokenizer.load(path)
    assert str(path) in str(caught.value)


def test_a_truncated_or_missing_file_is_explained(trained, tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(FormatError, match="cannot be read"):
        Tokenizer.load(path)
    trained["bpe"].save(path)
    content = path.read_bytes()
    for size in range(0, len(content), 997):
        path.write_bytes(content[:size])
        with pytest.raises(FormatError):
            Tokenizer.load(path)


@pytest.mark.parametrize(("left", "missing"), [(["<unk>"], "the end of a sequence"), (["</s>"], "what is unknown")])
def test_missing_special_tokens_are_named(tmp_path, left, missing):
    path = foreign(tmp_path / "tokenizer.json", tokenizers.models.WordLevel({left[0]: 0, "a": 1}), left)
    content = json.loads(path.read_text(encoding="utf-8"))
    if "<unk>" not in left:
        content["model"]["unk_token"] = "[absent]"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FormatError, match=missing):
        Tokenizer.load(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_no_text_makes_no_vocabulary(kind, texts):
    with pytest.raises(CorpusError, match="no vocabulary"):
        train(kind, texts)


def test_texts_that_make_no_sense_are_explained(trained):
    with pytest.raises(CorpusError, match="nothing in them occurs min_count=2"):
        train("words", ["each word once"])
    with pytest.raises(CorpusError, match="not one string"):
        Tokenizer.train("abc", TokenizerConfig())
    with pytest.raises(CorpusError, match="one is int"):
        train("bpe", [3])
    for call in (lambda: train("bpe", ["a\ud800"]), lambda: trained["bpe"].encode("a\ud800")):
        with pytest.raises(CorpusError, match="lone surrogate"):
            call()
    with pytest.raises(CorpusError, match="lone surrogate"):
        trained["bpe"].encode_batch(["a", "\ud800"])
    with pytest.raises(SettingError, match="more different characters"):
        train("unigram", vocab_size=10)


def test_an_error_while_texts_are_read_is_passed_on():
    def texts():
        yield "some text"
        raise CorpusError("line 2 is bad")

    for kind in KINDS:
        with pytest.raises(CorpusError, match="line 2 is bad"):
            train(kind, texts())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "bqe"}, "did you mean 'bpe'"),
        ({"script": "traditional"}, "script='traditional'"),
        ({"kind": "byte-bpe", "vocab_size": 259}, "needs 260"),
        ({"vocab_size": 4}, "too small"),
        ({"kind": "unigram", "min_count": 3}, "no effect"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        TokenizerConfig(**settings)


def test_an_unknown_token_or_id_is_named(trained):
    tokenizer = trained["words"]
    with pytest.raises(VocabError, match="did you mean 'watched'"):
        tokenizer.id("watchedd")
    for number in (-1, tokenizer.vocab_size):
        with pytest.raises(VocabError, match=str(number)):
            tokenizer.token(number)
        with pytest.raises(VocabError, match=str(number)):
            tokenizer.decode([number])


def test_importing_the_module_loads_no_tokenizers():
    script = "import sys, wenmai.text.tokenizer; sys.exit('tokenizers' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("part", [None, 1, "SpecialToken", []])
def test_a_template_of_something_else_is_left_out(part, tmp_path):
    tokenizer = Tokenizer.train(["a b c"] * 3, TokenizerConfig(kind="words", vocab_size=20))
    content = json.loads(tokenizer.to_json())
    content["post_processor"] = {"type": "TemplateProcessing", "single": [part], "pair": [], "special_tokens": {}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert "post_processor" in Tokenizer.load(tmp_path / "tokenizer.json").left_out


def test_chinese_words_by_a_dictionary_before_and_after_saving(tmp_path):
    text = "我爱北京天安门。今天 天气很好，OK！"
    tokenizer = train("chinese", [text] * 2)
    tokenizer.save(tmp_path / "tokenizer.json")
    for one in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        words = ["我", "爱", "北京", "天安门", "。", "今天", "天气", "很", "好", "，", "OK", "！"]
        assert one.words(text) == words
        found = one.encode(text)
        assert found.tokens == words
        assert [text[low:high] for low, high in found.offsets] == words
        assert one.encode_batch([text, ""]) == [found.ids, []]
        ((ids, offsets), (none, empty)) = one.encode_batch_placed([text, ""])
        assert (ids, none, [tuple(pair) for pair in offsets]) == (found.ids, [], found.offsets)
        assert empty.shape == (0, 2)
        assert one.pieces_of_words([text]) == [(number,) for number in found.ids]
        assert one.decode(found.ids) == "我爱北京天安门。今天天气很好，OK！"
        assert not one.takes_unknown
        with pytest.raises(SettingError, match=r"no tokenizer\.json can say"):
            one.require_portable()
    assert tokenizer.fingerprint != train("whitespace", [" ".join(words)] * 2).fingerprint


def test_the_dictionary_reads_simplified_characters():
    tokenizer = train("chinese", ["风险评估"] * 2, script="simplified")
    found = tokenizer.encode("風險評估")
    assert (found.tokens, found.offsets) == (["风险", "评估"], [(0, 2), (2, 4)])


def test_a_file_with_an_unknown_segmentation(tmp_path):
    tokenizer = train("chinese", ["风险评估"] * 2)
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_json().replace('"segment": "chinese"', '"segment": "x"'))
    with pytest.raises(FormatError, match="segment='x' is unknown; expected 'chinese'"):
        Tokenizer.load(tmp_path / "tokenizer.json")
