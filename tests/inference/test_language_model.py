"""What a trained language model says of texts, whatever its architecture."""

import math

import pytest
import torch

from tests.inference.toy import toy_language_model
from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system
from wenmai.inference.language_model import LanguageModel, build
from wenmai.measures.language import add_up
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer

SIZES = {
    "nnlm": {"embedding_size": 4, "hidden_size": 8, "order": 3},
    "rnnlm": {"hidden_size": 8, "num_layers": 1},
    "gpt": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "max_length": 12},
    "transformer-xl": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "ffn_size": 8, "memory_length": 400},
}
TEXTS = ["a b c", "", "d", "zzz a", "e d c b a " * 6]


def make(kind, **changes):
    return toy_language_model(kind, **SIZES[kind] | changes)


@pytest.fixture(params=SIZES)
def model(request):
    return make(request.param)


def log_probs(model, ids, before=()):
    """The log-probability of each token, one forward pass for each."""
    fed = [model.tokenizer.eos_id, *before]
    found = []
    for token in ids:
        read = fed if model.module.max_length is None else fed[-model.module.max_length :]
        with torch.no_grad():
            found.append(float(model.module.output.log_probs(model.module(torch.tensor([read]))[0, -1:])[0, token]))
        fed.append(token)
    return found


def test_a_line_for_itself_has_the_probability_of_its_tokens_and_its_end(model):
    scores = list(model.score(TEXTS[:4], context="fresh"))
    for text, score in zip(TEXTS[:4], scores, strict=True):
        ids = [*model.tokenizer.encode(text).ids, model.tokenizer.eos_id] if text else []
        assert score.tokens == len(ids)
        assert score.token_log_probs == pytest.approx(log_probs(model, ids), abs=1e-5)
    assert [score.oov for score in scores] == [0, 0, 0, 1]
    assert scores[3].known_log_prob == pytest.approx(sum(scores[3].token_log_probs[1:]))


def test_with_context_a_line_knows_those_before_it(model):
    carried = list(model.score(["a b", "c d"], context="carried"))
    end = model.tokenizer.eos_id
    a, b, c, d = (model.tokenizer.id(word) for word in "abcd")
    assert carried[1].token_log_probs == pytest.approx(log_probs(model, [c, d, end], [a, b, end]), abs=1e-5)
    fresh = list(model.score(["a b", "c d"], context="fresh"))
    assert carried[0].log_prob == pytest.approx(fresh[0].log_prob, abs=1e-5)
    assert carried[1].log_prob != pytest.approx(fresh[1].log_prob, abs=1e-4)


def test_a_line_longer_than_the_model_reads_at_once_is_scored_whole(model):
    (score,) = model.score([TEXTS[4]], context="fresh")
    assert score.tokens == 31
    assert math.isfinite(score.log_prob)
    if model.module.max_length is None:
        ids = [*model.tokenizer.encode(TEXTS[4]).ids, model.tokenizer.eos_id]
        assert score.token_log_probs == pytest.approx(log_probs(model, ids), abs=1e-4)


def test_however_a_stream_comes_its_score_is_the_same(model):
    texts = ["a b c", "d e"] * 40
    one = add_up(model.score(texts, context="carried"))
    other = add_up(model.score(iter(texts), context="carried"))
    assert one == other
    assert one.sentences == 80


def test_the_next_token_has_the_probability_that_scoring_gives(model):
    following = dict(model.next("a b", topn=20))
    (score,) = model.score(["a b"], context="fresh")
    assert following["\n"] == pytest.approx(math.exp(score.token_log_probs[-1]), rel=1e-4)
    assert sum(following.values()) < 1 + 1e-6
    assert list(following.values()) == sorted(following.values(), reverse=True)
    assert len(model.next("", topn=2)) == 2
    for topn in (0, -1):
        with pytest.raises(SettingError, match=f"topn={topn}: expected 1 or more"):
            model.next("a b", topn=topn)


