"""What the tests share: the independent oracle's folder on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # so that test files can `import oracle`
