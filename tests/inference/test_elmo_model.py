"""A trained ELMo: its vectors, its scores, and what its training reads."""

import json
import math
import unicodedata

import numpy as np
import pytest
import torch

import wenmai
import wenmai.tasks.elmo as tasks
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.registry import find_system
from wenmai.inference.elmo_model import ElmoModel, Lexicon
from wenmai.models.elmo import Elmo
from wenmai.nn.characters import BEGIN, END, spelled
from wenmai.vectors.pooling import pooled, token_encoder

LINES = ["the cat sat on the mat", "a dog ran", "the dog sat", "a cat ran on a mat"] * 12
SIZES = {"hidden_size": 8, "cell_size": 12, "filters": (4, 6), "max_characters": 12, "character_size": 4}
SETTINGS = {**SIZES, "epochs": 3, "segment_length": 6, "batch_tokens": 24, "learning_rate": 0.02, "threads": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elmo")
    return wenmai.train("elmo", LINES, out=folder / "run", quiet=True, predicted=8, **SETTINGS)


@pytest.fixture(scope="module")
def model(run):
    return run.model


def test_layers_are_of_each_text_alone_and_in_order(model):
    texts = ["the cat", "", "an unseen word in the cat", "a"] * 3
    every = [*model.layers(texts)]
    for text, found in zip(texts, every, strict=True):
        (alone,) = model.layers([text])
        assert found.tokens == alone.tokens == text.split()
        assert [text[low:high] for low, high in found.offsets] == found.tokens
        assert found.vectors.shape == (3, len(found.tokens), 16)
        assert found.vectors.dtype == np.float32
        np.testing.assert_allclose(found.vectors, alone.vectors, atol=1e-6)
    half = every[2].vectors.shape[2] // 2
    assert (every[2].vectors[0, :, :half] == every[2].vectors[0, :, half:]).all()


@pytest.mark.parametrize("word", ["café", "éé", "한글"])
def test_an_unknown_word_is_read_alike_in_either_form_of_unicode(model, word):
    one, other = (unicodedata.normalize(form, f"the {word} sat") for form in ("NFC", "NFD"))
    assert model.words(other)[0] == model.words(one)[0] == ["the", word, "sat"]
    np.testing.assert_array_equal(model.embed([other]), model.embed([one]))
    first, second = model.score([one, other], context="fresh")
    assert first.log_prob == second.log_prob


def test_carried_states_are_those_that_earlier_texts_left(model):
    texts = ["the cat", "", "an unseen word", "the cat"]
    carried, alone = [*model.layers(texts, carried=True)], [*model.layers(texts)]
    assert [one.tokens for one in carried] == [one.tokens for one in alone]
    np.testing.assert_allclose(carried[0].vectors, alone[0].vectors, atol=1e-6)  # nothing was read before
    np.testing.assert_allclose(carried[3].vectors[0], alone[3].vectors[0], atol=1e-6)  # no context yet
    size = model.config.hidden_size
    for half in (slice(None, size), slice(size, None)):
        assert not np.isclose(carried[3].vectors[1:, :, half], alone[3].vectors[1:, :, half], atol=1e-6).all()
    without = [*model.layers(["the cat", "an unseen word"], carried=True)]
    assert (carried[2].vectors == without[1].vectors).all()  # a text without words changes no state


def test_words_and_texts_are_embedded_as_by_any_encoder(model):
    texts = ["the cat sat", "", "a dog"]
    every = [*model.layers(texts)]
    assert model.vector_size == every[0].vectors.shape[2]
    means = np.stack([one.vectors.mean((0, 1)) if one.tokens else np.zeros(16) for one in every])
    np.testing.assert_allclose(model.embed(texts), means, atol=1e-6)
    np.testing.assert_allclose(model.embed(texts[:1], layer=1, pooling="max")[0], every[0].vectors[1].max(0), atol=1e-6)
    assert model.embed(texts, layer="0,2", concat=True).shape == (3, 32)
    (words, _, _) = model.embed_words(texts)
    assert words.words == ["the", "cat", "sat"]
    np.testing.assert_allclose(words.vectors, every[0].vectors.mean(0), atol=1e-6)
    assert token_encoder(model) is model
    (tokens,) = model.token_vectors([["the", "cat"]])
    np.testing.assert_allclose(tokens, next(model.layers(["the cat"])).vectors[-1], atol=1e-6)
    np.testing.assert_allclose(pooled(model, [["the", "cat"], []])[0], tokens.mean(0), atol=1e-6)
    for pooling in ("cls", "pooler"):
        with pytest.raises(SettingError, match=f"pooling={pooling}: the model has mean, max"):
            model.embed(texts, pooling=pooling)


def test_texts_are_embedded_together_as_one_by_one(model):
    texts = ["the cat", "", "a dog ran on the mat with an unseen word", "sat", "the dog sat"] * 7
    for layer in ("mix", 0, -1):
        alone = np.concatenate([model.embed([text], layer=layer) for text in texts])
        np.testing.assert_allclose(model.embed(texts, layer=layer), alone, atol=1e-5)
    batches = [*model.state_batches(texts, [2, 0])]
    assert sorted(row for batch in batches for row in batch.rows) == [row for row, text in enumerate(texts) if text]
    assert len(batches) < 5
    assert {batch.states[0].shape[:2] for batch in batches} == {
        (len(batch.rows), max(batch.lengths)) for batch in batches
    }


def test_layers_are_mixed_by_the_weights_of_the_model(run, model, tmp_path):
    texts = ["the cat sat", "", "a dog"]
    weights, scale = np.array([0.5, -1.0, 2.0]), 1.5
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    mixed = ElmoModel.load(tmp_path / "model")
    np.testing.assert_allclose(mixed.embed(texts), model.embed(texts, layer="0,1,2"), atol=1e-6)  # where it begins
    assert not any(parameter.requires_grad for parameter in mixed.mix.parameters())
    with torch.no_grad():
        mixed.mix.weights.copy_(torch.from_numpy(weights))
        mixed.mix.scale.fill_(scale)
    shares = np.exp(weights) / np.exp(weights).sum()
    expected = [scale * np.tensordot(shares, one.vectors, 1) for one in model.layers(texts)]
    found = [one.vectors for one in mixed.embed_words(texts, layer="mix")]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_allclose(mixed.embed(texts, layer="mix", pooling="max")[0], expected[0].max(0), atol=1e-5)
    assert "0.175, 0.039, 0.786" in repr(mixed)
    with pytest.raises(SettingError, match="concat has no effect on the mix"):
        mixed.embed(texts, concat=True)

    (tmp_path / "again").mkdir()
    mixed.save(tmp_path / "again")
    assert (ElmoModel.load(tmp_path / "again").embed(texts) == mixed.embed(texts)).all()
    config = tmp_path / "again" / "config.json"
    content = json.loads(config.read_text())
    for wrong, message in (
        ({"weights": [0.0, 0.0]}, "2 weights of 3 layers"),
        ({"weights": [0.0, 0.0, float("nan")]}, "finite numbers"),
        ({"weights": "all"}, "is not a mix configuration"),
        ([1, 2], "is not a mix configuration"),
    ):
        config.write_text(json.dumps({**content, "mix": wrong}))
        with pytest.raises(FormatError, match=message):
            ElmoModel.load(config.parent)
    del content["mix"]
    config.write_text(json.dumps(content))
    np.testing.assert_array_equal(ElmoModel.load(config.parent).embed(texts), model.embed(texts))


@pytest.mark.parametrize("predicts", [False, True])
def test_a_base_that_lacks_a_parameter_or_has_another_is_refused(run, model, predicts):
    task = find_system("elmo").load()

    def base():
        module = Elmo(model.config, vocab_size=model.module.vocab_size if predicts else None)
        return ElmoModel(module, model.tokenizer if predicts else None)

    class Data:
        grown = ()

    new = ElmoModel(Elmo(model.config, vocab_size=model.module.vocab_size), model.tokenizer)
    softmax = new.module.output.weight.clone()
    whole = base()
    with torch.no_grad():
        whole.mix.scale.fill_(3.0)
        task.initialise(new, Data, whole)
    for name, parameter in whole.module.named_parameters():
        assert (new.module.get_parameter(name) == parameter).all()
    assert (new.module.output.weight == softmax).all() == (not predicts)
    assert float(new.mix.scale) == 3
    less, more, other = base(), base(), base()
    del less.module.words.projection.bias
    more.module.words.register_parameter("further", torch.nn.Parameter(torch.zeros(2)))
    other.module.words.projection.bias = torch.nn.Parameter(torch.zeros(3))
    for damaged, named in ((less, "bias of shape none"), (more, "further of shape"), (other, r"bias of shape \(3,\)")):
        with torch.no_grad(), pytest.raises(SettingError, match=named):
            task.initialise(new, Data, damaged)


def test_unknown_words_are_read_by_their_spelling(model):
    one, other = model.layers(["the zebra sat", "the gnu sat"])
    assert one.tokens == ["the", "zebra", "sat"]
    assert not np.allclose(one.vectors[:, 1], other.vectors[:, 1])
    first, second = model.score(["zebra the", "gnu the"], context="fresh")
    assert first.oov == second.oov == 1
    assert first.oov_bytes == len("zebra") + 1
    assert first.token_log_probs[0] == pytest.approx(second.token_log_probs[0])  # both are the unknown word
    assert first.token_log_probs[1] != second.token_log_probs[1]  # and yet what follows knows which


def test_scores_are_those_of_the_forward_equations(model):
    text, module = "the dog sat mat", model.module
    (found,) = model.score([text], context="fresh")
    rows = [BEGIN, *text.split()]
    characters = torch.from_numpy(spelled(rows, 12).astype(np.int64))
    with torch.no_grad():
        both = module(characters, torch.arange(5)[None], torch.zeros(1, 5, dtype=torch.int64), module.start(1))
        log_probs = module.output(both.forward[0]).log_softmax(-1)
    ids = [number if number < 8 else model.tokenizer.unk_id for number in model.tokenizer.encode_batch([text])[0]]
    expected = log_probs[torch.arange(5), torch.tensor([*ids, model.tokenizer.eos_id])]
    np.testing.assert_allclose(found.token_log_probs, expected, atol=1e-5)
    assert found.log_prob == pytest.approx(float(expected.sum()), abs=1e-4)
    assert found.oov == ids.count(model.tokenizer.unk_id)


def test_scores_do_not_depend_on_the_batch_unless_lines_are_carried(model):
    texts = ["the cat", "a dog ran on the mat", "sat", ""]
    alone = [next(iter(model.score([text], context="fresh"))).log_prob for text in texts]
    assert [one.log_prob for one in model.score(texts, context="fresh")] == pytest.approx(alone, abs=1e-5)
    carried = [one.log_prob for one in model.score(texts, context="carried")]
    assert carried[0] == pytest.approx(alone[0], abs=1e-5)
    assert carried[1] != pytest.approx(alone[1], abs=1e-5)
    ((short,), (whole,)) = model.score_within([["the cat", "a dog ran"]], [1, 100])
    assert len(short.token_log_probs) == len(whole.token_log_probs) == 4
    assert model.continuations("the", [" cat", " zebra"])[0][0] == pytest.approx(
        next(iter(model.score(["the cat"], context="fresh"))).token_log_probs[1], abs=1e-5
    )


def test_a_model_is_read_as_it_was_written(model, tmp_path):
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    again = ElmoModel.load(tmp_path / "model")
    assert (again.embed(LINES[:2]) == model.embed(LINES[:2])).all()
    (tmp_path / "model" / "tokenizer.json").unlink()
    with pytest.raises(FormatError, match=r"tokenizer\.json: cannot be read"):
        ElmoModel.load(tmp_path / "model")


def test_one_string_is_no_list_of_texts(model):
    with pytest.raises(SettingError, match="put a single one in brackets"):
        next(model.layers("a b"))


def test_validation_measures_both_directions(run):
    metrics = run.summary["validation"]
    for name in ("forward", "backward"):
        assert metrics[f"{name}_perplexity"] == pytest.approx(math.exp(metrics[f"{name}_loss"]))
    assert metrics["loss"] == pytest.approx((metrics["forward_loss"] + metrics["backward_loss"]) / 2)
    assert metrics["forward_perplexity"] < 8  # of 8 words


def word_of(characters):
    """The word that a row of characters spells."""
    inside = [int(number) - 1 for number in characters if 0 < number <= 258]
    return {BEGIN: "<", END: ">"}.get(inside[0]) or bytes(inside).decode()


@pytest.mark.parametrize("last", ["d", "d e f g h"])
def test_the_backward_model_reads_the_mirror_image(last, tmp_path, monkeypatch):
    """One row: each direction reads all words in its order, state after state, and predicts what comes next."""
    lines = [*["a b c d", "e f", "g h a c b"] * 5, last]
    read = {"forward": [], "backward": []}
    wanted = {"forward": [], "backward": []}
    states = []
    whole, loss = Elmo.forward, tasks.next_token_loss

    def forward(self, characters, fed, fed_backward, state):
        if self.training:
            states.append(tuple(float(one.detach().abs().sum()) for one in (state.forward, state.backward)))
            for name, rows in (("forward", fed), ("backward", fed_backward)):
                read[name] += [word_of(characters[number]) for number in rows[0]]
        return whole(self, characters, fed, fed_backward, state)

    def next_token_loss(output, hidden, targets):
        if hidden.requires_grad:
            name = "forward" if len(wanted["forward"]) == len(wanted["backward"]) else "backward"
            wanted[name] += targets.tolist()
        return loss(output, hidden, targets)

    monkeypatch.setattr(Elmo, "forward", forward)
    monkeypatch.setattr(tasks, "next_token_loss", next_token_loss)
    (tmp_path / "valid.txt").write_text("a b c d\n")
    settings = {**SETTINGS, "epochs": 1, "batch_tokens": 6, "valid": str(tmp_path / "valid.txt")}
    run = wenmai.train("elmo", lines, out=tmp_path / "run", quiet=True, **settings)
    stream = [*" | ".join(lines).split(), "|"]
    shown = [run.model.tokenizer.token(number) for number in wanted["forward"]]
    assert [word.replace("</s>", "|") for word in shown] == stream
    assert read["forward"] == ["<", *(word.replace("|", "<") for word in stream[:-1])]
    back = [*stream[-2::-1], "|"]
    shown = [run.model.tokenizer.token(number) for number in wanted["backward"]]
    assert [word.replace("</s>", "|") for word in shown] == back
    assert read["backward"] == [">", *(word.replace("|", ">") for word in back[:-1])]
    assert states[0] == (0, 0)
    assert all(one > 0 and other > 0 for one, other in states[1:])


def test_the_lexicon_spells_each_word_once(model):
    lexicon = Lexicon(model.tokenizer, 12)
    new = lexicon.number("zebra")
    assert lexicon.number("zebra") == new == lexicon.end + 1
    ids = np.array([[model.tokenizer.id("cat"), new], [lexicon.end, model.tokenizer.eos_id]])
    characters, (places,) = lexicon.distinct(ids)
    assert characters[places].reshape(4, 12).tolist() == spelled(["cat", "zebra", END, BEGIN], 12).tolist()
