"""``wenmai convert`` and ``wenmai annotate``: pinyin to characters and back."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.lines import portions, reads_terminal, texts_of
from wenmai.cli.options import Device, File, JsonLines, NetworkWeight, NgramRun, RunFolder, Texts
from wenmai.core.errors import SettingError
from wenmai.core.wording import say

__all__ = ["annotate", "convert"]

_DRAWN = 50  # most texts whose attention is shown


def convert(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    n_best: Annotated[int, typer.Option("--n-best", min=1, help="Most candidates of each text, best first.")] = 1,
    toneless: Annotated[
        bool, typer.Option("--toneless", help="Leave out tones; by default they count where there are some.")
    ] = False,
    context: Annotated[str, typer.Option("--context", metavar="TEXT", help="The text before the input.")] = "",
    ngram: NgramRun = None,
    weight: NetworkWeight = None,
    fuzzy: Annotated[
        str | None,
        typer.Option(
            "--fuzzy",
            metavar="PAIRS",
            help="Sounds that are taken for each other: zh/z, ch/c, sh/s, n/l, an/ang, en/eng, in/ing, v/u, with "
            "commas between, or all.",
        ),
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option("--words", metavar="FILE", help="Words that win: a word a line; after tabs reading and weight."),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option("--attention", metavar="FILE", help="pinyin: write the attention: a .html page or .png."),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print the probability before each candidate.")] = False,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Turn pinyin into Chinese characters.

    Syllables may have spaces between them or not, tones as digits or marks, and apostrophes; everything else is kept.

    Example: wenmai convert runs/pinyin "wo ai bei jing tian an men"

    Example: wenmai convert runs/pinyin woaibeijingtiananmen --n-best 5

    Example: wenmai convert runs/encoder woaibeijingtiananmen --ngram runs/pinyin

    Example: wenmai convert runs/pinyin zongguo --fuzzy zh/z,an/ang --words names.txt
    """
    from wenmai.inference.user_words import add_words
    from wenmai.runs.conversion import joined, require_conversion, write_attention
    from wenmai.text.pinyin.letters import fuzzy_pairs
    from wenmai.training.run import Run

    pairs = None if fuzzy is None else fuzzy_pairs(fuzzy)

    model = Run(run, device).model_for("convert")
    if ngram is not None:
        model = joined(model, ngram, 1.0 if weight is None else weight)
    elif weight is not None:
        raise SettingError("--weight is that of the network beside n-grams; add --ngram RUN, or leave it out")
    require_conversion(model, fuzzy=bool(pairs), context=bool(context), attention=attention)
    if words is not None:
        add_words(model, words)
    read: dict[str, Any] = {"toned": False if toneless else None, "context": context}
    if pairs:
        read["fuzzy"] = pairs
    drawn: list[str] = []
    lines, waiting = texts_of(texts, file), reads_terminal(texts, file)
    for portion in portions(lines, waiting=waiting):
        if attention is not None:
            drawn += [text for text in portion if text.strip()][: _DRAWN - len(drawn)]
        for text, found in zip(portion, model.convert(portion, n_best=n_best, **read), strict=True):
            if as_json:
                rows: list[dict[str, Any]] = [one._asdict() for one in found]
                line = json.dumps({"text": text, "candidates": rows}, ensure_ascii=False, allow_nan=False)
                print(line, flush=waiting)
                continue
            for one in found:
                print(f"{one.probability:.4f}\t{one.text}" if scores else one.text, flush=waiting)
    if attention is not None:
        written = write_attention(model, drawn, attention, **read)
        print(say(f"attention: {written}"), file=sys.stderr)


def annotate(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    style: Annotated[str, typer.Option("--style", help="number (zhong1), mark (zhōng) or bare (zhong).")] = "number",
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Write the pinyin of Chinese text.

    Example: wenmai annotate runs/encoder 他在银行里行走 --style mark
    """
    from wenmai.text.pinyin.syllables import spelt
    from wenmai.training.run import Run

    if style not in ("number", "mark", "bare"):
        raise SettingError(f"--style {style}: expected number, mark or bare")
    model = Run(run, device).model_for("annotate")
    lines, waiting = texts_of(texts, file), reads_terminal(texts, file)
    for portion in portions(lines, waiting=waiting):
        for text, found in zip(portion, model.annotate(portion), strict=True):
            kind: Any = style
            shown = [
                one if len(one) == 1 and one == written else spelt(one, kind)
                for one, written in zip(found, text, strict=True)
            ]
            line = json.dumps({"text": text, "readings": shown}, ensure_ascii=False) if as_json else _joined(shown)
            print(line, flush=waiting)


def _joined(shown: list[str]) -> str:
    """Readings with spaces between them; letters and digits that stand for themselves stay together, as in the text."""
    words, open_word = list[str](), False
    for one in shown:
        letter = len(one) == 1 and one.isascii() and one.isalnum()
        if letter and open_word:
            words[-1] += one
        elif not one.isspace():
            words.append(one)
        open_word = letter
    return " ".join(words)
