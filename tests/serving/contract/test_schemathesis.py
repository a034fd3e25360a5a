"""Generated requests against the OpenAPI document: no 5xx, and no answer that the document does not list."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.timeout(600)  # two to three minutes where other programs run
def test_generated_requests_are_answered_as_documented(process):
    schema = schemathesis.openapi.from_url(f"{process.url}/openapi.json")
    tested = set()
    # A stream never ends (test_process.py), and what a tar file may be is in test_datasets.py.
    chosen = schema.exclude(path="/v1/events").exclude(path="/v1/datasets", method="POST")
    for result in chosen.get_all_operations():
        operation = result.ok()

        @EXAMPLES
        @given(case=operation.as_strategy())
        def check(case):
            case.call_and_validate(checks=CHECKS)

        check()
        tested.add(operation.label)
    assert {
        "POST /v1/decisions",
        "POST /v1/experiences",
        "POST /v1/decisions:batch",
        "GET /v1/nodes",
        "GET /v1/nodes/{node}",
        "GET /metrics",
    } <= tested
