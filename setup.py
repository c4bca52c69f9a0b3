"""Packaging of remint: what is installed, and which extra each part needs."""

from pathlib import Path

from setuptools import find_packages, setup

setup(
    name="remint",
    version="0.1.0",
    description="Mint annotated text datasets at scale, and trust them",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE", "NOTICE"],
    python_requires=">=3.10,<3.14",
    packages=find_packages(
        include=["pipelines*", "transforms*", "expectations*", "runner_configs*"],
    ),
    package_data={
        "pipelines.metricinstruct": ["*.md", "*.yaml", "prompts/*.yaml", "samples/*"],
        "pipelines.prosocial": ["*.md", "*.yaml", "prompts/*.yaml", "samples/*", "samples/*/*"],
        "transforms.llm": ["*.yaml"],
        "transforms.llm.embedded": ["*.txt"],
        "expectations": ["*.json", "*.j2"],
        "runner_configs": ["*.yaml", "*/*.yaml", "*/*.xml", "*/*.json", "*/Dockerfile"],
    },
    install_requires=[
        "apache-beam>=2.77,<2.78",
        "pyarrow>=24,<26",  # Beam 2.77 refuses 26, datasets 5 wants 24
        "polars>=2.1,<3",
        "datasets>=5,<6",
        "openai[aiohttp]>=3.57,<4",
        "tenacity>=9,<10",
        "great-expectations>=1.24,<1.25",
        "pydantic>=2.10,<3",
        "jinja2>=3.1,<4",
        "pyyaml>=6,<7",
        "rich>=13,<16",
        "krippendorff>=0.8,<1",
        "numpy>=1.26,<3",
        "scipy>=1.11,<2",
        "zstandard>=0.19,<1",
        "sacrebleu>=2.4,<3",
        "rouge-score>=0.1.2,<0.2",
    ],
    extras_require={
        # The model that serves when no endpoint is given; its weights come apart.
        "embedded": ["xllamacpp>=2026.10", "filelock>=3"],
        # OpenAI's encodings in a package, so that tokens are counted without a download.
        "tokens": ["bpe-openai>=0.1.4,<0.2"],
        # Tests, linters, type checks, and the peers the benchmarks run beside remint.
        "dev": [
            "pytest>=8",
            "pytest-timeout>=2",
            "hypothesis>=6",
            "ruff>=0.17,<0.18",
            "mypy>=2.4,<3",
            "types-PyYAML",
            "psutil>=6",
            "tiktoken>=0.12",
            "bpe-openai>=0.1.4,<0.2",
        ],
        # Schemas that the Kubernetes example is held against.
        "kubernetes": ["kubernetes-validate>=1.37", "jsonschema>=4"],
        # Seeds, cache and output on object stores, and the Dataflow runner.
        "gcp": ["apache-beam[gcp]>=2.77,<2.78", "gcsfs>=2025.3"],
        # s3fs and gcsfs are for datasets, which does not go by Beam. Without a lower bound s3fs
        # would be the one of 2020, the last that let boto3 be any.
        "s3": ["boto3>=1.35", "s3fs>=2025.3"],
    },
    entry_points={
        "console_scripts": [
            "remint = pipelines.cli:main",
            "remint-worker = runner_configs.worker:main",
            "remint-worker-pool = runner_configs.worker_pool:main",
        ]
    },
)
