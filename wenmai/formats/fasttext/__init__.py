"""fastText's model files, both ways; a name that ends in ``.ftz`` makes a quantised file."""

from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from wenmai.core.errors import SettingError
from wenmai.formats.fasttext.model_file import read_fasttext, write_fasttext
from wenmai.formats.fasttext.quantised import QuantisationConfig, quantised_by
from wenmai.formats.fasttext.text_settings import read_text_settings, settings_beside, write_text_settings
from wenmai.formats.format import Format, Imported, Trained

__all__ = ["FORMATS", "read_fasttext", "write_fasttext"]


def _export(path: Path, run: Trained) -> None:
    """Writes the whole model, quantised if the name of the file says so."""
    model, chosen = run.whole, run.settings
    if path.suffix.lower() != ".ftz":
        if chosen is not None:
            known = ", ".join(setting.name for setting in fields(chosen))
            raise SettingError(f"{path}: {known} are for quantised models; give the file a name that ends in .ftz")
    elif chosen is not None or isinstance(model.input, np.ndarray):
        try:
            model = quantised_by(chosen or QuantisationConfig(), model, run.retrain)
        except SettingError as error:
            raise SettingError(f"{run.path}: {error}") from None
    write_fasttext(path, model)
    if model.kind == "supervised" and (lossy := run.model.text.lossy):
        write_text_settings(path, run.model.text)
        named = ", ".join(f"{name}={str(value).lower()}" for name, value in lossy.items())
        run.note(
            f"{path}: has no place for how texts become words ({named}), which is in {settings_beside(path)} for "
            "`wenmai import`; texts for other programs must be prepared in the same way"
        )


def _imported(path: Path) -> Imported:
    model = read_fasttext(path)
    settings = {f"model.{name}": value for name, value in asdict(model.config).items()}
    if model.kind != "supervised":
        return Imported(system="fasttext", model=model, vocabulary=len(model.vocab), settings=settings)
    settings |= {f"text.{name}": value for name, value in read_text_settings(path).items()}
    system, size = "fasttext-supervised", len(model.vocab)
    return Imported(system=system, model=model, vocabulary=size, settings=settings, open=("text",))


FORMATS = (
    Format(
        name="fasttext",
        summary="fastText's model file: word vectors with subwords, or a classifier; .bin as it is, .ftz quantised",
        models=("wenmai.models.fasttext:FastText",),
        write=_export,
        settings=QuantisationConfig,
        read=_imported,
    ),
)
