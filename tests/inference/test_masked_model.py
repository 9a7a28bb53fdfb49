"""What a trained encoder does: pseudo-log-likelihoods, masks that are filled in, states, vectors of texts and words."""

import logging
import math

import numpy as np
import pytest
import torch

from wenmai.core.errors import CorpusError, FormatError, SettingError
from wenmai.inference.contextual import BackboneReader
from wenmai.inference.embedding import embed_texts, state_batches_of
from wenmai.inference.framing import centred, covering, grouped
from wenmai.inference.masked_model import MaskedModel
from wenmai.measures.language import add_up
from wenmai.models.bert import Bert, BertConfig
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

TEXTS = ["the cat sat on the mat", "a dog ran", "the bird sings in the old tree", "the", "", "a cat on the tree ran"]
LONG = " ".join(["the bird sings in the old tree near a house"] * 5)
ROOM = 10


def tokenizer(kind="whitespace", texts=(*TEXTS, LONG), size=60):
    return Tokenizer.train(
        texts, TokenizerConfig(kind=kind, vocab_size=size, min_count=1), roles=("cls", "sep", "mask")
    )


def model(cutter=None, **settings):
    cutter = cutter or tokenizer()
    sizes = {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "max_length": ROOM + 2, "heads": ("mlm",)} | settings
    torch.manual_seed(3)
    module = Bert(BertConfig(**sizes), vocab_size=cutter.vocab_size)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return MaskedModel(module, cutter)


def naive_scores(one, text):
    """log P of each token, in float64, one masked token and one text at a time; windows by their definition."""
    cutter, module = one.tokenizer, one.module.double().eval()
    ids = cutter.encode(text).ids
    found = []
    for place, wanted in enumerate(ids):
        windows = [ids[low : low + ROOM] for low in range(max(1, len(ids) - ROOM + 1))]
        unevenness = [abs((place - low) - (low + min(ROOM, len(ids)) - 1 - place)) for low in range(len(windows))]
        inside = [low for low in range(len(windows)) if 0 <= place - low < ROOM]
        low = min(inside, key=lambda low: (unevenness[low], low))
        row = [cutter.cls_id, *windows[low], cutter.sep_id]
        row[1 + place - low] = cutter.mask_id
        hidden = module(torch.tensor([row]))
        at = 1 + place - low - int(module.config.shifted)
        found.append(module.heads["mlm"](hidden)[0, at].log_softmax(-1)[wanted].item())
    one.module.float()
    return found


# --- scores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{}, {"norm": "pre", "segments": 0}, {"positions": "relative", "norm": "nested"}, {"shifted": True}]
)
def test_each_token_is_predicted_from_all_others(settings):
    one = model(**settings)
    texts = [*TEXTS, LONG, "a dog ran"]
    for text, score in zip(texts, one.score(iter(texts)), strict=True):
        assert score.text == text
        assert score.pseudo
        assert score.tokens == len(one.tokenizer.encode(text).ids)
        assert score.token_log_probs == pytest.approx(naive_scores(one, text), abs=2e-5)
        assert score.log_prob == pytest.approx(sum(score.token_log_probs), abs=1e-9)


def test_a_text_is_scored_alike_alone_and_beside_others():
    one = model()
    together = list(one.score([*TEXTS, LONG] * 3))
    for score in together:
        (alone,) = one.score([score.text])
        assert alone.token_log_probs == pytest.approx(score.token_log_probs, abs=1e-5)


def test_pseudo_metrics_leave_out_ends_of_lines_and_say_what_they_are():
    one = model()
    total = add_up(one.score(["a dog ran", "the cat"]))
    assert (total.tokens, total.words, total.characters, total.bytes) == (5, 5, 16, 16)
    assert total.bits_per_character == pytest.approx(-total.log_prob / math.log(2) / 16)
    assert total.as_dict()["pseudo"] is True
    assert "pseudo bits per character, pseudo-perplexity" in str(total)
    assert "ends of lines" not in str(total)


def test_unknown_words_are_counted_and_spelled():
    (score,) = model().score(["zebras gallop"])
    assert (score.tokens, score.oov, score.oov_bytes, score.known_log_prob) == (2, 2, 14, 0.0)
    assert math.isfinite(score.log_prob)


