"""Loading a published version as its users do: every configuration, by ``datasets``."""

from __future__ import annotations

import tempfile

from transforms.publishing.manifest import Manifest


def loading_failures(version_path: str, manifest: Manifest) -> list[str]:
    """Return one line for each configuration that ``datasets`` can't load, or not in full.

    Args:
        version_path: the version's directory, a local one.
        manifest: its manifest.
    """
    import datasets

    failures = []
    for name, configuration in manifest.configurations.items():
        # A configuration, or a split, without rows has no file.
        rows = {split: n for split, n in configuration["splits"].items() if n}
        if not rows:
            continue
        with tempfile.TemporaryDirectory(prefix="remint-") as cache:
            try:
                loaded = datasets.load_dataset(version_path, name, cache_dir=cache)
            except Exception as error:  # datasets has many ways to fail
                # Its messages may hold rows; its class says what kind of fault it is.
                failures.append(f"{name}: datasets can't load it ({type(error).__name__})")
                continue
            found = {split: part.num_rows for split, part in loaded.items()}
            del loaded
        if found != rows:
            failures.append(f"{name}: datasets loads {found} rows, the manifest says {rows}")
    return failures
