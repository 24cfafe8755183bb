"""The rules of `ktx lint`, one module each; `registry.all_rules` finds them."""
