"""Training on several tasks: losses against float64 twins, heads that stay apart, and what is left in the end."""

import json
import os
import signal
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError, RunError, SettingError
from wenmai.core.registry import find_system
from wenmai.data.pretraining import find_task
from wenmai.runs.planning import overruled, plan
from wenmai.training.callback import Callback
from wenmai.training.optimiser import Optimiser


def begin(tmp_path, system="ernie-2", text=TEXTS["documents.txt"]["enough"], **settings):
    task = find_system(system).load()
    path = tmp_path / "documents.txt"
    path.write_text(text)
    opened = task.source.open([path])
    chosen = {**find_system(system).settings, **EXAMPLES[system].settings, **settings}
    recipe = Recipe.build(system, task.sections, chosen, corpus=opened.names)
    return task.begin(recipe, task.source.read(recipe, opened.source, lambda done, total: None, None))


def one_of_each(job):
    """A batch of each task."""
    found = {}
    for epoch in range(job.config.epochs):
        for batch in job.plan(epoch):
            found.setdefault(job.tasks[batch.task].name, batch)
    return found


def test_the_losses_are_those_of_the_equations(tmp_path):
    job = begin(tmp_path)
    batches = one_of_each(job)
    assert set(batches) == set(job.stages.tasks)
    for name, batch in batches.items():
        made, labels = job._batch(batch)
        losses = job.loss(job.module.eval(), batch, 0)
        bert, head = job.masked_model.module.double(), job.module.tasks.double()
        hidden = bert(made.tokens, segments=made.segments, mask=made.mask, task_type=batch.task)
        rows = torch.arange(len(hidden))[:, None].expand_as(made.places).flatten()
        states = hidden[rows, made.places.flatten()]
        table = bert.heads["mlm"](states[made.masked]).log_softmax(-1)
        expected = -table.gather(1, made.targets[:, None]).sum()
        assert float(losses["mlm"].nll) == pytest.approx(expected.item(), rel=1e-5)
        task = job.tasks[batch.task]
        assert (name in losses) == bool(task.classes)
        if task.classes:
            asked = states[made.asked]
            if task.level == "sequence":
                assert (made.places[:, 0] == 0).all()
                asked = torch.tanh(bert.pooler(hidden[:, 0]))
            classes = head[name](asked).log_softmax(-1)
            expected = -classes.gather(1, labels[:, None]).sum()
            assert float(losses[name].nll) == pytest.approx(expected.item(), rel=1e-5)
            assert losses[name].targets == len(labels)
        bert.float(), head.float()


def test_a_step_on_one_task_leaves_the_heads_of_others_as_they_are(tmp_path):
    job = begin(tmp_path, optimiser="adamw", weight_decay=0.1)
    optimiser = Optimiser(job.config, job.module, peak_rate=0.1, share=job.rate_share, epoch=0)
    batches = one_of_each(job)
    for name in ("token-document", "reordering", "token-document", "distance"):
        before = {key: one.clone() for key, one in job.module.tasks.state_dict().items()}
        sum(loss.total for loss in job.loss(job.module, batches[name], 0).values()).backward()
        optimiser.gradients()
        optimiser.step(0.1)
        for key, one in job.module.tasks.state_dict().items():
            assert torch.equal(one, before[key]) == (not key.startswith(f"{name}.")), key


def test_vectors_of_tasks_tell_them_apart(tmp_path):
    job = begin(tmp_path)
    bert = job.masked_model.module.eval()
    made, _ = job._batch(one_of_each(job)["distance"])
    with torch.no_grad():
        one, other = (bert(made.tokens, mask=made.mask, task_type=task) for task in (0, 3))
        assert not torch.equal(one, other)
        bert.task_types.weight[:] = bert.task_types.weight[0].clone()
        one, other = (bert(made.tokens, mask=made.mask, task_type=task) for task in (0, 3))
        assert torch.equal(one, other)


def test_a_batch_is_the_same_whenever_it_is_made(tmp_path):
    job, again = begin(tmp_path), begin(tmp_path)
    batches = [batch for epoch in range(job.config.epochs) for batch in job.plan(epoch)]
    assert len(batches) == job.stage_plan.table.sum()
    late = batches[-1]
    for batch in batches:
        job._batch(batch)
    made, labels = job._batch(late)
    other, others = again._batch(late)
    assert torch.equal(made.tokens, other.tokens)
    assert torch.equal(made.targets, other.targets)
    assert (labels is None) == (others is None)
    assert labels is None or torch.equal(labels, others)


