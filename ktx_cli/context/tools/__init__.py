"""The tools agents get in a loop: they read raw files and what is known, and write only what they have checked."""
