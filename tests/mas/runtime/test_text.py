from mas.runtime.text import format_count


def test_a_noun_has_an_s_unless_there_is_one() -> None:
    assert [format_count(n, "answer") for n in (0, 1, 2, 1200)] == [
        "0 answers",
        "1 answer",
        "2 answers",
        "1,200 answers",
    ]
