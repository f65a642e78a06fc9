"""Place of a run's workers, by its executor.

with open_place(config, resolved, samples) as place:
    executor = WorkersExecutor(local, config, prompts, resolved, place)
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.config.executor import ProcessesSettings, RaySettings
from eval.execution.executors.processes import Place, ThisMachine


@contextmanager
def open_place(
    config: EvalConfig, resolved: Mapping[str, object], samples: Sequence[Sample], n_runs: int = 1
) -> Iterator[Place]:
    """Open the place where the workers of a run are started, once its program has been built in this process.

    Args:
        config: of the run, with an executor that has workers.
        resolved: the same as plain dictionaries, from which workers build the program.
        samples: all that the run may answer, with their attachments.
        n_runs: that share the place at the same time.

    Yields:
        The place.

    Raises:
        UserError: the cluster cannot be used, or a file must not be sent to it.
    """
    settings = config.executor
    if isinstance(settings, RaySettings):
        from eval.execution.executors.cluster.run_cluster import open_cluster

        with open_cluster(config, resolved, samples, n_runs) as cluster:
            yield cluster
    else:
        assert isinstance(settings, ProcessesSettings)
        yield ThisMachine(settings.n_workers)
