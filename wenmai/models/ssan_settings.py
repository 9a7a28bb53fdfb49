"""The settings of SSAN, which are read and listed without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt
from pydantic import BeforeValidator
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.config.lists import listed
from wenmai.core.errors import SettingError

__all__ = ["SsanConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SsanConfig:
    """What SSAN adds to an encoder.

    Raises:
        SettingError: if a setting would have no effect.
    """

    structure: Annotated[
        Literal["none", "decomposed", "biaffine"],
        Doc("how attention knows of sentences and entities: not at all, by sums of vectors, or by matrices"),
    ] = "biaffine"
    structured: Annotated[
        tuple[int, ...],
        BeforeValidator(listed),
        Doc("layers whose attention knows of them, numbers from 1; none: all layers"),
    ] = ()
    features: Annotated[
        bool,
        Doc("the encoder reads types and numbers of entities too, and the classifier the distances of two entities"),
    ] = True
    most_entities: Annotated[int, Ge(1), Doc("features: numbers of entities that have a vector")] = 42
    distance_size: Annotated[int, Ge(1), Doc("features: size of the vector of a distance")] = 20
    entity_size: Annotated[int, Ge(1), Doc("size of the vector of an entity")] = 128
    head_dropout: Annotated[float, Ge(0), Lt(1), Doc("of the vectors of entities")] = 0.1

    def __post_init__(self) -> None:
        if self.structure == "none":
            require_usual(self, ("structured",), "structure=none", needed="structure=biaffine")
        if len(set(self.structured)) < len(self.structured) or any(layer < 1 for layer in self.structured):
            named = ",".join(map(str, self.structured))
            raise SettingError(f"structured={named}: expected different numbers of layers, the first of which is 1")
        if not self.features:
            require_usual(self, ("most_entities", "distance_size"), "features=false", needed="features=true")
