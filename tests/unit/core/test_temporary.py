"""Folders that live as long as their process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from holdfast.core.temporary import LOCK, TemporaryFolder, end_processes_using, remove_leftovers, temporary_folder

OWNER = """
import sys, time
from pathlib import Path
from holdfast.core.temporary import TemporaryFolder
held = TemporaryFolder(Path(sys.argv[1]))
(held.path / "content").write_text("x")
print("ready", flush=True)
time.sleep(60)
"""


def owner(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_folder_of_a_killed_process_is_removed_and_others_stay(tmp_path: Path) -> None:
    process = owner(tmp_path / "mine-dead")
    living = TemporaryFolder(tmp_path / "mine-living")
    (tmp_path / "mine-foreign").mkdir()
    assert remove_leftovers(tmp_path, "mine-*") == [], "as long as it lives its folder stays"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / "mine-dead" / "content").exists()
    new = temporary_folder("mine-", parent=tmp_path)
    assert not (tmp_path / "mine-dead").exists()
    assert {living.path, new.path, tmp_path / "mine-foreign"} == set(tmp_path.iterdir())
    living.close()
    new.close()
    living.close()
    assert list(tmp_path.iterdir()) == [tmp_path / "mine-foreign"], "a folder without a lock was never ours"


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / LOCK).touch()
    (tmp_path / "mine-link").symlink_to(precious)
    assert remove_leftovers(tmp_path, "mine-*") == []
    assert precious.exists()


def test_processes_with_a_file_open_below_a_folder_are_ended(tmp_path: Path) -> None:
    words = f"import time; f = open({str(tmp_path / 'log')!r}, 'w'); print('ready', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    assert end_processes_using(tmp_path / "other") == []
    assert end_processes_using(tmp_path) == [process.pid]
    assert process.wait(timeout=10) == -signal.SIGKILL
