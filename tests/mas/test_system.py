"""What is read from a system, whatever it is."""

from types import SimpleNamespace
from typing import Any

from mas.agents.spec import AgentSpec
from mas.system import agent_names, can_be_served, can_derive_prompts, list_critics, read_program_digest


def system(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


def test_agents_are_in_order_and_critics_are_named_once() -> None:
    specs = [
        AgentSpec("planner", critic="zoe"),
        AgentSpec("expert", critic="adam"),
        AgentSpec("writer", critic="zoe"),
        AgentSpec("adam"),
    ]
    assert agent_names(system(agent_specs=specs)) == ["planner", "expert", "writer", "adam"]
    assert list_critics(system(agent_specs=specs)) == ["adam", "zoe"]
    assert list_critics(system(agent_specs=[])) == agent_names(system(agent_specs=[])) == []


def test_a_program_elsewhere_has_no_digest() -> None:
    assert read_program_digest(system(source_sha256="ab12")) == "ab12"
    assert read_program_digest(system()) == ""


def test_a_system_can_do_what_it_has_a_function_for() -> None:
    own, served = system(derive_prompts=print), system(serve_application=print)
    assert (can_derive_prompts(own), can_derive_prompts(served)) == (True, False)
    assert (can_be_served(own), can_be_served(served)) == (False, True)
