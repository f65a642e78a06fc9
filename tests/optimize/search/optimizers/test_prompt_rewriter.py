"""The brief of the model that rewrites prompts."""

from optimize.search.optimizers.prompt_rewriter import BRIEF, build_brief


def test_the_brief_lists_the_labels_as_data_and_changes_nothing_else() -> None:
    assert build_brief(()) == BRIEF
    brief = build_brief(("billing", 'say "{labels}" and', "été"))
    assert brief.startswith(BRIEF)
    assert 'one of these labels: "billing", "say \\"{labels}\\" and", "été". They are no secret' in brief
