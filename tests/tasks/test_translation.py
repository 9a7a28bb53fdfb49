"""What a translation task makes of pairs and settings."""

import math
import random

import pytest
import torch

import wenmai
from tests.contract.examples import EXAMPLES
from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.registry import find_system
from wenmai.data.parallel import TranslationData
from wenmai.measures.translation import measure_translation
from wenmai.runs.train import Callback
from wenmai.tasks.translation import TranslationConfig, TranslationTask

TINY = {"num_layers": 1, "batch_tokens": 40, "kind": "words", "min_count": 1, "threads": 1}
TASKS = {name: task for name in EXAMPLES if isinstance(task := find_system(name).load(), TranslationTask)}
SIZES = {name: EXAMPLES[name].sizes(task.model.config_class) | {"dropout": 0.1} for name, task in TASKS.items()}


def pairs(number=60):
    draw = random.Random(1)
    made = [draw.choices("abcdefgh", k=draw.randint(1, 6)) for _ in range(number)]
    return [(" ".join(words), " ".join(reversed(words)).upper()) for words in made]


def read(system="transformer", corpus=None, **settings):
    """The recipe, the data, and the function that begins a task."""
    task = TASKS[system]
    opened = task.source.open(pairs() if corpus is None else corpus)
    recipe = Recipe.build(system, task.sections, TINY | SIZES[system] | settings, corpus=opened.names)
    return task, recipe, task.source.read(recipe, opened.source, lambda done, total: None, None)


def begin(system="transformer", corpus=None, **settings):
    task, recipe, data = read(system, corpus, **settings)
    return task.begin(recipe, data)


# --- data -------------------------------------------------------------------------------------------------------


def test_some_pairs_are_set_aside_and_not_trained_on():
    _, _, data = read()
    valid, numbers = data.validated
    assert valid is data.train
    assert numbers.tolist() == [49]
    assert sorted([*numbers, *data.train_numbers]) == list(range(60))


def test_too_few_pairs_ask_for_a_validation_set():
    with pytest.raises(CorpusError, match=r"49 pairs are too few .*--valid.* at least 50"):
        read(corpus=pairs(49))
    with pytest.raises(CorpusError, match=r"left out: 60 of more than 7 tokens on a side, 1 with an empty side"):
        read(corpus=[*pairs(9), *[("a " * 8, "A")] * 60, ("a", "")], max_length=8)


def test_given_validation_pairs_are_read_with_the_tokenizer_of_the_training(tmp_path):
    path = tmp_path / "valid.tsv"
    path.write_text("a b\tB A\nz\tZ\n")
    _, _, data = read(corpus=pairs(10), valid=str(path))
    valid, numbers = data.validated
    assert (len(valid), numbers.tolist(), len(data.train_numbers)) == (2, [0, 1], 10)
    assert valid.stats.source_unknown == 1


def test_what_was_read_is_found_again_in_the_cache_alone(cache_folder):
    for joint in (True, False):
        _, _, data = read(joint=joint)
        found = TranslationData.reopen(data.fingerprint)
        assert found.fingerprint == data.fingerprint
        assert found.source.fingerprint == data.source.fingerprint
        assert (found.source is found.target) is joint
        assert found.train_numbers.tolist() == data.train_numbers.tolist()
    assert TranslationData.reopen("0" * 64) is None
    (path,) = (cache_folder / "translations" / data.fingerprint).glob("data.json")
    path.write_text("{}")
    assert TranslationData.reopen(data.fingerprint) is None


def test_the_same_pairs_validated_otherwise_are_other_data(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs()))
    aside, named = read(corpus=path)[2], read(corpus=path, valid=str(path))[2]
    assert aside.fingerprint != named.fingerprint


def test_pairs_longer_than_the_model_takes_are_left_out():
    task = begin(corpus=[*pairs(), ("a " * 30, "A")], max_length=20, positions="learned")
    assert task.facts()["stats"]["too_long"] == 1
    for batch in task.plan(0):
        task.loss(task.module, batch, 0)


def test_an_iterator_is_read_once():
    assert len(read(corpus=iter(pairs()))[2].train) == 60


# --- loss -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", TASKS)
def test_the_loss_of_a_padded_batch_is_the_sum_of_its_pairs_alone(system):
    task = begin(system, dropout=0)
    batch = max(task.plan(0), key=len)
    with torch.no_grad():
        together = task.loss(task.module, batch, 0)
        alone = [task.loss(task.module, [number], 0) for number in batch]
    assert float(together.total) == pytest.approx(math.fsum(float(loss.total) for loss in alone), rel=1e-5)
    assert together.targets == sum(loss.targets for loss in alone)


def test_the_validation_loss_is_what_the_translator_scores():
    task = begin()
    task.module.eval()
    with torch.no_grad():
        figures = task.evaluate()
    source, target = pairs()[49]
    score = task.translator.score([source], [target])[0]
    assert figures["loss"] == pytest.approx(-score / (len(target.split()) + 1), rel=1e-5)
    assert figures["perplexity"] == pytest.approx(math.exp(figures["loss"]))


