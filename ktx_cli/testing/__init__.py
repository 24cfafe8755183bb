"""Helpers for testing ktx and its plug-ins; no product code imports them."""

import sys

if "pytest" in sys.modules:
    # The contract's assertions show what they compared, like those of a test module.
    sys.modules["pytest"].register_assert_rewrite("ktx_cli.testing.warehouse_contract")
