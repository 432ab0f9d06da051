"""Numbers and YAML as people type them: what is read is what was typed, or an error says why
not.
"""

import pytest

from companion.setup import typed_by_hand


@pytest.mark.parametrize(
    ("text", "like", "value"),
    [
        ("010", 0, 10),
        ("08", 0, 8),
        ("-3", 0, -3),
        ("+12", 0, 12),
        ("1e-4", 0.1, 1e-4),
        ("1", 0.1, 1.0),
        ("010", 0.1, 10.0),
        ("true", False, True),
        ("010", "", "010"),
        ("1:30", "", "1:30"),
        ("null", "", "null"),
        ("[1, 2]", [3], [1, 2]),
    ],
)
def test_a_parameter_is_what_was_typed(text, like, value):
    found = typed_by_hand.value(text, like)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("like", "texts"),
    [
        (0, ("1:30", "1.5", "true", "", "[1]", "2026-01-01")),
        (0.1, ("inf", "1:30", "true", ".inf", ".nan", "1e999")),
        (False, ("1", "yes")),
        ([1], ("[1.5]", "[1, a]", "1")),
    ],
)
def test_a_parameter_of_another_type_is_refused(like, texts):
    for text in texts:
        with pytest.raises(ValueError, match="not "):
            typed_by_hand.value(text, like)


def test_a_text_is_read_by_the_rules_of_yaml_1_2():
    text = "seeds: [010, 011]\na: 1:30\nb: 1e-4\nc: no\nd: {b: 1, c: [1.0e-3]}"
    found = {"seeds": [10, 11], "a": "1:30", "b": 1e-4, "c": "no", "d": {"b": 1, "c": [1e-3]}}
    assert typed_by_hand.parse(text) == found


def test_a_sign_in_a_text_or_a_comment_hides_no_parameter_and_cuts_none():
    cell = 'language = "C# or F#"  # as written\nnote = "a = b"\nrate = 1e-3  # as lr=1e-3\n'
    assert typed_by_hand.declared(cell) == {"language": "C# or F#", "note": "a = b", "rate": 1e-3}


@pytest.mark.parametrize(
    "text",
    ["a: 1\na: 2", "a: {b: 1, b: 1}", "a: [", "a: *nothing", "a: !unknown 1", "\t- a"]
    + [f"a: {'[' * 5000}{']' * 5000}"],
)
def test_a_file_that_says_a_thing_twice_or_is_no_yaml_is_refused_in_one_line(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"^.*a.yaml: cannot be read as YAML \(.*line \d.*\)$"):
        typed_by_hand.read(tmp_path / "a.yaml")


@pytest.mark.parametrize("nested", [True, False])
def test_aliases_that_would_fill_the_memory_are_refused_with_their_line(tmp_path, nested):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    flat = [f"b{n}: *a0" for n in range(101)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines if nested else [lines[0], *flat]))
    line = 2 if nested else 102
    with pytest.raises(
        ValueError, match=f"bomb.yaml: .*alias .a0: write its value out, line {line}"
    ):
        typed_by_hand.read(file)
    file.write_text("\n".join([lines[0], *flat[:9]]))
    assert typed_by_hand.read(file)["b8"] == ["x"] * 9
