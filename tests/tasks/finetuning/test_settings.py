"""Fine-tuning: what of the encoder is trained, at which rate, how often, and what it starts from."""

import json
import math
import re
import shutil

import pytest
import torch

import wenmai
from tests.tasks.finetuning.trained import PLAIN, encoder_of, tuned
from wenmai.core.errors import SettingError
from wenmai.formats.huggingface import write_huggingface
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.runs.formats import import_run
from wenmai.runs.train import train_recipe
from wenmai.tasks import finetuning
from wenmai.tasks.settings import FineTuneConfig
from wenmai.training.callback import Callback


@pytest.mark.parametrize("start", ["bert", "gpt", "elmo"])
def test_a_frozen_encoder_stays_as_it_was(base, data, tmp_path, start):
    before = dict(base(start).model.module.state_dict())
    for mode in ("frozen", "mix"):
        after = encoder_of(tuned(base, data, tmp_path, "classification", start, mode=mode))
        assert all(
            torch.equal(before[name][: len(tensor)], tensor[: len(before[name])]) for name, tensor in after.items()
        )


@pytest.mark.parametrize("task", ["classification", "tagging", "span"])
def test_states_of_a_frozen_encoder_are_the_same_wherever_they_are(base, data, tmp_path, task, monkeypatch):
    """In memory, in a file, or computed anew for each batch."""
    kept = tuned(base, data, tmp_path, task, "bert", mode="mix", dropout=0.5)
    monkeypatch.setattr(finetuning, "_IN_MEMORY", 0)
    in_file = tuned(base, data, tmp_path, task, "bert", mode="mix", dropout=0.5)
    monkeypatch.setattr(finetuning, "_OF_DISK", 0)
    anew = tuned(base, data, tmp_path, task, "bert", mode="mix", dropout=0.5)
    for name, tensor in kept.model.module.state_dict().items():
        assert torch.equal(tensor, in_file.model.module.state_dict()[name])
    assert kept.summary["loss"] == pytest.approx(anew.summary["loss"], rel=1e-4)
    for name, tensor in kept.model.module.state_dict().items():
        torch.testing.assert_close(
            tensor, anew.model.module.state_dict()[name], rtol=1e-3, atol=2e-3
        )  # batches of other sizes round otherwise


def test_computing_the_states_of_a_frozen_encoder_is_followed(base, data, tmp_path):
    told = []

    class Follower(Callback):
        def evaluating(self, what, done, total):
            told.append((what, done, total))

    out = tmp_path / "run"
    settings = {**PLAIN, "mode": "frozen", "valid_share": 0.2}
    run = wenmai.finetune(
        base("bert"), data("classification"), task="classification", out=out, callback=Follower(), **settings
    )
    (what,) = {what for what, _, _ in told}
    assert what == "computing the states of the encoder, example"
    done = [done for _, done, _ in told]
    assert done == sorted(set(done))
    sizes = run.corpus
    assert told[-1][1] == told[-1][2] == sizes["examples"] + sizes["valid_examples"]


def test_a_limit_takes_examples_of_all_labels_of_a_sorted_file(base, data, tmp_path):
    lines = ["a b\tearly\n"] * 200 + ["g h\tlate\n"] * 100
    path = data("classification", "text\tlabel\n" + "".join(lines))
    (tmp_path / "dev.tsv").write_text("text\tlabel\na\tearly\nh\tlate\n")
    settings = PLAIN | {"limit": 9, "valid": str(tmp_path / "dev.tsv")}
    run = wenmai.finetune(base("bert"), path, task="classification", out=tmp_path / "run", quiet=True, **settings)
    assert run.corpus["examples"] == 9
    assert run.model.labels == ["early", "late"]


def test_a_mapping_of_splits_is_trained_and_validated_on(base, tmp_path):
    train = [{"text": text, "label": label} for text, label in (("a b", "early"), ("g h", "late")) * 5]
    splits = {"train": train, "validation": iter(train[:4]), "test": train}
    run = wenmai.finetune(base("bert"), splits, task="classification", out=tmp_path / "run", quiet=True, **PLAIN)
    assert run.corpus["examples"] == 10
    assert run.corpus["valid_examples"] == 4


