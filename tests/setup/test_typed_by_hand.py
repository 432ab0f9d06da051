"""Numbers and YAML as people type them: what is read is what was typed, or an error says why not."""

import pytest

from saobp.study.setup import typed_by_hand


@pytest.mark.parametrize(("text", "like", "value"), [
    ("010", 0, 10), ("08", 0, 8), ("-3", 0, -3), ("+12", 0, 12), ("1e-4", 0.1, 1e-4), ("1", 0.1, 1.0),
    ("010", 0.1, 10.0), ("5e3", 0.1, 5000.0), ("true", False, True), ("010", "", "010"), ("1:30", "", "1:30"),
    ("yes", "", "yes"), ("null", "", "null"),
])  # fmt: skip
def test_a_parameter_is_what_was_typed(text, like, value):
    found = typed_by_hand.value(text, like)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(("text", "like", "said"), [
    *((text, 0, text) for text in ("1:30", "0x1F", "0o17", "0b11", "1.5", "true", "", "[1]", "2026-01-01", "1_000")),
    *((text, 0.1, text) for text in ("inf", "1:30", "true", "1_0.5")), *((text, False, text) for text in ("1", "yes")),
    *((text, 0.1, "not ") for text in (".inf", ".nan", "1e999")),
    *((f"[{entry}]", [1], entry) for entry in ("0x1F", "0o17", "1_0", "1.5")), ("[1, a]", [1], "a"),
])  # fmt: skip
def test_a_parameter_of_another_type_or_no_decimal_number_is_refused_with_what_was_typed(text, like, said):
    with pytest.raises(ValueError, match="not ") as error:
        typed_by_hand.value(text, like)
    assert said in str(error.value)


@pytest.mark.parametrize(("text", "value"), [
    ("seeds: [010, 011]", {"seeds": [10, 11]}), ("a: 1:30", {"a": "1:30"}), ("a: 1e-4", {"a": 1e-4}),
    ("a: no", {"a": "no"}), ("a: {b: 1, c: [1.0e-3]}", {"a": {"b": 1, "c": [1e-3]}}),
])  # fmt: skip
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
