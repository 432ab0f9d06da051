from saobp.study.paper.findings import WIDTH, say


def test_sentences_are_broken_between_words_where_a_page_ends(capsys):
    say("torch computes Original " * 9, "a second sentence")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and max(map(len, lines)) <= WIDTH and lines[-1] == "a second sentence"
    assert {word for line in lines[:-1] for word in line.split()} == {"torch", "computes", "Original"}
