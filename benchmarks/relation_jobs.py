"""Measurements of models of relations, for ``jobs.py``: a division of documents, and the time of an update."""

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["split_documents", "time_updates"]

DEV = 5  # one document in so many


def split_documents(documents: str, target: str, most: int | None) -> dict[str, Any]:
    """Writes ``train.json`` and ``dev.json``: of DocRED's documents one in five, by the checksum of its title.

    A document with a relation that would not be in the training at all is trained on. With ``most`` both are the same
    first documents.
    """
    from wenmai.core.compressed import reading
    from wenmai.data.catalogue import from_catalogue

    (path,), _ = from_catalogue([documents])
    with reading(str(path)) as file:
        found = json.loads(file.read())
    parts: dict[str, list[Any]] = {"train": [], "dev": []}
    for one in found:
        parts["train" if zlib.crc32(one["title"].encode()) % DEV else "dev"].append(one)
    known = {label["r"] for one in parts["train"] for label in one["labels"]}
    strange = [one for one in parts["dev"] if {label["r"] for label in one["labels"]} - known]
    parts["train"] += strange
    parts["dev"] = [one for one in parts["dev"] if one not in strange]
    if most is not None:
        parts = dict.fromkeys(parts, found[:most])
    Path(target).mkdir(parents=True, exist_ok=True)
    for name, some in parts.items():
        (Path(target) / f"{name}.json").write_text(json.dumps(some), encoding="utf-8")
    return {name: len(some) for name, some in parts.items()}


def time_updates(
    base: str, documents: str, structures: Sequence[str], rows: int, threads: int, seconds: float
) -> dict[str, Any]:
    """Times updates of the same batch with each structure in turn, for some seconds; the medians count.

    The batch is of documents that are joined until each fills the encoder. ``encoder_seconds`` are those of the states
    and their gradients alone, without pairs of entities and without the change of the parameters.

    Args:
        base: The run of the encoder.
        documents: Documents of DocRED.
        structures: Of the models.
        rows: Documents of the batch.
        threads: Threads on the CPU.
        seconds: How long.
    """
    import statistics

    import torch

    torch.set_num_threads(threads)
    timed: dict[str, dict[str, list[float]]] = {name: {"seconds": [], "encoder_seconds": []} for name in structures}
    models = {name: _model(base, documents, name) for name in structures}
    batches = {name: _full_batch(model, data, rows) for name, (model, data) in models.items()}
    optimisers = {name: torch.optim.AdamW(model.module.parameters(), lr=1e-6) for name, (model, _) in models.items()}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or len(timed[structures[0]]["seconds"]) < 4:
        for name, (model, _) in models.items():
            model.module.train()
            start = time.perf_counter()
            model.module.states(batches[name]).sum().backward()
            timed[name]["encoder_seconds"].append(time.perf_counter() - start)
            optimisers[name].zero_grad()
            start = time.perf_counter()
            _loss(model.module(batches[name])).backward()
            optimisers[name].step()
            timed[name]["seconds"].append(time.perf_counter() - start)
            optimisers[name].zero_grad()
    first = batches[structures[0]]
    sizes = {"length": first.tokens.shape[1], "rows": rows, "pairs": len(first.pairs), "entities": first.size}
    medians = {  # without the first round, which is slower
        name: {what: statistics.median(times[1:]) for what, times in both.items()} for name, both in timed.items()
    }
    return {"structures": medians, "updates": len(timed[structures[0]]["seconds"]) - 1, **sizes}


def _loss(logits: Any) -> Any:
    """The loss as if no pair had a relation: it costs the same."""
    from wenmai.objectives.relations import binary_loss

    gold = logits.new_zeros(logits.shape)
    gold[:, 0] = 1
    return binary_loss(logits, gold)


def _model(base: str, documents: str, structure: str) -> tuple[Any, Any]:
    from wenmai.core.registry import find_system
    from wenmai.runs.planning import plan
    from wenmai.training.run import Run

    run = Run(base)
    settings: Mapping[str, Any] = {"structure": structure, "device": "cpu", "valid_share": 0}
    recipe, opened = plan("ssan", documents, start=base, **settings)
    task = find_system("ssan").load()
    model = run.task.load_base(run.model_folder)
    data = task.source.read(recipe, opened.source, lambda *_: None, model)
    return task.begin(recipe, data, model).model, data


def _full_batch(model: Any, data: Any, rows: int) -> Any:
    """Documents in a row, each joined with the next ones until there is more than the encoder reads, and cut off."""
    read: Any = import_module("wenmai.inference.relation_rows")
    room = model.length - 2
    found, parts = [], []
    for document in data.train * rows:  # there may be few
        parts.append(document)
        whole = _joined(parts)
        if sum(map(len, whole.sentences)) < 2 * room:  # words, of which there are fewer than pieces
            continue
        cut = read.document_rows(whole, model.backbone, model.types, length=model.length, stride=room, known={})
        inside = cut.members[cut.members[:, 1] == 0]
        pairs = [pair for pair in cut.pairs.tolist() if set(pair) <= {*inside[:, 0].tolist()}]
        firsts = ([part[0]] for part in (cut.tokens, cut.sentences, cut.entities, cut.types))
        found.append(read.DocumentRows(*firsts, inside, cut.firsts, _array(pairs)))
        parts = []
        if len(found) == rows:
            return model.batch(found)
    raise SystemExit(f"the documents are too few to fill {rows} rows of {model.length} tokens")


def _joined(documents: Sequence[Any]) -> Any:
    """One document of several, with the entities of each."""
    sentences: list[Any] = []
    entities: list[Any] = []
    for one in documents:
        shift = len(sentences)
        entities += [
            entity._replace(
                mentions=tuple(mention._replace(sentence=mention.sentence + shift) for mention in entity.mentions)
            )
            for entity in one.entities
        ]
        sentences += one.sentences
    return documents[0]._replace(sentences=tuple(sentences), entities=tuple(entities), relations=(), pairs=None)


def _array(pairs: Sequence[Sequence[int]]) -> Any:
    import numpy as np

    return np.array(pairs, np.int64).reshape(-1, 2)
