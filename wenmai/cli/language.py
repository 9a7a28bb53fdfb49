"""``wenmai score``, ``wenmai next``, ``wenmai fill`` and ``wenmai generate``."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from wenmai.cli.lines import located, named_file, texts_of
from wenmai.cli.options import ClampLength, Context, Device, File, JsonLines, MemoryLength, RunFolder, SameLength, Texts
from wenmai.cli.printing import show, show_columns
from wenmai.core.errors import SettingError
from wenmai.core.wording import say

__all__ = ["fill", "generate", "next_token", "score"]


def score(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    text: Annotated[list[str] | None, typer.Option("--text", hidden=True, help="Another text.")] = None,
    context: Context = None,
    memory: MemoryLength = None,
    same_length: SameLength = None,
    clamp_length: ClampLength = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the log-probability of each token too.")] = False,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Score texts, line by line and in total.

    For each text the natural logarithm of its probability, its predictions (the end of the line is one), its unknown
    tokens, and itself. Then the total: bits per character, which compare models with different tokens, and perplexity.
    A masked language model gives pseudo-log-likelihoods: the sum over tokens that are each predicted from all others.

    Example: wenmai score runs/gpt "the cat sat down" "cat the down sat"

    Example: wenmai score runs/ngram --file test.txt
    """
    from wenmai.measures.language import add_up
    from wenmai.runs.language import language_model_of, require_tokens, score_json, scores, text_score_values
    from wenmai.training.run import Run

    given = [*(texts or []), *(text or [])]
    source = named_file(given, file)
    model = language_model_of(
        Run(run, device), verb="score", memory=memory, same_length=same_length, clamp_length=clamp_length
    )
    stream = (
        model.score(given, context=context or "fresh") if source is None else scores(model, source, context=context)
    )
    if not as_json:
        pseudo = "pseudo_" if getattr(model, "pseudo", False) else ""
        print(f"{pseudo}log_prob\ttokens\toov\ttext")

    def shown() -> Iterator[Any]:
        for one in stream:
            if as_json:
                print(score_json(one, tokens=tokens))
            else:
                print(f"{one.log_prob:.4f}\t{one.tokens}\t{one.oov}\t{one.text}")
                if tokens:
                    print("\t" + " ".join(f"{value:.3f}" for value in one.token_log_probs))
            if one.tokens:
                yield one

    total = add_up(shown())
    require_tokens(total, "the text" if source in (None, "-") else source)
    if as_json:
        print(json.dumps(text_score_values(total), allow_nan=False))
    else:
        show(total)


def next_token(
    run: RunFolder,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Texts so far; - for standard input. None: the beginning of a line."),
    ] = None,
    file: File = None,
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many.")] = 10,
    memory: MemoryLength = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    r"""Show the most likely next tokens.

    With probabilities; the end of a line is \n.

    Example: wenmai next runs/ngram "the cat sat on the"
    """
    from wenmai.runs.language import language_model_of
    from wenmai.training.run import Run

    model = language_model_of(Run(run, device), verb="next", memory=memory)
    prompts = _prompts(texts, file)
    several = not isinstance(prompts, list) or len(prompts) > 1
    for text in prompts:
        found = model.next(text, topn)
        if as_json:
            rows = [{"token": token, "probability": probability} for token, probability in found]
            print(json.dumps({"text": text, "next": rows}, ensure_ascii=False, allow_nan=False))
            continue
        if several:
            print(text)
        show_columns([[f"{probability:.4f}", token.replace("\n", "\\n")] for token, probability in found])


def fill(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many.")] = 5,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Show what could stand at the masks of a text.

    The most likely tokens at each [MASK], with their probabilities; ## marks those that continue a word. Several masks
    of a text are filled in independently of each other.

    Example: wenmai fill runs/bert "Paris is the [MASK] of France."
    """
    from wenmai.training.run import Run

    model = Run(run, device).model_for("fill")
    source = named_file(texts, file)
    several = source is not None or len(texts or ()) > 1
    for line, text in enumerate(texts_of(texts, file), start=1):
        if source is not None and not text.strip():
            continue
        try:
            found = model.fill(text, topn)
        except SettingError as error:
            raise located(error, source, line) from None
        if as_json:
            masks = [[{"token": token, "probability": value} for token, value in one] for one in found]
            print(json.dumps({"text": text, "masks": masks}, ensure_ascii=False, allow_nan=False))
            continue
        if several:
            print(text)
        for number, one in enumerate(found, start=1):
            if len(found) > 1:
                print(say("mask {number}:", number=number))
            show_columns([[f"{value:.4f}", token] for token, value in one])


def _prompts(texts: list[str] | None, file: str | None) -> list[str] | Iterator[str]:
    """Returns the beginnings of texts; by default the beginning of a line."""
    if not texts and file is None:
        return [""]
    return list(texts_of(texts, file)) if named_file(texts, file) is None else texts_of(texts, file)


def generate(
    run: RunFolder,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="What texts begin with; - for standard input. None: nothing."),
    ] = None,
    file: File = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Most tokens [50].")] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="How many texts of each prompt.")] = 1,
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
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Generate text from a prompt.

    A single text is shown as it is generated.

    Example: wenmai generate runs/gpt "Once upon a time" --top-p 0.9 --max-tokens 100

    Example: wenmai generate runs/ngram --count 5 --temperature 0.7
    """
    from wenmai.core.seeding import mixed_seed
    from wenmai.runs.language import language_model_of
    from wenmai.training.run import Run

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
        "past_end": past_end,
    }
    model = language_model_of(
        Run(run, device), verb="generate", memory=memory, same_length=same_length, clamp_length=clamp_length
    )
    for place, prompt in enumerate(_prompts(prompts, file)):
        options["seed"] = seed if place == 0 else mixed_seed(seed, place)  # prompts do not share their luck
        if not as_json and count == 1 and beam is None:
            _show_generating(prompt, model.stream(prompt, **options))
            continue
        for one in model.generate(prompt, count=count, **options):
            if as_json:
                row = {"prompt": one.prompt, "text": one.text, "log_prob": one.log_prob, "tokens": len(one.tokens)}
                row |= {"reason": one.reason, "cut_tokens": one.cut}
                print(json.dumps(row, ensure_ascii=False, allow_nan=False), flush=True)
            else:
                print(prompt + one.text)


def _show_generating(prompt: str, pieces: Iterator[str]) -> None:
    """Prints a text while it is generated; nothing if that fails at once."""
    first = next(pieces, "")
    print(prompt + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
