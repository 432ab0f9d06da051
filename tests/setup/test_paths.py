"""A folder is replaced whole or not at all, and a kill in between loses nothing that was
finished.
"""

import os

import pytest

from companion.setup import paths


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tracked").mkdir()
    (tmp_path / "tracked" / "old.json").write_text("{}")
    return tmp_path / "tracked"


def test_a_new_folder_takes_the_place_of_the_old_one_or_leaves_it_and_nothing_beside(folder):
    with pytest.raises(ValueError), paths.new_folder(folder):
        raise ValueError
    assert [path.name for path in folder.iterdir()] == ["old.json"]
    with paths.new_folder(folder) as unfinished:
        (unfinished / "new.json").write_text("{}")
    assert [path.name for path in folder.iterdir()] == ["new.json"]
    assert [path.name for path in folder.parent.iterdir()] == ["tracked"]


def test_a_kill_between_old_and_new_leaves_the_old_folder_whole_beside(folder, monkeypatch):
    renamed, replace = [], os.replace

    def killed_at_the_second(source, target):
        renamed.append(source)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt), paths.new_folder(folder) as unfinished:
        (unfinished / "new.json").write_text("{}")
    assert [path.name for path in folder.parent.rglob("*.json")] == ["old.json"]


def test_a_folder_in_the_place_of_a_file_and_a_file_in_that_of_a_folder_are_named(folder):
    with (
        pytest.raises(IsADirectoryError, match="tracked: is a folder; name a file$"),
        paths.new_file(folder),
    ):
        pass
    with (
        pytest.raises(PermissionError, match="old.json: cannot be written"),
        paths.new_file(folder / "old.json" / "x"),
    ):
        pass
