"""The rules of `ktx lint`, one per module; `registry.all_rules` finds them."""
