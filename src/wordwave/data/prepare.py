"""Download a catalogue set and turn it into `label<TAB>text` files: UTF-8, LF only, gzip.

A mirror may be named by `WORDWAVE_MIRROR`: every source is then looked up there by its file name.
Checksums hold as ever, so a mirror need not be trusted. Sources are kept under `raw/` in the data
home, and a download that was cut goes on from `NAME.part`.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from wordwave.data.registry import DataSet, Part, Source, data_home
from wordwave.errors import WordwaveError
from wordwave.files import locked, write_whole

MIRROR = "WORDWAVE_MIRROR"
Progress = Callable[[str, int, "int | None"], None]
"""Called with a file's name, the bytes that are here, and those of the whole file if known."""

# More than the largest file of all catalogues: what goes on beyond is not that file.
_LARGEST = 1 << 26
_CHUNK = 1 << 16
_TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two reads
_GO_ON = "what came is kept: the same command goes on"
# The labelled file keeps some spellings that GLUE's test file has changed.
_SPELLINGS = {
    "favour": "favor",
    "favourite": "favorite",
    "humour": "humor",
    "learnt": "learned",
}


def prepare(
    dataset: DataSet, *, home: Path | None = None, progress: Progress | None = None
) -> list[Path]:
    """Make those files of a set that are missing or wrong; returns the files made."""
    folder = home or data_home()
    made = []
    for part in dataset.parts:
        if state(part, home=folder) == "ok":
            continue
        raws = [fetch(source, folder / "raw", progress=progress) for source in part.sources]
        try:
            text = prepared_text(part, raws)
            _check_sha256(part.file, "the text made from its source", part.sha256, text)
        except ValueError:
            for source, raw in zip(part.sources, raws, strict=True):
                if source.sha256 is None:  # any other source has been checked, and is kept
                    raw.unlink(missing_ok=True)
            raise
        write_whole(folder / part.file, partial(_write_gzip, content=text))
        made.append(folder / part.file)
    return made


def state(part: Part, *, home: Path | None = None) -> Literal["ok", "missing", "wrong checksum"]:
    """How a prepared file stands in the data home."""
    path = (home or data_home()) / part.file
    if not path.is_file():
        return "missing"
    digest = hashlib.sha256()
    try:
        with gzip.open(path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                if file.tell() > _LARGEST:
                    return "wrong checksum"
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return "wrong checksum"
    return "ok" if digest.hexdigest() == part.sha256 else "wrong checksum"


def fetch(source: Source, folder: Path, *, progress: Progress | None = None) -> Path:
    """The source as a file in the folder, downloaded unless it is there.

    Who asks for it while another process downloads it waits for that one.
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
            downloader=_Continued(source, part, progress),
        )
    return Path(path)


@dataclass(frozen=True)
class _Continued:
    """A downloader for pooch that goes on where the last one stopped."""

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
                f"{self.source.file}: the connection to {url} failed ({why}); {_GO_ON}"
            ) from None
        if self.source.sha256 is not None:
            content = self.part.read_bytes()
            try:
                _check_sha256(self.source.file, "the download", self.source.sha256, content)
            except ValueError:
                self.part.unlink()
                raise
        self.part.replace(output_file)

    def _download(self, url: str) -> None:
        import requests

        done = self.part.stat().st_size if self.part.exists() else 0
        # Unencoded, for a range of compressed bytes would not fit the bytes that are here.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
            span = answer.headers.get("Content-Range", "")
            if answer.status_code == 416 and done:
                if span != f"bytes */{done}":  # else all was here already
                    self.part.unlink()
                    self._download(url)
                return
            if answer.status_code not in (200, 206):
                raise OSError(
                    f"{self.source.file}: {url} answers {answer.status_code} {answer.reason}"
                )
            goes_on = answer.status_code == 206 and span.startswith(f"bytes {done}-")
            if answer.status_code == 206 and not goes_on:
                self.part.unlink(missing_ok=True)
                raise OSError(f"{self.source.file}: {url} sent {span!r}, not from byte {done} on")
            done = done if goes_on else 0
            length = answer.headers.get("Content-Length", "")
            total = done + int(length) if length.isdecimal() else None
            with self.part.open("ab" if goes_on else "wb") as file:
                for chunk in answer.iter_content(_CHUNK):
                    done += file.write(chunk)
                    if done > _LARGEST:
                        break
                    if self.progress:
                        self.progress(self.source.file, done, total)
        if done > _LARGEST:
            self.part.unlink()
            raise WordwaveError(f"{self.source.file}: more than {_LARGEST} bytes came from {url}")
        if total is not None and done < total:
            raise OSError(f"{self.source.file}: {done} of {total} bytes came from {url}; {_GO_ON}")


def prepared_text(part: Part, raws: list[Path]) -> bytes:
    """The `label<TAB>text` lines that the sources become."""
    try:
        rows = _rows(part, raws)
    except UnicodeDecodeError as error:
        raise WordwaveError(f"{part.file}: its source is not {part.encoding}: {error}") from None
    return "".join(f"{label}\t{text.strip(' ')}\n" for label, text in rows).encode()


def _rows(part: Part, raws: list[Path]) -> list[tuple[str, str]]:
    if part.form == "lines":
        return _lines(part, raws[0].read_bytes())
    table = _member(raws[0], part.member).decode(part.encoding).removesuffix("\n").split("\n")[1:]
    if part.form == "glue":
        return [(label, text) for text, _, label in (row.rpartition("\t") for row in table)]
    label_of = {_key(text): label for label, text in _lines(part, raws[1].read_bytes())}
    texts = [row.partition("\t")[2] for row in table]
    return [(label_of.get(_key(text), "?"), text) for text in texts]


def _lines(part: Part, raw: bytes) -> list[tuple[str, str]]:
    for wrong, right in part.repairs:
        raw = raw.replace(wrong, right)
    content = raw.decode(part.encoding).removesuffix("\n")
    content = content.replace("-lrb-", "(").replace("-rrb-", ")")
    return [(label, text) for label, _, text in (row.partition(" ") for row in content.split("\n"))]


def _key(text: str) -> str:
    """What the same sentence has in common in both files of SST: not spaces, nor escapes."""
    words = (_SPELLINGS.get(word, word) for word in text.replace("\\", "").split())
    return "".join(words)


def _member(path: Path, name: str) -> bytes:
    """One file of a zip, read into memory and bounded; nothing is extracted."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as file:
            content = file.read(_LARGEST + 1)
    except KeyError:
        raise WordwaveError(f"'{path}' has no {name!r} in it") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise WordwaveError(f"'{path}' is not a zip that can be read: {error}") from None
    if len(content) > _LARGEST:
        raise WordwaveError(f"'{path}': {name!r} must not be larger than {_LARGEST} bytes")
    return content


def _write_gzip(path: Path, content: bytes) -> None:
    """The same bytes for the same content: no time, no name."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        packed.write(content)


def _check_sha256(file: str, what: str, expected: str, content: bytes) -> None:
    got = hashlib.sha256(content).hexdigest()
    if got != expected:
        raise WordwaveError(
            f"{file}: {what} must have the sha256 {expected[:12]}…, got {got[:12]}…; "
            "it was not kept"
        )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Without pooch's own lines: the caller shows progress."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
