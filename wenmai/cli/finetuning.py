"""``wenmai finetune``, and the verbs of fine-tuned models: ``rate``, ``tag``, ``answer`` and ``choose``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wenmai.cli.lines import answered, named_file, passing_blank, reads_terminal, several, text_of, texts_of
from wenmai.cli.options import Device, File, Json, JsonLines, Quiet, RunFolder, Sets, Texts
from wenmai.cli.printing import note
from wenmai.core.errors import SettingError

__all__ = ["answer", "choose", "finetune", "rate", "tag"]

_SPACED = str.maketrans("\t\n\r", "   ")  # so that an answer is one column of one line


def finetune(
    run: RunFolder,
    data: Annotated[list[str], typer.Argument(metavar="DATA", help="Labelled examples: a file, or data:NAME.")],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="NAME",
            help="classification, pair, regression, tagging, span or choice; by default that of the data set.",
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option("--valid", metavar="DATA", help="Examples to validate on; by default some are set aside."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="The run folder to make [runs/SYSTEM-DATE].")] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, metavar="N", help="Train from N seeds: the runs RUN/seed-1 and so on.")
    ] = 1,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="Published settings: ernie-chnsenticorp, ernie-lcqmc, ernie-msra-ner or ernie-xnli.",
        ),
    ] = None,
    settings: Sets = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fine-tune the encoder of a run for a task.

    Each setting of the task is an option: `wenmai help train finetuned-classification` lists them.

    Example: wenmai finetune runs/bert reviews.tsv --task classification --out runs/reviews

    Example: wenmai finetune runs/bert data:conll2003 --out runs/names --seeds 3

    Example: wenmai finetune runs/bert data:rte --mode lora --epochs 5 --out runs/rte
    """
    from wenmai.cli.printing import show, show_run
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.finetune import SeedRuns
    from wenmai.runs.finetune import finetune as tune

    chosen: dict[str, Any] = parse_assignments(settings or [])
    if valid is not None:
        chosen["data.valid"] = valid
    spec: Any = data[0] if len(data) == 1 else data
    found = tune(run, spec, task=task, out=out, seeds=seeds, preset=preset, quiet=quiet, **chosen)
    if not isinstance(found, SeedRuns):
        show_run(found, as_json)
    elif as_json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, allow_nan=False))
    else:
        show(found)


