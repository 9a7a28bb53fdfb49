"""``wenmai score``, ``wenmai next`` and ``wenmai generate``."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.printing import show_rows
from wenmai.core.errors import SettingError

__all__ = [
    "ClampLength",
    "Context",
    "FewShot",
    "Limit",
    "MemoryLength",
    "SameLength",
    "Seed",
    "generate",
    "next_token",
    "score",
]

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Context = Annotated[
    str | None,
    typer.Option(
        "--context", help="fresh: each line by itself; carried: the lines before are known. By default as trained."
    ),
]
MemoryLength = Annotated[
    int | None, typer.Option("--memory", min=0, help="transformer-xl: tokens remembered, if not as in training.")
]
SameLength = Annotated[
    bool | None,
    typer.Option("--same-length", help="transformer-xl: every token sees equally many, the last of --memory."),
]
ClampLength = Annotated[
    int | None, typer.Option("--clamp-length", min=0, help="transformer-xl: clip distances beyond this one.")
]

FewShot = Annotated[
    int | None,
    typer.Option("--few-shot", min=0, metavar="K", help="With --on DATASET: choose answers after K solved examples."),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="With --few-shot: the random seed [1].")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="With --few-shot: examples to evaluate [all].")]


def score(
    run: RunFolder,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="One sentence a line; - is stdin, data:NAME the catalogue's.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", help="Score this text. Repeatable; most likely first, with --json in the order given."),
    ] = None,
    context: Context = None,
    memory: MemoryLength = None,
    same_length: SameLength = None,
    clamp_length: ClampLength = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the logarithm of each token too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, the totals last.")] = False,
) -> None:
    """Score texts, line by line and in total.

    The total has perplexity, and bits per character, which compare models with different tokens.

    For each line: log10 of its probability, its predictions (the end of the line is one), and its unknown tokens.

    Example: wenmai score runs/ngram test.txt

    Example: wenmai score runs/gpt --text "the cat sat down" --text "cat the down sat"
    """
    from wenmai.measures.language import add_up
    from wenmai.runs.language import language_model_of, require_tokens, score_json, scores, text_score_values

    if text and file is not None:
        raise SettingError("give a file or --text, not both")
    if file is None and not text and sys.stdin.isatty():
        raise SettingError("name the file to score, or - for standard input, or give --text TEXT")
    model = language_model_of(run, memory=memory, same_length=same_length, clamp_length=clamp_length)
    if text:
        found = list(model.score(text, context=context or "fresh"))
        if not as_json:
            found.sort(key=lambda one: (one.tokens == 0, -one.log_prob))  # blank ones last
        stream: Iterator[Any] = iter(found)
    else:
        stream = scores(model, file or "-", context=context)

    def shown() -> Iterator[Any]:
        for one in stream:
            if as_json:
                print(score_json(one, tokens=tokens))
            else:
                print(f"{one.log10:.4f}\t{one.tokens}\t{one.oov}\t{one.text}")
                if tokens:
                    print("\t" + " ".join(f"{value:.3f}" for value in one.token_log_probs))
            if one.tokens:
                yield one

    total = add_up(shown())
    require_tokens(total, file or "the text")
    if as_json:
        print(json.dumps(text_score_values(total), allow_nan=False))
    else:
        print(total)


def next_token(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text so far; '' is the beginning of a line.")] = "",
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    r"""Show the most likely next tokens.

    With probabilities; the end of a line is \n.

    Example: wenmai next runs/ngram "the cat sat on the"
    """
    from wenmai.runs.language import language_model_of

    found = language_model_of(run).next(text, topn)
    if as_json:
        rows = [{"token": token, "probability": probability} for token, probability in found]
        print(json.dumps(rows, ensure_ascii=False, allow_nan=False))
        return
    show_rows(found, False, lambda pair: (f"{pair[1]:.4f}", pair[0].replace("\n", "\\n")))


def generate(
    run: RunFolder,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the text begins with.")] = "",
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Most tokens [50].")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many texts.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the most likely token.")] = False,
    beam: Annotated[int | None, typer.Option("--beam", min=1, help="Hypotheses of a beam search.")] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Below 1: less random.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Sample from the k most likely tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option("--top-p", help="Sample from the most likely tokens with this total probability.")
    ] = None,
    repetition_penalty: Annotated[float, typer.Option("--repetition-penalty", help="Above 1: less repetition.")] = 1.0,
    stop: Annotated[list[str] | None, typer.Option("--stop", help="End before this string. Repeatable.")] = None,
    past_end: Annotated[bool, typer.Option("--past-end", help="Continue after the end of a line.")] = False,
    memory: MemoryLength = None,
    same_length: SameLength = None,
    clamp_length: ClampLength = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The random seed.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a text.")] = False,
) -> None:
    """Generate text from a prompt.

    A single text is shown as it is generated.

    Example: wenmai generate runs/gpt "Once upon a time" --top-p 0.9 --max-tokens 100

    Example: wenmai generate runs/ngram --count 5 --temperature 0.7
    """
    from wenmai.runs.language import language_model_of

    if greedy and (temperature != 1.0 or beam is not None):
        raise SettingError("--greedy takes the most likely token; leave out --temperature and --beam")
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "beam": beam,
        "temperature": 0.0 if greedy else temperature,
        "top_k": top_k,
        "top_p": top_p,
        "repetition_penalty": repetition_penalty,
        "stop": tuple(stop or ()),
        "seed": seed,
        "past_end": past_end,
    }
    model = language_model_of(run, memory=memory, same_length=same_length, clamp_length=clamp_length)
    if as_json or count > 1 or beam is not None:
        for one in model.generate(prompt, count=count, **options):
            if as_json:
                row = {"prompt": one.prompt, "text": one.text, "reason": one.reason, "ln": one.log_prob}
                row |= {"tokens": len(one.tokens), "cut": one.cut}
                print(json.dumps(row, ensure_ascii=False, allow_nan=False))
            else:
                print(prompt + one.text)
        return
    print(prompt, end="", flush=True)
    for piece in model.stream(prompt, **options):
        print(piece, end="", flush=True)
    print()