def test_later_passes_are_other_ones(tmp_path):
    job = begin(tmp_path, "ernie", tasks=("phrases",), epochs=3)
    rows = [job._batch(batch)[0].tokens.flatten().tolist() for epoch in range(3) for batch in job.plan(epoch)]
    assert len({tuple(row) for row in rows}) == len(rows)


def test_the_same_texts_return_with_the_same_masks(tmp_path):
    """``dupe_factor``: each sequence has so many masks, used in turn."""
    job = begin(tmp_path, "ernie", tasks=("phrases",), dupe_factor=2)

    def rows(number):
        found = job._pass(0, number)
        made, _ = job._tensors(0, found, np.arange(len(found.examples.lengths)), job._train)
        return made.tokens, made.targets

    first, second, third = (rows(number) for number in range(3))
    assert all(torch.equal(one, other) for one, other in zip(first, third, strict=True))
    assert first[0].shape != second[0].shape or not torch.equal(first[0], second[0])


def test_a_pooler_that_no_task_trains_is_said(tmp_path):
    def told(**settings):
        return [note for note in begin(tmp_path, **settings).warnings() if "pooler" in note]

    assert len(told(tasks=("phrases", "token-document"))) == 1
    assert told(tasks=("phrases", "token-document"), pooler="none") == []
    assert told(tasks=("phrases", "reordering")) == []


def test_the_finished_model_has_no_heads_of_tasks_and_fills_in(tmp_path):
    path = tmp_path / "documents.txt"
    path.write_text(TEXTS["documents.txt"]["enough"])
    run = wenmai.train("ernie-2", path, out=tmp_path / "run", quiet=True, **EXAMPLES["ernie-2"].settings)
    assert not [name for name in run.model.module.state_dict() if "reordering" in name or "tasks." in name]
    assert run.model.fill("a [MASK] c")
    assert set(run.summary["stages"]) == set(EXAMPLES["ernie-2"].settings["tasks"])
    budgets = {sum(counts) for counts in run.summary["stages"].values()}
    assert len(budgets) == 1
    figures = [json.loads(line)["figures"] for line in (run.path / "metrics.jsonl").read_text().splitlines()
               if '"evaluation"' in line]  # fmt: skip
    assert len(figures) == EXAMPLES["ernie-2"].settings["epochs"]
    for name in ("phrases_loss", "reordering_accuracy", "reordering_masked_loss", "distance_loss"):
        assert all(np.isfinite(one[name]) for one in figures)


def test_a_bert_goes_on_as_ernie(tmp_path):
    for name in ("bert", "ernie"):
        (tmp_path / EXAMPLES[name].data).write_text(TEXTS[EXAMPLES[name].data]["enough"])
    path = tmp_path / "documents.txt"
    plain = {"heads": ("mlm",), "pooler": "none", "pairs": "none", "short_length": None, "short_share": 0.9}
    base = wenmai.train("bert", path, out=tmp_path / "bert", quiet=True, **EXAMPLES["bert"].settings | plain)
    run = wenmai.train("ernie", path, start=base, out=tmp_path / "ernie", quiet=True, tasks=["phrases"], epochs=1,
                       threads=1)  # fmt: skip
    assert run.recipe.sections["model"].hidden_size == base.recipe.sections["model"].hidden_size
    assert run.model.tokenizer.fingerprint == base.model.tokenizer.fingerprint


