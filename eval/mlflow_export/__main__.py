"""The exporter process of one run, started by `ExporterLauncher`: python -m eval.mlflow_export FOLDER"""

import os
import sys
from pathlib import Path

from eval.mlflow_export.exporter import export_folder

if __name__ == "__main__":
    os.nice(19)  # the lowest priority: the run comes first
    export_folder(Path(sys.argv[1]).absolute())
