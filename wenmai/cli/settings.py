"""Settings as options: ``--epochs 3`` is ``--set epochs=3`` on every verb that takes ``--set``."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from typer.core import TyperCommand

from wenmai.core.aliases import find_setting, nearest_setting
from wenmai.core.errors import SettingError, WenmaiError, nearest_name
from wenmai.core.wording import say

__all__ = [
    "AutotuneCommand",
    "CompareCommand",
    "ExportCommand",
    "FinetuneCommand",
    "SettingsCommand",
    "TrainCommand",
    "setting_value",
]

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_DASHES = "-‐‑‒–—―−－"  # as text processors and Chinese input methods write them
_META = "wenmai.settings"  # where a context keeps what the verb can be set to
_HIDDEN = {("model", "kind")}  # there is only one


class Known(NamedTuple):
    """What may be set.

    Attributes:
        of: Of what, for people.
        settings: The settings; None if they are not known, so that any name is taken.
        implied: Defaults that differ from those of the settings.
        hint: What to say about settings where one is unknown.
    """

    of: str = ""
    settings: Sequence[Any] | None = None
    implied: Mapping[str, Any] = {}
    hint: str = ""


class SettingsCommand(TyperCommand):
    """A verb that takes ``--set NAME=VALUE``, and each setting as an option of its own too.

    Options of the verb win over settings, and settings over other names of settings.

    Attributes:
        about: What the help says where the settings are not known.
    """

    about = "Settings are options too: --epochs 3 is --set epochs=3. `wenmai systems SYSTEM` lists them."

    @abstractmethod
    def known(self, words: Sequence[str], options: Mapping[str, str]) -> Known:
        """Returns what may be set.

        Args:
            words: What was typed besides options; values of settings may be among them.
            options: The verb's own options that have a value.
        """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  Click's context
        """Turns settings into ``--set`` before Click sees them."""
        own = {name: not getattr(one, "is_flag", False) for one in self.params for name in _spellings(one)}
        own |= dict.fromkeys(ctx.help_option_names, False)
        ctx.meta[_META] = known = self._found(own, args)
        rest = super().parse_args(ctx, list(_rewritten(args, own, known, strict=not ctx.resilient_parsing)))
        for assignment in ctx.params.get("settings") or ():
            _require_setting(assignment.partition("=")[0].strip(), known)
        return rest

    def _found(self, own: Mapping[str, bool], args: Sequence[str]) -> Known:
        words, options = [], {}
        rest = iter(args)
        for token in rest:
            name, equals, value = token.partition("=")
            if own.get(name):
                options[name] = value if equals else next(rest, "")
            elif not token.startswith("-"):
                words.append(token)
        try:
            return self.known(words, options)
        except WenmaiError:  # it is raised again when the verb does what was asked
            return Known()

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  Click's context and formatter
        """Lists the settings under the help."""
        super().format_epilog(ctx, formatter)
        known: Known = ctx.meta.get(_META, Known())
        rows = [
            (f"--{option}", f"{say(one.meaning)}{_choices(one)} [{setting_value(default)}]")
            for option, one, default in _options(known)
        ]
        if rows:
            with formatter.section(f"Settings of {known.of}"):
                formatter.write_dl(rows)
        else:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(self.about)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:  # noqa: ANN401  Click's context
        """Completes the names of options and of settings."""
        found = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            return found
        item = type(super().shell_complete(ctx, "--help")[0])  # Typer's, which has no public name
        options = ((f"--{option}", one.meaning) for option, one, _ in _options(ctx.meta.get(_META, Known())))
        return [*found, *(item(option, help=help) for option, help in options if option.startswith(incomplete))]


class TrainCommand(SettingsCommand):
    """``train``: the settings of the system, or of the recipe's, or of the continued run's."""

    def known(self, words: Sequence[str], options: Mapping[str, str]) -> Known:
        """Returns the settings of the first word that names a system or a recipe."""
        from wenmai.config.recipe import read_recipe
        from wenmai.core.registry import systems
        from wenmai.training.run import Run

        every = systems()
        for word in words:
            if word in every:
                return _of_system(word)
            if word.endswith((".yaml", ".yml")):
                return _of_system(read_recipe(word)["system"])
        return _of_system(Run(options["--from"]).recipe.system) if "--from" in options else Known()


class FinetuneCommand(SettingsCommand):
    """``finetune``: the settings of the task."""

    about = "Settings are options too: --epochs 3 is --set epochs=3. `wenmai systems finetuned-TASK` lists them."

    def known(self, words: Sequence[str], options: Mapping[str, str]) -> Known:
        """Returns the settings of the task, which all tasks have."""
        return _of_system(f"finetuned-{options.get('--task', 'classification')}")


class AutotuneCommand(SettingsCommand):
    """``autotune``: the settings of the system that it trains."""

    def known(self, words: Sequence[str], options: Mapping[str, str]) -> Known:
        """Returns the settings of ``fasttext-supervised``."""
        return _of_system("fasttext-supervised")


class CompareCommand(SettingsCommand):
    """``compare --systems A,B``: the settings of all of them."""

    def known(self, words: Sequence[str], options: Mapping[str, str]) -> Known:
        """Returns the settings that at least one of the systems has."""
        names = [name.strip() for name in options.get("--systems", "").split(",") if name.strip()]
        if not names:
            return Known(settings=[], hint="; settings go with --systems, finished runs cannot be changed")
        every = [_of_system(name) for name in names]
        if len(every) == 1:
            return every[0]
        settings = {(one.section, one.name): one for known in every for one in known.settings or ()}
        return Known(of=", ".join(names), settings=list(settings.values()))


class ExportCommand(SettingsCommand):
    """``export``: the settings of the format."""

    about = "Settings are options too: --cutoff 100000 is --set cutoff=100000."

    def known(self, words: Sequence[str], options: Mapping[str, str]) -> Known:
        """Returns the settings of the format, which is the second word."""
        from wenmai.config.recipe import settings_of
        from wenmai.formats.format import formats

        name = words[1] if len(words) > 1 else ""
        if name not in (known := formats()):
            return Known()
        kind = known[name].settings
        return Known(of=name, settings=settings_of({"export": kind} if kind else {}))


def setting_value(value: Any) -> str:  # noqa: ANN401  a setting's default
    """Writes a value as ``--set`` takes it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _of_system(name: str) -> Known:
    from wenmai.config.recipe import settings_of
    from wenmai.core.registry import find_system

    system = find_system(name)
    return Known(
        name, settings_of(system.load_sections()), system.settings, f" (`wenmai systems {name}` lists the settings)"
    )


