"""What `mlflow.genai.evaluate` does with the same work: eight OpenAI calls a question, each a span, in a local store.

python tests/bench/peer_mlflow.py BASE_URL WORKERS QUESTIONS STORE_FOLDER

As MLflow comes, but for three settings: it asks no question twice to see whether it is traced, its own limit of ten
questions a second is off, and it says nothing to its makers.
"""

import os
import sys
from pathlib import Path
from typing import Any

CALLS = 8


def main() -> None:
    base_url, workers, number, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    os.environ |= {
        "MLFLOW_GENAI_EVAL_MAX_WORKERS": workers,
        "MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION": "true",
        "MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else an import in MLflow waits for the network
    }
    import mlflow
    from mlflow.genai.scorers import scorer
    from openai import OpenAI

    folder.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("bench", artifact_location=(folder / "artifacts").as_uri())
    )
    mlflow.openai.autolog()
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0)

    @mlflow.trace  # type: ignore[untyped-decorator]
    def predict(question: str) -> str:
        messages: list[Any] = [{"role": "user", "content": question}]
        for _ in range(CALLS):
            reply = client.chat.completions.create(model="fixed", messages=messages).choices[0].message.content
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": "go on"}]
        return "42"

    @scorer  # type: ignore[untyped-decorator]
    def right(outputs: Any, expectations: dict[str, Any]) -> bool:
        return bool(outputs == expectations["answer"])

    rows = [
        {"inputs": {"question": f"Question {i}: what is 6 * 7?"}, "expectations": {"answer": "42"}}
        for i in range(number)
    ]
    result = mlflow.genai.evaluate(data=rows, predict_fn=predict, scorers=[right])
    if result.metrics.get("right/mean") != 1.0:
        raise SystemExit(f"metrics {result.metrics}")


if __name__ == "__main__":
    main()
