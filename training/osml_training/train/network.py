"""An untrained network for a config and its rows."""

from __future__ import annotations

from osml_training.networks import Network, Scaling, ignore_unmeasured, initialise
from osml_training.train.config import Config
from osml_training.train.scaling import label_range
from osml_training.train.table import Rows


def new_network(config: Config, scaling: Scaling, rows: Rows) -> Network:
    """An untrained network for these rows."""
    masked = config.variant == "masked"
    network = Network(
        scaling, label_range(rows), hidden=config.hidden, dropout=config.dropout, masked=masked, spread=masked
    )
    initialise(network, config.seed)
    ignore_unmeasured(network.linears()[0], rows.x)
    return network
