"""From a profile's records to tracked results, published figures and the README; and single files for a next paper."""

import shutil
from pathlib import Path

from saobp.study import controlled, figures, paths, readme, records, tables
from saobp.study.profile import load_profile

SUMMARIES = ("10-tables", "11-figures")  # their records hold nothing that the others do not


def publish(profile: str) -> None:
    """Copy a finished profile's records to `data/results/<profile>/`, in place of those there, and rebuild `figures/`.

    Raises FileNotFoundError when the profile has not been run.
    """
    name = Path(profile).stem
    folder = paths.build(name) / "records"
    found = [path for path in sorted(folder.glob("*.json")) if path.stem not in SUMMARIES]
    if not found:
        raise FileNotFoundError(f"{folder}: no records there; run `make reproduce PROFILE={name}` first")
    for path in found:
        records.read(path)
    tracked = paths.results(name)
    gone = {path.stem for path in tracked.glob("*.json")} - {path.stem for path in found}
    with paths.new_folder(tracked) as target:
        for path in found:
            shutil.copyfile(path, target / path.name)
    print(f"{len(found)} records in {tracked}")
    if gone:
        print(f"no longer there, for {folder} has none of them: {', '.join(sorted(gone))}; git restores them")
    rebuild()
    if name == controlled.PROFILE:
        print("notebook 12 shows these records: run `make reproduce` and `make notebooks`, or `make test` goes red")


def rebuild() -> None:
    """Rebuild `figures/` from tracked records alone; the same records give the same bytes."""
    written = draw(paths.figures())
    for stale in set(paths.figures().iterdir()) - set(written):
        if stale.is_file():  # of other records
            stale.unlink()
    source = paths.results(readme.published_profile())
    top, own = paths.root() / "README.md", source.parent / "README.md"
    paths.write_text(top, readme.with_results(top.read_text(encoding="utf-8")))
    paths.write_text(own, readme.at_length(records.load(source)))
    print(f"{len(written)} files in {paths.figures()}, from {source}; results of {top.name} and {own} renewed")


def draw(folder: Path) -> list[Path]:
    """Draw every table and figure of the tracked records into a folder, the controlled studies' from their own."""
    source, others = paths.results(readme.published_profile()), paths.results(controlled.PROFILE)
    found = records.load(source)
    return figures.publish(
        found, folder, records.hashes(source), judged=readme.judged(found),
        others=controlled.tracked(), other_hashes=records.hashes(others),
    )  # fmt: skip


def single(
    kind: str, number: int | str, profile: str, file_format: str, width: float | None, folder: Path, every: bool = False
) -> Path:
    """Write one figure or table of a profile into a folder and return the file.

    Raises FileNotFoundError when the profile has no records, ValueError for an unknown profile or format or when the
    records cannot fill the figure.
    """
    found = records.load(profile)
    if not found:
        load_profile(profile)
        raise FileNotFoundError(f"profile '{profile}' has no records: run `make reproduce PROFILE={profile}` first")
    if number == "verdicts":
        return tables.write_verdicts(readme.judged(found), folder, [file_format])[0]
    if kind == "table":
        return tables.write(number, found, folder, [file_format], every=every)[0]
    if number in figures.FIGURES and figures.FIGURES[number].several:
        found += controlled.tracked()
    return figures.write(number, found, folder, [file_format], width=figures.PAGE if width is None else width)[0]
