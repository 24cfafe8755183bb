"""The wizard: setup by questions, each step tried and saved before the next; it goes back, and on after a stop."""

from ktx_cli.jobs.setup.wizard.runner import run_wizard

__all__ = ["run_wizard"]
