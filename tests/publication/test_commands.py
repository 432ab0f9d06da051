"""Every command of the project: its errors are one line, and no line holds a control character."""

import pkgutil
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from pydantic import BaseModel

import companion
from companion.publication import cli
from companion.studies import plan
from saobp.measure.command import OneLine

# as a terminal obeys it: red, a bell, over the line again
CONTROL = "\x1b[31m\a\rmine"
WRITTEN_OUT = r"\x1b[31m\x07\rmine"


def commands() -> dict[str, click.Command]:
    """Return the commands of the companion's modules that are none of `saobp`'s, by module."""
    listed = {"companion.studies.plan": plan.command("mine", BaseModel, lambda study: ())}
    for module in pkgutil.walk_packages(companion.__path__, "companion."):
        path = Path(module.module_finder.path, *module.name.split(".")[-1:])
        file = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        if "@click.command" in file.read_text() and module.name not in listed:
            names = vars(import_module(module.name)).values()
            listed[module.name] = next(name for name in names if isinstance(name, click.Command))
    return listed


COMMANDS = commands()


def test_every_command_is_found_and_answers_in_one_line():
    assert len(COMMANDS) >= 5 and {"companion.studies.learning.run"} < COMMANDS.keys()
    assert all(isinstance(command, OneLine) for command in COMMANDS.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_writes_control_characters_of_an_error_out(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        COMMANDS[name]([f"--{CONTROL}"])
    output = capsys.readouterr()
    assert stopped.value.code == 2 and output.out == ""
    assert output.err.startswith("saobp: No such option") and output.err.count("\n") == 1
    assert output.err[:-1].isprintable() and WRITTEN_OUT in output.err


@pytest.mark.parametrize("name", [name for name in COMMANDS if "studies" in name])
def test_a_command_writes_control_characters_of_a_file_out(name, capsys, tmp_path):
    words = ["--plan", str(tmp_path / CONTROL)]
    words += ["--text", "text"] if name.endswith("lockstep.run") else []
    words += [str(tmp_path / "out")] if name.endswith("lockstep.text") else []
    with pytest.raises(SystemExit) as stopped:
        COMMANDS[name](words)
    error = capsys.readouterr().err
    assert stopped.value.code in (1, 2)
    assert error.startswith("saobp: ") and error.count("\n") == 1
    assert error[:-1].isprintable() and WRITTEN_OUT in error


@pytest.mark.parametrize("name", [None, *cli.saobp.list_commands(None)])
def test_a_command_of_saobp_writes_control_characters_of_an_error_out(name, capsys):
    assert cli.main([name, f"--{CONTROL}"] if name else [CONTROL]) == 2
    error = capsys.readouterr().err
    assert error.startswith("saobp: No such ") and error.count("\n") == 1
    assert error[:-1].isprintable() and WRITTEN_OUT in error


def test_a_command_by_itself_ends_as_those_of_click_do(capsys):
    with pytest.raises(SystemExit) as stopped:
        COMMANDS["companion.studies.learning.run"](["--help"])
    assert stopped.value.code == 0 and "--plan" in capsys.readouterr().out
    assert "companion.studies.learning.run" in sys.modules
