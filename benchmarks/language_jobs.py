"""Measurements of language models in a process of their own; ``jobs.py`` runs them by name."""

import statistics
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.neural import COMPILED_AFTER, timed_tokens

__all__ = ["first_lines", "generate_gpt", "hold_out", "read_context", "score_run", "train_gpt"]

Sizes = Mapping[str, int]  # vocab_size, hidden_size, num_layers, num_heads, max_length

EOS = 0


def train_gpt(side: str, sizes: Sizes, batch: int, steps: int, warm_up: int, threads: int) -> dict[str, Any]:
    """Times updates of a GPT-2 in float32: forward, loss, backward, AdamW; batches are random tokens."""
    import torch

    from wenmai.objectives.language import next_token_loss
    from wenmai.training.memory import keep_free_memory

    if side == "ours":
        keep_free_memory()  # as our loop does
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = _ours(sizes, dropout=0.1) if side == "ours" else _baseline(sizes, dropout=0.1)
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    length = sizes["max_length"]
    seconds: list[float] = []
    loss = 0.0
    for step in range(steps + warm_up):
        tokens = torch.randint(1, sizes["vocab_size"], (batch, length + 1))
        begin = time.perf_counter()
        if side == "ours":
            hidden = model(tokens[:, :-1]).flatten(0, 1)
            mean = next_token_loss(model.output, hidden, tokens[:, 1:].flatten()).total / (batch * length)
        else:  # it shifts the labels itself, and so predicts one token a row less
            mean = model(input_ids=tokens, labels=tokens).loss
        mean.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        loss = float(mean.detach())
        if step >= warm_up:
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    found = {"tokens_per_second": batch * length / median, "seconds": median, "loss": loss}
    return found | {"parameters": sum(parameter.numel() for parameter in model.parameters())}


def generate_gpt(
    side: str, sizes: Sizes, batch: int, prompt: int, steps: int, threads: int, seconds: float
) -> dict[str, Any]:
    """Times greedy generation with caches from random prompts; nothing ends before ``steps`` tokens."""
    import torch

    from wenmai.decode.search import greedy

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = (_ours(sizes, dropout=0.0) if side == "ours" else _baseline(sizes, dropout=0.0)).eval()
    tokens = torch.randint(1, sizes["vocab_size"], (batch, prompt))

    def ours() -> int:
        with torch.inference_mode():
            state = model.start(batch, capacity=prompt + steps)
            model(tokens[:, :-1], state)
            found = greedy(model, state, bos_id=tokens[:, -1], eos_id=EOS, max_lengths=steps, min_length=steps)
        return sum(len(hypothesis.tokens) for hypothesis in found)

    def baseline() -> int:
        chosen = {"min_new_tokens": steps, "max_new_tokens": steps, "do_sample": False, "use_cache": True}
        made = model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), pad_token_id=EOS, **chosen)
        return int(made[:, prompt:].numel())

    once = ours if side == "ours" else baseline
    warm_up = COMPILED_AFTER // steps + 2 if side == "ours" else 1  # so that the compiled step is timed
    return timed_tokens(once, batch * steps, seconds, warm_up=warm_up)