def rate(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Give texts, or pairs of texts, a number each.

    The two texts of a pair have a tab between them.

    A blank line has a blank line for an answer.

    Example: wenmai rate runs/alike --file pairs.tsv
    """
    from wenmai.training.run import Run

    model = Run(run, device).model_for("rate")
    waiting, source = reads_terminal(texts, file), named_file(texts, file)
    ask, read = passing_blank(model.rate, str, None)
    for portion, values in answered(texts_of(texts, file), ask, source=source, read=read, waiting=waiting):
        for text, found in zip(portion, values, strict=True):
            if as_json:
                print(json.dumps({"text": text, "value": found}, ensure_ascii=False))
            else:
                print("" if found is None else model.written(found))


def tag(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    words: Annotated[
        bool, typer.Option("--words", help="White space separates the words; by default sentences are cut.")
    ] = False,
    entities: Annotated[
        bool, typer.Option("--entities", help="Print a line for each entity: type, text, begin, end, probability.")
    ] = False,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Tag the words of sentences.

    A line for each word, with its tag after a tab, and an empty line after each sentence. With --entities there is one
    where there are several sentences.

    Example: wenmai tag runs/names "Angela Merkel was born in Hamburg."

    Example: wenmai tag runs/names --file news.txt --entities
    """
    from wenmai.training.run import Run

    model = Run(run, device).model_for("tag")
    if entities and model.scheme == "none":
        note("the tags of this model are of no scheme such as B-PER, so it finds no entities; leave out --entities")
    lines, waiting = texts_of(texts, file), reads_terminal(texts, file)
    many, lines = (True, lines) if waiting or not entities else several(lines)
    for _, tagged in answered(
        lines,
        lambda portion: model.tag(portion, spaced=words),
        source=named_file(texts, file),
        waiting=waiting,
    ):
        for found in tagged:
            if as_json:
                known = [one._asdict() for one in found.entities]
                print(json.dumps(found._asdict() | {"entities": known}, ensure_ascii=False))
            elif entities:
                for one in found.entities:
                    print(f"{one.type}\t{one.text.translate(_SPACED)}\t{one.start}\t{one.end}\t{one.probability:.4f}")
                if many:
                    print()
            else:
                print("".join(f"{word}\t{one}\n" for word, one in zip(found.tokens, found.tags, strict=True)))


def answer(
    run: RunFolder,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="Questions; - for standard input, one a line. Without any: likewise."),
    ] = None,
    file: File = None,
    context: Annotated[
        Path | None,
        typer.Option("--context", metavar="FILE", help="The text; without it each line is QUESTION<TAB>TEXT."),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Most answers of a question.")] = 1,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="No answer where the score of none is higher than that of the best answer by more than this. By "
            "default what training chose; an imported model always answers.",
        ),
    ] = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Answer questions by parts of a text.

    One line for each answer: the answer, where it begins and ends in the text (in characters), and its probability. An
    empty answer says that the text has none. Tabs and line ends in an answer are spaces here; --json has them all. With
    --k an empty line follows the answers to each of several questions.

    A blank line has a blank line for an answer.

    Example: wenmai answer runs/questions "Who wrote it?" --context page.txt

    Example: wenmai answer runs/questions --file questions.tsv --json
    """
    from wenmai.runs.finetune import question_of
    from wenmai.training.run import Run

    if str(context) == "-" and named_file(texts, file) == "-":
        raise SettingError("standard input cannot be both the questions and their text; name a file for one of them")
    model = Run(run, device).model_for("answer")
    model.answer([], k, threshold)  # what is wrong with a setting is no mistake of a line
    text = None if context is None else text_of(str(context))
    lines, waiting = texts_of(texts, file), reads_terminal(texts, file)
    many, lines = (k > 1, lines) if waiting or k == 1 else several(lines)
    ask, read = passing_blank(
        lambda questions: model.answer(questions, k, threshold), lambda line: question_of(line, text), []
    )
    for portion, answers in answered(lines, ask, source=named_file(texts, file), read=read, waiting=waiting):
        for line, found in zip(portion, answers, strict=True):
            if as_json:
                question = question_of(line, text)[0] if line.strip() else line
                rows = [one._asdict() for one in found]
                print(json.dumps({"question": question, "answers": rows}, ensure_ascii=False))
                continue
            for one in found:
                place = "\t" if one.start is None else f"{one.start}\t{one.end}"
                print(f"{one.text.translate(_SPACED)}\t{place}\t{one.probability:.4f}")
            if many or not found:
                print()


def choose(
    run: RunFolder,
    texts: Texts = None,
    file: File = None,
    device: Device = None,
    as_json: JsonLines = False,
) -> None:
    """Choose one of several texts.

    Each line is TEXT<TAB>QUESTION<TAB>OPTION<TAB>OPTION..., and the question may be empty. The number of the chosen
    option, from 1, its probability, and the option.

    A blank line has a blank line for an answer.

    Example: wenmai choose runs/dialogues --file questions.tsv
    """
    from wenmai.runs.finetune import choice_of
    from wenmai.training.run import Run

    model = Run(run, device).model_for("choose")
    waiting, source = reads_terminal(texts, file), named_file(texts, file)
    ask, read = passing_blank(model.choose, choice_of, None)
    for _, chosen in answered(texts_of(texts, file), ask, source=source, read=read, waiting=waiting):
        for found in chosen:
            if as_json:
                print(json.dumps(None if found is None else found._asdict(), ensure_ascii=False))
            elif found is None:
                print()
            else:
                print(f"{found.number + 1}\t{found.probabilities[found.number]:.4f}\t{found.option}")