def test_a_continued_run_gets_the_parts_that_it_lacks(tmp_path):
    path = tmp_path / "documents.txt"
    path.write_text(TEXTS["documents.txt"]["enough"])
    base = wenmai.train("ernie", path, out=tmp_path / "ernie", quiet=True, **EXAMPLES["ernie"].settings)
    assert base.recipe.sections["model"].pooler == "none"
    run = wenmai.train("ernie-2", path, start=base, out=tmp_path / "ernie-2", quiet=True,
                       tasks=["phrases", "reordering"], budget=4, epochs=1, threads=1)  # fmt: skip
    config = run.recipe.sections["model"]
    assert (config.pooler, config.task_types, config.segments) == ("tanh", 16, base.recipe.sections["model"].segments)
    again = wenmai.train("ernie-2", path, start=run, out=tmp_path / "again", quiet=True, budget=4, epochs=1, threads=1)
    assert again.recipe.sections["model"] == config
    with pytest.raises(SettingError, match="reordering asks for classes of whole texts; add pooler=tanh"):
        wenmai.train("ernie-2", path, start=base, out=tmp_path / "none", quiet=True, pooler="none",
                     tasks=["phrases", "reordering"], epochs=1, threads=1)  # fmt: skip


def test_there_may_be_more_tasks_than_the_continued_run_has_vectors_for(tmp_path):
    path = tmp_path / "documents.txt"
    path.write_text(TEXTS["documents.txt"]["enough"])
    chosen = {"budget": 4, "epochs": 1, "threads": 1}
    base = wenmai.train("ernie", path, out=tmp_path / "ernie", quiet=True, **EXAMPLES["ernie"].settings)
    two = wenmai.train("ernie-2", path, start=base, out=tmp_path / "two", quiet=True, task_types=2,
                       tasks=["phrases", "reordering"], **chosen)  # fmt: skip
    more = {"tasks": ["phrases", "reordering", "distance"]} | chosen
    with pytest.raises(SettingError, match="task_types=2 are too few for 3 tasks; set more, or 0"):
        wenmai.train("ernie-2", path, start=two, out=tmp_path / "no", quiet=True, **more)
    for count in (0, 3):
        recipe, opened = plan("ernie-2", [path], start=two, task_types=count, **more)
        task = find_system("ernie-2").load()
        read = task.source.read(recipe, opened.source, lambda done, total: None, two.read_base())
        new = task.begin(recipe, read, two.read_base())._encoder.state_dict()
        old = two.model.module.state_dict()
        assert ("task_types.weight" in new) == (count > 0)
        if count:
            assert torch.equal(new["task_types.weight"][:2], old["task_types.weight"])
            assert len(new["task_types.weight"]) == 3


def test_the_parameters_that_a_continued_run_has_are_kept(tmp_path):
    path = tmp_path / "documents.txt"
    path.write_text(TEXTS["documents.txt"]["enough"])
    base = wenmai.train("ernie", path, out=tmp_path / "ernie", quiet=True, **EXAMPLES["ernie"].settings)
    recipe, opened = plan("ernie-2", [path], start=base, tasks=["phrases", "reordering"], budget=4, epochs=1, threads=1)
    task = find_system("ernie-2").load()
    data = task.source.read(recipe, opened.source, lambda done, total: None, task.load_base(base.model_folder))
    job = task.begin(recipe, data, task.load_base(base.model_folder))
    old, new = base.model.module.state_dict(), job.masked_model.module.state_dict()
    assert {name.partition(".")[0] for name in new.keys() - old.keys()} == {"pooler", "task_types"}
    assert all(torch.equal(new[name], old[name]) for name in old)


def test_a_task_of_texts_brings_a_pooler():
    assert implied(tasks="phrases,dialogue", dialogue_threads="talks.jsonl")["model.pooler"] == "tanh"
    assert implied(tasks="phrases,reordering")["model.pooler"] == "tanh"
    assert "model.pooler" not in implied(tasks="phrases,token-document")


@pytest.mark.parametrize("name", ["entities_list", "entities_run", "dialogue_threads"])
def test_files_of_tasks_are_looked_for_before_the_text_is_read(tmp_path, name):
    path = tmp_path / "documents.txt"
    path.write_text("a b c\n")
    with pytest.raises(CorpusError, match=f"{name}=.*/nosuch: no such file or run"):
        plan("ernie", [path], **{name: str(tmp_path / "nosuch")})


def test_what_is_not_measured_is_said(tmp_path):
    valid = tmp_path / "valid.txt"
    valid.write_text("a b c d\n")
    job = begin(tmp_path, valid=str(valid))
    assert job.warnings() == [
        "the text to validate on has no example for token-document, reordering, distance, relevance: learned, but not "
        "measured"
    ]
    assert not begin(tmp_path, valid=str(tmp_path / "documents.txt")).warnings()


