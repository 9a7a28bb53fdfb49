"""A translator answers line by line, each as if it were alone, and says what it cannot do."""

import json
import math

import pytest
import torch

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.registry import find_system
from wenmai.inference.translator import Translator, build
from wenmai.models.seq2seq import Seq2SeqConfig
from wenmai.models.transformer import TransformerConfig
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

SOURCES = ["a b c d", "the cat sat", "d c b a the the", "sat cat", "b"]
TARGETS = ["X Y Z", "Q R", "Y Y X", "R Q Z", "X"]
MODELS = {
    "transformer": ("transformer", TransformerConfig, {"num_heads": 2, "ffn_size": 24}),
    "learned": ("transformer", TransformerConfig, {"num_heads": 2, "ffn_size": 24, "positions": "learned"}),
    "seq2seq": ("seq2seq", Seq2SeqConfig, {"embedding_size": 8}),
    "luong": ("seq2seq", Seq2SeqConfig, {"embedding_size": 8, "attention": "luong", "scorer": "bilinear"}),
}


def make(name="transformer", *, joint=False, max_length=20, ended=0.0, **settings):
    """An untrained translator; ``ended`` makes the end of a sentence so much more likely."""
    kind, config_class, usual = MODELS[name]
    words = TokenizerConfig(kind="words", min_count=1)
    source = Tokenizer.train(SOURCES + TARGETS if joint else SOURCES, words)
    target = source if joint else Tokenizer.train(TARGETS, words)
    config = config_class(**({"hidden_size": 16, "num_layers": 1, "max_length": max_length} | usual | settings))
    torch.manual_seed(4)
    module = build(find_system(kind).load_model(), config, source=source, target=target).eval()
    if ended:
        module.output.bias.data[target.eos_id] += ended
    return Translator(module, source, target)


@pytest.fixture(params=MODELS)
def translator(request):
    return make(request.param)


# --- lines ------------------------------------------------------------------------------------------------------


def test_there_is_one_line_for_each_line_in_order(translator):
    texts = [*SOURCES, "", "  ", "unknown words", "a\nb", *SOURCES]
    together = list(translator.stream(texts, beam_size=2))
    assert len(together) == len(texts)
    assert [found[0].text for found in together] == translator.translate(texts, beam_size=2)
    for text, (found,) in zip(texts, together, strict=True):
        if not text.strip():
            assert (found.text, found.score, found.tokens) == ("", 0.0, ())
        assert "\n" not in found.text


def test_a_translation_does_not_depend_on_what_is_translated_with_it(translator):
    together = list(translator.stream(SOURCES, beam_size=3))
    for chunk in (1, 2):
        for one, other in zip(translator.stream(SOURCES, beam_size=3, chunk=chunk), together, strict=True):
            assert [found.tokens for found in one] == [found.tokens for found in other]
            assert one[0].score == pytest.approx(other[0].score, rel=1e-4)


def test_a_translation_is_at_most_fifty_tokens_longer_than_its_source_and_no_longer_than_the_model_takes():
    endless = make("seq2seq", max_length=200, ended=-1e9)
    lengths = [len(found[0].tokens) for found in endless.stream(["b", "a b c d"], beam_size=1)]
    assert lengths == [1 + 1 + 50, 4 + 1 + 50]  # the end token counts
    short = make("seq2seq", max_length=9, ended=-1e9)
    assert [len(found[0].tokens) for found in short.stream(["b", "a b c d"], beam_size=2)] == [9, 9]


def test_special_tokens_are_never_written(translator):
    for options in ({"beam_size": 1}, {"beam_size": 3, "n_best": 3}, {"sampling": {"seed": 3, "temperature": 5.0}}):
        for found in translator.stream(SOURCES, **options):
            for translation in found:
                assert not {"<unk>", "<pad>", "<s>", "</s>"} & set(translation.tokens)


def test_texts_are_read_as_they_are_needed():
    asked = []

    def texts():
        for number in range(100):
            asked.append(number)
            yield "a b"

    found = make().stream(texts(), chunk=3, beam_size=1)
    next(found)
    assert len(asked) == 3


def test_one_text_may_stand_without_a_list():
    translator = make()
    assert [found[0].text for found in translator.stream("a b c d")] == translator.translate("a b c d")
    assert translator.score("a b c d", "X Y Z") == translator.score(["a b c d"], ["X Y Z"])
    with pytest.raises(SettingError, match="sources: 1, targets: 2; expected one target for each source"):
        translator.score("a b", ["X", "Y"])


