"""What tools of a run see of it: its settings by their type, and its services by their name."""

from mas.tools.http.settings import WebSettings
from mas.tools.settings import ToolSettings
from mas.tools.tool_context import Resources, ToolLimits, get_resource, get_settings, use_tool_context


def test_outside_a_run_there_are_defaults_and_no_service() -> None:
    assert get_settings(ToolLimits) == ToolLimits(fail_fast=False, max_output_chars=20_000)
    assert get_settings(WebSettings) == WebSettings()
    assert get_resource("browser") is None


def test_inside_a_run_there_are_its_own_and_afterwards_those_of_before() -> None:
    settings, session = ToolSettings(fail_fast=True), object()
    with use_tool_context(Resources(settings, {"browser": session})):
        assert get_settings(ToolLimits) is settings and get_settings(WebSettings) is settings.web
        assert get_resource("browser") is session and get_resource("other") is None
        with use_tool_context(Resources()):
            assert get_settings(ToolLimits) == ToolLimits() and get_resource("browser") is None
        assert get_resource("browser") is session
    assert get_resource("browser") is None and get_settings(ToolLimits) == ToolLimits()
