"""The shop of the tools of agents, whose statements these tests send."""

from tests.agent_tools.conftest import shop

__all__ = ["shop"]
