import pytest
from omegaconf import OmegaConf

from eval.cli.paths import OUTPUTS
from eval.config.tracking import LocalTracking


def test_the_dataclasses_are_schemas_that_refuse_unknown_keys() -> None:
    schema = OmegaConf.structured(LocalTracking)
    assert OmegaConf.merge(schema, {"folder": "x"}).folder == "x"
    with pytest.raises(Exception, match="experimant"):
        OmegaConf.merge(schema, {"experimant": "x"})


def test_outputs_lie_in_the_checkout_whatever_the_folder() -> None:
    assert OUTPUTS.is_absolute()
    assert (OUTPUTS.parent / "pyproject.toml").is_file()
