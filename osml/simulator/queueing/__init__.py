"""How long requests wait and take: the stationary `response`, its `distribution`, fast percentiles from `tables`.

`event_simulation` checks them request by request and shares nothing with them.
"""

from osml.simulator.queueing.delays import delay_with, together
from osml.simulator.queueing.distribution import DISTRIBUTION, LEVELS, mean_ms, normal_tail, quantile, spectrum
from osml.simulator.queueing.overload import longest_wait, positive_mean, spread_wait
from osml.simulator.queueing.response import (
    MAX_UTILISATION,
    Response,
    behind_backlog,
    erlang_c,
    quantiles,
    queue_response,
)
from osml.simulator.queueing.tables import PERCENTILES, TABLE_SHAPE, look_up_slow, percentile_table, percentiles
from osml.simulator.queueing.transient import (
    build_up,
    chance_factor,
    common_share,
    ramp,
    relaxation_s,
    spread_between,
    young_level,
)

__all__ = [
    "DISTRIBUTION", "LEVELS", "MAX_UTILISATION", "PERCENTILES", "TABLE_SHAPE", "Response", "behind_backlog", "build_up",
    "chance_factor", "common_share", "delay_with", "erlang_c", "longest_wait", "look_up_slow", "mean_ms", "normal_tail",
    "percentile_table", "percentiles", "positive_mean", "quantile", "quantiles",
    "queue_response", "ramp", "relaxation_s", "spectrum", "spread_between", "spread_wait", "together", "young_level",
]  # fmt: skip