def read_context(side: str, sizes: Sizes, context: int, threads: int, seconds: float, segment: int) -> dict[str, Any]:
    """Times the prediction of tokens that each see ``context`` tokens before them.

    ``ours``, a Transformer-XL, reads on with a memory of that length; ``vanilla``, a GPT of the same sizes, whose
    positions are absolute, reads the whole context again for each token.
    """
    import torch

    from wenmai.models.gpt import Gpt, GptConfig
    from wenmai.models.transformer_xl import Reading, TransformerXL, TransformerXLConfig

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    shape = {name: sizes[name] for name in ("hidden_size", "num_layers", "num_heads")}
    stream = torch.randint(1, sizes["vocab_size"], (1, context + segment + 1))
    model: Any
    if side == "ours":
        config = TransformerXLConfig(**shape, ffn_size=4 * sizes["hidden_size"], memory_length=context, dropout=0.0)
        trained = TransformerXL(config, vocab_size=sizes["vocab_size"], bos_id=EOS).eval()
        model = trained.with_reading(Reading(same_length=True))
        state = model.start(1)
        with torch.inference_mode():
            model(stream[:, :context], state)

        def once() -> int:
            with torch.inference_mode():
                hidden = model(stream[:, context : context + segment], state)
                model.output.target_log_probs(hidden[0], stream[0, context + 1 :])
            return segment
    else:
        gpt = GptConfig(**shape, max_length=context, dropout=0.0)
        model = Gpt(gpt, vocab_size=sizes["vocab_size"], bos_id=EOS).eval()
        windows = stream[0, : context + 3].unfold(0, context, 1)  # (4, context): several at a time, as is faster

        def once() -> int:
            with torch.inference_mode():
                hidden = model(windows)[:, -1]
                model.output.target_log_probs(hidden, windows[:, 0])
            return len(windows)

    tokens = once()
    return timed_tokens(once, tokens, seconds)


def score_run(run: str, on: str, memory: int | None = None) -> dict[str, Any]:
    """The evaluation of a finished run on a text."""
    from wenmai.runs.evaluate import evaluate

    begin = time.perf_counter()
    found = evaluate(run, on=on, memory=memory).result.as_dict()
    return dict(found) | {"seconds": time.perf_counter() - begin, "memory": memory}


def first_lines(text: str, lines: int, target: str) -> dict[str, Any]:
    """Writes the first lines of a text that are not blank."""
    found = (line for line in _lines(text) if line)
    Path(target).write_text("".join(f"{line}\n" for line in islice(found, lines)), encoding="utf-8")
    return {}


def hold_out(text: str, lines: int, target: str, rest: str) -> dict[str, Any]:
    """Writes the last lines of a text that are not blank, and what comes before them."""
    found = list(_lines(text))
    full = [place for place, line in enumerate(found) if line]
    end = full[-lines]
    Path(target).write_text("".join(f"{line}\n" for line in found[end:] if line), encoding="utf-8")
    Path(rest).write_text("".join(f"{line}\n" for line in found[:end]), encoding="utf-8")
    return {}


def _lines(text: str) -> Iterator[str]:
    """Yields the lines of a text that are not blank as they are written, and an empty one between documents."""
    from wenmai.data.documents import CorpusStats
    from wenmai.data.sources import open_texts
    from wenmai.text.settings import TextConfig

    corpus, hints, _ = open_texts([text])
    settings = TextConfig(**{name.removeprefix("text."): value for name, value in hints.items()})
    held, begun = "", False
    for line in corpus.lines(settings, stats=CorpusStats()):
        if line.begins_document and begun:
            yield ""
        begun, held = True, held + line.text
        if line.ends:
            if held and not held.isspace():
                yield held
            held = ""


def _ours(sizes: Sizes, *, dropout: float) -> Any:
    from wenmai.models.gpt import Gpt, GptConfig

    rest = {name: value for name, value in sizes.items() if name != "vocab_size"}
    config = GptConfig(**rest, dropout=dropout, attention_dropout=dropout)  # type: ignore[arg-type]
    return Gpt(config, vocab_size=sizes["vocab_size"], bos_id=EOS)


def _baseline(sizes: Sizes, *, dropout: float) -> Any:
    library = import_module("transformers")
    library.logging.set_verbosity_error()
    config = library.GPT2Config(
        vocab_size=sizes["vocab_size"],
        n_positions=sizes["max_length"] + 1,
        n_embd=sizes["hidden_size"],
        n_layer=sizes["num_layers"],
        n_head=sizes["num_heads"],
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=EOS,
        eos_token_id=EOS,
    )
    return library.GPT2LMHeadModel(config)