def test_a_task_without_a_batch_is_named(tmp_path):
    job = begin(tmp_path, system="ernie", stages="mixed", shares="1000,1", epochs=1, tasks="characters,phrases")
    assert job.stage_plan.table.sum(0).tolist()[1] == 0
    assert job.warnings() == ["there is no batch for phrases: set more epochs, or other stages or shares"]


def test_a_text_of_another_language_than_the_vocabulary_is_told(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]))
    chosen = {"file": str(tmp_path / "vocab.txt"), "kind": "bpe", "vocab_size": 8000, "min_count": None}
    job = begin(tmp_path, system="ernie", text="我们在北京学\n" * 40, **chosen, tasks="phrases")
    assert "the vocabulary lacks 100% of the pieces" in job.warnings()[0]


def test_a_run_that_keeps_capital_letters_goes_on_without_guessing_them():
    for given, tasks in (
        (True, ["phrases", "capitalisation", "token-document"]),
        (False, ["phrases", "token-document"]),
    ):
        found = implied("ernie-2", base=recipe_of("ernie", lowercase=given))["stages.tasks"]
        assert found == [*tasks, "reordering", "discourse"]
    imported = SimpleNamespace(system="bert", sections={}, flat_settings=lambda: {"tokenizer.file": "vocab.txt"})
    assert "capitalisation" in implied("ernie-2", base=imported)["stages.tasks"]  # the file says what it does


def test_a_task_of_another_package_is_found(tmp_path, monkeypatch):
    (tmp_path / "other_tasks.py").write_text(
        "from wenmai.data.pretraining.knowledge import Phrases\n\n\nclass Letters(Phrases):\n    name = 'letters'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    points = [
        EntryPoint(name, value, "wenmai.pretraining_tasks")
        for name, value in (("letters", "other_tasks:Letters"), ("others", "collections:OrderedDict"))
    ]
    group = {"wenmai.pretraining_tasks": points}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group_of=group, group: group_of.get(group, []))
    assert find_task("letters").name == "letters"
    job = begin(tmp_path, "ernie", tasks=["letters"])
    assert [task.name for task in job.tasks] == ["letters"]
    with pytest.raises(SettingError, match=r"expected a wenmai\.data\.pretraining\.task\.PretrainingTask of that name"):
        find_task("others")


def test_a_training_does_not_go_on_with_another_file_of_a_task(tmp_path):
    path, queries = tmp_path / "documents.txt", tmp_path / "queries.tsv"
    path.write_text(TEXTS["documents.txt"]["enough"])
    queries.write_text("".join(f"a {one}\tc d\t{n % 3}\n" for n in range(8) for one in "bcdef"))
    settings = EXAMPLES["ernie-2"].settings | {"tasks": ("phrases", "relevance"), "relevance_file": str(queries)}

    class Stop(Callback):
        def record(self, record):
            if record.kind == "evaluation":
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        wenmai.train("ernie-2", path, out=tmp_path / "run", quiet=True, callback=Stop(), **settings)
    queries.write_text("".join(f"a {one}\tc e\t{n % 3}\n" for n in range(8) for one in "bcdef"))
    with pytest.raises(RunError, match="what the tasks read has changed"):
        wenmai.resume(tmp_path / "run", quiet=True)


# --- what is implied ------------------------------------------------------------------------------------------------


UNITS = {"masking.masking": "unit"}  # which tasks of masking alone have


def implied(system="ernie", base=None, **given):
    return find_system(system).load().implied(given, base)


def recipe_of(system, **given):
    """A recipe as a training with these settings has it."""
    sections = find_system(system).load().sections
    chosen = overruled(overruled(find_system(system).settings, implied(system, **given)), given)
    return Recipe.build(system, sections, chosen)


def test_dialogues_alternate_with_masking():
    found = implied(dialogue_threads="talks.jsonl")
    assert found["stages.tasks"] == ["characters", "phrases", "dialogue"]
    assert found["stages.stages"] == "mixed"
    assert recipe_of("ernie", dialogue_threads="talks.jsonl").sections["stages"].stages == "mixed"
    assert implied(tasks="phrases,dialogue", dialogue_threads="talks.jsonl")["stages.stages"] == "mixed"
    given = {"dialogue_threads": "talks.jsonl", "stages": "sequential"}
    assert recipe_of("ernie", **given).sections["stages"].stages == "sequential"
    assert "stages.stages" not in implied(tasks="dialogue", dialogue_threads="talks.jsonl")
    assert "stages.stages" not in implied("ernie-2", dialogue_threads="talks.jsonl")
    assert "stages.stages" not in implied()


