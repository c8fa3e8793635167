"""Download the files of data sets, convert them and verify them.

Classification sets become `label<TAB>text` files: UTF-8, LF only, gzip. Downloads are kept under
`raw/` in the data home; an interrupted one is resumed from `NAME.part`. `WORDWAVE_MIRROR` names a
web address that serves every source by its file name; checksums are verified all the same, so a
mirror need not be trusted.
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Literal

from wordwave.data.registry import DataFile, DataSet, Source, data_home
from wordwave.errors import WordwaveError
from wordwave.files import DAMAGED, locked, open_binary, sha256_of, write_whole

MIRROR = "WORDWAVE_MIRROR"
Progress = Callable[[str, int, "int | None"], None]
"""Called with a file's name, the bytes downloaded so far, and the total if known."""
State = Literal["ok", "missing", "wrong checksum"]

# Larger than any file in the catalogue: whatever is longer is not that file.
_LARGEST = 1 << 26
_CHUNK = 1 << 16
_TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two reads
_RESUME = "the partial download is kept: run the same command again to resume"
# The labelled file of SST keeps some spellings that GLUE's test file has changed.
_SPELLINGS = {"favour": "favor", "favourite": "favorite", "humour": "humor", "learnt": "learned"}


def prepare(
    dataset: DataSet, *, home: Path | None = None, progress: Progress | None = None
) -> list[Path]:
    """Download and convert the files that are missing or wrong; returns the files written."""
    home = home or data_home()
    written = []
    for file in dataset.files:
        path = home / file.path
        if state(file, home=home) == "ok":
            continue
        if not file.sources:
            raise WordwaveError(
                f"{dataset.name} cannot be downloaded by wordwave: put its file at '{path}'"
            )
        if file.form == "copy":
            (source,) = file.sources
            fetch(replace(source, sha256=file.sha256), path.parent, progress=progress)
        else:
            raws = [fetch(source, home / "raw", progress=progress) for source in file.sources]
            try:
                content = _member(file, raws[0]) if file.form == "zip" else convert(file, raws)
                if (got := sha256_of([content])) != file.sha256:
                    what = f"{file.path}: the content made from its source"
                    raise _wrong_sum(what, file.sha256, got)
            except WordwaveError:
                for source, raw in zip(file.sources, raws, strict=True):
                    if source.sha256 is None:  # any other source has been verified, and is kept
                        raw.unlink(missing_ok=True)
                raise
            if path.suffix == ".gz":
                content = gzip.compress(content, mtime=0)  # the same bytes for the same content
            write_whole(path, partial(Path.write_bytes, data=content))
        written.append(path)
    return written


def state(file: DataFile, *, home: Path | None = None) -> State:
    """Whether a prepared file in the data home is complete and unchanged."""
    path = (home or data_home()) / file.path
    if not path.is_file():
        return "missing"
    try:
        got = sha256_of(_chunks(path.open("rb") if file.form == "copy" else open_binary(path)))
    except DAMAGED:
        return "wrong checksum"
    return "ok" if got == file.sha256 else "wrong checksum"


def fetch(source: Source, folder: Path, *, progress: Progress | None = None) -> Path:
    """The source as a file in the folder, downloaded unless it is there.

    If another process is downloading it, waits for that one.
    """
    mirror = os.environ.get(MIRROR)
    if mirror and not mirror.startswith(("http://", "https://")):
        raise WordwaveError(f"{MIRROR} must start with http:// or https://, got {mirror!r}")
    url = f"{mirror.rstrip('/')}/{source.file}" if mirror else source.url
    folder.mkdir(parents=True, exist_ok=True)
    path, part = folder / source.file, folder / f"{source.file}.part"
    with locked(folder / f".{source.file}.lock"):
        if path.is_file() and source.sha256 in (None, sha256_of(_chunks(path.open("rb")))):
            return path
        _download(url, part, source.file, progress)
        if (
            source.sha256 is not None
            and (got := sha256_of(_chunks(part.open("rb")))) != source.sha256
        ):
            part.unlink()
            raise _wrong_sum(f"{source.file}: the download", source.sha256, got)
        part.replace(path)
    return path