def test_a_model_that_learnt_a_sentence_prefers_it():
    cutter = tokenizer(texts=["the cat sat on a mat"])
    one = model(cutter, hidden_size=16)
    row = torch.tensor([[cutter.cls_id, *cutter.encode("the cat sat on a mat").ids, cutter.sep_id]])
    optimiser = torch.optim.Adam(one.module.parameters(), lr=0.01)
    places = torch.arange(1, 7)
    fed = row.repeat(6, 1)
    fed[torch.arange(6), places] = cutter.mask_id
    for _ in range(150):
        optimiser.zero_grad()
        logits = one.module.heads["mlm"](one.module(fed))[torch.arange(6), places]
        torch.nn.functional.cross_entropy(logits, row[0, places]).backward()
        optimiser.step()
    good, bad = one.more_likely("the cat sat on a mat", "the mat sat on a cat")
    assert good.log_prob > -1 > bad.log_prob
    for place, word in enumerate(words := ["the", "cat", "sat", "on", "a", "mat"]):
        text = " ".join([*words[:place], "[MASK]", *words[place + 1 :]])
        found, probability = one.fill(text)[0][0]
        assert (found, probability > 0.8) == (word, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"texts": "a dog"}, "put a single one in brackets"), ({"texts": ["a"], "context": "carried"}, "by itself")],
)
def test_wrong_uses_of_score(options, message):
    with pytest.raises(SettingError, match=message):
        model().score(**options)


def test_an_encoder_without_predictions_neither_scores_nor_fills():
    one = model(heads=("replaced",))
    for call in (lambda: one.score(["a"]), lambda: one.fill("a [MASK]")):
        with pytest.raises(SettingError, match=r"does not predict tokens \(heads: replaced\); it can embed"):
            call()


def test_weights_that_compute_no_numbers_are_named():
    one = model()
    with torch.no_grad():
        one.module.embedding.weight[:] = math.nan
    calls = (
        lambda: list(one.score(["a dog"])),
        lambda: one.fill("a [MASK]"),
        lambda: one.embed(["a"]),
        lambda: list(one.layers(["a"])),
    )
    for call in calls:
        with pytest.raises(FormatError, match=r"computes no numbers \(NaN\)"):
            call()


# --- masks ----------------------------------------------------------------------------------------------------------


def known_answer(cutter, probabilities, **settings):
    """A model that predicts the same at every place: its output has no weights but its bias."""
    one = model(cutter, tied=False, **settings)
    output = one.module.heads["mlm"].output
    with torch.no_grad():
        output.matrix.zero_()
        output.bias.fill_(-30.0)
        for token, probability in probabilities.items():
            output.bias[cutter.id(token)] = math.log(probability)
    return one


def test_the_likeliest_tokens_come_first_without_special_ones():
    one = known_answer(tokenizer(), {"cat": 0.5, "dog": 0.2, "mat": 0.1, "[SEP]": 0.2})
    (found,) = one.fill("the [MASK] sat", topn=3)
    assert [token for token, _ in found] == ["cat", "dog", "mat"]
    assert [probability for _, probability in found] == pytest.approx([0.5, 0.2, 0.1], abs=1e-6)
    every = [token for token, _ in one.fill("the [MASK]", topn=10**6)[0]]
    assert len(every) == one.tokenizer.vocab_size - 7  # pad, unk, bos, eos, cls, sep, mask
    assert "<unk>" not in every
    with pytest.raises(SettingError, match="topn=0: expected 1 or more"):
        one.fill("the [MASK]", topn=0)


def test_each_mask_has_its_own_list():
    one = model()
    first, second = one.fill("the [MASK] sat on the [MASK]", topn=4)
    ids = [one.tokenizer.id(token) for token in ["the", "cat", "sat", "on", "the"]]
    ids[1] = one.tokenizer.mask_id
    row = [one.tokenizer.cls_id, *ids, one.tokenizer.mask_id, one.tokenizer.sep_id]
    logits = one.module.heads["mlm"](one.module(torch.tensor([row])))[0].double().softmax(-1)
    for found, place in ((first, 2), (second, 6)):
        for token, probability in found:
            assert probability == pytest.approx(logits[place, one.tokenizer.id(token)].item(), abs=1e-6)


