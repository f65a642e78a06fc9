"""The `tools` part of the configuration: limits of every tool, and the settings of each group of tools."""

from dataclasses import dataclass, field

from mas.runtime.security.redaction import MIN_SECRET_CHARS
from mas.tools.browser.settings import BrowserSettings
from mas.tools.files.settings import FileSettings
from mas.tools.http.settings import WebSettings
from mas.tools.sandbox.settings import SandboxSettings
from mas.tools.tool_context import ToolLimits
from mas.tools.transcription import TranscriptionSettings


@dataclass
class ToolSettings(ToolLimits):
    """Limits that hold for every tool, and the settings of each group of tools."""

    files: FileSettings = field(default_factory=FileSettings)
    transcription: TranscriptionSettings = field(default_factory=TranscriptionSettings)
    web: WebSettings = field(default_factory=WebSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)

    def secrets(self) -> list[str]:
        """Return the values that no log, record or report may show."""
        keys = (self.web.search_api_key, self.transcription.api_key)
        return [key for key in keys if len(key) >= MIN_SECRET_CHARS]

    def check(self) -> None:
        """Check the settings of all tools.

        Raises:
            UserError: a setting is out of range.
        """
        for part in (self.files, self.transcription, self.web, self.browser, self.sandbox):
            part.check()
