"""Choice of a run's executor, and its connection to a cluster."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from eval.benchmarks.dataset import Sample
from eval.config.evaluation import EvalConfig, LocalSettings
from eval.execution.executors.contract import Executor
from eval.execution.executors.local import LocalExecutor
from mas.prompt_sets.prompt_set import PromptSet
from mas.system import Resources


def create_executor(
    config: EvalConfig,
    prompts: PromptSet | None,
    resources: Resources,
    resolved: Mapping[str, object],
    samples: Sequence[Sample],
    stack: ExitStack,
) -> Executor:
    """Return what answers the samples of a run, with its program built.

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
    if isinstance(config.executor, LocalSettings):
        return local
    from eval.execution.executors.cluster.connection import open_cluster

    cluster = stack.enter_context(open_cluster(config, resolved, samples))
    from eval.execution.executors.cluster.ray_executor import RayExecutor  # loads Ray, once its environment is set

    return RayExecutor(local.program, config, prompts, resolved, cluster)
