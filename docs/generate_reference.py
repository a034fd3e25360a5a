"""Write the pages of the reference that the code itself describes; with `--check` only compare them.

docs/reference/cli.md comes from the commands, metrics.md from the registries of server and agent, settings.md from the
settings of the server, osml-rules.md from the rules of the policy `osml`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args, get_origin

from osml_serving import metrics, settings
from osml_serving.peers.worker_metrics import worker_gauge
from osml_serving.rollout.figures import CanaryFigures
from osml_serving.rollout.judge import ArmFigures
from osml_serving.rollout.rollout import CanaryState
from osml_serving.shadow.figures import ShadowFigures
from osml_serving.shadow.tally import ShadowSums, ShadowTally
from typer.main import get_command

from osml.cli.main import application as all_commands
from osml.decide import registry as policies
from osml.policies.osml.rules import RULES
from osml.policies.osml.settings import DEFAULT

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
AGENT_SOURCE = "actuator/src/*/metrics.cpp"
AGENT_PREFIX = "osml_agent_"
MOST_VALUES = 8  # of a label, to be listed
NOTE = "`docs/generate_reference.py` generates this page from the code. Do not edit it."


def application() -> Any:
    """All commands of `osml`, as click has them."""
    return get_command(all_commands())


# Markdown


def escaped(text: str) -> str:
    """Text for a cell of a table: one line, no bars that end the cell, no tags."""
    one_line = " ".join(text.split()).replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", one_line)  # what stands in backticks is shown as it is
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts)


def code(text: str) -> str:
    """Text as code; an empty text stays empty."""
    return f"`{text}`" if text else ""


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown; no table where there are no rows."""
    if not rows:
        return ""
    lines = [heads, ["-"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def page(title: str, intro: str, parts: list[str]) -> str:
    """A page: its title, what it is about, its parts."""
    return "\n".join(part.rstrip() + "\n" for part in [f"# {title}", f"{intro} {NOTE}", *parts] if part)


# Commands


def shown(value: Any) -> str:
    """A default value as it is typed on the command line."""
    if isinstance(value, list | tuple):
        value = " ".join(str(one) for one in cast("Sequence[Any]", value)) or None
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    value = getattr(value, "value", value)
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return code(text) if text else "empty"


def default_of(parameter: Any) -> str:
    """What a parameter is where it is not given."""
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        text: str = {"False": "off", "True": "on"}.get(parameter.show_default, parameter.show_default)
        return escaped(text) if " " in text or text in ("none", "off", "on") else code(text)
    value = parameter.default
    if getattr(parameter, "is_flag", False) and value is None:
        return "off"
    return shown(value() if callable(value) else value)


def type_of(parameter: Any, context: Any) -> str:
    """The type of a parameter in words: `list[str]` is text that may be repeated."""
    name: str = parameter.display_type(context).strip("<>").removesuffix(" range")
    several = name.startswith("list[")
    limits = parameter.type_descriptor.parameter_info
    low = "" if limits.min is None else f"from {limits.min}"
    high = "" if limits.max is None else f"to {limits.max}"
    words = [type_words(name.removeprefix("list[").rstrip("]")), low, high, "(may be repeated)" if several else ""]
    return " ".join(word for word in words if word)


def type_words(name: str) -> str:
    """One type in words; choices as they are typed."""
    if "|" in name:
        return ", ".join(code(choice) for choice in name.split("|"))
    return {"str": "text", "int": "integer", "float": "number", "bool": "flag", "Path": "path"}.get(name, name)


def names_of(parameter: Any) -> str:
    """The names under which a parameter is given."""
    if parameter.param_type_name == "argument":
        return code((parameter.metavar or parameter.name).upper().strip("[]"))
    given = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(code(name) for name in given)


def parameters(command: Any) -> str:
    """The table of a command's parameters."""
    context = command.make_context(command.name, [], resilient_parsing=True)
    rows = [
        [names_of(one), type_of(one, context), default_of(one), escaped(getattr(one, "help", None) or "")]
        for one in command.params
        if not getattr(one, "hidden", False)
    ]
    return table(["parameter", "type", "default", "meaning"], rows)


def help_of(command: Any, otherwise: Any) -> str:
    """The help of a command as paragraphs; `otherwise` is the entry in the list of commands."""
    text = inspect.cleandoc(command.help or otherwise.help or "").split("\f")[0].replace("\b\n", "")
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).strip()


def walk(group: Any, path: list[str]) -> Iterator[tuple[list[str], Any, str]]:
    """Each command below a group that is not hidden: its path, the command, its help."""
    context = group.make_context(path[-1], [], resilient_parsing=True)
    for name in group.list_commands(context):
        listed = group.get_command(context, name)
        if listed.hidden:
            continue
        command = group.resolve_command(context, [name])[1]
        yield [*path, name], command, help_of(command, listed)
        if hasattr(command, "list_commands"):
            yield from walk(command, [*path, name])


def section(path: list[str], command: Any, text: str, before: dict[str, str]) -> str:
    """What the page says of one command. `before` has the tables so far, by which command they are."""
    name, level = " ".join(path), "##" if len(path) <= 2 else "###"
    group = hasattr(command, "list_commands") and not command.invoke_without_command
    told = "" if group and len(path) > 1 else parameters(command)
    if flags_of(command) >= SERVER_FLAGS:
        told = "Its parameters are the flags in [settings](settings.md)."
    elif told.count("\n") > FEW:
        first = before.setdefault(told, name)
        if first != name:
            told = f"Its parameters are those of [`{first}`](#{first.replace(' ', '-')})."
    return "\n\n".join(part for part in [f"{level} `{name}`", text, told] if part)


FEW = 6
"""Lines of a table that is repeated rather than named."""

SERVER_FLAGS = {f"--{name.replace('_', '-')}" for name in settings.Settings.model_fields}


def flags_of(command: Any) -> set[str]:
    """All names under which its parameters are given."""
    return {name for one in command.params for name in one.opts}


def cli_page() -> str:
    """docs/reference/cli.md."""
    root = application()
    before: dict[str, str] = {}
    parts = [section(["osml"], root, help_of(root, root), before)]
    parts += [section(path, command, text, before) for path, command, text in walk(root, ["osml"])]
    intro = "All commands of `osml` with their parameters. Each command also has `--help`."
    return page("Command line", intro, parts)


# Metrics


@dataclass(frozen=True)
class Family:
    """A metric: its labels with the values that they can have, where these are few."""

    name: str
    kind: str
    labels: dict[str, list[str]]
    help: str

    def row(self) -> list[str]:
        """The line of the table."""
        labels = [
            code(label) + (" (" + ", ".join(code(value) for value in values) + ")" if values else "")
            for label, values in self.labels.items()
        ]
        return [code(self.name), self.kind, ", ".join(labels) or "none", escaped(self.help)]


def closed(values: set[str]) -> list[str]:
    """The values of a label, where the registry has a few from the start; none where they come from outside."""
    return sorted(values) if 1 < len(values) <= MOST_VALUES else []


def server_families() -> list[Family]:
    """What the server exports, from a registry as a server fills it at its start."""
    found = metrics.Metrics(policies.policy_names())
    found.watch_log(lambda: 0)
    arm = ArmFigures(nodes=1, seconds=0, missed=0, e_s=0, failures=0, unmeasured=0)
    found.registry.register(CanaryFigures(lambda: [CanaryState("", "", None, 1, "runs", None, None, arm, arm)]))
    found.registry.register(ShadowFigures(ShadowTally({"": ShadowSums("")})))
    worker_gauge(found.registry).labels("0")
    families: list[Family] = []
    for family in found.families():
        values: dict[str, set[str]] = {}
        for sample in family.samples:
            for label, value in sample.labels.items():
                if label != "le":
                    values.setdefault(label, set()).add(value)
        suffix = "_total" if family.type == "counter" else ""
        labels = {label: closed(known) for label, known in values.items()}
        families.append(Family(family.name + suffix, family.type, labels, family.documentation))
    return sorted(families, key=lambda one: one.name)


TEXT = r'"((?:[^"\\]|\\.)*)"'
FAMILY = re.compile(
    rf"\bfamily\(\s*{TEXT},\s*{TEXT},\s*{TEXT}\s*\)|\bout\.(gauge|counter)\(\s*{TEXT},\s*{TEXT}\s*,", re.DOTALL
)
CALL = re.compile(r"\bout\.(?:family|gauge|counter)\(")
LABEL = re.compile(r'\blabel\("(\w+)"(?:, "(\w+)")?|\bby_label\(out, "(\w+)"|,(\w+)=\\"(\w+)')
VALUES = re.compile(r"\b(\w+_names)\s*=\s*\{([^}]*)\}")


def agent_families(root: Path = ROOT) -> list[Family]:
    """What the agent exports, from the one source file that writes all of it. ValueError where that is not so."""
    files = sorted(root.glob(AGENT_SOURCE))
    if len(files) != 1:
        raise ValueError(f"{AGENT_SOURCE} names {len(files)} files, expected the one that writes the agent's metrics")
    source = files[0].read_text("utf-8")
    found = list(FAMILY.finditer(source))
    if not found or len(found) != len(CALL.findall(source)):
        raise ValueError(f"{files[0]} has metrics that this program cannot read; adapt its pattern FAMILY")
    ends = [*(one.start() for one in found[1:]), len(source)]
    lists = {name: set(re.findall(r'"(\w+)"', values)) for name, values in VALUES.findall(source)}
    families = [agent_family(one, source[one.end() : end], lists) for one, end in zip(found, ends, strict=True)]
    return sorted(families, key=lambda one: one.name)


def agent_family(found: re.Match[str], after: str, lists: dict[str, set[str]]) -> Family:
    """A metric of the agent; its labels and their values stand between its name and the next metric."""
    name, kind, text = (found[1], found[2], found[3]) if found[1] else (found[5], found[4], found[6])
    values: dict[str, set[str]] = {}
    for plain, value, counted, raw, raw_value in LABEL.findall(after):
        values.setdefault(plain or counted or raw, set()).update({value or raw_value} - {""})
    for listed, words in lists.items():
        if listed in after and len(values) == 1:
            values[next(iter(values))] |= words
    return Family(AGENT_PREFIX + name, kind, {label: closed(known) for label, known in values.items()}, text)


def metrics_page() -> str:
    """docs/reference/metrics.md."""
    heads = ["name", "type", "labels", "meaning"]
    intro = (
        "Metrics of the server and of the agent for Prometheus. The server answers `GET /metrics` ([REST](rest.md)). "
        "The agent writes a file ([agent configuration](agent-config.md#the-agents-own-metrics))."
    )
    parts = ["## Server", table(heads, [one.row() for one in server_families()])]
    parts += ["## Agent", "Each metric of the agent also has the label `node`."]
    parts += [table(heads, [one.row() for one in agent_families()])]
    return page("Metrics", intro, parts)


# Settings

WORDS = {"str": "text", "int": "integer", "float": "number", "bool": "`on` or `off`", "Path": "path"}
LIMITS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}


