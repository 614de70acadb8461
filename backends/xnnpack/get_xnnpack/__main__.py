"""Prints the prefix of the XNNPACK that would be linked with, and builds it if need be."""

import sys

from get_xnnpack import XnnpackError, find

try:
    print(find().root)
except XnnpackError as error:
    sys.exit(str(error))
