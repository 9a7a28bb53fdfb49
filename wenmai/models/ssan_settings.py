"""The settings of SSAN, which are read and listed without torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Lt
from pydantic import BeforeValidator
from typing_extensions import Doc

from wenmai.config.lists import listed
from wenmai.core.errors import SettingError

__all__ = ["SsanConfig"]

_DISTANCE_SIZE, _MOST_ENTITIES = 20, 42


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
    most_entities: Annotated[int, Ge(1), Doc("features: numbers of entities that have a vector")] = _MOST_ENTITIES
    distance_size: Annotated[int, Ge(1), Doc("features: size of the vector of a distance")] = _DISTANCE_SIZE
    entity_size: Annotated[int, Ge(1), Doc("size of the vector of an entity")] = 128
    head_dropout: Annotated[float, Ge(0), Lt(1), Doc("of the vectors of entities")] = 0.1

    def __post_init__(self) -> None:
        if self.structure == "none" and self.structured:
            raise SettingError("structured has no effect with structure=none; leave it out")
        if len(set(self.structured)) < len(self.structured) or any(layer < 1 for layer in self.structured):
            named = ",".join(map(str, self.structured))
            raise SettingError(f"structured={named}: expected different numbers of layers, the first of which is 1")
        if not self.features and (self.most_entities, self.distance_size) != (_MOST_ENTITIES, _DISTANCE_SIZE):
            raise SettingError("most_entities and distance_size have no effect with features=false; leave them out")
