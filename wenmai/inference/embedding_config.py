"""How the states of an encoder become vectors of texts, as a model remembers it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge
from typing_extensions import Doc

from wenmai.core.errors import SettingError

__all__ = ["EmbeddingConfig", "Pooling"]

Pooling = Literal["mean", "cls", "max"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingConfig:
    """What the verb ``embed`` of a model does unless it is told otherwise.

    Raises:
        SettingError: if the default prompt is none of the prompts.
    """

    layer: Annotated[int, Doc("whose states are taken: 0 those of the embeddings, -1 those of the last layer")] = -1
    pooling: Annotated[
        Pooling, Doc("from tokens to a text: mean over its tokens, the first token (cls), or the largest number (max)")
    ] = "mean"
    normalise: Annotated[bool, Doc("vectors are scaled to length 1")] = False
    max_length: Annotated[
        int | None, Ge(3), Doc("longer texts are cut to so many tokens, special ones included; none: the model's")
    ] = None
    prompts: Annotated[Mapping[str, str], Doc("what stands before a text, by the name of its purpose")] = field(
        default_factory=dict
    )
    default_prompt: Annotated[str | None, Doc("name of the prompt that all texts get; none: none")] = None

    def __post_init__(self) -> None:
        if self.default_prompt is not None and self.default_prompt not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise SettingError(f"default_prompt={self.default_prompt} is none of the prompts; there are: {known}")
