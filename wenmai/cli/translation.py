"""``wenmai translate``."""

import json
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wenmai.cli.lines import reads_terminal, texts_of
from wenmai.cli.options import Device, File, JsonLines, RunFolder, Texts
from wenmai.cli.printing import note
from wenmai.core.errors import SettingError
from wenmai.core.wording import say

if TYPE_CHECKING:
    from wenmai.inference.translator import Translation, Translator

__all__ = ["translate"]

_DRAWN = 50  # most texts whose attention is shown


def translate(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Hypotheses kept at each step; 1 is greedy.")] = 5,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Translations of each text.")] = 1,
    length_penalty: Annotated[
        str, typer.Option("--length-penalty", help="none, mean, gnmt or reward: normalisation by length.")
    ] = "mean",
    alpha: Annotated[float, typer.Option("--alpha", min=0, help="Exponent of the length penalty.")] = 1.0,
    coverage: Annotated[float, typer.Option("--coverage", min=0, help="Penalty on uncovered source tokens.")] = 0.0,
    prefix: Annotated[str, typer.Option("--prefix", help="What every translation begins with.")] = "",
    stop: Annotated[
        str,
        typer.Option("--stop", help="When a search ends: bound loses nothing; finished; best; limit."),
    ] = "bound",
    min_length: Annotated[int, typer.Option("--min-length", min=0, help="Fewest tokens.")] = 0,
    max_length: Annotated[
        int | None, typer.Option("--max-length", min=1, help="Most tokens, the end counted [50 more than the source].")
    ] = None,
    max_ratio: Annotated[
        float | None, typer.Option("--max-ratio", help="Most tokens for each token of the source.")
    ] = None,
    no_repeat_ngram: Annotated[
        int, typer.Option("--no-repeat-ngram", min=0, help="No n-gram of so many tokens twice.")
    ] = 0,
    repetition_penalty: Annotated[float, typer.Option("--repetition-penalty", help="Above 1: less repetition.")] = 1.0,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Score every sequence there is: toy vocabularies, small --max-length.")
    ] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Sample a translation instead of searching.")] = False,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of --sample.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Of --sample.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", min=0, max=1, help="Of --sample.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of --sample.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score before each translation.")] = False,
    attention: Annotated[
        Path | None, typer.Option("--attention", metavar="FILE", help="Write the attention: a .html page or .png.")
    ] = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Translate texts, one line for each line.

    Output is in order, while the input is still being read: 512 lines at a time, or line by line as you type. An empty
    line gives an empty line; a line that is too long is cut, with a note; a character the model has never seen is an
    unknown token.

    Example: wenmai translate runs/de-en "Ein Hund läuft im Schnee." --attention attention.html

    Example: cat test.de | wenmai translate runs/de-en > test.en
    """
    from wenmai.runs.translation import require_attention, translation_json, write_attention
    from wenmai.training.run import Run

    if not sample and (temperature, top_k, top_p, seed) != (1.0, None, None, 1):
        raise SettingError("--temperature, --top-k, --top-p and --seed belong to --sample; add it, or leave them out")
    lines = texts_of(texts, file)
    opened = Run(run, device)
    translator: Translator = opened.model_for("translate")
    if attention is not None:
        require_attention(translator, attention)
    chunk = 1 if reads_terminal(texts, file) else 512
    drawing = {"seed": seed, "temperature": temperature, "top_k": top_k, "top_p": top_p} if sample else None
    options: dict[str, Any] = {
        "beam_size": max(beam, n_best),
        "n_best": n_best,
        "length_penalty": length_penalty,
        "alpha": alpha,
        "coverage_beta": coverage,
        "prefix": prefix,
        "stop": stop,
        "min_length": min_length,
        "max_length": max_length,
        "max_ratio": max_ratio,
        "no_repeat_ngram": no_repeat_ngram,
        "repetition_penalty": repetition_penalty,
        "exhaustive": exhaustive,
        "sampling": drawing,
        "chunk": chunk,
    }
    waiting: deque[str] = deque()
    drawn: list[tuple[str, Translation]] = []

    def read() -> Iterator[str]:
        for text in lines:
            waiting.append(text)
            yield text

    for number, found in enumerate(translator.stream(read(), **options), start=1):
        source = waiting.popleft()
        if attention is not None and len(drawn) < _DRAWN and source.strip():
            drawn.append((source, found[0]))
        if found[0].cut:
            longest = translator.config.max_length - 1
            note(f"text {number} is longer than {longest} tokens; its end was left out")
        if len(found) < n_best and source.strip() and exhaustive:
            note(
                f"text {number} has {len(found)} of {n_best} translations: there are no others of so few tokens; a "
                "larger --max-length has more"
            )
        elif len(found) < n_best and source.strip():
            note(
                f"text {number} has {len(found)} of {n_best} translations: no other in a beam of "
                f"{options['beam_size']} finished; a larger --beam finds more"
            )
        if as_json:
            print(json.dumps(translation_json(source, found), ensure_ascii=False), flush=chunk == 1)
            continue
        for translation in found:
            score = f"{translation.score:.4f}\t" if scores else ""
            print(f"{score}{translation.text}", flush=chunk == 1)
    if attention is not None:
        sources, shown = [source for source, _ in drawn], [translation for _, translation in drawn]
        written = write_attention(opened, sources, attention, translations=shown)
        print(say(f"attention: {written}"), file=sys.stderr)
