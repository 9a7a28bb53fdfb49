"""How results show themselves: a line in a Python shell, tables in a notebook and as data frames of pandas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from wenmai.core.columns import in_columns
from wenmai.core.errors import SettingError
from wenmai.core.wording import say

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Shown", "Table", "Tabled"]


@dataclass(frozen=True)
class Table:
    """Rows of values under names; ``str()`` lines them up.

    Attributes:
        columns: The names.
        rows: A value for each, ``None`` where there is none.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> "Table":
        """Makes a table of records, with a column for each name that one of them has a value for."""
        columns = list(dict.fromkeys(name for record in records for name, value in record.items() if value is not None))
        return cls(columns, [[record.get(name) for name in columns] for record in records])

    def __str__(self) -> str:
        return in_columns([list(map(say, self.columns)), *([_plain(value) for value in row] for row in self.rows)])

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_dataframe(self) -> "DataFrame":
        """Returns the table as a data frame.

        Raises:
            SettingError: if pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise SettingError("to_dataframe needs pandas, which wenmai does not: `pip install pandas`") from None
        return pandas.DataFrame([list(row) for row in self.rows], columns=list(self.columns))


class Shown:
    """An object that shows what it is made of: ``Name(fact=value, ...)``, and as a table in a notebook."""

    def _facts(self) -> Mapping[str, Any]:
        """What is shown, by name; ``None`` is left out."""
        return {}

    def __repr__(self) -> str:
        facts = (f"{name}={_short(value)!r}" for name, value in self._facts().items() if value is not None)
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        """The object in a notebook."""
        rows = "".join(
            f"<tr><th>{escape(name.replace('_', ' '))}</th>{_cell(value)}</tr>"
            for name, value in self._facts().items()
            if value is not None
        )
        return f"<b>{escape(type(self).__name__)}</b><table><tbody>{rows}</tbody></table>"


class Tabled(Shown):
    """A result with a table: ``repr()`` is its text, so that a Python shell shows what the command line prints."""

    def table(self) -> Table:
        """Returns the results as a table."""
        raise NotImplementedError

    def to_dataframe(self) -> "DataFrame":
        """Returns :meth:`table` as a data frame.

        Raises:
            SettingError: if pandas is not installed.
        """
        return self.table().to_dataframe()

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        """The result in a notebook."""
        return super()._repr_html_() + self.table()._repr_html_()


def _short(value: Any) -> Any:  # noqa: ANN401  any value
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _plain(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _cell(value: Any) -> str:  # noqa: ANN401
    number = isinstance(value, int | float) and not isinstance(value, bool)
    side = "right" if number else "left"
    return f'<td style="text-align:{side}">{"" if value is None else escape(_plain(value))}</td>'
