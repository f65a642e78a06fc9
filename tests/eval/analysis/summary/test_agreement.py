"""Cohen's kappa, against scikit-learn's and by hand."""

import random

import pytest

from eval.analysis.summary.epochs import measure_agreement
from eval.analysis.summary.summary import Agreement


def test_it_is_the_textbooks_kappa() -> None:
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert measure_agreement(pairs) == Agreement(n=50, share=0.7, kappa=0.4)


def test_it_is_scikit_learns_kappa() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    for seed in range(20):
        rng = random.Random(seed)
        pairs = [(rng.random() < 0.7, rng.random() < 0.4) for _ in range(30)]
        expected = metrics.cohen_kappa_score(*zip(*pairs, strict=True))
        assert measure_agreement(pairs).kappa == pytest.approx(expected, abs=1e-4)


def test_kappa_is_unknown_where_only_one_verdict_is_ever_given() -> None:
    assert measure_agreement([(True, True)] * 3) == Agreement(n=3, share=1.0, kappa=None)
    assert measure_agreement([(True, False)] * 3) == Agreement(n=3, share=0.0, kappa=0.0)
