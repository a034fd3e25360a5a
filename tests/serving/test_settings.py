import pytest
from osml_serving.settings import Settings, load_settings

from osml.base.failure import InputError


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"OSML_{name.upper()}", raising=False)


def test_flags_win_over_the_environment_and_that_over_defaults(monkeypatch):
    monkeypatch.setenv("OSML_PORT", "9000")
    monkeypatch.setenv("OSML_SEED", "7")
    settings = load_settings({"port": 9001, "seed": None})
    assert (settings.port, settings.seed, settings.policy) == (9001, 7, "osml")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "server.example"])  # noqa: S104 - it is refused
def test_an_address_that_others_reach_needs_tokens_or_a_clear_word(host, tmp_path):
    with pytest.raises(InputError, match="set --token-file, or allow open access with --insecure"):
        load_settings({"host": host})
    assert load_settings({"host": host, "insecure": True}).host == host
    assert load_settings({"host": host, "token_file": tmp_path / "tokens"}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"])
def test_loopback_needs_nothing(host):
    assert load_settings({"host": host}).token_file is None


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("port", 65536, "--port (or OSML_PORT) is 65536, expected: input should be less than or equal to 65535"),
        ("log_level", "loud", "--log-level (or OSML_LOG_LEVEL) is 'loud', expected: input should be 'debug', 'info'"),
        ("seed", "x", "--seed (or OSML_SEED) is 'x', expected: input should be a valid integer"),
        ("max_body_kib", 0, "--max-body-kib (or OSML_MAX_BODY_KIB) is 0, expected: input should be greater than"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_flag_and_variable(field, value, words):
    with pytest.raises(InputError) as caught:
        load_settings({field: value})
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("name", "words"), [("nobody", "is no folder"), ("x" * 300, "can't be read (File name too long)")]
)
def test_a_model_folder_that_cannot_be_used_is_one_sentence(tmp_path, name, words):
    with pytest.raises(InputError) as caught:
        load_settings({"models": tmp_path / name})
    assert (
        str(caught.value) == f"--models (or OSML_MODELS) is {tmp_path / name}, which {words}; name a folder of models"
    )


@pytest.mark.parametrize("field", ["models", "datasets", "rollout", "twins"])
def test_an_empty_variable_is_not_the_current_folder(monkeypatch, field):
    monkeypatch.setenv(f"OSML_{field.upper()}", "")
    assert getattr(load_settings({}), field) is None


def test_empty_variables_of_guards_allow_nothing(monkeypatch):
    for name in ("token_file", "tls_client_ca", "policies"):
        monkeypatch.setenv(f"OSML_{name.upper()}", "")
    with pytest.raises(InputError, match="--tls-client-ca needs TLS"):
        load_settings({})
    monkeypatch.delenv("OSML_TLS_CLIENT_CA")
    settings = load_settings({})
    assert settings.allowed_policies == []
    assert settings.token_file is not None, "a server that reads no tokens from it does not start"


def test_every_field_explains_itself():
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
