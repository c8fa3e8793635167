"""Labelled texts in memory: columns of rows, parts of them, and the sets of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wordwave.data.columns import blocks, taken
from wordwave.errors import WordwaveError
from wordwave.files import sha256_of

if TYPE_CHECKING:
    from wordwave.data.columns import Indices

R = TypeVar("R", bound="Rows")


class Rows:
    """Columns of strings, which are the fields of a dataclass but for its name."""

    name: str

    @property
    def columns(self) -> tuple[Sequence[str], ...]:
        """All columns, in the order of the fields."""
        return tuple(v for name, v in vars(self).items() if name != "name")

    def __len__(self) -> int:
        return len(self.columns[0])

    def subset(self: R, rows: Iterable[int] | Indices, name: str | None = None) -> R:
        """Some of the rows."""
        make: Any = type(self)
        rows = cast("Sequence[int]", rows if hasattr(rows, "__len__") else list(rows))
        return make(*(taken(column, rows) for column in self.columns), name or self.name)

    def representation(self) -> Iterator[bytes]:
        """`repr(self.columns)`, piece by piece."""
        for number, column in enumerate(self.columns):
            before = ", [" if number else "(["
            for block in blocks(column):
                yield (before + repr(block)[1:-1]).encode()
                before = ", "
            yield b"]" if len(column) else (before + "]").encode()
        yield b")"


@dataclass(frozen=True)
class PartsOf(Generic[R]):
    """The training, validation and test sets."""

    train: R
    dev: R | None
    test: R | None

    def fingerprint(self) -> str:
        """A hash of all rows."""
        given = [part for part in (self.train, self.dev, self.test) if part is not None]
        return sha256_of(piece for part in given for piece in part.representation())[:16]


@dataclass(frozen=True)
class Examples(Rows):
    """Texts and their labels."""

    texts: Sequence[str] = field(repr=False)
    labels: Sequence[str] = field(repr=False)
    name: str = "examples"
    """Where they come from, for messages."""

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            got = f"{len(self.texts)} texts, {len(self.labels)} labels"
            raise WordwaveError(f"{self.name}: every text must have a label, got {got}")
