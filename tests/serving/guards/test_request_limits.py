import asyncio
import io

import pytest
from osml_serving.errors import ApiError
from osml_serving.guards.access import GRANT
from osml_serving.guards.error_boundary import ErrorBoundary
from osml_serving.guards.grants import ADMIN, Grant
from osml_serving.guards.request_limits import RequestLimits
from osml_serving.log import Log
from osml_serving.metrics import Metrics

POST = {"type": "http", "method": "POST", "path": "/v1/decisions", "headers": []}


class Echo:
    def __init__(self):
        self.body = None

    async def __call__(self, scope, receive, send):
        self.body = (await receive())["body"]


def layer(app, **changes):
    return RequestLimits(app, **{"limit": 10, "timeout_s": 0.05, "slots": 2, "metrics": Metrics([]), **changes})


def chunks(*parts):
    waiting = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    waiting[-1]["more_body"] = False
    return lambda: waiting


def receiver(messages):
    queue = list(messages)

    async def receive():
        if not queue:
            await asyncio.sleep(60)
        return queue.pop(0)

    return receive


async def ignore(message):
    del message


def run(bodies, messages, scope=POST):
    asyncio.run(bodies(scope, receiver(messages), ignore))


def test_the_application_gets_the_whole_body_at_once():
    echo = Echo()
    run(layer(echo), chunks(b"ab", b"cd", b"")())
    assert echo.body == b"abcd"


@pytest.mark.parametrize("declared", [b"11", b"99999999999999999999999", b"-1", b"1e9"])
def test_a_declared_length_over_the_limit_is_refused_before_anything_is_read(declared):
    scope = {**POST, "headers": [(b"content-length", declared)]}
    with pytest.raises(ApiError) as caught:
        run(layer(Echo()), [], scope)
    assert caught.value.status == 413
    assert caught.value.headers["connection"] == "close"


def test_chunks_are_counted_where_no_length_is_declared():
    with pytest.raises(ApiError) as caught:
        run(layer(Echo()), chunks(b"123456", b"78901")())
    assert caught.value.body.code == "too_large"


def test_a_body_that_does_not_come_is_given_up():
    with pytest.raises(ApiError) as caught:
        run(layer(Echo()), [{"type": "http.request", "body": b"1", "more_body": True}])
    assert (caught.value.status, caught.value.body.message) == (408, "the body did not arrive within 0.05 s")


def test_a_client_that_leaves_is_no_error():
    echo, log, metrics = Echo(), io.BytesIO(), Metrics([])
    run(ErrorBoundary(layer(echo), Log("json", "debug", log), metrics), [{"type": "http.disconnect"}])
    assert (echo.body, log.getvalue()) == (None, b"")
    assert b'osml_errors_total{code="internal"} 0.0' in metrics.text()


def test_more_requests_than_slots_are_sent_away_and_slots_come_back():
    async def scenario():
        release = asyncio.Event()

        async def slow(scope, receive, send):
            await release.wait()

        bodies = layer(slow)
        waiting = [asyncio.create_task(bodies(POST, receiver(chunks(b"")()), ignore)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError) as caught:
            await bodies(POST, receiver(chunks(b"")()), ignore)
        release.set()
        await asyncio.gather(*waiting)
        return caught.value, bodies.in_flight

    error, in_flight = asyncio.run(scenario())
    assert (error.status, error.body.code, error.headers["retry-after"]) == (503, "overloaded", "1")
    assert in_flight == 0


ONE = {GRANT: Grant("agent", frozenset({"node-17"}))}
ALL = {GRANT: ADMIN}


def test_a_token_of_one_node_can_not_take_all_places():
    """A hostile node opens request after request and never sends their bodies: the others are still heard."""
    bodies = layer(Echo(), slots=64, timeout_s=5.0)

    async def play():
        stuck = [asyncio.create_task(bodies({**POST, **ONE}, receiver([]), ignore)) for _ in range(40)]
        await asyncio.sleep(0)
        refused = [task.exception() for task in stuck if task.done()]
        assert {(error.status, error.body.code) for error in refused} == {(429, "rate_limited")}
        assert bodies.in_flight == bodies.share == 8
        for grant in ({GRANT: Grant("agent", frozenset({"node-18"}))}, ALL):
            await bodies({**POST, **grant}, receiver(chunks(b"ab")()), ignore)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        assert bodies.in_flight == 0
        await bodies({**POST, **ONE}, receiver(chunks(b"ab")()), ignore)

    asyncio.run(play())


@pytest.mark.parametrize("path", ["/", "/healthz", "/nothing", "/v2", "/v2/health/live"])
def test_paths_that_want_no_token_hold_no_place_for_a_body(path):
    """Anybody could come and send bodies to them slowly."""
    seen = []

    async def app(scope, receive, send):
        del scope, receive, send
        seen.append(bodies.in_flight)

    bodies = layer(app, slots=0)
    asyncio.run(bodies({**POST, "path": path}, receiver([]), ignore))
    assert seen == [0]


@pytest.mark.parametrize(("scope", "places"), [("agent", 48), ("viewer", 8), ("contributor", 8)])
def test_only_the_token_of_a_fleet_of_agents_has_the_places_of_a_fleet(scope, places):
    bodies = layer(Echo(), slots=64, timeout_s=60.0)
    holder = {GRANT: Grant(scope, frozenset({"*"}))}

    async def play():
        stuck = [asyncio.create_task(bodies({**POST, **holder}, receiver([]), ignore)) for _ in range(60)]
        await asyncio.sleep(0)
        assert bodies.in_flight == places
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)

    asyncio.run(play())
