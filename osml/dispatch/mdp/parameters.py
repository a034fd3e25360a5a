"""The paper's farm in seven numbers, checked: what a solve starts from and what a cache is keyed by."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

from osml.base.failure import InputError

MAX_LOAD = 1.0 - 1e-9
"""Any nearer to saturation, the distance from it is lost in the rounding of the rates."""
Epochs = Literal["literal", "anytime"]

MAX_SERVERS = 1000
"""No farm that could be solved is near this; it keeps the sizes below from overflowing."""


@dataclass(frozen=True)
class FarmParameters:
    """k servers with one queue, each under interference independently of the others (paper, section III).

    servers: k. arrival: lambda, Poisson. mu_high, mu_low: service rate of a server without and under interference.
    alpha_high: rate at which interference strikes a server. alpha_low: rate at which it leaves.
    All rates per one unit of time. epochs: when a job may be sent to a server under interference: `literal`, at
    arrivals and at completions on such a server (equation 2); `anytime`, also when interference comes or goes.
    """

    servers: int
    arrival: float
    mu_high: float
    mu_low: float
    alpha_high: float
    alpha_low: float
    epochs: Epochs = "literal"

    @property
    def capacity(self) -> float:
        """The arrival rate that the farm can't reach: all servers busy all the time."""
        mean = (self.mu_high * self.alpha_low + self.mu_low * self.alpha_high) / (self.alpha_high + self.alpha_low)
        return self.servers * mean

    @property
    def load(self) -> float:
        """Offered load rho, 0 to 1 (paper, section V)."""
        return self.arrival / self.capacity

    def checked(self) -> FarmParameters:
        """Itself, if it has an answer. Raises InputError that names the field, the value and what was expected."""
        if self.epochs not in get_args(Epochs):
            raise InputError(f"epochs is '{self.epochs}', expected one of {', '.join(get_args(Epochs))}")
        if isinstance(self.servers, bool) or not 1 <= self.servers <= MAX_SERVERS:
            raise InputError(f"servers is {self.servers}, expected a whole number from 1 to {MAX_SERVERS}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in {"servers", "epochs"}:
                continue
            if not math.isfinite(value) or value <= 0:
                raise InputError(f"{field.name} is {value}, expected a finite rate above 0")
        if self.mu_low > self.mu_high:
            raise InputError(
                f"mu_low is {self.mu_low:g}, above mu_high ({self.mu_high:g}): a server isn't faster under "
                "interference; swap the two"
            )
        if not self.load < MAX_LOAD:
            raise InputError(
                f"arrival is {self.arrival:g}, above the capacity of {self.servers} servers: the queue is stable only "
                f"below {self.capacity:.6g} jobs per unit of time; reduce arrival or add servers"
            )
        return self

    def rounded(self, digits: int = 2) -> FarmParameters:
        """The same with every rate at so many significant digits: nearby estimates then share one solution."""
        rates = {
            field.name: float(f"{getattr(self, field.name):.{digits - 1}e}")
            for field in fields(self)
            if field.name not in {"servers", "epochs"}
        }
        return replace(self, **rates)
