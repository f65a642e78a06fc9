"""One real MLflow store for all tests of this folder, as tests/eval/tracking has one; each test its own experiment."""

from tests.eval.tracking.conftest import local, mlflow_folder, opened

__all__ = ["local", "mlflow_folder", "opened"]