def test_masks_of_a_long_text_see_what_is_around_them():
    one = model()
    words = LONG.split()
    words[3] = words[30] = "[MASK]"
    around = [words[:ROOM], words[30 - ROOM // 2 : 30 + ROOM // 2]]
    for found, window in zip(one.fill(" ".join(words), topn=1), around, strict=True):
        ((token, probability),) = one.fill(" ".join(window), topn=1)[0]
        assert found == [(token, pytest.approx(probability))]


def test_chinese_and_pieces():
    chinese = tokenizer("characters", ["巴黎是法国的首都", "首都在这里"])
    one = known_answer(chinese, {"都": 0.9, "是": 0.1})
    assert [token for token, _ in one.fill("巴黎是法国的首[MASK]。", topn=2)[0]] == ["都", "是"]
    pieces = tokenizer("wordpiece", ["singing singer sings"], size=40)
    assert known_answer(pieces, {"##s": 1.0}).fill("sing[MASK]")[0][0][0] == "##s"


def test_a_text_without_a_mask_is_refused():
    with pytest.raises(SettingError, match=r"'the cat sat' has no mask; write \[MASK\] where a token is to be filled"):
        model().fill("the cat sat")


@pytest.mark.parametrize("wrong", [None, 7, ("the cat", "sat"), ["the", "cat"]])
def test_what_is_no_text_is_named(wrong):
    one = model()
    for verb in (one.embed, one.score, one.layers):
        with pytest.raises(CorpusError, match=f"texts from Python are strings; one is {type(wrong).__name__}"):
            list(verb(["the cat", wrong]))


# --- states ---------------------------------------------------------------------------------------------------------


def states_by_hand(one, ids):
    row = torch.tensor([[one.tokenizer.cls_id, *ids, one.tokenizer.sep_id]])
    with torch.inference_mode():
        return torch.stack(one.module.eval().hidden_states(row))[:, 0].numpy()


@pytest.mark.parametrize("settings", [{}, {"norm": "pre"}, {"embedding_size": 6}])
def test_states_are_those_of_each_text_by_itself(settings):
    one = model(**settings)
    found = list(one.layers(iter(TEXTS)))
    assert len(found) == len(TEXTS)
    for text, layers in zip(TEXTS, found, strict=True):
        encoding = one.tokenizer.encode(text)
        assert (layers.tokens, layers.offsets) == (encoding.tokens, encoding.offsets)
        assert layers.vectors.shape == (3, len(encoding.ids), 8)
        assert layers.vectors.dtype == np.float32
        np.testing.assert_allclose(layers.vectors, states_by_hand(one, encoding.ids)[:, 1:-1], atol=2e-6)


def test_every_token_of_a_long_text_has_states_of_the_window_nearest_to_it():
    one = model()
    (found,) = one.layers([LONG])
    ids = one.tokenizer.encode(LONG).ids
    assert found.vectors.shape == (3, 50, 8)
    assert not np.isnan(found.vectors).any()
    np.testing.assert_allclose(found.vectors[:, :7], states_by_hand(one, ids[:10])[:, 1:8], atol=2e-6)
    np.testing.assert_allclose(found.vectors[:, 8:12], states_by_hand(one, ids[5:15])[:, 4:8], atol=2e-6)
    np.testing.assert_allclose(found.vectors[:, 48:], states_by_hand(one, ids[40:])[:, 9:11], atol=2e-6)


@pytest.mark.parametrize("made", [MaskedModel.layers, lambda one, texts: BackboneReader(one).layers(texts)])
def test_long_texts_are_not_read_ahead_of_their_states(made):
    asked = []
    texts = (asked.append(number) or "the" + " " * 70_000 for number in range(64))
    assert next(made(model(), texts)).vectors.shape == (3, 1, 8)
    assert len(asked) == 1


def test_windows_share_out_texts():
    starts, sizes = np.array([0, 4, 4, 17]), np.array([4, 0, 13, 30])
    found = covering(starts, sizes, 6)
    owned = np.concatenate([np.arange(low, high) for low, high in found.own.tolist()])
    np.testing.assert_array_equal(owned, np.arange(47))
    assert found.widths.max() == 6
    for start, width, (low, high) in zip(found.starts, found.widths, found.own, strict=True):
        assert start <= low < high <= start + width
    begins, widths = centred(np.array([0, 7, 12, 1]), np.array([13, 13, 13, 3]), 6)
    assert begins.tolist() == [0, 4, 7, 0]
    assert widths.tolist() == [6, 6, 6, 3]


def test_batches_are_of_like_lengths():
    lengths = np.random.default_rng(1).integers(1, 200, 500)
    batches = list(grouped(lengths, max_tokens=1000))
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(500))
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded < 1.1 * lengths.sum()
    assert all(len(batch) * lengths[batch].max() <= 1000 for batch in batches)
    assert [batch.tolist() for batch in grouped(np.array([5000]), max_tokens=10)] == [[0]]
    assert list(grouped(np.array([], np.int64), max_tokens=10)) == []


def test_batches_that_are_read_without_padding_are_as_large_as_they_may_be():
    lengths = np.random.default_rng(1).integers(1, 200, 500)
    batches = list(grouped(lengths, max_tokens=1000, unpads=True))
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(500))
    real = np.array([lengths[batch].sum() for batch in batches])
    padding = np.array([len(batch) * lengths[batch].max() for batch in batches]) - real
    assert all(real + padding / 4 <= 1000)
    assert all((real + padding / 4)[:-1] > 750)
    mixed = np.array([100, 3, 60, 30])
    assert [batch.tolist() for batch in grouped(mixed, max_tokens=250, unpads=True)] == [[0, 2, 3, 1]]
    assert [batch.tolist() for batch in grouped(np.array([5000]), max_tokens=10, unpads=True)] == [[0]]