def test_a_limit_of_what_is_evaluated_is_the_same_for_all_seeds(begin):
    texts = "text\tlabel\n" + "".join(f"{one} a\tA\n{one} b\tB\n" for one in "abcdefgh")
    shorter = [begin("classification", "bert", texts, valid_share=0.5, valid_limit=3, seed=seed) for seed in (1, 2)]
    whole = begin("classification", "bert", texts, valid_share=0.5)
    assert shorter[0]._data.valid == shorter[1]._data.valid
    assert len(shorter[0]._data.valid) == 3 < len(whole._data.valid)
    assert set(shorter[0]._data.valid) < set(whole._data.valid)
    assert shorter[0]._data.train == whole._data.train
    assert shorter[0]._data.fingerprint != whole._data.fingerprint
    with pytest.raises(SettingError, match="valid_limit=3 has no effect without examples to evaluate on"):
        begin("classification", "bert", texts, valid_share=0, valid_limit=3)


def test_evaluations_that_take_most_of_the_time_are_noted(begin, tmp_path):
    texts = "text\tlabel\n" + "a b\tA\nb c\tB\n" * 9
    (tmp_path / "valid.tsv").write_text("text\tlabel\n" + "a c\tA\n" * 60)
    given = {"valid": str(tmp_path / "valid.tsv")}
    _, (note,) = begin("classification", "bert", texts, **given).changes(None)
    assert note.startswith("each evaluation reads 60 examples, 3 times the tokens of an epoch of training, and takes")
    assert begin("classification", "bert", texts, **given, valid_limit=20).changes(None) == ({}, [])
    assert begin("classification", "bert", texts, **given, mode="frozen").changes(None) == ({}, [])


def test_only_the_top_layers_are_trained(base, data, tmp_path):
    before = base("bert").model.module.state_dict()
    after = encoder_of(tuned(base, data, tmp_path, "classification", "bert", mode="top", top_layers=1))
    changed = {name for name, tensor in after.items() if not torch.equal(before[name], tensor)}
    assert changed
    assert all(name.startswith(("encoder.layers.1.", "pooler.")) for name in changed)


@pytest.mark.parametrize("start", ["bert", "elmo", "gpt"])
@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_a_frozen_layer_is_what_the_head_sees(base, data, tmp_path, task, start):
    def head(**settings):
        return tuned(base, data, tmp_path, task, start, mode="frozen", **settings).model.module

    last, embeddings, first = head(), head(layer=0), head(layer=1)
    shown = head(layer=last.backbone.num_layers)
    same = [
        all(torch.equal(*pair) for pair in zip(last.head.parameters(), other.head.parameters(), strict=True))
        for other in (shown, first, embeddings)
    ]
    assert same == [True, False, False]


def test_the_pooler_takes_the_last_layer(begin):
    with pytest.raises(SettingError, match="pooling=pooler takes the last layer; leave out layer"):
        begin("classification", "bert", mode="frozen", layer=1, pooling="pooler")


def test_from_scratch_nothing_is_taken_over(base, begin):
    trained = base("bert").model.module.state_dict()
    for scratch in (False, True):
        encoder = begin("classification", "bert", scratch=scratch).fine_tuned.module.encoder.state_dict()
        same = [torch.equal(trained[name], tensor) for name, tensor in encoder.items() if tensor.dim() > 1]
        assert all(same) is not scratch


def test_what_was_fine_tuned_needs_nothing_of_where_it_began(base, data, tmp_path):
    shutil.copytree(base("bert").path, tmp_path / "base")
    started = wenmai.Run(tmp_path / "base")
    run = wenmai.finetune(started, data("pair"), task="pair", out=tmp_path / "run", quiet=True, **PLAIN)
    shutil.rmtree(started.path)
    model = wenmai.load(run.path)
    assert [label for label, _ in model.predict([("a b", "c")], -1)[0]]
    assert not (run.path / "model" / "base").exists()


def test_a_fine_tuned_run_is_an_encoder_for_another_task(base, data, tmp_path):
    first = tuned(base, data, tmp_path, "classification", "bert", mode="lora", lora_rank=2)
    second = wenmai.finetune(first, data("tagging"), task="tagging", out=tmp_path / "second", quiet=True, **PLAIN)
    assert second.model.tag(["a b"])[0].tokens == ["a", "b"]
    assert not any("lora" in name for name in second.model.module.state_dict())


