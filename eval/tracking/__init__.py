"""Runs in MLflow. The files of `conf/tracking/` name the classes in `settings.py`."""

from eval.tracking.settings import LocalTracking, NoTracking, ServerTracking

__all__ = ["LocalTracking", "NoTracking", "ServerTracking"]
