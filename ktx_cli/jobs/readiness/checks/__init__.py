"""The checks themselves, one module a subject; `registry` lists them."""
