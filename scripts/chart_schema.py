"""Put the agent's own rules for `services` and for its other keys into the schema of the chart's values.

Helm then refuses what the agent would refuse, before a pod restarts without end. `--check` only compares.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[1]
AGENT, CHART = ROOT / "actuator/agent.schema.json", ROOT / "deploy/helm/osml/values.schema.json"
CHARTS_OWN = {
    "": ("node", "services"),  # agent.services has them; the pod puts in the node
    "server": ("url", "token_file"),
    "roots": ("cgroup", "resctrl", "sysfs", "irq"),
}
"""Keys that the chart writes itself: in `agent.config` they would be of no use, or break all nodes but one."""
Node = dict[str, Any]


def plain(node: Node) -> Node:
    """A schema without texts and defaults: the reference has them."""
    kept: Node = {}
    for key, value in node.items():
        if key == "properties":
            kept[key] = {name: plain(one) for name, one in value.items()}
        elif key == "enum" and {"on", "off"} & set(value):  # Helm reads these as true and false, and so does the agent
            kept[key] = [*value, *([True] if "on" in value else []), *([False] if "off" in value else [])]
        elif key not in ("description", "default"):
            kept[key] = _plain_value(value)
    return kept


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return plain(cast("Node", value))
    if isinstance(value, list):
        return [_plain_value(one) for one in cast("list[Any]", value)]
    return value


def part_of_config(node: Node, path: str = "") -> Node:
    """A schema of what is merged into the chart's own configuration: nothing is required, and its keys are left out."""
    kept = {key: value for key, value in node.items() if key != "required"}
    if "properties" in kept:
        kept["properties"] = {
            name: part_of_config(one, name if not path else f"{path}.{name}")
            for name, one in kept["properties"].items()
            if name not in CHARTS_OWN.get(path, ())
        }
    return kept


def with_rules_of_agent(text: str) -> str:
    """The schema of the values with both definitions, each on its line."""
    agent = plain(json.loads(AGENT.read_text("utf-8")))
    services: Node = agent["properties"]["services"]
    config = part_of_config({key: agent[key] for key in ("type", "properties", "additionalProperties")})
    for name, definition in (("services", services), ("config", config)):
        written = f'    "{name}": ' + json.dumps(definition, separators=(",", ":"))
        before = re.search(rf'^    "{name}": [^\n]*?(?=,?$)', text, re.MULTILINE)
        if before is None:
            raise SystemExit(f"{CHART} has no line of the definition '{name}'")
        text = text[: before.start()] + written + text[before.end() :]
    json.loads(text)
    return text


def main() -> None:
    """Write the schema, or compare it."""
    before = CHART.read_text("utf-8")
    after = with_rules_of_agent(before)
    if "--check" in sys.argv[1:]:
        if before != after:
            raise SystemExit(f"{CHART.relative_to(ROOT)} is not what `python scripts/chart_schema.py` writes; run it")
        return
    CHART.write_text(after, "utf-8")


if __name__ == "__main__":
    main()
