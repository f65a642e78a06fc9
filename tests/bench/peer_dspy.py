"""What plain `dspy.Evaluate` does with the same work: eight predictors one after the other, nothing stored, no cache.

python tests/bench/peer_dspy.py BASE_URL CONCURRENCY QUESTIONS
"""

import sys
from typing import Any

import dspy

CALLS = 8


class EightCalls(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.predictors = [dspy.Predict("question -> answer") for _ in range(CALLS)]

    def forward(self, question: str) -> dspy.Prediction:
        for predictor in self.predictors:
            prediction = predictor(question=question)
        return prediction


def right(sample: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return bool(sample.answer == prediction.answer)


def main() -> None:
    base_url, concurrency, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)
    dspy.configure(lm=dspy.LM("openai/fixed", api_base=base_url, api_key="none", cache=False))
    questions = [
        dspy.Example(question=f"Question {i}: what is 6 * 7?", answer="42").with_inputs("question")
        for i in range(number)
    ]
    result = dspy.Evaluate(devset=questions, metric=right, num_threads=concurrency, display_progress=False)(
        EightCalls()
    )
    if result.score != 100.0:
        raise SystemExit(f"score {result.score}")


if __name__ == "__main__":
    main()
