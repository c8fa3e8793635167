"""Download the files of data sets, convert them and verify them.

Classification sets become `label<TAB>text` files: UTF-8, LF only, gzip. Downloads are kept under
`raw/` in the data home; an interrupted one is resumed from `NAME.part`. `WORDWAVE_MIRROR` names a
web address that serves every source by its file name; checksums are verified all the same, so a
mirror need not be trusted.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Literal

from wordwave.data.registry import DataFile, DataSet, Source, data_home
from wordwave.data.tables import DAMAGED, OPENERS
from wordwave.errors import WordwaveError
from wordwave.files import locked, write_whole

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
_SPELLINGS = {
    "favour": "favor",
    "favourite": "favorite",
    "humour": "humor",
    "learnt": "learned",
}


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
        if file.form == "copy":
            (source,) = file.sources
            fetch(replace(source, sha256=file.sha256), path.parent, progress=progress)
        else:
            raws = [fetch(source, home / "raw", progress=progress) for source in file.sources]
            try:
                write_whole(path, partial(_write, file, raws))
            except WordwaveError:
                for source, raw in zip(file.sources, raws, strict=True):
                    if source.sha256 is None:  # any other source has been verified, and is kept
                        raw.unlink(missing_ok=True)
                raise
        written.append(path)
    return written


def state(file: DataFile, *, home: Path | None = None) -> State:
    """Whether a prepared file in the data home is complete and unchanged."""
    path = (home or data_home()) / file.path
    if not path.is_file():
        return "missing"
    opener = open if file.form == "copy" else OPENERS.get(path.suffix, open)
    digest = hashlib.sha256()
    try:
        with opener(path, "rb") as content:
            for chunk in _chunks(content, max(file.size, _LARGEST)):
                digest.update(chunk)
    except DAMAGED:
        return "wrong checksum"
    return "ok" if digest.hexdigest() == file.sha256 else "wrong checksum"


def _chunks(content: IO[bytes], limit: int) -> Iterator[bytes]:
    """The content in chunks, up to a few bytes more than the limit."""
    done = 0
    while done <= limit and (chunk := content.read(_CHUNK)):
        done += len(chunk)
        yield chunk


def fetch(source: Source, folder: Path, *, progress: Progress | None = None) -> Path:
    """The source as a file in the folder, downloaded unless it is there.

    If another process is downloading it, waits for that one.
    """
    import pooch

    mirror = os.environ.get(MIRROR)
    if mirror and not mirror.startswith(("http://", "https://")):
        raise WordwaveError(f"{MIRROR} must start with http:// or https://, got {mirror!r}")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{source.file}.part"
    with _quiet(pooch.get_logger()), locked(folder / f".{source.file}.lock"):
        path = pooch.retrieve(
            f"{mirror.rstrip('/')}/{source.file}" if mirror else source.url,
            known_hash=source.sha256 and f"sha256:{source.sha256}",
            fname=source.file,
            path=folder,
            downloader=_ResumingDownloader(source, part, progress),
        )
    return Path(path)


@dataclass(frozen=True)
class _ResumingDownloader:
    """A downloader for pooch that resumes an interrupted download."""

    source: Source
    part: Path
    progress: Progress | None

    def __call__(self, url: str, output_file: str, _pooch: object) -> None:
        import requests

        try:
            self._download(url)
        except requests.RequestException as error:
            why = type(error).__name__
            raise OSError(
                f"{self.source.file}: the connection to {url} failed ({why}); {_RESUME}"
            ) from None
        if self.source.sha256 is not None:
            got = hashlib.sha256(self.part.read_bytes()).hexdigest()
            try:
                _check_sha256(self.source.file, "the download", self.source.sha256, got)
            except WordwaveError:
                self.part.unlink()
                raise
        self.part.replace(output_file)

    def _download(self, url: str) -> None:
        import requests

        done = self.part.stat().st_size if self.part.exists() else 0
        # Unencoded: a range of compressed bytes would not fit the bytes that are here.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            span = response.headers.get("Content-Range", "")
            if response.status_code == 416 and done:
                if span != f"bytes */{done}":  # else the download was complete
                    self.part.unlink()
                    self._download(url)
                return
            if response.status_code not in (200, 206):
                raise OSError(
                    f"{self.source.file}: {url} answers {response.status_code} {response.reason}"
                )
            resumes = response.status_code == 206 and span.startswith(f"bytes {done}-")
            if response.status_code == 206 and not resumes:
                self.part.unlink(missing_ok=True)
                raise OSError(f"{self.source.file}: {url} sent {span!r}, not from byte {done} on")
            done = done if resumes else 0
            length = response.headers.get("Content-Length", "")
            total = done + int(length) if length.isdecimal() else None
            with self.part.open("ab" if resumes else "wb") as file:
                for chunk in response.iter_content(_CHUNK):
                    done += file.write(chunk)
                    if done > _LARGEST:
                        break
                    if self.progress:
                        self.progress(self.source.file, done, total)
        if done > _LARGEST:
            self.part.unlink()
            raise WordwaveError(f"{self.source.file}: more than {_LARGEST} bytes came from {url}")
        if total is not None and done < total:
            raise OSError(f"{self.source.file}: {done} of {total} bytes came from {url}; {_RESUME}")


def _write(file: DataFile, raws: list[Path], new: Path) -> None:
    """Write a file's content, compressed if its name ends in .gz, and verify its checksum."""
    digest = hashlib.sha256()

    def hashed(chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            digest.update(chunk)
            yield chunk

    content = hashed(_unzipped(raws[0], file) if file.form == "zip" else [convert(file, raws)])
    with new.open("wb") as out:
        if file.path.endswith(".gz"):
            # The same bytes for the same content: no time, no name.
            with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
                packed.writelines(content)
        else:
            out.writelines(content)
    _check_sha256(file.path, "the content made from its source", file.sha256, digest.hexdigest())


def convert(file: DataFile, raws: list[Path]) -> bytes:
    """The `label<TAB>text` lines of a classification set, made from its downloads."""
    try:
        rows = _labelled_texts(file, raws)
    except UnicodeDecodeError as error:
        raise WordwaveError(f"{file.path}: its source is not {file.encoding}: {error}") from None
    return "".join(f"{label}\t{text.strip(' ')}\n" for label, text in rows).encode()


def _labelled_texts(file: DataFile, raws: list[Path]) -> list[tuple[str, str]]:
    if file.form == "lines":
        return _lines(file, raws[0].read_bytes())
    member = b"".join(_unzipped(raws[0], file))
    table = member.decode(file.encoding).removesuffix("\n").split("\n")[1:]
    if file.form == "glue":
        return [(label, text) for text, _, label in (row.rpartition("\t") for row in table)]
    label_of = {_key(text): label for label, text in _lines(file, raws[1].read_bytes())}
    texts = [row.partition("\t")[2] for row in table]
    return [(label_of.get(_key(text), "?"), text) for text in texts]


def _lines(file: DataFile, raw: bytes) -> list[tuple[str, str]]:
    for wrong, right in file.repairs:
        raw = raw.replace(wrong.encode("latin-1"), right.encode("latin-1"))
    content = raw.decode(file.encoding).removesuffix("\n")
    content = content.replace("-lrb-", "(").replace("-rrb-", ")")
    return [(label, text) for label, _, text in (row.partition(" ") for row in content.split("\n"))]


def _key(text: str) -> str:
    """The same for the same sentence in both files of SST: without spaces and escapes."""
    words = (_SPELLINGS.get(word, word) for word in text.replace("\\", "").split())
    return "".join(words)


def _unzipped(path: Path, file: DataFile) -> Iterator[bytes]:
    """The content of one member of a zip, bounded in size; nothing else is extracted."""
    limit = file.size or _LARGEST
    done = 0
    try:
        with zipfile.ZipFile(path) as archive, archive.open(file.member) as member:
            for chunk in _chunks(member, limit):
                done += len(chunk)
                yield chunk
    except KeyError:
        raise WordwaveError(f"'{path}' has no {file.member!r} in it") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise WordwaveError(f"'{path}' is not a zip that can be read: {error}") from None
    if done > limit:
        raise WordwaveError(f"'{path}': {file.member!r} must not be larger than {limit} bytes")


def _check_sha256(name: str, what: str, expected: str, got: str) -> None:
    if got != expected:
        raise WordwaveError(
            f"{name}: {what} must have the sha256 {expected[:12]}…, got {got[:12]}…; "
            "it was not kept"
        )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Without pooch's own messages: the caller shows progress."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
