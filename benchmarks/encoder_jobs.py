"""Measurements of encoders and their baselines, for ``jobs.py``."""

import logging
import time
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.neural import timed_updates

__all__ = [
    "curve_of_ours",
    "curve_of_trainer",
    "encode_texts",
    "make_encoder",
    "pretrain_ours",
    "pretrain_trainer",
]


def pretrain_ours(corpus: str, settings: Mapping[str, Any], warm_up: int, folder: str) -> dict[str, Any]:
    """Times the updates of our loop after the first ``warm_up``; evaluations and checkpoints do not count."""
    from wenmai.core.registry import find_system
    from wenmai.runs.planning import plan

    recipe, opened = plan("bert", corpus, **settings)
    task = find_system("bert").load()
    data = task.source.read(recipe, opened.source, lambda *_: None, None)
    data.tokenizer.save(Path(folder).with_suffix(".json"))
    job: Any = task.begin(recipe, data)
    return timed_updates(job, warm_up, folder)


def curve_of_ours(corpus: str, settings: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Trains for some minutes; returns the mean losses by the seconds of training."""
    from wenmai.core.registry import find_system
    from wenmai.runs.planning import plan
    from wenmai.tasks.task import Session
    from wenmai.training.checkpoint import Checkpoints
    from wenmai.training.records import UpdateRecord

    recipe, opened = plan("bert", corpus, **settings)
    task = find_system("bert").load()
    job: Any = task.begin(recipe, task.source.read(recipe, opened.source, lambda *_: None, None))
    records: list[Any] = []
    job.train(Session(Checkpoints(Path(folder)), records.append))
    curve = [(record.seconds, record.loss) for record in records if isinstance(record, UpdateRecord)]
    return {"curve": curve, "updates": job.state.step, "seconds": job.state.seconds}


def pretrain_trainer(
    corpus: str, tokenizer: str, settings: Mapping[str, Any], warm_up: int, bfloat16: bool, folder: str
) -> dict[str, Any]:
    """Times the updates of ``transformers.Trainer``, see :func:`_trainer`, after the first ``warm_up``."""
    from wenmai.runs.environment import peak_memory_bytes

    marks: dict[int, float] = {}
    callback: Any = import_module("transformers").TrainerCallback

    class Clock(callback):  # type: ignore[misc]
        def on_step_end(self, _arguments: Any, state: Any, _control: Any, **_: Any) -> None:
            marks[state.global_step] = time.perf_counter()

    trainer, special = _trainer(corpus, tokenizer, settings, bfloat16, folder, [Clock()])
    rows, updates = settings["batch_tokens"] // settings["max_length"], settings["steps"]
    counted = trainer.train_dataset[rows * warm_up : rows * updates]
    real = sum(token not in special for chunk in counted for token in chunk["input_ids"])
    done = trainer.train()
    seconds = marks[updates] - marks[warm_up]
    return {
        "tokens_per_second": real / seconds,
        "seconds": seconds,
        "tokens": real,
        "loss": done.training_loss,
        "parameters": sum(one.numel() for one in trainer.model.parameters() if one.requires_grad),
        "peak_memory_bytes": peak_memory_bytes(),
    }


def curve_of_trainer(
    corpus: str, tokenizer: str, settings: Mapping[str, Any], bfloat16: bool, folder: str
) -> dict[str, Any]:
    """Trains with ``transformers.Trainer`` for some minutes; returns the mean losses by the seconds of training."""
    callback: Any = import_module("transformers").TrainerCallback
    curve: list[tuple[float, float]] = []

    class Clock(callback):  # type: ignore[misc]
        begin = 0.0

        def on_train_begin(self, *_arguments: Any, **_: Any) -> None:
            self.begin = time.perf_counter()

        def on_step_end(self, _arguments: Any, _state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = time.perf_counter() - self.begin >= 60 * settings["minutes"]

        def on_log(self, _arguments: Any, _state: Any, _control: Any, logs: Any, **_: Any) -> None:
            if "loss" in logs:
                curve.append((time.perf_counter() - self.begin, float(logs["loss"])))

    trainer, _ = _trainer(corpus, tokenizer, settings, bfloat16, folder, [Clock()])
    trainer.train()
    return {"curve": curve, "updates": trainer.state.global_step, "seconds": curve[-1][0]}


def _trainer(
    corpus: str, tokenizer: str, settings: Mapping[str, Any], bfloat16: bool, folder: str, callbacks: list[Any]
) -> tuple[Any, set[int]]:
    """Returns a trainer with its own collator, on texts joined to full length as in its examples, and special ids.

    With ``minutes`` in the settings all of the text is read, and the losses are logged.
    """
    import torch

    from wenmai.text.tokenizer import Tokenizer

    transformers: Any = import_module("transformers")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(settings["threads"])
    own = Tokenizer.load(tokenizer)
    named = {f"{role}_token": own.token(getattr(own, f"{role}_id")) for role in ("pad", "unk", "cls", "sep", "mask")}
    reader = transformers.PreTrainedTokenizerFast(tokenizer_file=tokenizer, **named)
    length, updates, logged = settings["max_length"], settings["steps"], "minutes" in settings
    rows = settings["batch_tokens"] // length
    joined: list[int] = []
    for text in _texts(corpus):
        joined += [reader.cls_token_id, *reader.encode(text, add_special_tokens=False), reader.sep_token_id]
        if not logged and len(joined) >= rows * length * updates:
            break
    chunks = [joined[place : place + length] for place in range(0, len(joined) - length + 1, length)]
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
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=updates,
        per_device_train_batch_size=rows,
        learning_rate=settings["learning_rate"],
        lr_scheduler_type="constant_with_warmup" if logged else "linear",
        warmup_steps=settings.get("warmup", 0),
        weight_decay=settings["weight_decay"],
        max_grad_norm=settings["clip"],
        bf16=bfloat16,
        use_cpu=True,
        dataloader_pin_memory=False,
        logging_strategy="steps" if logged else "no",
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": chunk} for chunk in chunks],
        data_collator=transformers.DataCollatorForLanguageModeling(reader, mlm_probability=0.15),
        callbacks=callbacks,
    )
    return trainer, {reader.cls_token_id, reader.sep_token_id, reader.pad_token_id}


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


# --- vectors of texts -----------------------------------------------------------------------------------------------


def make_encoder(package: str | None, corpus: str, folder: str, quick: bool) -> dict[str, Any]:
    """Makes a run, a folder of Hugging Face and an ONNX file of one model: random, or that of a package."""
    import wenmai
    from wenmai.runs.formats import export_run, import_run

    root = Path(folder)
    if package is None:
        sizes = (
            {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "vocab_size": 300} if quick else {"vocab_size": 30_000}
        )
        settings = {**sizes, "max_length": 128, "steps": 1, "threads": 1}
        run = wenmai.train("bert", corpus, out=root / "run", quiet=True, **settings)
    else:
        spec = import_module("importlib.util").find_spec(package)
        configs = sorted(Path(spec.origin).parent.rglob("config.json"), key=lambda path: len(path.parts))
        run = import_run("huggingface", configs[0].parent, root / "run")
    export_run(run, "huggingface", root / "folder")
    export_run(run, "onnx", root / "model.onnx", part="encoder")
    return {}


def encode_texts(
    side: str, folder: str, corpus: str, batch: int, words: int, texts: int, threads: int, seconds: float
) -> dict[str, Any]:
    """Times vectors of texts, the mean over their tokens, in float32, the tokenizer included; the median batch counts.

    Args:
        side: Whose vectors.
        folder: What :func:`make_encoder` made.
        corpus: Whose paragraphs the texts are the beginnings of.
        batch: Texts of a call.
        words: Most words of a text; they have 4 to so many, one length as often as another.
        texts: How many.
        threads: Threads on the CPU.
        seconds: How long.
    """
    import statistics

    import numpy as np
    import torch

    torch.set_num_threads(threads)
    paragraphs = (text.split() for text in _texts(corpus))
    long_enough = (found for found in paragraphs if len(found) >= words)
    given = [
        " ".join(found[: 4 + 37 * number % (words - 3)])
        for number, found in zip(range(texts), long_enough, strict=False)
    ]
    embed, tokenize = _embedder(side, Path(folder), threads)
    batches = [given[place : place + batch] for place in range(0, len(given) - batch + 1, batch)]
    begin = time.perf_counter()
    first = embed(batches[0])
    first_seconds = time.perf_counter() - begin
    for some in batches:  # every length once
        embed(some)
    spent: list[float] = []
    reading: list[float] = []
    while sum(spent) < seconds or len(spent) < min(3, len(batches)):
        chosen = batches[len(spent) % len(batches)]
        begin = time.perf_counter()
        embed(chosen)
        spent.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        tokenize(chosen)
        reading.append(time.perf_counter() - begin)
    return {
        "texts_per_second": batch / statistics.median(spent),
        "seconds": statistics.median(spent),
        "tokenizer_seconds": statistics.median(reading),
        "network_texts_per_second": batch / (statistics.median(spent) - statistics.median(reading)),
        "first_seconds": first_seconds,
        "checksum": float(np.abs(np.asarray(first, np.float64)).mean()),
    }


def _embedder(side: str, root: Path, threads: int) -> tuple[Any, Any]:
    """Returns what makes vectors of texts, and its tokenizer."""
    import numpy as np
    import torch

    if side == "ours":
        import wenmai

        model: Any = wenmai.load(root / "run")
        return partial(model.embed, pooling="mean", layer="last", normalise=False), model.tokenizer.encode_batch
    if side == "sentence-transformers":
        library: Any = import_module("sentence_transformers")
        network = library.SentenceTransformer(str(root / "folder"), device="cpu")
        return partial(network.encode, show_progress_bar=False, normalize_embeddings=False), network.tokenizer
    transformers: Any = import_module("transformers")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    reader = transformers.AutoTokenizer.from_pretrained(root / "folder")
    longest = transformers.AutoConfig.from_pretrained(root / "folder").max_position_embeddings
    tokenize = partial(reader, padding=True, truncation=True, max_length=longest, return_tensors="pt")
    if side == "transformers":
        network = transformers.AutoModel.from_pretrained(root / "folder").eval()

        def states(fed: Any) -> Any:
            with torch.inference_mode():
                return network(**fed).last_hidden_state.numpy()
    else:
        runtime: Any = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        session = runtime.InferenceSession(root / "model.onnx", options, providers=["CPUExecutionProvider"])
        names = {one.name for one in session.get_inputs()}

        def states(fed: Any) -> Any:
            return session.run(None, {name: value.numpy() for name, value in fed.items() if name in names})[0]

    def embed(some: list[str]) -> Any:
        fed = tokenize(some)
        mask = fed["attention_mask"].numpy()[..., None].astype(np.float32)
        return (states(fed) * mask).sum(1) / mask.sum(1)

    return embed, tokenize
