"""Numbers and YAML as people type them: what is read is what was typed, or an error says why not."""

import pytest

from saobp.study.setup import typed_by_hand


@pytest.mark.parametrize(
    ("text", "like", "value"),
    [
        ("010", 0, 10), ("08", 0, 8), ("-3", 0, -3), ("+12", 0, 12), ("1e-4", 0.1, 1e-4), ("1", 0.1, 1.0),
        ("010", 0.1, 10.0), ("5e3", 0.1, 5000.0), ("true", False, True), ("010", "", "010"), ("1:30", "", "1:30"),
        ("yes", "", "yes"), ("null", "", "null"),
    ],
)  # fmt: skip
def test_a_parameter_is_what_was_typed(text, like, value):
    found = typed_by_hand.value(text, like)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("1:30", 0), ("0x1F", 0), ("0o17", 0), ("0b11", 0), ("1.5", 0), ("true", 0), ("", 0), ("[1]", 0),
        (".inf", 0.1), ("inf", 0.1), (".nan", 0.1), ("1e999", 0.1), ("1:30", 0.1), ("true", 0.1), ("1", False),
        ("yes", False), ("2026-01-01", 0),
    ],
)  # fmt: skip
def test_a_parameter_of_another_type_is_refused(text, like):
    with pytest.raises(ValueError, match="not "):
        typed_by_hand.value(text, like)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("seeds: [010, 011]", {"seeds": [10, 11]}), ("a: 1:30", {"a": "1:30"}), ("a: 1e-4", {"a": 1e-4}),
        ("a: no", {"a": "no"}), ("a: {b: 1, c: [1.0e-3]}", {"a": {"b": 1, "c": [1e-3]}}),
    ],
)  # fmt: skip
def test_a_file_is_read_by_the_rules_of_yaml_1_2(tmp_path, text, value):
    file = tmp_path / "given.yaml"
    file.write_text(text)
    assert typed_by_hand.read(file) == value


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: {b: 1, b: 1}", "a: [", "a: *nothing", "a: !unknown 1", "\t- a"])
def test_a_file_that_says_a_thing_twice_or_is_no_yaml_is_refused_in_one_line(tmp_path, text):
    file = tmp_path / "given.yaml"
    file.write_text(text)
    with pytest.raises(ValueError) as error:
        typed_by_hand.read(file)
    assert str(file) in str(error.value) and "line" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "like"),
    [("1_000", 0), ("1_0.5", 0.1), ("[0x1F]", [1]), ("[0o17]", [1]), ("[1_0]", [1]), ("[1, a]", [1]), ("[1.5]", [1])],
)
def test_a_number_that_is_not_decimal_is_refused_with_the_entry(text, like):
    with pytest.raises(ValueError, match="not ") as error:
        typed_by_hand.value(text, like)
    assert text.strip("[]").split(", ")[-1] in str(error.value)