def _spellings(parameter: Any) -> Iterator[str]:  # noqa: ANN401  one of Click's
    return (name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-"))


def _options(known: Known) -> Iterator[tuple[str, Any, Any]]:
    """Yields the option, setting and default of each setting."""
    settings = [one for one in known.settings or () if (one.section, one.name) not in _HIDDEN]
    names = [one.name for one in settings]
    for one in settings:
        option = one.name if names.count(one.name) == 1 else f"{one.section}.{one.name}"
        yield option.replace("_", "-"), one, known.implied.get(one.name, one.default)


def _choices(setting: Any) -> str:  # noqa: ANN401  a Setting
    return f" ({', '.join(setting.choices)})" if setting.choices else ""


def _rewritten(args: Sequence[str], own: Mapping[str, bool], known: Known, *, strict: bool) -> Iterator[str]:
    """Yields the arguments with settings as ``--set NAME=VALUE``.

    Args:
        args: What was typed.
        own: The verb's own options, and whether each takes a value.
        known: What may be set.
        strict: Raise for unknown names; without, they are left out.
    """
    rest = list(args)
    while rest:
        token = rest.pop(0)
        if token == "--":
            yield from (token, *rest)
            return
        name, equals, value = token.partition("=")
        if name in own or not name.startswith("--"):
            if strict:
                _require_no_option(token, known)
            yield token
            if own.get(name) and not equals and rest:
                if strict and rest[0] in own and rest[0].startswith("--"):
                    raise SettingError(f"{name} needs a value; {rest[0]} is another option")
                yield rest.pop(0)
            continue
        typed = name.removeprefix("--")
        setting, kind, negated = _setting(typed, known)
        if setting is None and known.settings is not None:
            if strict:
                raise SettingError(_no_such_option(name, own, known))
            continue
        if negated:
            typed, value = str(setting), "false"
        elif not equals and kind is bool:
            value = rest.pop(0) if rest and rest[0].lower() in (*_TRUE, *_FALSE) else "true"
        elif not equals and rest and not rest[0].startswith("--"):
            value = rest.pop(0)
        elif not equals:
            if strict:
                raise SettingError(f"{name} needs a value, for example {name} 3 or {name}=3")
            continue
        yield from ("--set", f"{typed.replace('-', '_')}={value}")  # each system has its own name for it


def _require_setting(name: str, known: Known) -> None:
    """Makes sure that a name of ``--set`` is a setting, and no other argument of what the verb calls, such as ``out``.

    Raises:
        SettingError: if it is not; names with a section are left to whoever reads them.
    """
    if known.settings and name and "." not in name and _setting(name, known)[0] is None:
        meant = nearest_setting(name, [one.name for one in known.settings])
        listed = f" (`wenmai systems {known.of}` lists them)" if known.hint else ""
        raise SettingError(f"{known.of} has no setting {name!r}{meant}{listed}")


def _require_no_option(word: str, known: Known) -> None:
    """Makes sure that a word is not an option as a text processor writes it, nor a setting without its dashes.

    Raises:
        SettingError: if it is; the message has the option.
    """
    plain = word.lstrip(_DASHES)
    if plain != word and word[0] != "-" and plain[:1].isascii() and plain[:1].isalpha():
        raise SettingError(f"{word} begins with {word[0]!r}, which is not the sign '-'; did you mean --{plain}?")
    name, equals, value = word.partition("=")
    if equals and known.settings and _setting(name, known)[0] and not os.path.exists(word):
        raise SettingError(f"{word}: a setting is an option; did you mean --{name.replace('_', '-')} {value}?")


def _setting(typed: str, known: Known) -> tuple[str | None, type | None, bool]:
    """Returns the setting that an option stands for, its type, and whether the option is ``--no-SETTING``."""
    kinds = {
        name: type(one.default) for one in known.settings or () for name in (one.name, f"{one.section}.{one.name}")
    }
    if setting := find_setting(typed, kinds):
        return setting, kinds[setting], False
    setting = find_setting(typed.removeprefix("no-").removeprefix("no_"), kinds)
    if setting and kinds[setting] is bool:
        return setting, bool, True
    return None, None, False


def _no_such_option(name: str, own: Mapping[str, bool], known: Known) -> str:
    typed, settings = name.removeprefix("--"), [one.name for one in known.settings or ()]
    options = [option.removeprefix("--") for option in own if option.startswith("--")]
    meant = nearest_setting(typed, settings) or nearest_name(typed, options, prefix="--")
    return f"no such option: {name}{meant}{known.hint}"
