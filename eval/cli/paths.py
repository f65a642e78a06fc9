"""The two folders that relative paths hang from, whatever folder a command is started in."""

from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
OUTPUTS = PROJECT_ROOT / "outputs"  # git-ignored: run folders and the MLflow store
