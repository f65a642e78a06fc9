import dspy
import pytest

from mas.chat_adapter import ChatAdapter
from mas.gaia import signatures

ALL = [signatures.Plan, signatures.Research, signatures.ReviewAnswer, signatures.Finalize]


@pytest.mark.parametrize("signature", ALL)
@pytest.mark.parametrize("native", [True, False])
def test_the_system_message_is_dspys_own_each_time(signature: type[dspy.Signature], native: bool) -> None:
    ours, dspys = ChatAdapter(use_native_function_calling=native), dspy.ChatAdapter(use_native_function_calling=native)
    for _ in range(2):
        assert ours.format_system_message(signature) == dspys.format_system_message(signature)


def test_new_instructions_are_a_new_message() -> None:
    for text in ("Say it once.", "Say it twice."):
        assert text in ChatAdapter().format_system_message(signatures.Finalize.with_instructions(text))
