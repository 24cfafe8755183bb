"""Evals: questions with known answers, which ktx runs and compares."""