def test_bleu_is_reported_where_it_is_asked_for():
    task = begin("seq2seq", validate_bleu=True)
    task.module.eval()
    with torch.no_grad():
        assert 0 <= task.evaluate()["bleu"] <= 100


def test_the_bleu_of_a_training_is_that_of_the_pairs_as_they_are_with_what_is_unknown(tmp_path):
    unknown = [("a \u2603 b c", "C B \u2603 A"), ("d e \u2603", "\u2603 E D A B"), ("\u2603", "A B C D \u2603")]
    path = tmp_path / "valid.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in unknown), encoding="utf-8")
    job = begin("transformer", valid=str(path), validate_bleu=True, kind="bpe")
    job.module.eval()
    made = job.translator.translate([source for source, _ in unknown], beam_size=1)
    expected = measure_translation(made, made, [target for _, target in unknown]).bleu
    with torch.no_grad():
        assert job.evaluate()["bleu"] == pytest.approx(expected)


def test_every_epoch_has_all_pairs_once_in_another_order():
    task = begin()
    epochs = [[number for batch in task.plan(epoch) for number in batch.tolist()] for epoch in (0, 1, 0)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == task._data.train_numbers.tolist()
    assert epochs[0] == epochs[2] != epochs[1]


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("linear", 1 - 30 / 100), ("exponential", math.exp(-0.3)), ("sigmoid", 100 / (100 + math.exp(0.3)))],
)
def test_the_share_of_gold_tokens_falls_as_in_the_paper(kind, expected):
    config = TranslationConfig(scheduled_sampling=kind, sampling_steps=100, sampling_floor=0.05)
    assert config.teacher_share(30) == pytest.approx(expected)
    assert config.teacher_share(10**9) == 0.05
    assert TranslationConfig().teacher_share(10**9) == 1


def test_scheduled_sampling_is_for_seq2seq_which_is_said_before_any_pair_is_read():
    with pytest.raises(SettingError, match="scheduled_sampling needs a decoder that reads token by token"):
        wenmai.train("transformer", [("no", "pair", "")], scheduled_sampling="linear", threads=1)
    task = begin("seq2seq", scheduled_sampling="linear", sampling_steps=10)
    assert task.loss(task.module, task.plan(0)[0], 100).targets > 0


def test_settings_of_a_sampling_that_is_off_are_refused():
    with pytest.raises(SettingError, match="has no effect with scheduled_sampling=none"):
        TranslationConfig(sampling_steps=5)


@pytest.mark.parametrize("schedule", ["none", "linear"])
def test_drawn_source_tokens_add_a_gradient_and_nothing_to_the_loss(schedule):
    sampling = {} if schedule == "none" else {"scheduled_sampling": schedule, "sampling_steps": 10}
    job = begin("seq2seq", selection="sampled", dropout=0, label_smoothing=0, **sampling)
    job.module.train()
    scorer = job.module.decoder.attention.scorer
    found, batch = [], job.plan(0)[0]
    for baseline in (-3.0, -1.0):
        torch.manual_seed(1)
        job.carry({"baseline": torch.tensor(baseline)})
        loss = job.loss(job.module, batch, 5)
        assert loss.total.item() == loss.nll.item()
        found.append((loss.nll.item(), torch.autograd.grad(loss.total, scorer.vector)[0]))
    (one, gradient), (other, moved) = found
    assert one == other
    assert not torch.allclose(gradient, moved)
    job.module.eval()
    with torch.no_grad():
        assert job.loss(job.module, batch, 5).total.isfinite()


def test_the_baseline_is_a_running_mean_that_checkpoints_keep():
    job = begin("seq2seq", selection="sampled")
    assert float(job.carried()["baseline"]) == pytest.approx(-math.log(job.module.output_weight.shape[0]))
    job.carry({"baseline": torch.tensor(-2.0)})
    job.note({"loss": 1.0})
    assert float(job.carried()["baseline"]) == pytest.approx(0.9 * -2 + 0.1 * -1)
    assert not begin("seq2seq", selection="hard").carried()


def test_a_training_that_draws_source_tokens_goes_on_to_the_bit(tmp_path):
    settings = TINY | SIZES["seq2seq"] | {"selection": "sampled", "epochs": 3}

    class Impatient(Callback):
        def record(self, record):
            if record.position == 12:
                raise KeyboardInterrupt

    whole = wenmai.train("seq2seq", pairs(), out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        wenmai.train("seq2seq", pairs(), out=tmp_path / "cut", callback=Impatient(), **settings)
    again = wenmai.resume(tmp_path / "cut")
    models = [(run.path / "model" / "model.safetensors").read_bytes() for run in (whole, again)]
    assert models[0] == models[1]


def test_the_noam_rate_follows_from_the_width():
    task = begin(warmup=100)
    assert task.learning_rate == pytest.approx((16 * 100) ** -0.5)
    assert begin(schedule="linear").learning_rate == 1e-3
    assert begin(learning_rate=0.5).learning_rate == 0.5


def test_a_model_of_another_size_cannot_be_continued():
    task, recipe, data = read(hidden_size=32)
    with pytest.raises(SettingError, match=r"embedding of shape \(20, 16\), the settings ask for \(20, 32\)"):
        task.begin(recipe, data, begin().translator)
