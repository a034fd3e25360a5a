"""Heracles with several services. `policy` decides, `working_plan` has the algorithms of one decision."""

from osml.policies.heracles.policy import Heracles

__all__ = ["Heracles"]
