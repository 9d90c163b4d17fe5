from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import rich_store

from holdfast.site.report import report_html
from holdfast.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"))


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return rich_store(tmp_path_factory.mktemp("rich"))


@pytest.fixture(scope="session")
def rich_page(rich: Store) -> str:
    return report_html(rich, "resnet18-linf")
