"""Measurements of encoders and their baselines, for ``jobs.py``."""

import logging
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["pretrain_ours", "pretrain_trainer"]


def pretrain_ours(corpus: str, settings: Mapping[str, Any], warm_up: int, folder: str) -> dict[str, Any]:
    """Times the updates of our loop after the first ``warm_up``; evaluations and checkpoints do not count."""
    from wenmai.core.registry import find_system
    from wenmai.runs.environment import peak_memory_bytes
    from wenmai.runs.planning import plan
    from wenmai.tasks.task import Session
    from wenmai.training.checkpoint import Checkpoints
    from wenmai.training.records import UpdateRecord

    recipe, opened = plan("bert", corpus, **settings)
    task = find_system("bert").load()
    data = task.source.read(recipe, opened.source, lambda *_: None, None)
    data.tokenizer.save(Path(folder).with_suffix(".json"))
    job: Any = task.begin(recipe, data)
    marks: dict[int, tuple[float, int]] = {}
    losses: list[float] = []
    peaks: list[int | None] = []

    def report(record: Any) -> None:
        if isinstance(record, UpdateRecord):
            marks[record.position] = (time.perf_counter(), job.state.tokens)
            losses.append(record.loss or 0.0)
            peaks.append(peak_memory_bytes())

    job.train(Session(Checkpoints(Path(folder)), report))
    (begin, before), (end, after) = marks[warm_up], marks[max(marks)]
    return {
        "tokens_per_second": (after - before) / (end - begin),
        "seconds": end - begin,
        "tokens": after - before,
        "loss": losses[-1],
        "parameters": job.parameters,
        "peak_memory_bytes": peaks[-1],
    }


def pretrain_trainer(
    corpus: str, tokenizer: str, settings: Mapping[str, Any], warm_up: int, bfloat16: bool, folder: str
) -> dict[str, Any]:
    """Times ``transformers.Trainer`` with its own collator, on texts joined to full length as in its examples."""
    import torch

    from wenmai.runs.environment import peak_memory_bytes
    from wenmai.text.tokenizer import Tokenizer

    transformers: Any = import_module("transformers")
    callback: Any = transformers.TrainerCallback
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(settings["threads"])
    own = Tokenizer.load(tokenizer)
    named = {f"{role}_token": own.token(getattr(own, f"{role}_id")) for role in ("pad", "unk", "cls", "sep", "mask")}
    reader = transformers.PreTrainedTokenizerFast(tokenizer_file=tokenizer, **named)
    length, updates = settings["max_length"], settings["steps"]
    rows = settings["batch_tokens"] // length
    joined: list[int] = []
    for text in _texts(corpus):
        joined += [reader.cls_token_id, *reader.encode(text, add_special_tokens=False), reader.sep_token_id]
        if len(joined) >= rows * length * updates:
            break
    chunks = [joined[place : place + length] for place in range(0, len(joined) - length + 1, length)]
    special = {reader.cls_token_id, reader.sep_token_id, reader.pad_token_id}
    real = sum(token not in special for chunk in chunks[rows * warm_up : rows * updates] for token in chunk)
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=len(reader),
            hidden_size=settings["hidden_size"],
            num_hidden_layers=settings["num_layers"],
            num_attention_heads=settings["num_heads"],
            intermediate_size=4 * settings["hidden_size"],
            max_position_embeddings=length,
            hidden_dropout_prob=settings["dropout"],
            attention_probs_dropout_prob=settings["attention_dropout"],
            pad_token_id=reader.pad_token_id,
        )
    )
    marks: dict[int, float] = {}

    class Clock(callback):  # type: ignore[misc]
        def on_step_end(self, _arguments: Any, state: Any, _control: Any, **_: Any) -> None:
            marks[state.global_step] = time.perf_counter()

    arguments = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=updates,
        per_device_train_batch_size=rows,
        learning_rate=settings["learning_rate"],
        lr_scheduler_type="linear",
        warmup_steps=0,
        weight_decay=settings["weight_decay"],
        max_grad_norm=settings["clip"],
        bf16=bfloat16,
        use_cpu=True,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": chunk} for chunk in chunks],
        data_collator=transformers.DataCollatorForLanguageModeling(reader, mlm_probability=0.15),
        callbacks=[Clock()],
    )
    done = trainer.train()
    seconds = marks[updates] - marks[warm_up]
    return {
        "tokens_per_second": real / seconds,
        "seconds": seconds,
        "tokens": real,
        "loss": done.training_loss,
        "parameters": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        "peak_memory_bytes": peak_memory_bytes(),
    }


def _texts(corpus: str) -> Any:
    """Yields the paragraphs of a text."""
    from wenmai.data.corpus import CorpusStats
    from wenmai.data.sources import open_texts
    from wenmai.text.settings import TextConfig

    opened, hints, _ = open_texts(corpus)
    form = {name: value for name, value in hints.items() if name == "format"}
    for line in opened.lines(TextConfig(**form), stats=CorpusStats()):
        if line.text.strip():
            yield line.text