# --- long and unknown -------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_and_that_is_told(translator, caplog):
    fits, long = "a " * 19, "a " * 40
    (one,), (other,) = translator.stream([fits, long], beam_size=2)
    assert (one.cut, other.cut) == (False, True)
    assert other.tokens == one.tokens
    assert translator.translate([fits, long], beam_size=2) == [one.text, other.text]
    assert caplog.messages == ["1 text longer than the model reads (max_length=20): cut"]
    maps = translator.attention(long)
    assert len(maps.source_tokens) == 20
    assert translator.score([long], ["X"]) == pytest.approx(translator.score([fits], ["X"]))
    with pytest.raises(SettingError, match=r"a translation has 40 tokens; the model takes 19: 'X X"):
        translator.score(["a"], ["X " * 40])


# --- scores -----------------------------------------------------------------------------------------------------


def test_the_scores_are_those_of_the_model(translator):
    for found in translator.stream(SOURCES, beam_size=4, n_best=4, length_penalty="none"):
        assert [translation.score for translation in found] == sorted((t.score for t in found), reverse=True)
        assert len({translation.tokens for translation in found}) == len(found)
    for source, found in zip(SOURCES, translator.stream(SOURCES, beam_size=3, n_best=2), strict=True):
        for translation in found:
            length = len(translation.tokens) + 1
            if length <= 15:  # it ended by itself
                expected = translator.score([source], [" ".join(translation.tokens)])[0]
                assert translation.log_prob == pytest.approx(expected, rel=1e-4)
                assert translation.score == pytest.approx(translation.log_prob / length, rel=1e-6)


def test_the_score_of_a_translation_is_its_log_probability():
    translator = make("seq2seq", ended=2.0)
    compared = 0
    for source, found in zip(SOURCES, translator.stream(SOURCES, beam_size=4, n_best=4), strict=True):
        for translation in found:
            expected = translator.score([source], [" ".join(translation.tokens)])[0]
            assert translation.log_prob == pytest.approx(expected, rel=1e-4)
            assert translation.score == pytest.approx(translation.log_prob / (len(translation.tokens) + 1), rel=1e-6)
            compared += 1
    assert compared == 4 * len(SOURCES)
    total = sum(math.exp(translator.score(["b"], [text])[0]) for text in ("", "X", "Y", "Z", "Q", "R"))
    assert 0 < total < 1


def test_a_seed_decides_what_is_drawn(translator):
    def drawn(seed, **more):
        return translator.translate(SOURCES, sampling={"seed": seed, **more})

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1, temperature=0.0) == translator.translate(SOURCES, beam_size=1)
    assert drawn(1, top_k=1) == translator.translate(SOURCES, beam_size=1)


