"""What `dspy.Evaluate` does with the same work when `mlflow.dspy.autolog` traces it into a local store.

python tests/bench/peer_dspy_autolog.py BASE_URL THREADS QUESTIONS STORE_FOLDER
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":  # as a script only this folder is on the path
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench.peer_dspy import main as evaluate


def main() -> None:
    folder = Path(sys.argv[4])
    os.environ |= {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else an import in MLflow waits for the network
    }
    import mlflow

    folder.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment(
        experiment_id=mlflow.create_experiment("bench", artifact_location=(folder / "artifacts").as_uri())
    )
    mlflow.dspy.autolog(log_evals=True)
    evaluate()


if __name__ == "__main__":
    main()
