"""`python -m executorch_c`: see cli.py."""

import sys

from executorch_c.cli import main

sys.exit(main())
