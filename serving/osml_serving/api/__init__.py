"""The routes, their bodies and answers, and the OpenAPI document."""