@pytest.mark.parametrize("start", ["gpt", "elmo"])
@pytest.mark.parametrize(("task", "metric"), [("tagging", "f1"), ("span", "f1"), ("choice", "accuracy")])
def test_gpt_and_elmo_learn_every_task(base, data, tmp_path, task, metric, start):
    examples = data(task)
    given = {**PLAIN, "epochs": 6, "mode": "full", "valid": str(examples)}
    run = wenmai.finetune(base(start), examples, task=task, out=tmp_path / "run", quiet=True, **given)
    records = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    evaluations = [one["figures"] for one in records if one["kind"] == "evaluation"]
    losses = [one["task_loss" if start == "gpt" else "loss"] for one in evaluations]
    assert losses[-1] < losses[0]
    measured = wenmai.evaluate(run.path, on=examples).as_dict()
    assert measured[metric] == pytest.approx(run.summary["validation"][metric], abs=1e-6)


def test_few_examples_are_read_more_often(begin):
    alone = {"valid_share": 0, "batch_size": 4}
    job = begin("classification", "bert", epochs=None, **alone)
    updates = len(job.plan(0))
    assert updates * 20 < 600
    assert job.facts()["epochs"] == job.config.epochs == 20
    enough = begin("classification", "bert", epochs=None, min_updates=updates * 5 - 1, **alone)
    assert enough.config.epochs == 5
    accumulated = begin("classification", "bert", epochs=None, min_updates=updates * 5, accumulation=2, **alone)
    assert accumulated.config.epochs == math.ceil(updates * 5 / math.ceil(updates / 2))
    assert begin("classification", "bert", epochs=None, min_updates=1, **alone).config.epochs == 3
    assert begin("classification", "bert", epochs=2, **alone).config.epochs == 2
    assert begin("classification", "bert", epochs=None, mode="frozen", **alone).config.epochs == 30


def test_recipes_say_how_often_examples_are_read(base, data, tmp_path):
    given = {name: value for name, value in PLAIN.items() if name != "epochs"} | {"min_updates": 20, "batch_size": 16}
    run = wenmai.finetune(base("bert"), data("classification"), task="classification", out=tmp_path / "run", **given)
    epochs = run.summary["epochs"]
    assert epochs > 3
    again = train_recipe(run.path / "recipe.yaml", out=tmp_path / "again", quiet=True)
    assert again.summary["epochs"] == epochs
    usual = wenmai.finetune(base("bert"), data("pair"), task="pair", out=tmp_path / "usual", steps=3, threads=1)
    text = (usual.path / "recipe.yaml").read_text()
    assert "min_updates: 600" in text
    once = train_recipe(usual.path / "recipe.yaml", out=tmp_path / "once", quiet=True, epochs=1)
    assert once.summary["epochs"] <= 1
    assert once.recipe.sections["tuning"].min_updates == 0
    (tmp_path / "old.yaml").write_text(re.sub("(?m)^  min_updates.*\n", "", text))  # before there was this setting
    assert train_recipe(tmp_path / "old.yaml", out=tmp_path / "old").recipe.sections["tuning"].min_updates == 0


def test_small_models_learn_at_higher_rates(begin, monkeypatch):
    job = begin("classification", "bert", learning_rate=None)
    assert job.learning_rate == 1e-3  # the highest one, for 16 dimensions
    for size, *expected in ((768, 5e-5, 2.5e-4, 5e-4), (384, 2e-4, 5e-4, 1e-3), (1024, 5e-5, 2.5e-4, 5e-4)):
        monkeypatch.setattr(type(job.fine_tuned.backbone), "size", size)
        found = []
        for tuning in (FineTuneConfig(), FineTuneConfig(scratch=True), FineTuneConfig(mode="lora")):
            job.tuning = tuning
            found.append(job.learning_rate)
        assert found == pytest.approx(expected)
    monkeypatch.undo()
    assert begin("classification", "bert", learning_rate=None, mode="frozen").learning_rate == 1e-3
    assert begin("classification", "elmo").recipe.sections["tuning"].mode == "mix"
    assert begin("regression", "gpt").fine_tuned.reading.both_orders
    assert begin("tagging", "bert", mode="frozen", epochs=2).recipe.sections["train"].epochs == 2


def test_what_was_fine_tuned_goes_on_as_it_was(base, tmp_path):
    rows = [("a b", "x"), ("c d", "y"), ("b b", "x"), ("d", "y")]
    chosen = {"task": "classification", "quiet": True, "valid_share": 0} | PLAIN
    mixed = wenmai.finetune(base("elmo"), rows, out=tmp_path / "mixed", **chosen)
    again = wenmai.finetune(mixed, rows, out=tmp_path / "again", **chosen | {"learning_rate": 1e-12})
    assert again.recipe.sections["tuning"].mode == "mix"
    texts = ["a b", "c"]
    assert again.model.predict(texts, -1) == [
        [(label, pytest.approx(share, abs=1e-5)) for label, share in one] for one in mixed.model.predict(texts, -1)
    ]
    whole = wenmai.finetune(base("bert"), rows, out=tmp_path / "whole", **chosen)
    frozen = wenmai.finetune(whole, rows, out=tmp_path / "frozen", mode="frozen", **chosen)
    assert (whole.model.reading.pooling, frozen.model.reading.pooling) == ("pooler", "mean")
    assert frozen.model.differences(whole.model) == ["pooling=pooler"]