def test_equal_texts_of_one_stream_are_drawn_anew():
    translator = make()
    assert len(set(translator.translate(["a b c"] * 4, sampling={"seed": 1}, chunk=1))) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 3, "beam_size": 2}, "n_best=3: a beam of 2"),
        ({"n_best": 0}, "n_best=0"),
        ({"beam_size": 0}, "beam_size=0: expected"),
        ({"length_penalty": "long"}, "length_penalty=long: expected none, mean, gnmt, reward"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"alpha": math.nan}, "alpha=nan"),
        ({"alpha": 1000.0}, "alpha=1000.0: expected 0 to 20"),  # no number is so large as 52 to this power
        ({"coverage_beta": -0.1}, "coverage_beta=-0.1"),
        ({"stop": "soon"}, "stop=soon: expected finished, bound, best, limit"),
        ({"stop": "best"}, "stop=best needs raw log-probabilities"),
        ({"min_length": -1}, "min_length=-1"),
        ({"max_length": 2, "min_length": 2}, "max_length=2: expected more than min_length=2"),
        ({"min_length": 20}, "min_length=20: expected less than 20"),
        ({"max_ratio": 0.0}, "max_ratio=0.0"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram=-1"),
        ({"repetition_penalty": 0.0}, "repetition_penalty=0.0"),
        ({"prefix": "X Y Z Q", "max_length": 4}, "a prefix of 4 tokens leaves no room for the end"),
        ({"prefix": "X novel"}, "'X novel' has words or characters that the model cannot write"),
        ({"prefix": []}, "fewer prefixes than texts"),
        ({"prefix": ["X", "Y"]}, "more prefixes than texts"),
        ({"beam": 3}, "no option 'beam' of translation; did you mean 'beam_size'"),
        ({"sampling": {}, "n_best": 2}, "sampling gives one translation of a text"),
        ({"sampling": {}, "exhaustive": True}, "exhaustive=True: sampling does not search; leave it out"),
        ({"sampling": {}, "alpha": 0.6, "coverage_beta": 0.2}, "alpha=0.6, coverage_beta=0.2: sampling does not"),
        ({"sampling": {"temperatures": 0.5}}, "no option 'temperatures' of sampling; did you mean 'temperature'"),
        ({"sampling": {"temperature": -1.0}}, "temperature=-1.0"),
        ({"sampling": {"temperature": 1e39}}, "to 1000"),
        ({"sampling": {"seed": 2**64}}, "seed=18446744073709551616"),
        ({"sampling": {"temperature": 0.0, "top_k": 3}}, "have no effect at temperature 0"),
        ({"sampling": {"top_k": 0}}, "top_k=0"),
        ({"sampling": {"top_p": 0.0}}, "top_p=0.0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(SettingError, match=message):
        make().translate(["a b"], **options)


# --- rules ------------------------------------------------------------------------------------------------------


def tokens_of(translator, **options):
    return [[list(one.tokens) for one in found] for found in translator.stream(SOURCES, **options)]


@pytest.mark.parametrize(
    "options", [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}, {"sampling": {"seed": 2}}], ids=str
)
def test_translations_begin_with_a_prefix(translator, options):
    assert all(tokens[:2] == ["Y", "X"] for found in tokens_of(translator, prefix="Y X", **options) for tokens in found)
    prefixes = ["X", "", "Q R Z", "Y", "Z Z"]
    found = tokens_of(translator, prefix=prefixes, chunk=2, **options)
    for prefix, several in zip(prefixes, found, strict=True):
        assert all(tokens[: len(prefix.split())] == prefix.split() for tokens in several)
    if "sampling" not in options:
        assert found[1] == tokens_of(translator, **options)[1]


def test_a_prefix_costs_what_the_model_says_of_it(translator):
    (usual,) = next(translator.stream(["a b c d"], beam_size=1, max_length=6, length_penalty="none"))
    begin = " ".join(usual.tokens[:3])
    (forced,) = next(translator.stream(["a b c d"], beam_size=1, max_length=6, length_penalty="none", prefix=begin))
    assert forced.tokens == usual.tokens
    assert forced.log_prob == pytest.approx(usual.log_prob, abs=1e-5)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 2}, {"sampling": {"seed": 2}}], ids=str)
def test_lengths_are_limited(translator, options):
    def lengths(**rules):
        return [len(tokens) for found in tokens_of(translator, **options, **rules) for tokens in found]

    assert max(lengths(max_length=3)) <= 3
    assert min(lengths(min_length=6, max_length=9)) >= 6
    sources = [len(text.split()) + 1 for text in SOURCES]  # the end is a token
    assert all(one <= 2 * size for one, size in zip(lengths(max_ratio=2.0), sources, strict=True))
    assert lengths(max_ratio=1e308) == lengths(max_ratio=1000.0)


def test_the_fewest_tokens_count_more_than_what_the_source_would_allow():
    translator = make("seq2seq", max_length=80, ended=9.0)
    for limit in ({}, {"max_ratio": 1.0}):
        found = [one for several in translator.stream(SOURCES, beam_size=1, min_length=70, **limit) for one in several]
        assert [len(one.tokens) for one in found] == [70] * len(SOURCES)
        assert all(one.score == pytest.approx(one.log_prob / 71) for one in found)  # they have ended


def test_repetitions_can_be_forbidden(translator):
    for found in tokens_of(translator, beam_size=2, no_repeat_ngram=1, min_length=3, max_length=5):
        for tokens in found:
            assert len(set(tokens)) == len(tokens)
    usual, penalised = (
        sum(len(set(tokens)) for found in tokens_of(translator, beam_size=1, max_length=9, **rules) for tokens in found)
        for rules in ({"min_length": 8}, {"min_length": 8, "repetition_penalty": 5.0})
    )
    assert penalised >= usual


def test_too_many_sequences_are_not_searched_exhaustively(monkeypatch):
    monkeypatch.setattr("wenmai.decode.search._MOST_ROWS", 100)
    with pytest.raises(SettingError, match=r"too many for an exhaustive search.*a smaller max_length"):
        make().translate(["a b"], exhaustive=True, max_length=5)


def test_an_exhaustive_search_is_the_truth_that_a_wide_beam_finds(translator):
    options = {"max_length": 3, "length_penalty": "none"}
    exhausted = [found[0] for found in translator.stream(SOURCES, exhaustive=True, **options)]
    for stop in ("finished", "bound", "best", "limit"):
        beam = [found[0] for found in translator.stream(SOURCES, beam_size=60, stop=stop, **options)]
        for one, other in zip(exhausted, beam, strict=True):
            assert other.log_prob <= one.log_prob + 1e-5
            if stop != "finished":
                assert other.log_prob == pytest.approx(one.log_prob, abs=1e-5)


