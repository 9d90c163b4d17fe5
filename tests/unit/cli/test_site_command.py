"""The commands `site` and `serve`, as typed."""

from __future__ import annotations

import json
from pathlib import Path


def test_site_prints_where_to_look(run) -> None:
    result = run("site", "-o", "pages")
    assert (result.code, result.out, result.err) == (0, "pages/index.html\n", "")
    assert Path("pages/index.html").is_file()
    assert not Path("holdfast-store").exists()


def test_site_as_json_says_what_there_is(run) -> None:
    record = json.loads(run("site", "-o", "pages", "--json").out)
    assert record["boards"]["oodrobustbench-cifar10-linf"] == 20
    assert (record["problems"], record["failed"], record["models"]) == ({}, {}, {})


def test_a_damaged_store_is_told_on_stderr_and_the_site_is_built(run) -> None:
    for name in ("rows/a.parquet", "scores/multirobustbench.b.parquet"):
        path = Path("holdfast-store") / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"damage")
    result = run("site", "-o", "pages")
    assert result.code == 0
    assert "rows/a.parquet is left out" in result.err
    assert "scores/multirobustbench.b.parquet is left out" in result.err


def test_a_folder_of_others_is_misuse(run) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    result = run("site", "-o", "mine")
    assert (result.code, result.out) == (2, "")
    assert "not a site of holdfast's" in result.err
    assert "hint:" in result.err
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_a_suite_that_is_no_suite_is_refused(run) -> None:
    result = run("site", "-o", "pages", "--suite", "../../etc/passwd")
    assert result.code == 2
    assert "no suite named `../../etc/passwd`" in result.err


def test_serve_says_where_and_warns_beyond_this_machine(run, monkeypatch) -> None:
    def stopped(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", stopped)
    result = run("serve", "--port", "0")
    assert result.code == 0
    assert result.out.startswith("http://127.0.0.1:")
    assert result.err == ""
    assert "warning: anyone who can reach 0.0.0.0" in run("serve", "--port", "0", "--host", "0.0.0.0").err