@pytest.mark.parametrize("kind", ["byte-bpe", "bpe", "unigram", "wordpiece", "words", "characters"])
def test_next_tokens_are_told_apart(kind):
    texts = ["a banana, an ananas\nand bananas 我们去学校", "我在学校吃香蕉 bananas"] * 20
    cutter = Tokenizer.train(texts, TokenizerConfig(kind=kind, vocab_size=300))
    system = find_system("rnnlm").load_model()
    model = LanguageModel(build(system, system.config_class(**SIZES["rnnlm"]), cutter).eval(), cutter)
    tokens = [token for token, _ in model.next("a", topn=1000)]
    assert len(tokens) > 10
    assert len(set(tokens)) == len(tokens)
    assert "\n" in tokens
    if kind == "byte-bpe":
        assert {"<0x0A>", "<0xE6>"} <= set(tokens)
        assert not any("\ufffd" in token for token in tokens)
    if kind == "unigram":
        assert {" a", "a"} <= set(tokens)


def test_a_word_that_goes_on_is_shown_as_it_is_written_in_the_end():
    """A full stop that ##i continues has a space before it, unlike one by itself."""
    cutter = Tokenizer.train([". i .i (i a ai !i"] * 20, TokenizerConfig(kind="wordpiece", vocab_size=60))
    system = find_system("rnnlm").load_model()
    model = LanguageModel(build(system, system.config_class(**SIZES["rnnlm"]), cutter).eval(), cutter)
    for seed in range(1, 9):
        (found,) = model.generate("a", max_tokens=40, seed=seed, past_end=True)
        assert "".join(model.stream("a", max_tokens=40, seed=seed, past_end=True)) == found.text


def test_a_prompt_that_is_cut_is_noted(caplog):
    model = make("gpt")  # reads 12 tokens, the beginning of a line among them
    model.next(" ".join("a" * 11))
    model.generate(" ".join("a" * 11), max_tokens=1)
    assert not caplog.records
    model.next(" ".join("a" * 14))
    assert "longer than the model reads: 2 tokens cut off its beginning" in caplog.text


@pytest.mark.parametrize("memory", [4, 400])
def test_a_long_prompt_is_read_in_the_segments_in_which_it_is_scored(memory):
    model = make("transformer-xl", memory_length=memory)
    prompt = " ".join("abcde" * 60)
    (found,) = model.generate(prompt, max_tokens=1, temperature=0)
    ((token, probability),) = model.next(prompt, topn=1)
    assert found.text.strip() == token
    ((continued,),) = model.continuations(prompt, [f" {token}"])
    assert [found.log_prob, math.log(probability)] == pytest.approx([continued] * 2, abs=1e-5)
    if memory > 300:  # all of it is known
        (score,) = model.score([f"{prompt} {token}"], context="fresh")
        assert continued == pytest.approx(score.token_log_probs[-2], abs=1e-5)


def test_the_likelier_of_two_texts_is_told(model):
    one, other = model.more_likely("a b c", "c b a")
    assert (one.text, other.text) == ("a b c", "c b a")
    assert one.log_prob != other.log_prob


def test_what_is_written_has_the_probability_that_scoring_gives(model):
    (found,) = model.generate("a b", max_tokens=6, temperature=0)
    (whole,) = model.score([("a b" + found.text)], context="fresh")
    made = whole.token_log_probs[2 : 2 + len(found.tokens) + (found.reason == "end")]
    assert found.log_prob == pytest.approx(sum(made), abs=1e-4)
    assert "".join(model.stream("a b", max_tokens=6, temperature=0)) == found.text


def test_a_prompt_that_ends_in_a_space_is_followed_by_no_other(model):
    for options in ({"temperature": 0}, {"beam": 2, "stop": ("zzz",)}):
        (one,), (other,) = (model.generate(prompt, max_tokens=6, **options) for prompt in ("a b", "a b "))
        assert one.text.startswith(" ")
        assert other.text == one.text.removeprefix(" ")
    assert (
        "".join(model.stream("a b ", max_tokens=6, temperature=0))
        == model.generate("a b ", max_tokens=6, temperature=0)[0].text
    )


@pytest.mark.parametrize("options", [{"seed": 3, "stop": ("e e",)}, {"beam": 2}, {"temperature": 0}], ids=str)
def test_everything_happens_where_the_model_is(model, options):
    """A tensor that is made without saying where lands on a device that cannot compute, as it would beside a GPU."""
    expected = model.generate("a b", max_tokens=8, **options)
    with torch.device("meta"):
        assert model.generate("a b", max_tokens=8, **options) == expected
        assert len(list(model.score(TEXTS))) == len(TEXTS)
        assert model.continuations("a b", [" c", " d e"])
        assert model.next("a b")


