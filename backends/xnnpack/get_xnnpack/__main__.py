"""Print the prefix of the XNNPACK to link with; build it if necessary."""

import sys

from get_xnnpack import XnnpackError, find

try:
    print(find().root)
except XnnpackError as error:
    sys.exit(str(error))
