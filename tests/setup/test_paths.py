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
    with paths.new_folder(folder, {"old.json"}) as unfinished:
        (unfinished / "new.json").write_text("{}")
    assert [path.name for path in folder.iterdir()] == ["new.json"]
    assert [path.name for path in folder.parent.iterdir()] == ["tracked"]


@pytest.mark.parametrize("damaged", [False, True])
def test_what_somebody_put_into_a_sealed_folder_stays_when_it_is_made_again(tmp_path, damaged):
    folder = tmp_path / "made"

    def write(name):
        with paths.new_folder(folder) as unfinished:
            paths.write_text(unfinished / "part" / name, name)
            paths.seal(unfinished)

    write("first")
    paths.write_text(folder / "part" / "mine", "notes")
    (folder / "link").symlink_to(tmp_path)
    if damaged:
        (folder / "part" / "first").write_text("cut")
    write("second")
    assert sorted(path.name for path in (folder / "part").iterdir()) == ["mine", "second"]
    assert (folder / "part" / "mine").read_text() == "notes" and (folder / "link").is_symlink()
    assert paths.damage(folder) is None and paths.sealed(folder).keys() == {"part/second"}


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


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o002, 0o664, 0o775), (0o077, 0o600, 0o700)])
def test_what_is_written_has_the_rights_that_the_user_gives(tmp_path, mask, file, folder):
    before = os.umask(mask)
    try:
        paths.write_text(tmp_path / "file", "")
        with paths.new_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == file
    assert (tmp_path / "folder").stat().st_mode & 0o777 == folder