def test_lines_are_written_on_behind_the_end_of_a_line_and_read_as_lines(model):
    (found,) = model.generate("a b\nc", max_tokens=12, seed=2, past_end=True)
    ends = found.tokens.count(model.tokenizer.eos_id)
    assert ends
    assert found.text.count("\n") == ends
    ids = [model.tokenizer.id(word) for word in "abc"]
    expected = log_probs(model, [1], before=[*ids[:2], model.tokenizer.eos_id, ids[2]])  # of any token
    shown = dict(model.next("a b\nc", topn=20))
    assert shown[model.vocabulary.shown(1)] == pytest.approx(math.exp(expected[0]), rel=1e-4)


def test_a_line_feed_is_part_of_the_text_of_a_model_that_reads_each_line_for_itself():
    model = make("gpt")
    model.context = "fresh"
    read, _ = model._joined("a b\nc", [" d"])
    assert read == [model.tokenizer.eos_id, *(model.tokenizer.id(word) for word in "abc")]


def test_an_unknown_word_is_spelled_as_it_stands_in_the_text():
    model = make("gpt")
    cutter = Tokenizer.train(["a b"] * 2, TokenizerConfig(kind="whitespace", nfkc=True))
    model.tokenizer = cutter
    (score,) = model.score(["\ufb01 \ufb01 \u732b\u72ac b"], context="fresh")  # fi fi, as one sign each
    assert score.oov == 3
    assert score.oov_bytes == 2 * (len("fi") + 1) + len("\u732b\u72ac".encode()) + 1


def test_saved_and_loaded_it_says_the_same(model, tmp_path):
    model.save(tmp_path)
    loaded = LanguageModel.load(tmp_path)
    assert list(loaded.score(TEXTS)) == list(model.score(TEXTS))
    assert loaded.config == model.config


def test_a_model_may_read_otherwise_than_it_was_trained():
    model = make("transformer-xl")
    readings = [{"memory": 1}, {"memory": 100}, {"memory": 100, "same_length": True}, {"clamp_length": 3}]
    found = [add_up(model.reading(**reading).score(["a b c d e"] * 60)).log_prob for reading in [{}, *readings]]
    assert len(set(found)) == len(found)
    assert add_up(model.score(["a b c d e"] * 60)).log_prob == found[0]  # the model itself is as it was
    assert model.reading(memory=1).generate("a b", max_tokens=3)[0].tokens


def test_how_a_model_cannot_read_is_told():
    model = make("transformer-xl")
    with pytest.raises(SettingError, match="memory=-1: expected 0 or more"):
        model.reading(memory=-1)
    with pytest.raises(SettingError, match="it has memory, same_length, clamp_length"):
        model.reading(length=1)
    with pytest.raises(SettingError, match="that is 0: give memory=N"):
        model.reading(memory=0, same_length=True)
    with pytest.raises(SettingError, match="no setting with which a gpt could read"):
        make("gpt").reading(memory=3)
    with pytest.raises(SettingError, match="expected fresh or carried"):
        list(model.score(["a"], context="other"))
    with pytest.raises(SettingError, match="score takes a list; put a single one in brackets"):
        list(model.score("a b"))
    with pytest.raises(SettingError, match="generate takes one prompt, a string, not list"):
        model.generate(["a b"])
    with pytest.raises(SettingError, match="next takes one text, not a list; call it for each text"):
        model.next(["a b"])


def test_a_token_is_foretold_from_the_last_few_before_it_alone(model):
    passages = [["a b", "", "c d e a b", "zzz b a"], ["e", "d c b a e " * 5], ["a"]]
    end = model.tokenizer.eos_id
    for reach, scores in zip((1, 2, 8), model.score_within(passages, (1, 2, 8)), strict=True):
        for passage, score in zip(passages, scores, strict=True):
            rows = [[*ids, end] if ids else [] for ids in model.tokenizer.encode_batch(passage)]
            text = [end, *(token for row in rows for token in row)]
            expected = []
            for place in range(len(text) - len(rows[-1]), len(text)):
                with torch.no_grad():
                    hidden = model.module(torch.tensor([text[max(0, place - reach) : place]]))[0, -1:]
                    expected.append(float(model.module.output.log_probs(hidden)[0, text[place]]))
            assert score.token_log_probs == pytest.approx(expected, abs=1e-5)
            assert (score.text, score.oov) == (passage[-1], "zzz" in passage[-1])


