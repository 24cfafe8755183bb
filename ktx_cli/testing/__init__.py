"""Helpers for testing ktx and what is built on it; no product code imports them."""

import sys

if "pytest" in sys.modules:
    # The contract's assertions tell what they compared, as those of a test module do.
    sys.modules["pytest"].register_assert_rewrite("ktx_cli.testing.warehouse_contract")
