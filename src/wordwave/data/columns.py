"""Columns of a table with millions of rows, without as many Python strings in memory.

Texts are kept in an anonymous temporary file in TMPDIR, labels as small integers. Both are
sequences of strings, as the lists are that shorter columns are kept in.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, TypeVar, overload

from wordwave.files import naming_temporary

if TYPE_CHECKING:  # numpy is imported when it is used: `--help` needs none
    import numpy as np
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]

T = TypeVar("T")

MANY = 200_000
"""A column of more rows is not kept as a list."""
BLOCK = 4096
"""Texts that are read or written at once."""


def blocks(items: Iterable[T], size: int = BLOCK) -> Iterator[list[T]]:
    """The items in lists of at most so many."""
    rest = iter(items)
    return iter(lambda: list(islice(rest, size)), [])


class _Column(Sequence[str]):
    """What both kinds share: an element, and a slice as a list."""

    @abstractmethod
    def _taken(self, rows: Any) -> Iterator[str]:
        """The strings at some rows."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return list(self._taken(range(len(self))[index]))
        return next(self._taken([range(len(self))[index]]))

    def __iter__(self) -> Iterator[str]:
        return self._taken(range(len(self)))

    def __reduce__(self) -> Any:
        return list, (list(self),)  # another process has no access to the file


class StoredTexts(_Column):
    """Texts in a file, one after the other in UTF-8.

    Args:
        starts: where each text of the file begins, and the end. Shape: (n + 1,)
        rows: the texts of the file that this column has, by default all. Shape: (N,)
    """

    def __init__(self, file: IO[bytes], starts: Indices, rows: Indices | None = None) -> None:
        self._file, self._starts, self._rows = file, starts, rows

    def __len__(self) -> int:
        return len(self._starts) - 1 if self._rows is None else len(self._rows)

    def subset(self, rows: Sequence[int] | Indices) -> StoredTexts:
        """Some of the texts, in the same file."""
        import numpy as np

        taken = np.asarray(rows, np.int64)
        return StoredTexts(
            self._file, self._starts, taken if self._rows is None else self._rows[taken]
        )

    def _taken(self, rows: Any) -> Iterator[str]:
        import numpy as np

        for start in range(0, len(rows), BLOCK):
            at = np.asarray(rows[start : start + BLOCK], np.int64)
            at = at if self._rows is None else self._rows[at]
            begin, end = self._starts[at], self._starts[at + 1]
            # Consecutive texts are read at once, scattered ones one by one.
            is_dense = bool(end.max() - begin.min() <= 4 * (end - begin).sum() + BLOCK)
            first = int(begin.min()) if is_dense else 0
            content = self._read(first, int(end.max())) if is_dense else b""
            for a, b in zip((begin - first).tolist(), (end - first).tolist(), strict=True):
                yield (content[a:b] if is_dense else self._read(a, b)).decode()

    def _read(self, begin: int, end: int) -> bytes:
        self._file.seek(begin)
        return self._file.read(end - begin)


class CodedLabels(_Column):
    """Labels as numbers.

    Args:
        codes: Shape: (N,)
        names: the label of each number.
    """

    def __init__(self, codes: NDArray[np.int32], names: list[str]) -> None:
        self.codes, self.names = codes, names

    def __len__(self) -> int:
        return len(self.codes)

    def subset(self, rows: Sequence[int] | Indices) -> CodedLabels:
        """Some of the labels."""
        import numpy as np

        return CodedLabels(self.codes[np.asarray(rows, np.int64)], self.names)

    def _taken(self, rows: Any) -> Iterator[str]:
        import numpy as np

        names = self.names
        for start in range(0, len(rows), BLOCK):
            at = np.asarray(rows[start : start + BLOCK], np.int64)
            yield from (names[code] for code in self.codes[at].tolist())


def collect(rows: Iterable[tuple[str, str]]) -> tuple[Sequence[str], Sequence[str]]:
    """Texts and labels of rows that come one by one, as two lists, or as two columns if many."""
    import numpy as np

    rest = iter(rows)
    first = list(islice(rest, MANY))
    texts, labels = [text for text, _ in first], [label for _, label in first]
    if len(first) < MANY:
        return texts, labels
    del first
    with naming_temporary():
        file = tempfile.TemporaryFile()  # noqa: SIM115
    starts, codes, numbers = array("q", [0]), array("i"), dict[str, int]()

    def store(texts: Iterable[str], labels: Iterable[str]) -> None:
        for block in blocks(texts):
            contents = [text.encode() for text in block]
            with naming_temporary():
                file.writelines(contents)
            for content in contents:
                starts.append(starts[-1] + len(content))
        codes.extend(numbers.setdefault(label, len(numbers)) for label in labels)

    store(texts, labels)
    del texts, labels
    for block in blocks(rest):
        store((text for text, _ in block), (label for _, label in block))
    with naming_temporary():
        file.flush()
    names = list(numbers)
    return (
        StoredTexts(file, np.frombuffer(starts, np.int64)),
        CodedLabels(np.frombuffer(codes, np.intc), names),
    )


def taken(column: Sequence[str], rows: Sequence[int] | Indices) -> Sequence[str]:
    """Some rows of a column of any kind."""
    if isinstance(column, (StoredTexts, CodedLabels)):
        return column.subset(rows)
    return [column[i] for i in rows]