# --- vectors of texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "by_hand"),
    [
        ({}, lambda states: states[-1].mean(0)),
        ({"pooling": "max"}, lambda states: states[-1].max(0)),
        ({"pooling": "cls", "layer": -2}, lambda states: states[-2][0]),
        ({"pooling": "cls", "layer": 0}, lambda states: states[0][0]),
        ({"layer": "1,2"}, lambda states: states[1:].mean((0, 1))),
        ({"layer": "-1,-3", "concat": True}, lambda states: np.concatenate([states[2], states[0]], -1).mean(0)),
    ],
)
def test_vectors_of_texts(options, by_hand):
    one = model()
    found = one.embed(TEXTS, **options)
    unit = one.embed(TEXTS, normalise=True, **options)
    assert found.dtype == np.float32
    for text, vector, scaled in zip(TEXTS, found, unit, strict=True):
        ids = one.tokenizer.encode(text).ids
        expected = by_hand(states_by_hand(one, ids)) if ids else np.zeros_like(vector)
        np.testing.assert_allclose(vector, expected, atol=3e-6)
        np.testing.assert_allclose(scaled * np.linalg.norm(vector), vector, atol=1e-5)
    assert one.embed([]).shape == (0, 8)


def test_an_encoder_of_layers_alone_has_vectors_of_texts_too():
    """Special tokens are not among the layers, so they do not count in the mean."""
    one = model()

    class LayersAlone:
        num_layers, vector_size, poolings, layers = one.num_layers, one.vector_size, ("mean", "max"), one.layers

        def state_batches(self, texts, layers):
            return state_batches_of(self, texts, layers)

    for pooling in ("mean", "max"):
        found = embed_texts(LayersAlone(), TEXTS, pooling=pooling, layer="0,2")
        for layers, vector in zip(one.layers(TEXTS), found, strict=True):
            states = layers.vectors[[0, 2]].mean(0)
            expected = getattr(states, pooling)(0) if len(states) else np.zeros(8)
            np.testing.assert_allclose(vector, expected, atol=2e-6)
    with pytest.raises(SettingError, match="pooling=cls: the model has mean, max"):
        embed_texts(LayersAlone(), TEXTS, pooling="cls")


def test_the_pooler_makes_vectors_where_there_is_one():
    one = model(heads=("mlm", "pair"), pooler="tanh")
    ids = one.tokenizer.encode("a dog ran").ids
    expected = one.module.pooled(torch.from_numpy(states_by_hand(one, ids)[-1:])).detach().numpy()
    np.testing.assert_allclose(one.embed(["a dog ran"], pooling="pooler"), expected, atol=2e-6)
    with pytest.raises(SettingError, match="layer=0 has no effect with pooling=pooler"):
        one.embed(["a"], pooling="pooler", layer=0)
    with pytest.raises(SettingError, match=r"pooling=pooler: the model has mean, max, cls$"):
        model().embed(["a"], pooling="pooler")


