"""`--overwrite` replaces a run, and a kill at any moment leaves the old one or a new one."""

import json
import shutil

import pytest

from wordwave.config_io import REPLACING
from wordwave.tasks import run_folder


@pytest.fixture
def old(trained, tmp_path):
    """A copy of a finished run, with a file that is not of the run, one of an estimator and an
    exported model."""
    folder = tmp_path / "run"
    shutil.copytree(trained.folder, folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "estimator.json").write_text("{}")
    for name in run_folder.EXPORTED:
        (folder / name).write_text("{}")
    return folder


def words(cli, table, folder, *more):
    return ("train", "classify", "--data", table, "--out", folder, *cli.quick, *more)


def other(cli, table, folder):
    return words(cli, table, folder, "--encoder", "fasttext", "--epochs", "1")


def test_other_settings_are_refused_and_replace_the_run_if_asked_to(cli, table, old):
    cli.refusal(cli.call(*other(cli, table, old)), "holds a run with", "--overwrite")
    result = cli.call(*other(cli, table, old), "--overwrite")
    assert result.code == 0 and f"Replacing the run in {old}" in result.out, result.err
    assert "encoder: fasttext" in (old / "config.yaml").read_text()
    assert json.loads((old / "result.json").read_text())["epochs"] == 1
    assert len((old / "metrics.jsonl").read_text().splitlines()) == 1
    assert (old / "notes.txt").read_text() == "mine"
    removed = ("estimator.json", REPLACING, *run_folder.EXPORTED)
    assert not any((old / name).exists() for name in removed)
    assert cli.call("predict", old, "yes").code == 0


def test_a_finished_run_of_the_same_settings_is_trained_again(cli, table, old):
    before = (old / "result.json").stat().st_mtime_ns
    assert "--overwrite" in cli.call(*words(cli, table, old)).out
    result = cli.call(*words(cli, table, old, "--overwrite"))
    assert result.code == 0 and "Replacing" in result.out
    assert (old / "result.json").stat().st_mtime_ns > before


def test_a_mistake_leaves_the_old_run(cli, table, old):
    before = {path.name: path.read_bytes() for path in old.iterdir() if path.is_file()}
    result = cli.call(*words(cli, old / "nowhere.csv", old, "--overwrite"))
    cli.refusal(result, "nowhere.csv")
    cli.refusal(cli.call(*words(cli, table, old, "--overwrite", "--text", "body")), "body")
    assert {path.name: path.read_bytes() for path in old.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("n_removed", [0, 1, 3, 7, 99])
def test_a_kill_while_it_is_replaced_leaves_no_mixture(cli, table, old, monkeypatch, n_removed):
    left = n_removed

    class KilledError(BaseException):
        pass

    def unlink(path, missing_ok=False):
        nonlocal left
        if path.parent == old and not path.name.startswith("."):
            if not left:
                raise KilledError
            left -= 1
        real(path, missing_ok)

    real = type(old).unlink
    if n_removed < 99:
        monkeypatch.setattr(type(old), "unlink", unlink)
    else:  # the new run's first file cannot be written any more
        monkeypatch.setattr(
            run_folder, "save_config", lambda *_: (_ for _ in ()).throw(KilledError)
        )
        monkeypatch.setattr("wordwave.tasks.run.save_config", run_folder.save_config)
    with pytest.raises(KilledError):
        cli.call(*other(cli, table, old), "--overwrite")
    monkeypatch.undo()
    line = cli.refusal(cli.call("predict", old, "yes"), str(old))
    assert "--overwrite" in line
    result = cli.call(*other(cli, table, old), "--overwrite")
    assert result.code == 0, result.err
    assert "encoder: fasttext" in (old / "config.yaml").read_text()
    assert cli.call("predict", old, "yes").code == 0


def test_an_unfinished_run_is_resumed_by_the_same_command(cli, table, tmp_path):
    folder = tmp_path / "run"
    command = words(cli, table, folder, "--overwrite", "--save-every", "0")
    with cli.stopped_at(20):
        assert cli.call(*command).code == 130
    assert (folder / "state").exists()
    result = cli.call(*command)
    assert result.code == 0 and "Resuming" in result.out and "Replacing" not in result.out
    # Of other data, it is replaced.
    assert cli.call(*command[:-3], "--overwrite").code == 0


def test_a_config_that_is_not_of_a_run_is_not_removed(cli, table, tmp_path):
    (tmp_path / "config.yaml").write_text("task: deploy\n")
    result = cli.call(*words(cli, table, tmp_path, "--overwrite"))
    cli.refusal(result, "config.yaml' is not of a run: choose another --out")
    assert (tmp_path / "config.yaml").read_text() == "task: deploy\n"


def test_the_data_are_split_as_the_command_says_not_as_the_run_that_is_replaced(
    cli, table, tmp_path
):
    data, folder = tmp_path / "data.csv", tmp_path / "run"
    shutil.copy(table, data)
    command = words(cli, data, folder, "--overwrite")
    plain = (*command[: command.index("--dev-share")], "--overwrite")
    assert cli.call(*command).code == 0
    result = cli.call(*plain)  # it replaces a finished run
    assert "all 480 examples are trained on" in result.out, result.err
    assert "dev_share: null" in (folder / "config.yaml").read_text()

    with cli.stopped_at(20):
        assert cli.call(*command, "--save-every", "0").code == 130
    assert (folder / "state").exists()
    cli.write_table(data, cli.examples(240, seed=3))
    result = cli.call(*plain)  # it replaces an unfinished run on other data
    assert "all 240 examples are trained on" in result.out, result.err
    assert "dev_share: null" in (folder / "config.yaml").read_text()
