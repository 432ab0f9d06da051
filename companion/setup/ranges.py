"""Ranges of a notebook's parameters, so that a value without a meaning is refused in one line."""

from numbers import Real


def check(**ranges: tuple[object, float, float]) -> None:
    """Raise ValueError, one line, for a parameter outside its range.

    A keyword is the parameter's name; it holds the value, or a list of at least one value, and the
    least and greatest that have a meaning.
    """
    for name, (value, least, greatest) in ranges.items():
        values = value if isinstance(value, list | tuple) else [value]
        if not values:
            raise ValueError(f"parameter '{name}': the list is empty; give at least one value")
        for number in values:
            if not (isinstance(number, Real) and least <= number <= greatest):
                raise ValueError(
                    f"parameter '{name}': {number!r} is not between {least} and {greatest}"
                )
