"""Pages that give the benchmark away: refused under every spelling, counted in the record; others are not."""

import pytest

from mas.tools.http.url_policy import BlockedPageError, refuse_blocked
from mas.tools.settings import WebSettings
from tests.mas.tools.web.in_context import events, recorded


@pytest.mark.parametrize(
    "url",
    [
        "https://huggingface.co/datasets/gaia-benchmark/GAIA",
        "https://huggingface.co/spaces/gaia-benchmark/leaderboard",
        "https://HuggingFace.co./datasets/someone/copy",
        "https://huggingface.co:443/datasets/someone/copy",
        "https://huggingface.co//datasets//someone/copy",
        "https://huggingface.co/models/../datasets/someone",
        "https://huggingface.co/%64atasets/someone",
        "https://huggingface.co/%2564atasets/someone",
        "https://hf.co/datasets/someone/copy",
        "https://someone-gaia.hf.space/",
        "https://mirror.example.net/datasets/someone/GAIA/blob/main/README.md",
        "https://web.archive.org/web/2024/https://huggingface.co/datasets/x/y",
        "https://r.jina.ai/https://huggingface.co/datasets/x/y",
        "https://proxy.example.net/?u=https%3A%2F%2Fhuggingface.co%2Fdatasets%2Fx",
        "https://huggingface-co.translate.goog/datasets/x/y",
        "https://github.com/someone/GAIA-agent/blob/main/answers.json",
        "https://raw.githubusercontent.com/someone/my_gaia/main/metadata.jsonl",
        "https://github.com/someone/Final_Assignment_Template",
        "https://deepwiki.com/someone/agent-course-final-assignment/12",
        "https://arxiv.org/abs/2311.12983v1",
        "https://hal.cs.princeton.edu/gaia",
        "https://agents-course-unit4-scoring.hf.space/questions",
    ],
)
def test_a_page_with_answers_is_blocked_however_it_is_written(url: str) -> None:
    with pytest.raises(BlockedPageError):
        refuse_blocked(url, WebSettings())


@pytest.mark.parametrize(
    "url",
    [
        "https://en.wikipedia.org/wiki/Gaia",
        "https://github.com/numpy/numpy",
        "https://huggingface.co/docs/transformers",
        "https://arxiv.org/abs/2311.12982",
        "https://www.kaggle.com/datasets/someone/towns",
        "https://example.org/?q=datasets",
    ],
)
def test_other_pages_are_not(url: str) -> None:
    refuse_blocked(url, WebSettings())


def test_a_block_is_in_the_record_and_the_sentence_names_the_entry() -> None:
    with recorded() as trace, pytest.raises(BlockedPageError, match=r"publish this benchmark.*secrets\.example\.org"):
        refuse_blocked("https://secrets.example.org/answers", WebSettings(more_blocked_sites=["secrets.example.org"]))
    noted = events(trace, "blocked page")
    assert [(each["url"], each["pattern"], each["level"]) for each in noted] == [
        ("https://secrets.example.org/answers", "secrets.example.org", "warning")
    ]


def test_a_star_stays_within_the_path() -> None:
    settings = WebSettings(more_blocked_sites=["example.org/*/answers"])
    with pytest.raises(BlockedPageError):
        refuse_blocked("https://example.org/a/b/answers", settings)
    refuse_blocked("https://example.org/a?x=/answers", settings)
