"""Words in a text: their pieces are those that running text has; and how texts are read."""

import pytest
import torch

from wenmai.inference.backbones import joined_ids
from wenmai.inference.families import backbone_like, backbone_of
from wenmai.inference.masked_model import MaskedModel
from wenmai.models.bert import Bert, BertConfig
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

TEXTS = ["我在哈尔滨用 Python 写程序，2008 年起", "the cat sat on the mat", "浙商银行2008年"] * 5
SIZES = {"hidden_size": 4, "num_layers": 1, "num_heads": 1, "max_length": 64}


def backbone(kind):
    config = TokenizerConfig(kind=kind, vocab_size=400, min_count=1)
    tokenizer = Tokenizer.train(TEXTS, config, roles=("cls", "sep", "mask"))
    return backbone_like(MaskedModel(Bert(BertConfig(**SIZES), vocab_size=tokenizer.vocab_size), tokenizer))


def pieces(encoder, words):
    found = joined_ids(words, encoder, {})
    named = [encoder.tokenizer.token(number) for number in found.ids]
    return named, [named[first] for first, _ in found.offsets]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([*"浙商银行年"], "浙商银行年"),
        (["浙商", "银行", "2008", "年"], "浙商银行2008年"),
        (["the", "cat", "sat"], " the cat sat"),
        (["t", "h", "e"], " t h e"),
        (["哈尔滨", "the", "cat", "写"], "哈尔滨the cat写"),
    ],
)
@pytest.mark.parametrize("kind", ["characters", "wordpiece"])
def test_words_are_read_as_running_text_has_them(kind, words, text):
    encoder = backbone(kind)
    assert joined_ids(words, encoder, {}).ids == encoder.ids([text])[0]


def test_characters_of_a_chinese_text_stand_alone():
    encoder = backbone("characters")
    assert joined_ids([*"浙商银行2008年"], encoder, {}).ids == encoder.ids(["浙商银行2008年"])[0]


@pytest.mark.parametrize("kind", ["characters", "bpe", "byte-bpe", "wordpiece"])
def test_a_chinese_character_has_no_space_before_it(kind):
    encoder = backbone(kind)
    named, firsts = pieces(encoder, [*"哈尔滨"])
    assert not {" ", "▁", "Ġ", "<unk>", "[UNK]"} & {*named}
    if kind != "byte-bpe":
        assert firsts == [*"哈尔滨"]
    named, firsts = pieces(encoder, ["the", "mat"])
    assert len(firsts) == 2
    assert not {" ", "▁", "Ġ"} & {*firsts}


def test_reading_texts_is_one_graph_for_the_compiler():
    encoder = backbone("wordpiece")
    fed = encoder.fed([encoder.framed(ids) for ids in encoder.ids(["the cat", "the cat sat on the mat"])])
    read = torch.compile(lambda: encoder.last(fed, None), backend="eager", fullgraph=True)
    encoder.module.eval()
    torch.testing.assert_close(read()[fed.real], encoder.last(fed, None)[fed.real])


@pytest.mark.parametrize(("dropout", "expected"), [(None, (0.2, 0.1)), (0.0, (0.0, 0.0)), (0.3, (0.3, 0.1))])
def test_weights_of_attention_are_dropped_no_more_than_states(dropout, expected):
    tokenizer = backbone("characters").tokenizer
    config = BertConfig(**SIZES, dropout=0.2, attention_dropout=0.1)
    encoder = backbone_like(MaskedModel(Bert(config, vocab_size=tokenizer.vocab_size), tokenizer))
    again = encoder.again(pooler=False, dropout=dropout).module.config
    assert (again.dropout, again.attention_dropout) == expected


def test_an_encoder_that_predicts_from_the_state_before_is_trained_on_like_any_other():
    tokenizer = backbone("characters").tokenizer
    config = BertConfig(**SIZES, heads=("mlm",), shifted=True, dropout=0.0, attention_dropout=0.0)
    base = MaskedModel(Bert(config, vocab_size=tokenizer.vocab_size), tokenizer)
    again = backbone_of(base, pooler=False, dropout=None, fresh=False)
    read = [one.last(one.fed([one.framed([5, 6, 7])]), None) for one in (backbone_like(base), again)]
    torch.testing.assert_close(*read)
