from hypothesis import given
from hypothesis import strategies as st
from small_hub import refused, write_split

from companion.data.documents import Mixture, interleave
from companion.data.sources import FolderSource

LONG = "this paragraph has more than eight words so that it counts"


def mixture(root, name="a/set", split="train", **rows):
    """Return a mixture of one data set with the given texts per split."""
    for each, texts in rows.items():
        write_split(
            root, name, "default", each, [{"text": t} if isinstance(t, str) else t for t in texts]
        )
    return Mixture(FolderSource(root), {name: 1.0}, split)


def test_a_row_the_rows_of_a_book_or_the_lines_of_an_article_are_a_document_and_its_lines_paragraphs(
    tmp_path,
):
    assert list(mixture(tmp_path, train=["one\n\n two ", "three", " \n "])) == [
        ["one", "two"],
        ["three"],
    ]
    rows = [{"text": t, "book": b} for t, b in [("one", "x"), ("two", "x"), ("three", "y")]]
    assert list(mixture(tmp_path, train=rows)) == [["one", "two"], ["three"]]
    refused("a/set train: row 0 has no text", list, mixture(tmp_path, train=[{"words": "x"}]))
    # lines of WikiText are joined to articles at titles and not at sections
    lines = [
        "",
        " = First = \n",
        " Text of 1 @,@ 000 words .\n",
        " = = Section = = \n",
        " a = b \n",
        " = Second = \n",
    ]
    found = list(mixture(tmp_path, "Salesforce/wikitext", train=lines))
    assert found == [
        ["= First =", "Text of 1,000 words .", "= = Section = =", "a = b"],
        ["= Second ="],
    ]


def test_a_paragraph_that_occurred_before_or_is_held_out_is_dropped_whatever_its_case_but_for_short_ones(
    tmp_path,
):
    texts = [f"{LONG}\nYes, he said.", f"Yes, he said.\n{LONG.upper()}", LONG.replace(" ", "   ")]
    text = mixture(tmp_path, train=texts)
    assert list(text) == [[LONG, "Yes, he said."], ["Yes, he said."]]
    assert text.counts == {"documents": 2, "paragraphs": 5, "dropped": 2, "a/set": len(LONG) + 26}
    assert (text.mixed()["dropped"], text.mixed()["paragraphs"]) == (2, 5)
    text = mixture(tmp_path, train=[LONG, "kept"], validation=[LONG, LONG])
    assert list(text) == list(text) == [["kept"]]
    # as it is
    assert list(Mixture(text.source, text.weights, "validation")) == [[LONG], [LONG]]


def test_held_out_text_comes_from_the_sets_that_have_some_and_the_others_are_named(tmp_path):
    write_split(tmp_path, "a/set", "default", "train", [{"text": "x"}])
    write_split(tmp_path, "b/set", "default", "validation", [{"text": "y"}])
    text = Mixture(FolderSource(tmp_path), {"a/set": 1, "b/set": 1}, "validation")
    assert list(text) == [["y"]]
    lacking = text.completeness()[1]
    assert (lacking["dataset"], lacking["rows"], lacking["complete"]) == ("a/set", 0, False)
    assert "no such split" in lacking["note"]
    refused("no split 'train'", list, Mixture(FolderSource(tmp_path), {"a/set": 1, "b/set": 1}))


@given(st.lists(st.integers(1, 60), min_size=2, max_size=40), st.floats(0.2, 5))
def test_characters_stay_in_proportion_to_the_weights_while_both_last(sizes, weight):
    half = len(sizes) // 2
    weights, sets = {"a": weight, "b": 1.0}, {"a": sizes[:half], "b": sizes[half:]}
    streams = {name: iter([[name * n] for n in lengths]) for name, lengths in sets.items()}
    written = {"a": 0, "b": 0}
    for (text,) in interleave(streams, weights):
        shares = {name: written[name] / weights[name] for name in sets}
        behind, ahead = sorted(sets, key=shares.__getitem__)
        if shares[behind] < shares[ahead]:
            # or it has run out
            assert text[0] == behind or written[behind] == sum(sets[behind])
        written[text[0]] += len(text)
    assert written == {name: sum(lengths) for name, lengths in sets.items()}


def test_weights_are_shares_of_what_is_kept_and_the_record_says_what_came_of_them(tmp_path):
    def text(n):
        return f"paragraph {n:04d} of eight words or more, all alike"

    copies = [{"text": text(500 + n // 4)} for n in range(400)]
    write_split(tmp_path, "a/set", "default", "train", [{"text": text(n)} for n in range(100)])
    write_split(tmp_path, "b/set", "default", "train", copies)
    mixed = Mixture(FolderSource(tmp_path), {"a/set": 1, "b/set": 3})
    first = [document[0] for _, document in zip(range(100), mixed)]
    assert sum(int(line.split()[1]) >= 500 for line in first) == 75
    # and when b has run out, a goes on
    assert len(list(mixed)) == 200
    assert mixed.mixed()["weights"] == {"a/set": 1, "b/set": 3}
    assert mixed.mixed()["shares"] == {"a/set": 0.5, "b/set": 0.5}


def test_identity_changes_with_text_weight_and_held_out_text(tmp_path):
    before = mixture(tmp_path, train=["x"], validation=["y"]).identity()
    assert mixture(tmp_path, train=["x"], validation=["y"]).identity() == before
    assert mixture(tmp_path, train=["z"], validation=["y"]).identity() != before
    assert mixture(tmp_path, train=["x"], validation=["z"]).identity() != before
    assert Mixture(FolderSource(tmp_path), {"a/set": 2.0}).identity() != before
