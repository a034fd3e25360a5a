"""The example of docs/how-to/rollout.md: the server starts with it, as the page says."""

from pathlib import Path

import httpx
from osml_serving.decider import installed_decider
from osml_serving.rollout.plan import Limits, read_plan

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/rollout.md"


def example() -> str:
    return PAGE.read_text("utf-8").split("```yaml\n")[1].split("```")[0]


def test_the_server_starts_with_the_example(start_process, tmp_path):
    file = tmp_path / "rollout.yaml"
    file.write_text(example())
    plan = read_plan(file, installed_decider("osml", 0))
    assert [canary.what for canary in plan.canaries] == ["policy osml:dqn"]
    url = start_process("--rollout", str(file)).url
    assert [one["name"] for one in httpx.get(f"{url}/v1/rollout").json()["groups"]] == ["edge"]


def test_the_table_has_the_defaults():
    text = PAGE.read_text("utf-8")
    for name in Limits.__struct_fields__:
        assert f"| `{name}` | {getattr(Limits(), name):g} |" in text