@pytest.mark.parametrize("layer", ["3", "-4", "lats", "", "1,", "mix", 1.5])
def test_layers_that_are_not_there(layer):
    with pytest.raises(SettingError, match=r"expected last, last4, or numbers such as -1 or 3,4 of the layers 0 to 2"):
        model().embed(["a"], layer=layer)


def test_long_texts_are_cut_and_counted(caplog):
    one = model()
    with caplog.at_level(logging.WARNING, logger="wenmai"):
        found = one.embed([LONG, "a dog", LONG])
    assert caplog.messages == ["2 texts longer than the model reads (max_length=12): cut"]
    np.testing.assert_allclose(found[0], one.embed([" ".join(LONG.split()[:ROOM])])[0], atol=2e-6)
    with pytest.raises(SettingError, match="put a single one in brackets"):
        one.embed("a dog")


# --- vectors of words -----------------------------------------------------------------------------------------------


def test_texts_of_another_language_are_told_once(caplog):
    told = "bert: the vocabulary of the encoder lacks 100% of the pieces of the text; a model whose encoder was "
    for read in (lambda one, texts: one.embed(texts), lambda one, texts: list(one.layers(texts))):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="wenmai"):
            one = model()
            read(one, ["the cat", ""])
            assert not caplog.messages
            for _ in range(2):
                read(one, ["我 爱", "Katze"])
        assert caplog.messages == [f"{told}trained on such text knows more"]


def test_words_of_chinese_text_are_those_of_the_dictionary():
    one = model(tokenizer("characters", ["我爱北京天安门"] * 2))
    for text, words in (
        ("我爱 北京天安门", ["我", "爱", "北京", "天安门"]),
        ("今天的天气\n很好", ["今天", "的", "天气", "很", "好"]),
        ("今天天 气 很好", ["今天天", "气", "很好"]),  # segmented before
    ):
        (found,) = one.embed_words([text])
        assert found.words == words


def test_vectors_of_words_are_the_means_of_their_pieces():
    one = model(tokenizer("wordpiece", [*TEXTS, LONG], size=45))
    text = "  the sings,  sat\t"
    (found,) = one.embed_words([text])
    (states,) = one.layers([text])
    assert found.words == ["the", "sings,", "sat"]
    assert [text[low:high] for low, high in found.offsets] == found.words
    for vector, (low, high) in zip(found.vectors, found.offsets, strict=True):
        pieces = [place for place, (begin, end) in enumerate(states.offsets) if low <= begin and end <= high]
        np.testing.assert_allclose(vector, states.vectors[-1][pieces].mean(0), atol=1e-6)
    (pieces,) = one.embed_words([text], unit="pieces", layer="0,1", concat=True)
    assert pieces.words == states.tokens
    np.testing.assert_array_equal(pieces.vectors, np.concatenate(states.vectors[:2], -1))
    (tokens,) = one.token_vectors([["the", "sings,", "sat"]])
    np.testing.assert_allclose(tokens, next(one.embed_words(["the sings, sat"])).vectors, atol=1e-6)


def test_words_of_nothing_have_zeros_and_all_words_of_long_texts_have_vectors():
    one = model()
    empty, long = one.embed_words(["", LONG], normalise=True)
    assert empty.vectors.shape == (0, 8)
    np.testing.assert_allclose(np.linalg.norm(long.vectors, axis=1), np.ones(50), atol=1e-5)
    assert [len(vectors) for vectors in one.token_vectors([[], ["a"], ["dog", "ran"]])] == [0, 1, 2]
    pieces = model(tokenizer("wordpiece", [*TEXTS, LONG], size=45))
    (found,) = pieces.embed_words(["the \u200b cat"])  # a word of a character that the tokenizer removes
    assert found.words == ["the", "\u200b", "cat"]
    assert found.vectors.any(axis=1).tolist() == [True, False, True]
    with pytest.raises(SettingError, match="unit='word': expected words or pieces"):
        one.embed_words(["a"], unit="word")
