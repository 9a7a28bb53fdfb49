"""Measurements of neural systems in a process of their own; ``jobs.py`` runs them by name."""

import logging
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = [
    "decode_ctranslate2",
    "decode_generate",
    "decode_ours",
    "dropped_attention",
    "layer",
    "plan_training",
    "train_ours",
    "train_trainer",
]

Sizes = Mapping[str, int]  # vocab_size, hidden_size, num_layers, num_heads, ffn_size

PAD, UNK, BOS, EOS = range(4)
REAL = 4  # the first id that is no special token
MOST_LENGTH = 512
COMPILED_AFTER = 1000  # steps; see docs/adr/0014


# --- decoding -----------------------------------------------------------------------------------------------------


def decode_ours(
    sizes: Sizes, batch: int, source_length: int, steps: int, threads: int, seconds: float
) -> dict[str, Any]:
    """Times greedy decoding by our Transformer, with the suppressed tokens of ``wenmai translate``."""
    import torch

    from wenmai.decode.search import greedy

    model, sources = _transformer(sizes, threads), _sources(sizes, batch, source_length)
    valid = torch.ones_like(sources, dtype=torch.bool)

    def once() -> int:
        with torch.inference_mode():
            found = greedy(
                model,
                model.begin(sources, valid, max_length=steps),
                bos_id=BOS,
                eos_id=EOS,
                max_lengths=steps,
                min_length=steps,
                banned=(PAD, UNK, BOS),
            )
        return sum(len(hypothesis.tokens) for hypothesis in found)

    warm_up = COMPILED_AFTER // steps + 2  # so that the compiled step is timed
    return timed_tokens(once, batch * steps, seconds, warm_up=warm_up) | {"parameters": _parameters(model)}


def decode_generate(
    sizes: Sizes, batch: int, source_length: int, steps: int, threads: int, seconds: float
) -> dict[str, Any]:
    """Times ``MarianMTModel.generate`` of Hugging Face."""
    import torch

    torch.set_num_threads(threads)
    model, sources = _marian(sizes, dropout=0.0).eval(), _sources(sizes, batch, source_length)
    valid = torch.ones_like(sources)
    chosen = {"min_new_tokens": steps, "max_new_tokens": steps, "num_beams": 1, "do_sample": False, "use_cache": True}

    def once() -> int:
        made = model.generate(input_ids=sources, attention_mask=valid, **chosen)
        return int(made[:, 1:].numel())  # without the begin token

    return timed_tokens(once, batch * steps, seconds) | {"parameters": _parameters(model)}


def decode_ctranslate2(
    sizes: Sizes, batch: int, source_length: int, steps: int, threads: int, seconds: float, folder: str
) -> dict[str, Any]:
    """Times CTranslate2 in float32 with our model, exported."""
    from wenmai.formats.ctranslate2 import write_ctranslate2
    from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

    engine = import_module("ctranslate2")
    words = " ".join(f"w{number}" for number in range(REAL, sizes["vocab_size"]))
    config = TokenizerConfig(kind="words", vocab_size=sizes["vocab_size"], min_count=1)
    tokenizer = Tokenizer.train([words], config)
    model = _transformer(sizes, threads)
    write_ctranslate2(folder, model, source=tokenizer, target=tokenizer)
    parameters = _parameters(model)
    sources = [  # the engine adds the end token itself
        [tokenizer.token(number) for number in row[:-1]] for row in _sources(sizes, batch, source_length).tolist()
    ]
    del model
    translator = engine.Translator(folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads)

    def once() -> int:
        found = translator.translate_batch(
            sources, beam_size=1, min_decoding_length=steps, max_decoding_length=steps, disable_unk=True
        )
        return sum(len(result.hypotheses[0]) for result in found)

    return timed_tokens(once, batch * steps, seconds) | {"parameters": parameters}


def timed_tokens(once: Callable[[], int], tokens: int, seconds: float, *, warm_up: int = 1) -> dict[str, Any]:
    """Calls what makes so many tokens for some seconds, after so many calls to warm up; the median counts.

    The first call of the process is timed too: it is what a short job sees.
    """
    begin = time.perf_counter()
    made = once()
    first = time.perf_counter() - begin
    if made != tokens:
        raise SystemExit(f"{made} tokens were made, expected {tokens}: nothing to compare with")
    for _ in range(warm_up - 1):
        once()
    found = _timed(once, seconds)
    return {"tokens_per_second": tokens / found["seconds"], "first_tokens_per_second": tokens / first, **found}


