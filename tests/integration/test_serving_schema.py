"""Whatever fits or breaks the OpenAPI schema, the service answers without failing."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from serving_support import write_shop

schemathesis = pytest.importorskip("schemathesis")

from schemathesis.checks import (  # noqa: E402
    not_a_server_error,
    response_schema_conformance,
)

HEADERS = {"Authorization": "Bearer t"}
OPERATIONS = [
    ("POST", "/v1/recall"),
    ("POST", "/v1/feedback"),
    ("GET", "/v1/similar/{item}"),
    ("GET", "/v1/items"),
    ("GET", "/v1/lists"),
    ("PUT", "/v1/lists/{name}"),
    ("DELETE", "/v1/lists/{name}"),
    ("GET", "/v1/model"),
    ("POST", "/v1/model/reload"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]
WITH_INPUT = {
    "/v1/recall",
    "/v1/feedback",
    "/v1/similar/{item}",
    "/v1/items",
    "/v1/lists/{name}",
}


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    from groupnoise.recall.http import ServiceSettings, create_app

    artifact = write_shop(tmp_path_factory.mktemp("schema"))
    kept = tmp_path_factory.mktemp("feedback")
    app = create_app(ServiceSettings(artifact=artifact, token="t", feedback=kept))
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=HEADERS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_makes_the_service_fail(schema, method, path):
    operation = schema[path][method]
    modes = schemathesis.GenerationMode
    valid = operation.as_strategy(generation_mode=modes.POSITIVE)
    invalid = operation.as_strategy(generation_mode=modes.NEGATIVE)
    has_input = path in WITH_INPUT

    @given(case=st.one_of(valid, invalid) if has_input else valid)
    @settings(
        max_examples=30 if has_input else 2,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case):
        answer = case.call(headers=HEADERS)
        case.validate_response(answer, checks=[not_a_server_error, response_schema_conformance])

    check()


def test_every_route_of_the_schema_is_tried(schema):
    found = {
        (operation.method.upper(), operation.path)
        for operation in (result.ok() for result in schema.get_all_operations())
    }
    assert found == set(OPERATIONS)