# --- attention --------------------------------------------------------------------------------------------------


def test_attention_maps_have_a_row_for_each_target_and_a_column_for_each_source_token(translator):
    maps = translator.attention("a b c d", "X Y")
    assert maps.source_tokens == ["a", "b", "c", "d", "</s>"]
    assert maps.target_tokens == ["X", "Y", "</s>"]
    cross = maps.weights["decoder.layers.0.cross"]
    assert cross.shape[1:] == (3, 5)
    for name, weights in maps.weights.items():
        assert weights.sum(-1) == pytest.approx(1, abs=1e-4), name
    own = translator.attention("a b")
    assert own.translation == translator.translate("a b")[0]


def test_attention_to_what_the_model_made_is_shown_piece_by_piece(translator):
    (made,) = next(translator.stream(["a b c d"], sampling={"seed": 3, "temperature": 3.0}))
    maps = translator.attention("a b c d", made)
    assert maps.translation == made.text
    assert maps.target_tokens == [*made.tokens, "</s>"]


def test_a_greedy_translation_is_scored_like_those_of_a_beam(translator):
    texts = ["a b", "c d e a", "b"]
    for penalty in ({"length_penalty": "mean", "alpha": 0.7}, {"length_penalty": "gnmt", "alpha": 1.0}):
        greedy = [found[0] for found in translator.stream(texts, beam_size=1, **penalty)]
        for one, text in zip(greedy, texts, strict=True):
            beam = next(translator.stream([text], beam_size=1, coverage_beta=1e-12, **penalty))[0]
            assert one.text == beam.text
            assert one.score == pytest.approx(beam.score, rel=1e-5)
            assert (one.score > one.log_prob) == (len(one.tokens) > 0)  # with its end it is longer than one token


def test_coverage_needs_attention():
    assert make("seq2seq").translate(["a b"], coverage_beta=0.2)
    blind = make("seq2seq", context="first_state")
    assert not blind.has_attention
    assert blind.attention("a b").weights == {}
    with pytest.raises(SettingError, match="no attention"):
        blind.translate(["a b"], coverage_beta=0.2)


# --- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [True, False])
def test_what_is_saved_is_loaded(joint, tmp_path, translator):
    translator = make(next(name for name, made in MODELS.items() if made[0] == translator.kind), joint=joint)
    translator.save(tmp_path)
    names = {"config.json", "model.safetensors"}
    names |= {"tokenizer.json"} if joint else {"source-tokenizer.json", "target-tokenizer.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    loaded = Translator.load(tmp_path)
    assert (loaded.source is loaded.target) is joint
    assert loaded.config == translator.config
    assert loaded.translate(SOURCES) == translator.translate(SOURCES)
    before = torch.get_rng_state()
    Translator.load(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def broken_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


DAMAGE = {
    "no config": lambda folder: (folder / "config.json").unlink(),
    "no JSON": lambda folder: (folder / "config.json").write_text("{"),
    "a list": lambda folder: (folder / "config.json").write_text("[]"),
    "another kind": lambda folder: broken_config(folder, kind="rnn"),
    "a later version": lambda folder: broken_config(folder, version=99),
    "wrong sizes": lambda folder: broken_config(folder, target_vocab_size=5),
    "no model": lambda folder: broken_config(folder, model=None),
    "an unknown setting": lambda folder: broken_config(folder, model={"hidden": 3}),
    "sizes that cannot be": lambda folder: broken_config(folder, model={"hidden_size": 1 << 40, "num_heads": 1}),
    "layers without end": lambda folder: broken_config(folder, model={"num_layers": 10**9}),
    "another width": lambda folder: broken_config(folder, model={"hidden_size": 32, "num_heads": 2}),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "cut weights": lambda folder: (folder / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{"),
    "no tokenizer": lambda folder: (folder / "target-tokenizer.json").unlink(),
    "an empty tokenizer": lambda folder: (folder / "source-tokenizer.json").write_text("{}"),
    "the other tokenizer": lambda folder: (folder / "target-tokenizer.json").write_bytes(
        (folder / "source-tokenizer.json").read_bytes()
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_refused_with_a_message(damage, tmp_path):
    make().save(tmp_path)
    DAMAGE[damage](tmp_path)
    with pytest.raises(FormatError, match=str(tmp_path)):
        Translator.load(tmp_path)
