"""Vectors of a Model2Vec model: a table of one vector a token, on this machine, with numpy alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.errors import NotReadyError
from ktx_cli.llm.embeddings.answers import MODEL_HINT, checked
from ktx_cli.llm.embeddings.local import missing_package, model_folder, stay_offline
from ktx_cli.project.config.ingest import Embeddings

DEFAULT_MODEL: Final = "minishlab/potion-base-8M"
EXTRA: Final = "ktx-cli[embeddings]"
"""What brings the package."""

_BATCH: Final = 256


class Model2VecEmbedder:
    """One model, loaded with the first text."""

    def __init__(self, name: str, project_dir: Path, dimensions: int | None, batch_size: int) -> None:
        self._name, self._project_dir = name, project_dir
        self._loaded: Any = None
        self._lock = threading.Lock()
        self.model, self.dimensions, self.batch_size = f"model2vec:{name}", dimensions, batch_size

    @classmethod
    def of(cls, embeddings: Embeddings, project_dir: Path) -> Model2VecEmbedder:
        """Return the embedder of the settings."""
        return cls(
            embeddings.model or DEFAULT_MODEL, project_dir, embeddings.dimensions, embeddings.batch_size or _BATCH
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; the first `dimensions` numbers of the model's, where they are set."""
        with self._lock:
            self._loaded = self._loaded or self._load()
            # One process: its worker processes would start anew for every batch.
            vectors = self._loaded.encode(list(texts), use_multiprocessing=False).tolist()
        return checked(vectors, len(texts), None, f"the model `{self._name}`")

    def _load(self) -> Any:
        stay_offline()
        try:
            from model2vec import StaticModel
        except ImportError as error:
            raise missing_package("model2vec", error, EXTRA) from error
        folder = model_folder(self._name, self._project_dir)
        try:
            return StaticModel.from_pretrained(folder, dimensionality=self.dimensions)
        except Exception as error:  # whatever a file that is no model makes its readers raise
            raise NotReadyError(
                f"the folder {folder} holds no Model2Vec model: {type(error).__name__}",
                hint=MODEL_HINT,
                details={"model": self._name},
            ) from error
