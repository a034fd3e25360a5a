"""The champion as learning needs it: with its inputs in the order of STATE, which virtual nodes and tuples have."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from osml.base.failure import InputError
from osml.domain.cpu_names import short_name
from osml.predictors import ModelMetadata, read_metadata
from osml_training.dqn.export import load_qnet
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.dqn.transitions import Transitions, read_transitions
from osml_training.networks import Scaling


def load_champion(folder: Path) -> tuple[QNet, ModelMetadata]:
    """The network of a Model-C and its metadata, both with the inputs in the order of STATE.

    InputError where it has others: on the virtual node, which judges it, there are these.
    """
    net, metadata = load_qnet(folder).eval(), read_metadata(folder)
    if metadata.inputs == STATE:
        return net, metadata
    odd = sorted(set(metadata.inputs) ^ set(STATE))
    if odd:
        raise InputError(
            f"model '{metadata.name}': input '{odd[0]}' is {'unknown' if odd[0] not in STATE else 'missing'}, expected "
            f"the inputs {', '.join(STATE)} of the shipped Model-C"
        )
    places = [metadata.inputs.index(name) for name in STATE]
    features = [metadata.features[place] for place in places]
    return _reordered(net, places), msgspec.structs.replace(metadata, features=features)


def _reordered(net: QNet, places: list[int]) -> QNet:
    """The same function of inputs that come in another order: input k is the one that was at `places[k]`."""
    scaler = net.scaler
    is_log, low, span = (part[places].numpy() for part in (scaler.log, scaler.low.double(), scaler.span.double()))
    found = QNet(Scaling(is_log, low, span, scaler.clip), hidden=net.hidden, masked=net.masked)
    columns = places + [len(places) + place for place in places] if net.masked else places
    with torch.no_grad():
        for k, (mine, theirs) in enumerate(zip(found.linears(), net.linears(), strict=True)):
            mine.weight.copy_(theirs.weight[:, columns] if k == 0 else theirs.weight)
            mine.bias.copy_(theirs.bias)
    return found.eval()


def read_offline(file: Path, platform: str) -> Transitions:
    """The tuples of a file of `osml learn data transitions`. InputError where they are of another platform."""
    found = read_transitions(file)
    theirs = sorted({key.platform for key in found.runs if short_name(key.platform) != short_name(platform)})
    if theirs:
        raise InputError(f"--offline {file} has tuples of platform {theirs[0]}, expected {platform}")
    return found
