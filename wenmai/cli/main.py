"""The ``wenmai`` command. Each verb parses, calls ``wenmai.runs``, and prints."""

import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from wenmai.cli import (
    classification,
    contextual,
    conversion,
    data,
    finetuning,
    formats,
    language,
    measuring,
    preview,
    probing,
    relations,
    training,
    translation,
    vectors,
)
from wenmai.cli.settings import AutotuneCommand, CompareCommand, ExportCommand, FinetuneCommand, TrainCommand
from wenmai.core.errors import FormatError, SettingError, TruncatedError, WenmaiError, is_out_of_memory
from wenmai.core.wording import LANGUAGES, environment_language, say, speak
from wenmai.core.wording import language as spoken_language
from wenmai.training.interrupts import terminations_as_interrupts

__all__ = ["app", "main"]


class _Verbs(TyperGroup):
    """The verbs. Typer takes any EOFError for the wish to end, and keeps an interrupt from whoever speaks Chinese."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  Click's context, whose class Typer does not name
        try:
            return super().invoke(ctx)
        except TruncatedError as error:
            raise FormatError(str(error)) from error
        except KeyboardInterrupt as interrupt:
            raise SystemExit(130) from interrupt


app = typer.Typer(
    cls=_Verbs,
    help="Train, evaluate and compare text representations on your own corpus. 一份语料，历代模型，一次公平的比较。\n\n"
    "Example, with text that comes with Python: wenmai train word2vec builtin:pydocs --out runs/first,"
    " then wenmai nearest runs/first function",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(data.app, name="data")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    0 success, 1 other failure, 2 wrong usage or setting, 3 corpus, 4 vocabulary, 5 file format, 6 run folder,
    7 training, 8 download, 130 interrupted or terminated.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, as some schedulers do
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  until the process ends
    try:
        arguments = _spoken_in(sys.argv[1:] if arguments is None else list(arguments))
    except SettingError as error:
        print(f"wenmai: {say(str(error))}", file=sys.stderr)
        return error.exit_code
    notes = logging.StreamHandler()
    notes.setFormatter(_Notes())
    logging.basicConfig(level=logging.WARNING, handlers=[notes])
    if os.environ.get("RANK", "0") != "0":  # started by torchrun: the first process speaks for all
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # characters unknown to the terminal's encoding
    try:
        try:
            with terminations_as_interrupts():
                if spoken_language() == "zh":
                    from wenmai.cli.chinese import run_in_chinese

                    return run_in_chinese(typer.main.get_command(app), arguments)
                _command()(args=arguments, prog_name="wenmai", standalone_mode=True)
        finally:
            sys.stdout.flush()  # so that a failed write has an error message
    except SystemExit as end:
        if (interrupt := _interrupt_behind(end)) is not None:
            print("; ".join(map(say, ["wenmai: stopped", *getattr(interrupt, "__notes__", [])])), file=sys.stderr)
        return end.code if isinstance(end.code, int) else 1
    except WenmaiError as error:
        print(f"wenmai: {say(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(say("wenmai: stopped"), file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has ended, as in `wenmai ... | head`
        sys.stderr.close()
        return 1
    except (MemoryError, RuntimeError, OSError) as error:  # known errors have messages of their own
        if is_out_of_memory(error):
            lacking = (
                "wenmai: not enough memory; for word vectors a smaller vector_size or vocabulary (min_count, max_size) "
                "helps, for translators smaller batch_tokens or hidden_size"
            )
            print(say(lacking), file=sys.stderr)
            return 1
        if not isinstance(error, OSError):
            raise
        where = f"{error.filename}{say(':')}{say(' ')}" if error.filename else ""
        print(f"wenmai: {where}{say(error.strerror or str(error))}", file=sys.stderr)
        return 1
    return 0


@cache
def _command() -> Callable[..., object]:
    """All verbs, which a process that runs many commands makes once."""
    return typer.main.get_command(app)


def _interrupt_behind(end: SystemExit) -> KeyboardInterrupt | None:
    """The interrupt that made typer end a command, if that is why it ended."""
    error: BaseException | None = end
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


class _Notes(logging.Formatter):
    """Notes of the library, in the language of the user."""

    def format(self, record: logging.LogRecord) -> str:
        return say(f"note: {say(record.getMessage())}")


def _spoken_in(arguments: list[str]) -> list[str]:
    """Chooses the language that ``--lang`` or else the environment asks for; returns the other arguments.

    Raises:
        SettingError: if there is no such language.
    """
    rest: list[str] = []
    speak(chosen := environment_language(os.environ))
    given = iter(arguments)
    for token in given:
        if token == "--":
            rest += [token, *given]
        elif token == "--lang" or token.startswith("--lang="):
            chosen = token.partition("=")[2] or next(given, "")
            if chosen not in LANGUAGES:
                known = " or ".join(LANGUAGES)
                if not chosen:
                    raise SettingError(f"--lang needs a language: {known}")
                raise SettingError(f"--lang {chosen}: expected {known}")
        else:
            rest.append(token)
    speak(chosen)
    return rest


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    lang: Annotated[
        str | None, typer.Option("--lang", help="en or zh, with any verb. By default WENMAI_LANG, or the locale.")
    ] = None,
) -> None:
    if version:
        import wenmai

        print(wenmai.__version__)
        raise typer.Exit


@app.command("help")
def show_help(
    verb: Annotated[
        list[str] | None, typer.Argument(metavar="VERB", help="A verb, and perhaps its system; or a system.")
    ] = None,
) -> None:
    """Show the help of a verb, and the settings of a system.

    Example: wenmai help train word2vec
    """
    from wenmai.core.registry import systems

    words = verb or []
    asked = [*(["train"] if words and words[0] in systems() else []), *words, "--help"]
    if spoken_language() == "zh":
        from wenmai.cli.chinese import run_in_chinese

        raise typer.Exit(run_in_chinese(typer.main.get_command(app), asked))
    _command()(args=asked, prog_name="wenmai")


app.command()(training.systems)
app.command(cls=TrainCommand)(training.train)
app.command()(training.resume)
app.command()(preview.preview)
app.command()(measuring.evaluate)
app.command(cls=CompareCommand)(measuring.compare)
app.command()(probing.probe)
app.command()(training.verify)
app.command()(vectors.nearest)
app.command("index")(contextual.index_command)
app.command("distil")(contextual.distil_command)
app.command()(vectors.analogy)
app.command()(vectors.similarity)
app.command()(vectors.embed)
app.command()(language.score)
app.command("next")(language.next_token)
app.command()(language.generate)
app.command()(language.fill)
app.command()(translation.translate)
app.command()(conversion.convert)
app.command()(conversion.annotate)
app.command(cls=FinetuneCommand)(finetuning.finetune)
app.command()(classification.classify)
app.command()(finetuning.rate)
app.command()(finetuning.tag)
app.command()(finetuning.answer)
app.command()(finetuning.choose)
app.command()(relations.extract)
app.command(cls=AutotuneCommand)(classification.autotune)
app.command("formats")(formats.formats_command)
app.command("export", cls=ExportCommand)(formats.export_command)
app.command("import")(formats.import_command)
