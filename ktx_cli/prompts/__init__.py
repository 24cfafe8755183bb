"""The prompts and skills that ktx gives to models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.prompts.prompts import Prompt, Skill, for_stage, load_prompt, load_skills, text_of

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
