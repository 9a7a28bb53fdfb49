"""What a model of relations keeps of the documents that it was trained on, ``facts.json``."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import read_json_object, writing_json
from wenmai.data.relations import Fact
from wenmai.models.folder import checked

__all__ = ["RelationFacts"]

_FILE = "facts.json"


class RelationFacts(NamedTuple):
    """What is known of the documents that were trained on.

    Attributes:
        meanings: What relations mean, by name.
        seen: Their facts, for Ign F1; see :func:`wenmai.data.relations.facts_of`.
        asked: The types of head and tail of their pairs; None: any. See :func:`wenmai.data.relations.asked_types`.
        trained: What identifies each; see :func:`wenmai.data.relations.key_of`.
    """

    meanings: Mapping[str, str]
    seen: frozenset[Fact]
    asked: frozenset[tuple[str, str]] | None = None
    trained: frozenset[str] = frozenset()

    def save(self, folder: Path) -> None:
        """Writes ``facts.json``."""
        asked = None if self.asked is None else sorted(map(list, self.asked))
        facts = {"meanings": dict(self.meanings), "seen": sorted(map(list, self.seen)), "asked": asked}
        writing_json(folder / _FILE, facts | {"trained": sorted(self.trained)})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if the file is missing or damaged.
        """
        path = folder / _FILE
        found = read_json_object(path)
        try:
            meanings = checked(dict[str, str], found.get("meanings"))
            seen = checked(list[Fact], found.get("seen"))
            asked = found.get("asked")  # older models have none
            types = None if asked is None else frozenset(checked(list[tuple[str, str]], asked))
            trained = checked(list[str], found.get("trained", []))  # likewise
        except SettingError as error:
            raise FormatError(f"{path}: is damaged: {error}") from None
        return cls(meanings, frozenset(seen), types, frozenset(trained))
