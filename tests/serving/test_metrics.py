import msgspec
from osml_serving.errors import CODES
from osml_serving.example import EXAMPLE
from prometheus_client.parser import text_string_to_metric_families


def value(server, name, **labels):
    return server.runtime.metrics.registry.get_sample_value(name, labels)


def test_every_series_exists_from_the_start_at_zero(server):
    for code in CODES:
        assert value(server, "osml_errors_total", code=code) == 0
    for policy in ("turns", "unknown"):
        for status in ("ok", "refused", "failed"):
            assert value(server, "osml_decisions_total", policy=policy, status=status) == 0
    for name in (
        "osml_decision_seconds_count",
        "osml_request_bytes_count",
        "osml_in_flight",
        "osml_nodes_dropped_total",
        "osml_infeasible_node_seconds_total",
        "osml_event_streams",
        "osml_event_streams_dropped_total",
    ):
        assert value(server, name) == 0
    assert value(server, "osml_ready") == 1


def test_decisions_are_counted_by_policy_and_outcome(server, observation):
    server.post(observation)
    server.post(msgspec.structs.replace(observation, policy="no-such-policy"))
    server.post(msgspec.structs.replace(observation, policy="broken"))
    assert value(server, "osml_decisions_total", policy="turns", status="ok") == 1
    assert value(server, "osml_decisions_total", policy="unknown", status="refused") == 1
    assert value(server, "osml_decisions_total", policy="unknown", status="failed") == 1
    assert value(server, "osml_errors_total", code="request_refused") == 1
    assert value(server, "osml_errors_total", code="policy_failed") == 1
    assert value(server, "osml_decision_seconds_count") == 1
    assert value(server, "osml_request_bytes_count") == 3
    assert value(server, "osml_in_flight") == 0


def test_names_from_outside_never_become_series(server):
    before = server.client.get("/metrics").text.count("\n")
    for number in range(5):
        server.post(msgspec.structs.replace(EXAMPLE, policy=f"invented-{number}"))
        server.client.get(f"/invented/{number}")
    assert server.client.get("/metrics").text.count("\n") == before


def test_nodes_have_gauges_and_a_missing_entropy_is_no_sample(server, observation):
    server.post(observation)
    text = server.client.get("/metrics").text
    assert 'osml_node_e_s{node="node-17"} 0.3\n' in text
    assert 'osml_node_violations{node="node-17"} 1\n' in text
    assert 'osml_node_missed_seconds_total{node="node-17"} 1.0\n' in text
    server.runtime.history.get("node-17").summary.e_s = None
    assert "osml_node_e_s{" not in server.client.get("/metrics").text


def test_a_prometheus_parser_reads_all_of_it(server, observation):
    server.post(observation)
    families = {family.name for family in text_string_to_metric_families(server.client.get("/metrics").text)}
    assert {family.name for family in server.runtime.metrics.families()} <= families


def test_time_of_nodes_adds_up_over_replicas(serve, observation):
    replicas = [serve(), serve()]
    met = msgspec.structs.replace(observation, node="met", interval_s=2.0, services=observation.services[1:])
    unknown = [msgspec.structs.replace(service, latency=None) for service in observation.services]
    for seq in range(6):
        replicas[seq % 2].post(msgspec.structs.replace(observation, seq=seq))
        replicas[seq % 3 // 2].post(msgspec.structs.replace(met, seq=seq))
        replicas[0].post(msgspec.structs.replace(observation, node="unmeasured", services=unknown))
    replicas[1].post(msgspec.structs.replace(observation, node="asleep", interval_s=86_400.0))

    def seconds(state: str) -> float:
        return sum(value(server, "osml_node_seconds_total", state=state) for server in replicas)

    assert (seconds("missed"), seconds("met"), seconds("unmeasured")) == (6 + 60, 12, 6)


def test_metrics_are_in_prometheus_text_format(server):
    answer = server.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE osml_decision_seconds histogram" in answer.text
    assert "process_resident_memory_bytes" in answer.text
