"""A file is there whole or not at all."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from wordwave.files import write_text, write_whole


def test_text_is_written_in_utf8_with_plain_line_ends_and_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "c.txt"
    write_text(path, "ü\n漢\n")
    assert path.read_bytes() == "ü\n漢\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["c.txt"]


def half_and(problem):
    def write(new):
        new.write_text("half of the ne")
        raise problem

    return write


@pytest.mark.parametrize("problem", [ValueError("no"), KeyboardInterrupt(), OSError(28, "full")])
def test_a_writer_that_fails_halfway_leaves_the_old_file_and_nothing_else(tmp_path, problem):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(type(problem)):
        write_whole(path, half_and(problem))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "problem",
    [
        OSError(28, "No space left on device"),
        RuntimeError("I/O error: No space left on device (os error 28)"),  # as Rust tells it
    ],
)
def test_a_full_disk_names_the_file_that_was_asked_for(tmp_path, problem):
    path = tmp_path / "file"
    said = f"'{path}' cannot be written: No space left on device; free some disk space and run the"
    with pytest.raises(OSError, match=rf"^{said} same command again$"):
        write_whole(path, half_and(problem))
    assert not list(tmp_path.iterdir())


def test_a_problem_with_another_file_is_not_blamed_on_this_one(tmp_path):
    other = tmp_path / "input.txt"
    with pytest.raises(FileNotFoundError, match=r"input\.txt"):
        write_whole(tmp_path / "output.txt", lambda _: other.read_text())
    with pytest.raises(RuntimeError, match=r"^something else$"):
        write_whole(tmp_path / "output.txt", half_and(RuntimeError("something else")))


def test_a_folder_or_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match=rf"'{tmp_path}' cannot be written: it is a folder"):
        write_text(tmp_path, "new")
    with pytest.raises(OSError, match=rf"'{tmp_path / 'file'}' is a file, not a folder"):
        write_text(tmp_path / "file" / "a" / "b", "new")
    assert (tmp_path / "file").read_text() == "old"


def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "new")
    assert os.read(reader, 100) == b"new" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


def test_a_file_has_the_rights_that_any_new_file_has(tmp_path):
    def private(new):
        new.touch(mode=0o600)

    write_whole(tmp_path / "file", private)
    (tmp_path / "usual").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_writers_of_one_file_in_many_threads_do_not_mix(tmp_path):
    path = tmp_path / "file"
    texts = [str(i) * 5000 for i in range(10)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda text: write_text(path, text), 20 * texts))
    assert path.read_text() in texts and list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_there_keeps_its_mode(tmp_path):
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    write_text(path, "new")
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_to_itself_is_one_line(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match=r"'.*a' cannot be written: it is a link to itself"):
        write_text(tmp_path / "a", "text")
