"""What the tests share: the independent oracle on the path, and the small exact instances."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # so that test files can `import oracle`


@pytest.fixture
def small():
    """Near rows (7 x 4) and margin rows (5 x 4) whose multipliers end at both bounds and between."""
    rng = np.random.default_rng(7)
    S = np.column_stack([rng.normal(size=(7, 3)), np.ones(7)])
    R = np.column_stack([rng.normal(0.7, 1.0, size=(5, 3)), np.ones(5)])
    return S, R
