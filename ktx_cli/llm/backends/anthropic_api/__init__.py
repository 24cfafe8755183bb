"""The Messages API: direct, on Vertex, or behind a gateway."""