def test_a_model_that_reads_each_line_for_itself_is_given_nothing_before_the_line():
    model = make("gpt")
    model.context = "fresh"
    ((known,),) = model.score_within([["a b c", "d e a"]], (8,))
    ((alone,),) = model.score_within([["d e a"]], (8,))
    (score,) = model.score(["d e a"])
    assert known == alone
    assert known.token_log_probs == pytest.approx(score.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("memory", [0, 400])
def test_farther_than_one_segment_a_memory_is_what_is_known(memory):
    model = make("transformer-xl", memory_length=memory)
    passage = ["a b c d e " * 60, "e d c b a"]
    (near,), (far,), (farther,) = model.score_within([passage], (32, 150, 250))
    assert near.log_prob != pytest.approx(far.log_prob, abs=1e-6)
    assert (far.log_prob == pytest.approx(farther.log_prob, abs=1e-6)) == (memory == 0)
    ids = [token for row in model.tokenizer.encode_batch(passage) for token in (*row, model.tokenizer.eos_id)]
    if memory:  # 32 are known to the first of four that are foretold together, the last two again as a piece
        with torch.no_grad():
            hidden = model.module(torch.tensor([ids[-38:-3]]))[0, -4:]
            expected = model.module.output.log_probs(hidden)[range(4), ids[-6:-2]].tolist()
        assert near.token_log_probs[:4] == pytest.approx(expected, abs=1e-4)


# --- options behind a prompt ----------------------------------------------------------------------------------------


def log_probs_behind(model, ids, read):
    """As :func:`log_probs`, with the tokens that are read given whole."""
    with torch.no_grad():
        hidden = model.module(torch.tensor([[*read, *ids][:-1]]))[0, len(read) - 1 :]
        return model.module.output.log_probs(hidden)[range(len(ids)), ids].tolist()


@pytest.mark.parametrize("prompt", ["", "a", "a b\n", "a b\nc d", "e\n\nd c", " ".join("abcde" * 40)])
def test_options_behind_a_prompt_have_the_probability_of_their_tokens(model, prompt):
    options = [" b", " c d e", " zzz", " c d"]
    end = model.tokenizer.eos_id
    read = [end, *[token for line in prompt.split("\n") for token in (*model.tokenizer.encode(line).ids, end)][:-1]]
    overlong = 0
    if model.module.max_length is not None:  # the beginning of the prompt goes, the same for all options
        overlong = max(0, len(read) + 2 - model.module.max_length)
    assert model.overlong(prompt, options) == overlong
    for option, scores in zip(options, model.continuations(prompt, options), strict=True):
        ids = model.tokenizer.encode(option).ids
        assert scores == pytest.approx(log_probs_behind(model, ids, read[overlong:]), abs=1e-4)


def test_nothing_to_add_has_no_tokens_and_too_much_is_told(model):
    assert model.continuations("a", []) == []
    assert model.continuations("a", ["", " "]) == [[], []]
    assert [len(found) for found in model.continuations("a b", ["", " c"])] == [0, 1]
    if model.module.max_length is not None:
        assert len(model.continuations("a b", [" c" * 12])[0]) == 12
        for ask in (model.continuations, model.overlong):
            with pytest.raises(SettingError, match="an option has 13 tokens, and the model reads texts of 12"):
                ask("a b", [" c" * 13])


def test_a_piece_over_the_end_of_the_prompt_counts_with_the_option():
    cutter = Tokenizer.train(["d ab d abc d abe"] * 9, TokenizerConfig(kind="bpe", vocab_size=30))
    config = find_system("rnnlm").load_model().config_class(**SIZES["rnnlm"])
    model = LanguageModel(build(find_system("rnnlm").load_model(), config, cutter).eval(), cutter)
    assert [len(cutter.encode(text).ids) for text in ("d ab", "d abc", "d abe")] == [2, 2, 2]
    (first,) = cutter.encode("d").ids
    for option, scores in zip("ce", model.continuations("d ab", ["c", "e"]), strict=True):
        ids = cutter.encode(f"d ab{option}").ids[1:]
        assert scores == pytest.approx(log_probs_behind(model, ids, [cutter.eos_id, first]), abs=1e-5)
