"""Golden questions of a project: asked anew, compared exactly with the answers that were accepted."""
