"""What the tests share: the independent oracle's folder on the path, and one thread a process for linear algebra."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # so that test files can `import oracle`
# before NumPy is loaded: matrices here are small, and workers side by side would wait for each other's threads
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
