"""``python -m benchmarks THEME...``: measure, then write the page. ``--help`` lists the themes."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.harness import DEFAULT_PAIRS, Bench, Options, show_command
from benchmarks.quality import SIDES, VARIANTS
from benchmarks.section import sections
from wenmai.core.errors import WenmaiError
from wenmai.core.folder import cache_folder

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
NOT_MEASURED = ("page", "fingerprints", "revisions")
QUALITY = tuple(VARIANTS)
THEMES = tuple(sections())  # in the order of the page


def main(arguments: Sequence[str]) -> None:
    """Runs themes one after the other, each in a temporary folder of its own."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure wenmai against baselines.",
        epilog="themes:\n" + "\n".join(f"  {theme:18}{_purpose(theme)}" for theme in THEMES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "themes",
        nargs="*",
        metavar="THEME",
        help="all (about three hours), page, fingerprints, revisions, or some themes",
    )
    parser.add_argument("--corpus", default="data:en8", help="a file, or a name of the catalogue [data:en8]")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--repeats", type=int, help="how often to measure [each theme has its own number]")
    parser.add_argument("--results", type=Path, help="folder of results [benchmarks/results; with --quick the cache]")
    parser.add_argument("--page", type=Path, help="the page to write [docs/benchmarks.md; with --quick the cache]")
    parser.add_argument("--systems", type=_names(QUALITY), default=QUALITY, help=f"for quality [{','.join(QUALITY)}]")
    parser.add_argument("--sides", type=_names(SIDES), default=SIDES, help=f"for quality [{','.join(SIDES)}]")
    parser.add_argument(
        "--seeds", type=_numbers, help="for themes that train with several, such as quality, finetuned [each its own]"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        nargs="+",
        default=(),
        help="for translation, language, fewshot, minimal_pairs, equal_time, finetuned, distilled, pinyin, knowledge, "
        "continual, relations: finished runs",
    )
    parser.add_argument(
        "--pairs",
        default=DEFAULT_PAIRS,
        help=f"for translation: the test set [{DEFAULT_PAIRS}]; for minimal_pairs: the pairs [blimp]",
    )
    parser.add_argument(
        "--on",
        help="for language: the text; for minimal_pairs: one more text, for bits per character; for knowledge: the "
        "text of the cloze test",
    )
    parser.add_argument("--names", type=Path, help="for knowledge: a file of names, one a line")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=(),
        help="for fingerprints: trainings, revisions: work, faults: parts and groups, finetuning and finetuned: sets, "
        "modes, ways; knowledge, continual: parts, sets; relations: sets, structures; pretraining_tasks: languages, "
        "tasks; pinyin: parts; equal_time: languages, systems [all]",
    )
    parser.add_argument("--examples", type=int, help="for finetuning: how many to train on [2048]")
    parser.add_argument("--minutes", type=float, help="for equal_time: of each training [8]")
    parser.add_argument(
        "--limit", type=int, help="for finetuned, knowledge, continual: most examples of a set to train on [all]"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for finetuned: settings of the fine-tuning instead of the default ones, in a table of their own",
    )
    parser.add_argument(
        "--minilm", action="store_true", help="for finetuned, distilled, relations: all-MiniLM-L6-v2 too"
    )
    parser.add_argument(
        "--against-trainer", action="store_true", help="for finetuned: MiniLM beside transformers' Trainer"
    )
    parser.add_argument(
        "--threads", type=int, help="for finetuned, knowledge, continual, relations: of each training [2]"
    )
    parser.add_argument("--inputs", type=int, help="for faults: about how many hostile inputs [300000]")
    parser.add_argument("--failures", type=Path, help="for faults: folder of what ends badly [in the cache]")
    parser.add_argument("--replay", type=Path, help="for faults: one of that folder, to try again")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="for revisions: the other checkout")
    parser.add_argument("--write", action="store_true", help="for fingerprints: write the file instead of comparing")
    chosen = parser.parse_args(arguments)
    if not chosen.themes:
        parser.print_help()
        return
    if chosen.set and chosen.themes != ["finetuned"]:
        parser.error("--set is for the theme finetuned alone")
    themes = [*THEMES, "page"] if chosen.themes == ["all"] else chosen.themes
    if unknown := sorted(set(themes) - {*THEMES, *NOT_MEASURED}):
        parser.error(
            f"unknown theme: {', '.join(unknown)}; expected some of {', '.join((*THEMES, *NOT_MEASURED))} and all"
        )
    quick_folder = cache_folder() / "benchmarks"
    results = chosen.results or (quick_folder / "results" if chosen.quick else RESULTS)
    options = Options(
        corpus=chosen.corpus,
        quick=chosen.quick,
        repeats=chosen.repeats,
        results=results,
        systems=chosen.systems,
        sides=chosen.sides,
        seeds=chosen.seeds,
        runs=tuple(chosen.runs),
        pairs=chosen.pairs,
        on=chosen.on,
        only=tuple(chosen.only),
        inputs=chosen.inputs,
        failures=chosen.failures,
        replay=chosen.replay,
        command=show_command(arguments),
        examples=chosen.examples,
        limit=chosen.limit,
        minilm=chosen.minilm,
        against_trainer=chosen.against_trainer,
        names=chosen.names,
        minutes=chosen.minutes,
        settings=tuple(chosen.set),
        threads=chosen.threads,
    )
    for theme in themes:
        if theme == "page":
            from benchmarks import page, readme

            target = chosen.page or (quick_folder / "benchmarks.md" if chosen.quick else page.PAGE)
            print(page.write_page(results, target))
            if target == page.PAGE:
                print(*readme.update(results), sep="\n")
            continue
        if theme == "revisions":
            from benchmarks import revisions

            if chosen.against is None:
                parser.error("revisions compares with another checkout: --against FOLDER")
            repeats = chosen.repeats or (1 if chosen.quick else 5)
            revisions.check(results, chosen.against, only=chosen.only, repeats=repeats, quick=chosen.quick)
            continue
        if theme == "fingerprints":
            from benchmarks import fingerprints

            fingerprints.check(results, only=chosen.only, write=chosen.write)
            continue
        with tempfile.TemporaryDirectory(prefix="wenmai-benchmark-") as work:
            import_module(f"benchmarks.{theme}").run(Bench(options, Path(work)))


def _purpose(theme: str) -> str:
    """What a theme measures: the first line of its module, which is not imported for that."""
    path = FOLDER / f"{theme}.py"
    path = path if path.exists() else FOLDER / theme / "__init__.py"
    return path.read_text(encoding="utf-8").splitlines()[0].strip('"')


def _names(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: expected some of {','.join(known)}")
        return names

    return parse


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except WenmaiError as problem:
        sys.exit(f"benchmarks: {problem}")
    except KeyboardInterrupt:
        sys.exit("benchmarks: stopped; what was measured is in the results")
