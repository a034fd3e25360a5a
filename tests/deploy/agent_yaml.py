"""The agent's configuration as editors see it: YAML 1.2, against the published JSON schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import yaml

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "actuator/agent.schema.json").read_text())


class Yaml12(yaml.SafeLoader):
    """PyYAML reads YAML 1.1, in which `on` is true; of its words only true and false are left."""


Yaml12.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag != "tag:yaml.org,2002:bool"]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def read_agent_yaml(text: str) -> Any:
    """The document of an agent.yaml."""
    return yaml.load(text, Yaml12)  # noqa: S506 - a SafeLoader


def complaints(document: object) -> list[str]:
    """What the schema says against it, each with its place."""
    found = jsonschema.Draft202012Validator(SCHEMA).iter_errors(document)
    return sorted(f"{'.'.join(map(str, error.path))}: {error.message}" for error in found)
