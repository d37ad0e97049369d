"""Settings of variables, of options and in code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from service.serve import main
from service.settings import Settings, variable
from tests.support.running import Json, run_fork

INVALID = [
    {"max_age": "-1"},
    {"max_age": "1.5"},
    {"cache_bytes": "x"},
    {"page": "maybe"},
    {"max_lag": "nan"},
    {"opensearch_timeout": "0"},
    {"mcp_hosts": "https://a.example"},
]


def test_settings_are_read_from_environment_variables() -> None:
    environment = {"RATECARD_ARTIFACTS": "x", "RATECARD_PAGE": "false", "OTHER": "y"}
    assert Settings.from_environment(environment) == Settings(artifacts="x", page=False)


def test_a_folder_in_code_may_be_a_path() -> None:
    given: Any = Path("x/y")
    assert Settings(artifacts=given) == Settings(artifacts="x/y")


@pytest.mark.parametrize("settings", INVALID)
def test_an_invalid_setting_is_an_error_that_names_its_variable(settings: dict[str, str]) -> None:
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=f"^{variable(name)}: "):
        Settings.from_environment({variable(name): value})
    as_option = run_fork(main, f"--{name.replace('_', '-')}={value}")
    for process in (run_fork(main, environ=os.environ | {variable(name): value}), as_option):
        if name != "page" or process is not as_option:  # that option takes no value
            assert process.stderr.startswith(f"error: {variable(name)}: ")
            assert process.stderr.count("\n") == 1
        assert process.returncode == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"max_age": -1},
        {"cache_bytes": -5},
        {"page": "false"},
        {"max_lag": "1"},
        {"max_lag": float("nan")},
        {"artifacts": None},
    ],
)
def test_settings_in_code_are_checked_as_those_of_the_environment(settings: Json) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=f"^{variable(name)}: "):
        Settings(**settings)


def test_a_root_path_that_would_break_links_is_an_error() -> None:
    for path in ("api", "/api/", "/\u00e4", "/"):
        process = run_fork(main, "--root-path", path)
        assert process.returncode == 2
        assert process.stderr.startswith(f"error: the root path `{path}` is none; write /api")


def test_a_number_of_workers_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "two")
    process = run_fork(main)
    assert process.returncode == 2
    assert process.stderr.startswith("error: WEB_CONCURRENCY is `two`, no number of workers")


def test_there_are_few_settings() -> None:
    assert len(Settings.__struct_fields__) <= 10 + 5