@pytest.mark.parametrize(
    ("embedding", "mode", "pooling"),
    [
        ({}, "full", "pooler"),
        ({"normalise": True}, "full", "mean"),
        ({"normalise": True}, "frozen", "mean"),
        ({"pooling": "cls"}, "full", "token"),
        ({"max_length": 10}, "lora", "mean"),
    ],
)
def test_an_encoder_of_sentence_transformers_gives_the_vector_that_it_learned(
    base, data, tmp_path, embedding, mode, pooling
):
    taught = base("bert").model
    taught = type(taught)(taught.module, taught.tokenizer, embedding=EmbeddingConfig(**embedding))
    write_huggingface(tmp_path / "theirs", taught.module, taught.tokenizer, embedding=taught.embedding)
    run = import_run("huggingface", tmp_path / "theirs", tmp_path / "imported")
    assert run.model.embedding == taught.embedding
    out = tmp_path / "run"
    found = wenmai.finetune(run, data("pair"), task="pair", out=out, quiet=True, **PLAIN | {"mode": mode})
    assert found.model.reading.pooling == pooling


def test_pairs_that_were_read_in_both_orders_go_on_so(base, data, tmp_path):
    first = tuned(base, data, tmp_path, "pair", "bert", both_orders=True)
    again = wenmai.finetune(first, data("pair"), task="pair", out=tmp_path / "again", quiet=True, **PLAIN)
    assert again.recipe.sections["reading"].both_orders
    once = wenmai.finetune(
        first, data("pair"), task="pair", out=tmp_path / "once", quiet=True, both_orders=False, **PLAIN
    )
    assert once.model.differences(first.model) == ["both_orders=true"]


@pytest.mark.parametrize("mode", ["lora", "top", "frozen", "mix"])
def test_tokens_that_cannot_learn_are_those_that_gpt_knows(base, begin, mode):
    bare = base("gpt").model.module
    job = begin("classification", "gpt", mode=mode)
    embedding = job.module.encoder.embedding.weight
    assert len(embedding) == bare.vocab_size + 3
    for row in embedding[-3:]:
        torch.testing.assert_close(row, bare.embedding.weight[bare.bos_id])
    assert job.fine_tuned.reading.pooling == ("mean" if mode in ("frozen", "mix") else "token")


def test_a_pooler_learns_beside_lora(begin):
    job = begin("classification", "bert", mode="lora", pooling="pooler")
    pooler = dict(job.module.encoder.pooler.named_parameters())
    assert all(parameter.requires_grad for parameter in pooler.values())
    assert job.rate_share("encoder.pooler.weight", 0) == 1


def test_layers_that_unfreezing_never_reaches_are_noted(base, begin):
    def noted(epochs):
        _, notes = begin("classification", "bert", unfreeze=1, epochs=epochs).changes(base("bert").model)
        return [note for note in notes if "never learns" in note]

    deepest = max(begin("classification", "bert")._shares.depths.values())
    assert noted(1) == [
        f"unfreeze=1 reaches 0 of {deepest} layers below the head in 1 epoch, and the rest never "
        "learns: give more epochs or a larger number"
    ]
    _, notes = begin("classification", "bert", unfreeze=1, epochs=2, mode="top", top_layers=1).changes(
        base("bert").model
    )
    assert not any("never learns" in note for note in notes)
    assert noted(deepest) != []
    assert noted(deepest + 1) == []


def test_patience_needs_something_to_wait_for(begin, base, data, tmp_path):
    with pytest.raises(SettingError, match="patience=3 has no effect without examples to evaluate on"):
        begin("classification", "bert", patience=3, valid_share=0)
    valid = tmp_path / "valid.tsv"
    valid.write_text("text\tscore\na b\t1\nb a\t1\n")  # equal numbers have no correlation
    given = {**PLAIN, "epochs": 3, "patience": 1, "valid": str(valid)}
    run = wenmai.finetune(
        base("bert"), data("regression"), task="regression", out=tmp_path / "run", quiet=True, **given
    )
    assert run.summary["epochs"] == 3
