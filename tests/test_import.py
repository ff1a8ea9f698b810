import subprocess
import sys

from test_layers import OPTIONAL


def test_import_loads_nothing_optional():
    code = "import sys, steinflow; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = sorted(set(OPTIONAL) & set(run.stdout.split()))
    assert not loaded
