import msgspec
import pytest

from osml.domain import Decision, Observation


@pytest.fixture
def document(server):
    return server.client.get("/openapi.json").json()


def test_the_examples_are_real(server, document):
    operation = document["paths"]["/v1/decisions"]["post"]
    request = operation["requestBody"]["content"]["application/json"]["examples"]["first"]["value"]
    answer = operation["responses"]["200"]["content"]["application/json"]["examples"]["first"]["value"]
    assert msgspec.convert(request, Observation).node == "node-17"
    assert server.client.post("/v1/decisions", json=request).json() == answer
    assert msgspec.convert(answer, Decision).seq == 0


def test_every_reference_leads_somewhere(document):
    schemas = document["components"]["schemas"]

    def references(part):
        if isinstance(part, dict):
            yield from ([part["$ref"]] if isinstance(part.get("$ref"), str) else [])
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference


def test_patterns_are_written_as_other_languages_read_them(server):
    assert "\\Z" not in server.client.get("/openapi.json").text


def test_the_hot_route_declares_every_answer_it_can_give(document):
    declared = set(document["paths"]["/v1/decisions"]["post"]["responses"])
    assert declared == {"200", "400", "401", "403", "408", "413", "415", "422", "429", "500", "503"}


def test_the_document_agrees_with_the_constants_of_the_types(document):
    observation = document["components"]["schemas"]["Observation"]
    assert observation["properties"]["services"]["maxItems"] == 64
    assert "additionalProperties" not in observation, "a newer agent may send more"