def _download(url: str, part: Path, name: str, progress: Progress | None) -> None:
    """Download to a file, from where an interrupted download of it ended."""
    import requests

    done = part.stat().st_size if part.exists() else 0
    # Unencoded: a range of compressed bytes would not fit the bytes that are here.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            status, span = response.status_code, response.headers.get("Content-Range", "")
            if status == 416 and done:
                if span != f"bytes */{done}":  # else the download was complete
                    part.unlink()
                    _download(url, part, name, progress)
                return
            resumes = status == 206 and span.startswith(f"bytes {done}-")
            if status != 200 and not resumes:
                raise OSError(f"{name}: {url} answers {status} {response.reason}")
            done = done if resumes else 0
            length = response.headers.get("Content-Length", "")
            total = done + int(length) if length.isdecimal() else None
            with part.open("ab" if resumes else "wb") as file:
                for chunk in response.iter_content(_CHUNK):
                    done += file.write(chunk)
                    if progress:
                        progress(name, done, total)
                    if done > _LARGEST:
                        break
    except requests.RequestException as error:
        why = type(error).__name__
        raise OSError(f"{name}: the connection to {url} failed ({why}); {_RESUME}") from None
    if done > _LARGEST:
        part.unlink()
        raise WordwaveError(f"{name}: more than {_LARGEST} bytes came from {url}")
    if total is not None and done < total:
        raise OSError(f"{name}: {done} of {total} bytes came from {url}; {_RESUME}")


def convert(file: DataFile, raws: list[Path]) -> bytes:
    """The `label<TAB>text` lines of a classification set, made from its downloads."""
    try:
        rows = _labelled_texts(file, raws)
    except UnicodeDecodeError as error:
        raise WordwaveError(f"{file.path}: its source is not {file.encoding}: {error}") from None
    return "".join(f"{label}\t{text.strip(' ')}\n" for label, text in rows).encode()


def _labelled_texts(file: DataFile, raws: list[Path]) -> list[tuple[str, str]]:
    if file.form == "lines":
        return _lines(file, raws[0])
    table = _member(file, raws[0]).decode(file.encoding).removesuffix("\n").split("\n")[1:]
    if file.form == "glue":
        return [(label, text) for text, _, label in (row.rpartition("\t") for row in table)]
    label_of = {_key(text): label for label, text in _lines(file, raws[1])}
    texts = [row.partition("\t")[2] for row in table]
    return [(label_of.get(_key(text), "?"), text) for text in texts]


def _lines(file: DataFile, path: Path) -> list[tuple[str, str]]:
    raw = path.read_bytes()
    for wrong, right in file.repairs:
        raw = raw.replace(wrong.encode("latin-1"), right.encode("latin-1"))
    content = raw.decode(file.encoding).removesuffix("\n")
    content = content.replace("-lrb-", "(").replace("-rrb-", ")")
    return [(label, text) for label, _, text in (row.partition(" ") for row in content.split("\n"))]


def _key(text: str) -> str:
    """The same for the same sentence in both files of SST: without spaces and escapes."""
    return "".join(_SPELLINGS.get(word, word) for word in text.replace("\\", "").split())


def _member(file: DataFile, path: Path) -> bytes:
    """The content of one member of a zip, bounded in size; nothing else is extracted."""
    limit = file.size or _LARGEST
    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(file.member)
            if member.file_size > limit:  # no more than this is ever read
                what = f"'{path}': {file.member!r}"
                raise WordwaveError(f"{what} must not be larger than {limit} bytes")
            return archive.read(member)
    except KeyError:
        raise WordwaveError(f"'{path}' has no {file.member!r} in it") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise WordwaveError(f"'{path}' is not a zip that can be read: {error}") from None


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(partial(file.read, _CHUNK), b"")


def _wrong_sum(what: str, expected: str, got: str) -> WordwaveError:
    return WordwaveError(
        f"{what} must have the sha256 {expected[:12]}…, got {got[:12]}…; it was not kept"
    )
