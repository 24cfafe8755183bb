"""The backends of the runtime port."""
