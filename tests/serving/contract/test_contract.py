"""The contract with agents of others: a document that generators take, and newer agents on this server."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import msgspec
import pytest
from osml_serving.api.descriptions import descriptions
from osml_serving.example import EXAMPLE

JSON = {"content-type": "application/json"}
UNKNOWN = "osml-unknown-keys"


@pytest.fixture
def document(server):
    return server.client.get("/openapi.json").json()


def parts(part, path=""):
    """Each schema in the document with its place; examples are data."""
    if isinstance(part, dict):
        yield path, part
        for key, value in part.items():
            if key not in ("default", "example", "examples"):
                yield from parts(value, f"{path}/{key}")
    elif isinstance(part, list):
        for index, value in enumerate(part):
            yield from parts(value, f"{path}/{index}")


def test_the_document_has_nothing_that_stops_a_generator(document):
    assert document["openapi"] == "3.0.3"
    for path, part in parts(document):
        kind = part.get("type")
        assert kind != "null", path
        if kind in ("number", "integer"):
            assert part["format"] in ("double", "int64"), path
        if isinstance(part.get("enum"), list):
            assert kind, path
        assert not {"prefixItems", "const"} & part.keys(), path
        assert not isinstance(part.get("exclusiveMinimum"), int | float) or part["exclusiveMinimum"] is True, path
        assert part.get("items") is not False, path
        if "$ref" in part:
            assert part.keys() == {"$ref"}, f"{path}: what is beside a reference is ignored"


def test_operations_have_short_names_and_parameters_that_are_in_the_path(document):
    names = []
    for path, operations in document["paths"].items():
        for operation in operations.values():
            names.append(operation["operationId"])
            in_path = [p for p in operation["parameters"] if p["in"] == "path"]
            assert {p["name"] for p in in_path} == set(re.findall(r"{(\w+)}", path)), path
            assert all(p["required"] and not p["schema"].get("nullable") for p in in_path), path
    assert len(set(names)) == len(names)
    assert {"decide", "decide_batch", "add_experiences", "run_inference_of_version"} <= set(names)
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


def test_a_body_has_one_media_type_that_generators_know(document):
    for path, operations in document["paths"].items():
        for operation in operations.values():
            types = list(operation.get("requestBody", {}).get("content", {}))
            assert types in ([], ["application/json"], ["application/octet-stream"]), path


def test_every_property_is_described(document):
    for name, schema in document["components"]["schemas"].items():
        for field, part in schema.get("properties", {}).items():
            assert part.get("description", "").endswith("."), f"{name}.{field} has no entry in descriptions.yaml"


def test_numbers_have_a_unit_and_a_range(document):
    schemas = document["components"]["schemas"]
    assert schemas["Service"]["properties"]["target_ms"]["description"].endswith(
        "ms. LC services need one. Range: above 0."
    )
    assert schemas["Assignment"]["properties"]["cpu_weight"]["description"].endswith("Range: from 1 to 10000.")
    units = (
        r"\b(s|ms|ns|MHz|GHz|MiB|GiB|GB/s|Mbit/s|bytes|seconds|0 to 1|unit|units|number|per (second|cycle)|CPUs?|ways"
    )
    units += r"|cores|rises|Weight|Priority|Range|Instructions|elements|\d+)\b"
    for name, schema in schemas.items():
        for field, part in schema.get("properties", {}).items():
            if part.get("type") in ("number", "integer"):
                assert re.search(units, part["description"], re.IGNORECASE), f"{name}.{field}: {part['description']}"


def test_no_description_is_left_of_a_property_that_is_gone(document):
    schemas = document["components"]["schemas"]
    everywhere = {field for schema in schemas.values() for field in schema.get("properties", {})}
    for name, fields in descriptions().items():
        known = everywhere if name == "any" else schemas[name]["properties"].keys()
        assert fields.keys() <= known, name


def with_unknown_keys():
    newer = msgspec.to_builtins(EXAMPLE)
    newer["power_watts"] = 310.5
    newer["platform"]["numa"] = {"nodes": [1, 2]}
    newer["services"][1]["latency"]["p999_ms"] = 12.0
    newer["missing"] = {"l4": "a mechanism of which this server has not heard"}
    return newer


def test_a_newer_agent_gets_the_decision_that_an_older_one_gets(server):
    known = msgspec.structs.replace(EXAMPLE, missing=with_unknown_keys()["missing"])
    answer = server.client.post("/v1/decisions", json=with_unknown_keys())
    assert answer.status_code == 200
    assert answer.json() == server.post(known).json()
    keys = {"power_watts", "platform.numa", "services[1].latency.p999_ms"}
    assert set(answer.headers[UNKNOWN].split(", ")) == keys
    assert server.runtime.metrics.registry.get_sample_value("osml_unknown_keys_total") == 3
    assert UNKNOWN not in server.post(EXAMPLE).headers


def test_a_batch_and_experiences_of_a_newer_agent_are_taken(serve, make_experience, tmp_path):
    server = serve(store=f"sqlite:///{tmp_path}/x.db")
    batch = {"observations": [with_unknown_keys()], "priority": "high"}
    answer = server.client.post("/v1/decisions:batch", json=batch)
    keys = {"priority", "power_watts", "platform.numa", "services[1].latency.p999_ms"}
    assert set(answer.headers[UNKNOWN].split(", ")) == keys
    assert server.runtime.metrics.registry.get_sample_value("osml_unknown_keys_total") == len(keys)
    [item] = answer.json()["decisions"]
    assert item["decision"]["node"] == "node-17"
    experience = msgspec.to_builtins(make_experience(0))
    experience["after"]["power_watts"] = 1
    answer = server.client.post("/v1/experiences", json={"experiences": [experience]})
    assert (answer.status_code, answer.headers[UNKNOWN]) == (202, "experiences[0].after.power_watts")


def test_the_smallest_observation_of_the_page_gets_a_decision(server):
    page = (Path(__file__).parents[3] / "docs/how-to/write-an-agent.md").read_text()
    [body] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    answer = server.client.post("/v1/decisions", json=json.loads(body))
    assert (answer.status_code, UNKNOWN in answer.headers) == (200, False), answer.text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda o: o.update(seq=-1), "seq"),
        (lambda o: o.update(seq="0"), "seq"),
        (lambda o: o.update(seq=0.5), "seq"),
        (lambda o: o.update(seq=True), "seq"),
        (lambda o: o.update(schema="osml/observation/v2"), "schema"),
        (lambda o: o["services"][0].update(target_ms=0), "services[0].target_ms"),
        (lambda o: o.pop("node"), None),
    ],
)
def test_unknown_keys_make_nothing_else_legal(server, change, field):
    newer = with_unknown_keys()
    change(newer)
    answer = server.client.post("/v1/decisions", json=newer)
    assert answer.status_code == 422
    assert answer.json()["error"].get("field") == field


def test_a_header_holds_no_text_from_outside_that_could_break_it(server):
    hostile = {"x\r\nset-cookie: a=b": 1, "é" * 200: 2, **{f"k{n}": n for n in range(100)}}
    answer = server.client.post("/v1/decisions", json={**msgspec.to_builtins(EXAMPLE), **hostile})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert len(answer.headers[UNKNOWN]) < 1000


GENERATOR = shutil.which("oapi-codegen") or os.environ.get("OAPI_CODEGEN")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
@pytest.mark.skipif(GENERATOR is None, reason="oapi-codegen is not installed (OAPI_CODEGEN=path)")
def test_a_go_client_can_be_generated_compiled_and_used(start_process, tmp_path):
    server = start_process()
    page = server.url + "/openapi.json"
    (tmp_path / "openapi.json").write_text(httpx.get(page).text)
    (tmp_path / "client").mkdir()
    generate = [GENERATOR, "-generate", "types,client", "-package", "client", "-o", "client/osml.go", "openapi.json"]
    (tmp_path / "example.json").write_bytes(msgspec.json.encode(EXAMPLE))
    (tmp_path / "main.go").write_text(GO)

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(*generate)
    run("go", "mod", "init", "example")
    run("go", "mod", "tidy")
    decided = json.loads(run("go", "run", ".", server.url))
    assert decided == {"node": "node-17", "services": 3, "status": 200, "unknown": ""}


GO = """package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"example/client"
)

func main() {
	var observation client.Observation
	content, _ := os.ReadFile("example.json")
	if err := json.Unmarshal(content, &observation); err != nil {
		panic(err)
	}
	osml, err := client.NewClientWithResponses(os.Args[1])
	if err != nil {
		panic(err)
	}
	answer, err := osml.DecideWithResponse(context.Background(), observation)
	if err != nil {
		panic(err)
	}
	decision := answer.JSON200
	told, _ := json.Marshal(map[string]any{
		"node": decision.Node, "services": len(decision.Assignments), "status": answer.StatusCode(),
		"unknown": answer.HTTPResponse.Header.Get("osml-unknown-keys"),
	})
	fmt.Println(string(told))
}
"""