def _timed(once: Callable[[], object], seconds: float) -> dict[str, Any]:
    """Calls for some seconds, three times at least; the median counts."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        once()
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times), "calls": len(times)}


def _transformer(sizes: Sizes, threads: int) -> Any:
    """Our model with random parameters, in the form that Marian has: layer norm after a sub-layer, one vocabulary."""
    import torch

    from wenmai.models.transformer import Transformer, TransformerConfig

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    rest: dict[str, Any] = {name: value for name, value in sizes.items() if name != "vocab_size"}
    vocab_size = sizes["vocab_size"]
    config = TransformerConfig(**rest, max_length=MOST_LENGTH)
    return Transformer(config, source_vocab_size=vocab_size, target_vocab_size=vocab_size, tied_sources=True).eval()


def _marian(sizes: Sizes, *, dropout: float) -> Any:
    """The model of Hugging Face of the same sizes, with random parameters."""
    import torch

    transformers = import_module("transformers")
    torch.manual_seed(1)
    layers, heads, ffn = sizes["num_layers"], sizes["num_heads"], sizes["ffn_size"]
    config = transformers.MarianConfig(
        vocab_size=sizes["vocab_size"],
        d_model=sizes["hidden_size"],
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn,
        decoder_ffn_dim=ffn,
        activation_function="relu",
        dropout=dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        max_position_embeddings=MOST_LENGTH,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return transformers.MarianMTModel(config)


def _sources(sizes: Sizes, batch: int, length: int) -> Any:
    import torch

    drawn = torch.randint(REAL, sizes["vocab_size"], (batch, length), generator=torch.Generator().manual_seed(1))
    drawn[:, -1] = EOS
    return drawn


def _parameters(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


# --- training -----------------------------------------------------------------------------------------------------


def plan_training(pairs: str, settings: Mapping[str, Any], steps: int, target: str) -> dict[str, Any]:
    """Writes the first batches of our plan, padded, for the baseline; counts what is in them."""
    import numpy as np

    from wenmai.data.batches import pad

    job, data = _translation_job(pairs, settings)
    first, second = data.source, data.target
    arrays: dict[str, Any] = {}
    real = padded = 0
    for place, numbers in enumerate(job.plan(0)[:steps]):
        sources = [np.append(data.train.source(number), first.eos_id) for number in numbers]
        targets = [np.append(data.train.target(number), second.eos_id) for number in numbers]
        arrays[f"source-{place}"], arrays[f"valid-{place}"] = pad(sources, first.pad_id)
        wanted, valid = pad(targets, second.pad_id)
        arrays[f"wanted-{place}"] = np.where(valid, wanted, -100)
        begin = np.full((len(wanted), 1), second.bos_id)
        arrays[f"fed-{place}"] = np.concatenate([begin, wanted[:, :-1]], axis=1)
        real, padded = real + int(valid.sum()), padded + valid.size
    np.savez(target, **arrays)
    return {
        "batches": len(arrays) // 4,
        "pairs": len(data.train_numbers),
        "vocab_size": second.vocab_size,
        "target_tokens": real,
        "target_padding": 1 - real / padded,
        "learning_rate": job.learning_rate,
        "parameters": _parameters(job.module),
    }


def train_ours(pairs: str, settings: Mapping[str, Any], warm_up: int, folder: str) -> dict[str, Any]:
    """Times the updates of our loop after the first ``warm_up``; evaluations and checkpoints do not count."""
    job, _ = _translation_job(pairs, settings)
    return timed_updates(job, warm_up, folder)


def timed_updates(job: Any, warm_up: int, folder: str) -> dict[str, Any]:
    """Trains, and times the updates after the first ``warm_up``; evaluations and checkpoints do not count."""
    from wenmai.runs.environment import peak_memory_bytes
    from wenmai.tasks.task import Session
    from wenmai.training.checkpoint import Checkpoints
    from wenmai.training.records import UpdateRecord

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
        "parameters": _parameters(job.module),
        "peak_memory_bytes": peaks[-1],
    }


def train_trainer(
    batches: str, sizes: Sizes, settings: Mapping[str, Any], warm_up: int, bfloat16: bool, folder: str
) -> dict[str, Any]:
    """Times the updates of ``transformers.Trainer`` on batches that :func:`plan_training` wrote, in the same order."""
    import numpy as np
    import torch

    from wenmai.runs.environment import peak_memory_bytes

    transformers: Any = import_module("transformers")
    callback: Any = transformers.TrainerCallback
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(settings["threads"])
    arrays = np.load(batches)
    names = {"source": "input_ids", "valid": "attention_mask", "fed": "decoder_input_ids", "wanted": "labels"}
    data = [
        {given: torch.from_numpy(arrays[f"{name}-{place}"]).long() for name, given in names.items()}
        for place in range(len(arrays.files) // len(names))
    ]
    tokens = [int((batch["labels"] != -100).sum()) for batch in data]
    model = _marian(sizes, dropout=settings["dropout"])
    marks: dict[int, float] = {}

    class Clock(callback):  # type: ignore[misc]
        def on_step_end(self, _arguments: Any, state: Any, _control: Any, **_: Any) -> None:
            marks[state.global_step] = time.perf_counter()

    arguments = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=len(data),
        per_device_train_batch_size=1,
        train_sampling_strategy="sequential",
        label_smoothing_factor=settings["label_smoothing"],
        learning_rate=settings["learning_rate"],
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=settings["warmup"],
        adam_beta2=settings["beta2"],
        adam_epsilon=1e-9,
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
        model=model, args=arguments, train_dataset=data, data_collator=_only, callbacks=[Clock()]
    )
    done = trainer.train()
    seconds = marks[len(data)] - marks[warm_up]
    return {
        "tokens_per_second": sum(tokens[warm_up:]) / seconds,
        "seconds": seconds,
        "tokens": sum(tokens[warm_up:]),
        "loss": done.training_loss,
        "parameters": _parameters(model),
        "peak_memory_bytes": peak_memory_bytes(),
    }


def _only(batches: list[Any]) -> Any:
    """The collator: a batch is planned and padded already."""
    (batch,) = batches
    return batch


def _translation_job(pairs: str, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    from wenmai.core.registry import find_system
    from wenmai.runs.planning import plan

    recipe, opened = plan("transformer", pairs, **settings)
    task = find_system("transformer").load()
    data = task.source.read(recipe, opened.source, lambda *_: None, None)
    return task.begin(recipe, data), data


# --- layers -------------------------------------------------------------------------------------------------------


def layer(
    kind: str, length: int, width: int, batch: int, heads: int, kernel: int, radius: int, threads: int, seconds: float
) -> dict[str, Any]:
    """Times one layer forward and backward on random sequences, and measures what memory that takes."""
    import torch

    from wenmai.nn.convolution import ConvolutionEncoder
    from wenmai.nn.multihead import MultiHead
    from wenmai.nn.recurrent import Recurrent

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    made: dict[str, Callable[[], Any]] = {
        "self-attention": lambda: MultiHead(width, heads),
        "recurrent": lambda: Recurrent("gru", input_size=width, hidden_size=width),
        "convolutional": lambda: ConvolutionEncoder(
            input_size=width, hidden_size=width, num_layers=1, kernel_size=kernel
        ),
        "restricted self-attention": lambda: MultiHead(width, heads, window=radius),
    }
    module = made[kind]()

    def once(size: int) -> None:
        inputs = torch.randn(batch, size, width, requires_grad=True)
        more = [torch.ones(batch, size, dtype=torch.bool)] if kind == "convolutional" else []
        found = module(inputs, *more)
        outputs = found.outputs if kind == "recurrent" else found
        outputs.sum().backward()
        module.zero_grad()

    once(8)  # whatever is made once is there afterwards
    before = _peak_since()
    once(length)
    peak = _peak_since(before)
    found = _timed(lambda: once(length), seconds)
    return {**found, "memory_bytes": peak, "parameters": _parameters(module)}


def dropped_attention(
    side: str,
    length: int,
    biased: bool,
    tokens: int,
    heads: int,
    head_size: int,
    dropout: float,
    threads: int,
    seconds: float,
) -> dict[str, Any]:
    """Times attention with dropout of its weights, forward and backward, on texts with some padding."""
    import torch

    from wenmai.nn.attention import attend

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    batch = max(1, tokens // length)
    shape = (batch, heads, length, head_size)
    parts = [torch.randn(shape, requires_grad=True) for _ in "qkv"]
    mask = torch.ones(batch, 1, 1, length, dtype=torch.bool)
    mask[0, ..., length // 2 :] = False
    bias = torch.randn(batch, heads, length, length, requires_grad=True) if biased else None

    def once() -> None:
        if side == "ours":
            context = attend(*parts, mask=mask, bias=bias, dropout=dropout).context
        else:
            allowed = mask if bias is None else bias.masked_fill(~mask, -torch.inf)
            context = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=allowed, dropout_p=dropout)
        context.sum().backward()
        for part in (*parts, *(() if bias is None else (bias,))):
            part.grad = None

    once()
    found = _timed(once, seconds)
    return {**found, "tokens_per_second": batch * length / found["seconds"]}


def _peak_since(before: int | None = None) -> int:
    """Returns the resident memory now, or by how much its peak was above ``before``.

    Where the system lets a process forget its peak (Linux), it is forgotten at the first call, so that what the
    imports took for a moment does not count.
    """
    from wenmai.runs.environment import peak_memory_bytes

    if before is not None:
        return max(0, (peak_memory_bytes() or 0) - before)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_memory_bytes() or 0