@pytest.mark.parametrize("off", ["none", "false", "None", False, None])
def test_what_is_turned_off_implies_nothing(off):
    for name in ("entities_inline", "entities_list", "dialogue_threads"):
        assert implied(**{name: off})["stages.tasks"] == ["characters", "phrases"]


def test_a_batch_without_targets_costs_nothing(tmp_path):
    settings = {"tasks": ("phrases",), "masking": "released", "batch_tokens": 12, "accumulation": 1}
    (tmp_path / "text.txt").write_text(TEXTS["documents.txt"]["enough"])
    run = wenmai.train(
        "ernie", tmp_path / "text.txt", out=tmp_path / "run", quiet=True, **EXAMPLES["ernie"].settings | settings
    )
    assert np.isfinite(run.summary["loss"])


def test_heads_that_no_task_trains_are_refused(tmp_path):
    (tmp_path / "text.txt").write_text(TEXTS["documents.txt"]["enough"])
    with pytest.raises(SettingError, match="heads=mlm,pair: pair would not be trained"):
        wenmai.train("ernie", tmp_path / "text.txt", out=tmp_path / "run", heads=("mlm", "pair"), pooler="tanh")


@pytest.mark.parametrize(("name", "value"), [("minutes", 1), ("steps", 1), ("patience", 2), ("average", 2)])
def test_what_ends_the_stages_early_is_refused_before_the_text_is_read(tmp_path, name, value):
    (tmp_path / "text.txt").write_bytes(b"\xff is no UTF-8")
    with pytest.raises(SettingError, match=f"{name} (would end the training in some stage|chooses among evaluations)"):
        wenmai.train("ernie", tmp_path / "text.txt", out=tmp_path / "run", quiet=True, **{name: value})


def test_a_continued_run_says_what_the_tasks_read(tmp_path):
    names = str(tmp_path / "names.txt")
    base = recipe_of("ernie", language="chinese", entities_list=names, tasks=("entities", "phrases"))
    of_base = {"tasks.language": "chinese", "stages.tasks": ["entities", "phrases"], "tasks.entities_list": names}
    assert implied(base=base) == of_base | UNITS
    assert implied(base=base, tasks="phrases") == {"tasks.language": "chinese"} | UNITS
    assert implied(base=base, language="english")["tasks.language"] == "english"
    assert "tasks.entities_list" not in implied(base=base, entities_run="runs/tagger")
    longer = implied(base=base, dialogue_threads="talks.jsonl")
    assert longer["stages.tasks"] == ["entities", "phrases", "dialogue"]
    other = implied("ernie-2", base=base)
    assert other["stages.tasks"] == ["knowledge", "reordering", "distance", "discourse", "relevance"]
    assert other["tasks.entities_list"] == names
    talking = recipe_of("ernie", dialogue_threads=names)
    assert implied(base=talking)["tasks.dialogue_threads"] == names
    assert implied(base=recipe_of("ernie"), entities_list=names)["stages.tasks"] == [
        "characters",
        "phrases",
        "entities",
    ]
    assert implied(base=recipe_of("bert")) == {"stages.tasks": ["characters", "phrases"]} | UNITS


@pytest.mark.parametrize("masking", ["token", "whole-word", "span"])
def test_masking_that_has_no_effect_is_refused(masking):
    with pytest.raises(SettingError, match=f"masking={masking} has no effect on the tasks characters, phrases"):
        implied(masking=masking)
    assert implied("ernie-2", masking=masking)
    with pytest.raises(SettingError, match=f"masking={masking} has no effect on the tasks prepared"):
        implied(masking=masking, tasks="prepared", prepared_files="rows.txt")
    assert implied(tasks="prepared", prepared_files="rows.txt")["masking.masking"] == "unit"
    assert implied(masking="released")
    assert implied(masking="unit")
