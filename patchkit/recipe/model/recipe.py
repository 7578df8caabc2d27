"""recipe.yaml as types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag, model_validator

from patchkit.recipe.model.fields import (
    ChangeCherryPick,
    ChangePull,
    ChangeRevert,
    Conditional,
    Diff,
    ImageTag,
    IssueName,
    RelativePath,
    Revision,
    Slug,
    Strict,
    VariableName,
    VersionText,
    kind_of,
)
from patchkit.recipe.model.native import NativeSpec


class Upstream(Strict):
    """Where the source comes from: a git repository, a package index, or both (`git` first); or what is installed."""

    git: str | None = Field(None, description="URL or path of the upstream git repository")
    package: Slug | None = Field(None, description="Name on the package index; its sdists are commits, tag v<version>")
    wheel: Slug | None = Field(
        None, description="Name on the package index of what is patched as its wheel installs it"
    )
    site_packages: str | None = Field(None, description="Folder in which the upstream is installed, patched as it is")
    ref: Revision = Field(description="Tag, branch, commit id or pull/N; the lock holds the commit")
    pairs_with: Slug | None = Field(None, description="The upstream whose commit this one's own files name")

    @model_validator(mode="after")
    def _has_an_origin(self) -> Upstream:
        places = (self.git or self.package, self.wheel, self.site_packages)
        if sum(place is not None for place in places) != 1:
            raise ValueError("needs `git`, `package` or both; or else one of `wheel` and `site-packages`")
        return self

    @property
    def is_installed(self) -> bool:
        """Return whether it is patched as it is installed: repros find it in their environment, not as a tree."""
        return self.wheel is not None or self.site_packages is not None


class Target(Strict):
    """What the image will run on; conditions (`when:`) ask for these."""

    device: Literal["cuda", "rocm", "ascend", "xpu", "cpu"] = Field("cuda", description="Kind of device")
    arch: str | None = Field(None, description="Architecture, e.g. sm_121, gfx942, ascend910b")
    python: VersionText | None = Field(None, description='Python version, quoted: "3.12"')
    torch: VersionText | None = Field(None, description='torch version, quoted: "2.11.0"')


class SeriesPatch(Conditional):
    """A patch folder of the library, with a condition of the recipe's own."""

    patch: Slug = Field(description="Name of a folder of patches/")


class SeriesFile(Diff):
    """A diff or mailbox that belongs to the recipe."""

    file: RelativePath = Field(description="The diff, relative to the recipe")


SeriesPull, SeriesRevert, SeriesCherryPick = ChangePull, ChangeRevert, ChangeCherryPick
SeriesEntry = Annotated[
    Annotated[Slug, Tag("<name>")]
    | Annotated[SeriesPatch, Tag("<patch>")]
    | Annotated[ChangePull, Tag("<pull>")]
    | Annotated[ChangeRevert, Tag("<revert>")]
    | Annotated[ChangeCherryPick, Tag("<cherry-pick>")]
    | Annotated[SeriesFile, Tag("<file>")],
    kind_of("patch", "pull", "revert", "cherry-pick", "file"),
]


class EnvironmentSpec(Strict):
    """Where repros run. Without `requirements`: the interpreter that runs patchkit (standard library only)."""

    requirements: RelativePath | None = Field(None, description="Requirements file, relative to the recipe, for a venv")
    python: str | None = Field(None, description="Interpreter to use as it is (machines with torch and vllm installed)")
    env: dict[VariableName, str] = Field(default_factory=dict, description="Environment variables of the repros")
    model_caches: tuple[str, ...] = Field((), description="Folders that probes may share, never compile caches")
    network: Literal["host", "none"] = Field(
        "host", description="`none`: repros see no network but the loopback; needs a kernel that allows namespaces"
    )
    native: NativeSpec | None = Field(None, description="Where the upstream's compiled files come from; none: no need")


class ImageSpec(Strict):
    """The image: files of the patched tree over a base."""

    base: str = Field("none", description="Image reference, an OCI archive or layout folder (oci:PATH), or none")
    mode: Literal["overlay"] = Field("overlay", description="Only the files that the series changed are added")
    root: str | None = Field(
        None, description="Folder of the image that holds the package; found in the base if absent"
    )
    roots: dict[Slug, str] = Field(
        default_factory=dict, description="The same for the other upstreams whose patches go into the image, by name"
    )
    env: dict[VariableName, str] = Field(default_factory=dict, description="Environment variables that the image sets")
    tags: tuple[ImageTag, ...] = Field(
        ("{name}:{version}-{tree}",), description="Tags; {name}, {version}, {tree}, {arch} are known"
    )


class Recipe(Strict):
    """recipe.yaml: upstream commits, a series of patches, the issues that they answer, and the image."""

    format: Literal[1] = Field(description="Version of this file format")
    name: Slug = Field(description="Name of the recipe")
    description: str = Field("", description="One line for people")
    include: RelativePath | None = Field(None, description="A recipe to start from: lists append, scalars override")
    upstream: dict[Slug, Upstream] = Field(min_length=1, description="The sources, by name")
    target: Target = Field(Target(), description="What the image will run on")
    pins: dict[str, str] = Field(default_factory=dict, description="Every other moving part, by name")
    series: tuple[SeriesEntry, ...] = Field((), description="The patches, in the order of application")
    issues: tuple[IssueName, ...] = Field((), description="Issues; `name/repro` takes one repro of the issue only")
    environment: EnvironmentSpec = Field(EnvironmentSpec(), description="Where repros run")
    image: ImageSpec = Field(ImageSpec(), description="The image that `build` makes")

    @property
    def main_upstream(self) -> str:
        """Return the upstream that is patched by default: the one that pairs with another, else the first."""
        paired = [name for name, upstream in self.upstream.items() if upstream.pairs_with]
        return (paired or list(self.upstream))[0]
