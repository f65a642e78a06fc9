"""Policy of an LM's requests: endpoint, price, rate limiter, and the settings of its profile.

CallPolicy("https://api.openai.com/v1", price=Price(2.5, 10.0), settings=CallSettings(takes_images=True))
"""

from dataclasses import dataclass, field

from dspy.lm15 import Request
from dspy.utils.exceptions import LMUnsupportedFeatureError

from mas.llm import CallSettings
from mas.llm.prices import Price
from mas.llm.rate_limiter import Limiter


@dataclass(frozen=True)
class CallPolicy:
    """What all calls of one LM share."""

    url: str = ""  # endpoint, part of the key of stored replies; "offline": the simulated model
    native_tools: bool = True
    key_variable: str | None = None  # environment variable with the key, for messages
    branch: str = "model"  # of the configuration that names the server, for messages
    price: Price | None = None  # None: unknown
    rate_limiter: Limiter | None = None  # shared by all LMs of a profile; None: any number of requests at once
    settings: CallSettings = field(default_factory=CallSettings)

    def check_inputs(self, request: Request) -> None:
        """Check that the model supports all inputs of a request before it is sent.

        Raises:
            LMUnsupportedFeatureError: it holds an image or a sound, and the profile does not allow that.
        """
        images, sounds = self.settings.takes_images, self.settings.takes_audio
        kinds = {part.type for message in request.messages for part in message.parts}
        for kind, is_taken, key in (("image", images, "images"), ("audio", sounds, "audio")):
            if kind in kinds and not is_taken:
                message = f"not sent: the model's profile says that it takes no {key} (model.takes_{key}=false)"
                raise LMUnsupportedFeatureError(message, model=request.model, features=[kind])
