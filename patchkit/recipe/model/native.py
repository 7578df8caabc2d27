"""The compiled part of an upstream, as types of recipe.yaml."""

from __future__ import annotations

from pydantic import Field, model_validator

from patchkit.recipe.model.fields import Revision, Strict, VariableName

INPUTS = (
    "csrc/**",
    "cmake/**",
    "CMakeLists.txt",
    "setup.py",
    "pyproject.toml",
    "requirements/build*",
    "rust/**",
    "rust-toolchain.toml",
    "build_rust*",
)


class NativeSpec(Strict):
    """Where compiled files come from: what is installed, a wheel for each commit, or a build; the first that fits.

    Compiled files serve exactly the trees whose native inputs, patches included, are those that they were made from.
    """

    inputs: tuple[str, ...] = Field(
        INPUTS, min_length=1, description="Globs of the files that a build reads, from the root of the tree"
    )
    outputs: tuple[str, ...] = Field(("**/*.so",), min_length=1, description="Globs of the files that a build makes")
    installed: Revision | None = Field(
        None, description="Take them from `environment.python`'s packages, which were built from this ref"
    )
    wheel: str | None = Field(
        None, description="URL or path of a wheel built from one commit; {commit}, {version} and {arch} are replaced"
    )
    build: tuple[str, ...] | None = Field(
        None, min_length=1, description="Command that builds in place, run in a copy of the patched tree"
    )
    env: dict[VariableName, str] = Field(default_factory=dict, description="Environment variables of the build")
    timeout_seconds: int = Field(14_400, gt=0, description="The build's whole process group is ended after this time")

    @model_validator(mode="after")
    def _has_a_way(self) -> NativeSpec:
        if self.installed is None and self.wheel is None and self.build is None:
            raise ValueError("needs `installed`, `wheel` or `build`, or several: the first that fits is taken")
        return self
