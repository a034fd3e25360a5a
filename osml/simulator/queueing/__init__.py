"""How long requests wait and take: the stationary `response`, its `distribution`, fast percentiles from `tables`.

`event_simulation` checks them request by request and shares nothing with them.
"""

from osml.simulator.queueing.delays import together
from osml.simulator.queueing.distribution import DISTRIBUTION, LEVELS, mean_ms, normal_tail, quantile, spectrum
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
)

__all__ = [
    "DISTRIBUTION", "LEVELS", "MAX_UTILISATION", "PERCENTILES", "TABLE_SHAPE", "Response", "behind_backlog", "build_up",
    "chance_factor", "common_share", "erlang_c", "look_up_slow", "mean_ms", "normal_tail",
    "percentile_table", "percentiles", "quantile", "quantiles",
    "queue_response", "ramp", "relaxation_s", "spectrum", "spread_between", "together",
]  # fmt: skip