def annotation_words(annotation: Any) -> str:
    """A type in words: `Path | None` is a path."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if str(get_origin(annotation)).endswith("Literal"):
        return ", ".join(code(str(part)) for part in parts)
    if parts:
        return " or ".join(annotation_words(part) for part in parts)
    name: str = annotation.__name__
    return WORDS.get(name, name)


def limits_of(field: Any) -> str:
    """The limits of a number."""
    found = [words.format(getattr(rule, name)) for rule in field.metadata for name, words in LIMITS.items()
             if hasattr(rule, name)]  # fmt: skip
    return " ".join(found)


def settings_page() -> str:
    """docs/reference/settings.md."""
    kind = settings.Settings
    prefix: str = kind.model_config["env_prefix"]
    rows = [
        [
            code("--" + name.replace("_", "-")),
            code(prefix + name.upper()),
            " ".join(part for part in [annotation_words(field.annotation), limits_of(field)] if part),
            shown(field.default),
            escaped(field.description or ""),
        ]
        for name, field in kind.model_fields.items()
    ]
    intro = (
        "Settings of the server. Each setting has a flag and an environment variable; the flag wins. "
        "[REST](rest.md) explains tokens, limits, models and stores."
    )
    return page("Settings of the server", intro, [table(["flag", "environment", "type", "default", "meaning"], rows)])


# Rules of the policy `osml`


def worths(file: Path) -> dict[str, dict[str, str]]:
    """What each rule and model is worth by suite and on `all` mixes; empty where it was not measured yet."""
    rows: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["rows"] if file.is_file() else []
    return {row["of"]: {"all": row["ours"], **row["by_suite"]} for row in rows}


def how_measured(file: Path) -> str:
    """When, on how many mixes and for how long; empty where nothing was measured yet."""
    if not file.is_file():
        return ""
    run: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return (
        f"All rows are of one run on {run['date']}, on {sum(run['mixes'].values())} mixes. A mix runs for at most "
        f"{run['limit_s']:g} s, so a threshold that acts later shows nothing. A rule with `-` is newer than that run. "
    )


def rules_page(file: Path = ROOT / "docs" / "results" / "osml-rules.json") -> str:
    """docs/reference/osml-rules.md."""
    worth = worths(file)
    rows = [
        [
            str(number),
            code(rule.name),
            escaped(" ".join((inspect.getdoc(rule.propose) or "").split())),
            escaped(rule.source),
            escaped(worth.get(rule.name, {}).get("all", "-")),
        ]
        for number, rule in enumerate(RULES, 1)
    ]
    heads = ["", "rule", "what it does, and where", "source", "worth"]
    intro = (
        "Rules of the policy `osml` in their order ([how it decides](../explanation/osml-policy.md)). "
        "The first rule that holds and whose proposal passes the guard decides. "
        "`worth` says what changes if the rule is left out (simulated, `python -m osml.lab.benchmarks.osml_rules`): "
        "with a plus, the rule helps. Each figure has the 90 % interval of its mean over the mixes. "
        f"{how_measured(file)}Rules that are close to nothing alone "
        "can be worth something together ([why they stay](../notes/2026-11-25-rules-that-left.md))."
    )
    after = "If no rule decides, `hold` keeps all cells. If that is not legal, `squeeze` makes them fit."
    suites = list(next(iter(worth.values()), {}))
    by_suite = table(["without", *suites], [[code(name), *found.values()] for name, found in worth.items()])
    worths_text = "The same by suite, and for the models:" if worth else "Not measured yet."
    parts = [
        table(heads, rows),
        after,
        "## Worth by suite",
        worths_text,
        by_suite,
        "## Thresholds",
        table(["threshold", "value", "meaning"], thresholds()),
    ]
    return page("Rules of `osml`", intro, parts)


def thresholds() -> list[list[str]]:
    """Names, values and meaning of the settings of `osml`, out of the list in their docstring."""
    text = re.sub(r"\n  (?=\S)", " ", inspect.getdoc(type(DEFAULT)) or "")
    found = re.findall(r"^- (.*?): (.*)$", text, re.MULTILINE)
    return [
        [names, ", ".join(shown(getattr(DEFAULT, name)) for name in re.findall(r"\w+", names)), escaped(meaning)]
        for names, meaning in found
    ]


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "metrics.md": metrics_page,
    "osml-rules.md": rules_page,
    "settings.md": settings_page,
}


def stale(folder: Path, pages: dict[str, str]) -> list[str]:
    """Names of the pages that differ from the code."""
    return [
        name for name, text in pages.items()
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text
    ]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or compare them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a page differs from the code")
    parser.add_argument("--out", type=Path, default=REFERENCE, help="folder of the pages (default: docs/reference)")
    options = parser.parse_args(arguments)
    pages = {name: make() for name, make in PAGES.items()}
    if not options.check:
        for name, text in pages.items():
            (options.out / name).write_text(text, "utf-8")
        return 0
    old = stale(options.out, pages)
    if old:
        print(f"{', '.join(old)} in {options.out} differ from the code; run: python {sys.argv[0]}", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
