"""Choice of a run's executor, and its connection to a cluster.

executor, _ = create_executor(config, prompts, resources, resolved, samples, stack)
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig
from eval.config.executor import RaySettings
from eval.execution.executors.contract import Executor
from eval.execution.executors.local import LocalExecutor
from mas.prompt_sets.prompt_set import PromptSet
from mas.system import Resources

if TYPE_CHECKING:
    from eval.execution.executors.cluster.connection import RunCluster


def create_executor(
    config: EvalConfig,
    prompts: PromptSet | None,
    resources: Resources,
    resolved: Mapping[str, object],
    samples: Sequence[Sample],
    stack: ExitStack,
) -> "tuple[Executor, RunCluster | None]":
    """Return what answers the samples of a run, with its program built, and the cluster whose workers do.

    Args:
        config: of the run.
        prompts: of its program.
        resources: of the program.
        resolved: the configuration as plain dictionaries, from which workers build the program.
        samples: all that the run may answer.
        stack: ends the connection to a cluster.

    Raises:
        UserError: the program cannot be built, or not where the executor needs it.
    """
    local = LocalExecutor(config, prompts, resources)
    if not isinstance(config.executor, RaySettings):
        return local, None
    from eval.execution.executors.cluster.connection import open_cluster
    from eval.execution.executors.cluster.ray_executor import RayExecutor

    cluster = stack.enter_context(open_cluster(config, resolved, samples))
    return RayExecutor(local, config, prompts, resolved, cluster), cluster
