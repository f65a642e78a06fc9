"""What calls cost: snapshots, cached tokens, unknown names, and the list of prices."""

import pytest

from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import build_part
from mas.llm.prices import Price, find_price
from mas.llm.profiles.litellm_model import LiteLLMModel
from mas.llm.profiles.openai_chat import OpenAIChatModel, RateSettings
from mas.runtime.errors import UserError
from mas.simulation import SimulatedModel

MINI = Price(0.15, 0.60, cached_input_usd_per_million=0.075)


def test_cached_input_has_its_own_price() -> None:
    assert MINI.cost_usd(1_000_000, 0, 0) == pytest.approx(0.15)
    assert MINI.cost_usd(1_000_000, 400_000, 100_000) == pytest.approx(0.6 * 0.15 + 0.4 * 0.075 + 0.06)
    assert Price(2.0, 8.0).cost_usd(1_000_000, 400_000, 0) == pytest.approx(2.0), "null: as other input"


def test_a_snapshot_costs_what_its_family_does_unless_it_has_a_price_of_its_own() -> None:
    first = Price(5.0, 15.0)
    prices = {"gpt-4o": Price(2.5, 10.0), "gpt-4o-2024-05-13": first, "gpt-4o-mini": MINI}
    assert find_price("gpt-4o-mini-2024-07-18", prices) is MINI
    assert find_price("gpt-4o-2024-05-13", prices) is first
    assert find_price("gpt-4o-audio", prices) is None


def test_a_profile_names_the_models_without_a_price() -> None:
    model = OpenAIChatModel("gpt-4o-mini-2024-07-18", prices={"gpt-4o-mini": MINI})
    assert model.list_unpriced() == []
    assert model.list_unpriced(["mine", "gpt-4o-mini"]) == ["mine"]
    assert SimulatedModel().list_unpriced(["offline"]) == []


@pytest.mark.parametrize("choice", ["gpt-4o-mini", "gpt-4o", "mixed", "openai model.name=gpt-5-mini"])
def test_the_models_that_come_with_the_harness_have_prices(choice: str) -> None:
    model = build_part(compose_config(f"model={choice}".split()).model, "model")
    assert model.list_unpriced() == []
    for name in model.names:
        price = model.find_price(name)
        assert 0 < price.cached_input_usd_per_million <= price.input_usd_per_million < price.output_usd_per_million


def test_a_price_of_the_list_is_that_of_its_provider_alone() -> None:
    listed = find_price("gpt-4o-mini-2024-07-18", {}, "openai")
    assert listed is not None and listed.cost_usd(1000, 100, 10) == pytest.approx(148.5e-6)
    assert find_price("gpt-4o-mini", {"gpt-4o-mini": MINI}, "openai") is MINI
    assert find_price("gpt-4o-mini", {}) is find_price("nobody-has-this", {}, "openai") is None
    assert find_price("gpt-4o-mini", {}, "no-such-provider") is None


def test_a_price_with_tiers_depends_on_the_length_of_the_prompt() -> None:
    price = LiteLLMModel("gemini/gemini-2.5-pro").find_price("gemini/gemini-2.5-pro")
    assert price is not None
    assert price.cost_usd(400_000, 0, 0) > 1.5 * 2 * price.cost_usd(200_000, 0, 0)


def test_impossible_prices_and_rates_are_a_sentence() -> None:
    with pytest.raises(UserError, match=r"model\.prices\.any\.output_usd_per_million=-1"):
        OpenAIChatModel("any", prices={"any": Price(1.0, -1.0)}).check()
    with pytest.raises(UserError, match=r"model\.rate\.requests_per_minute=0"):
        OpenAIChatModel("any", rate=RateSettings(requests_per_minute=0)).check()
