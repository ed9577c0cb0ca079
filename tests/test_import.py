"""Importing reshard is quick and brings no torch."""

from __future__ import annotations

import subprocess
import sys

CODE = "import sys, reshard, reshard.cli; print('torch' in sys.modules, 'rich' in sys.modules)"


def imported(prelude: str = "") -> str:
    return subprocess.run([sys.executable, "-c", prelude + CODE], capture_output=True, text=True, check=True).stdout.strip()


def test_import_brings_no_torch_and_no_rich() -> None:
    assert imported() == "False False"


def test_that_test_can_fail() -> None:
    fake = "import sys, types; sys.modules['torch'] = types.ModuleType('torch')\n"
    assert imported(fake) == "True False"


def test_import_is_quick() -> None:
    """Beside numpy's own import; the best of a few, since machines are busy."""
    code = "import time, numpy\nt = time.perf_counter()\nimport reshard\nprint(time.perf_counter() - t)"
    times = [float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(5)]
    print(f"import reshard beyond numpy: {min(times) * 1e3:.0f} ms")
    assert min(times) < 0.15
