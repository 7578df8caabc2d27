"""The three files a user writes, as types: the model is the format, its JSON schema the reference.

Values arrive as JSON (the loader resolves YAML itself), so strict mode means what it says: no number becomes a string.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

Slug = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)]
RelativePath = Annotated[str, Field(pattern=r"^[^/\\].*$", max_length=1000)]
CommitId = Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]
Revision = Annotated[str, Field(pattern=r"^[^-\s][^\s]*$", max_length=200)]


def _kebab(name: str) -> str:
    """Keys with a dash as people write them in YAML; units keep their underscore (`timeout_seconds`)."""
    return name if name.endswith("_seconds") else name.replace("_", "-")


class Strict(BaseModel):
    """Frozen, strict, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=_kebab, populate_by_name=True)


# --- recipe.yaml ---------------------------------------------------------------------------------------------------


class Upstream(Strict):
    """Where the source comes from: a git repository, a package index, or both (`git` first)."""

    git: str | None = Field(None, description="URL or path of the upstream git repository")
    package: Slug | None = Field(None, description="Name on the package index: every sdist release is a commit tagged v<version>")
    ref: Revision = Field(description="Tag, branch, commit id or pull/N; the lock holds the commit")
    pairs_with: Slug | None = Field(None, description="The upstream whose commit this one's own files name")

    @model_validator(mode="after")
    def _has_an_origin(self) -> Upstream:
        if self.git is None and self.package is None:
            raise ValueError("needs `git`, `package` or both")
        return self


class Target(Strict):
    """What the image will run on; conditions (`when:`) ask for these."""

    device: Literal["cuda", "rocm", "ascend", "xpu", "cpu"] = "cuda"
    arch: str | None = Field(None, description="Architecture, e.g. sm_121, gfx942, ascend910b")
    python: str | None = Field(None, description='Python version, quoted: "3.12"')
    torch: str | None = Field(None, description='torch version, quoted: "2.11.0"')


class SeriesPatch(Strict):
    """A patch folder of the library, with an extra condition."""

    patch: Slug
    when: str | None = None


class SeriesPull(Strict):
    """A pull request of the upstream, frozen to a commit by the lock."""

    pull: int = Field(gt=0)
    exclude: tuple[str, ...] = ()
    when: str | None = None


class SeriesRevert(Strict):
    """The reverse of one upstream commit."""

    revert: CommitId
    when: str | None = None


class SeriesCherryPick(Strict):
    """One upstream commit, taken onto the base."""

    cherry_pick: CommitId
    exclude: tuple[str, ...] = ()
    when: str | None = None


class SeriesFile(Strict):
    """A diff or mailbox beside the recipe."""

    file: RelativePath
    exclude: tuple[str, ...] = ()
    strip: int = Field(1, ge=0, le=10, description="Leading path parts to remove (patch -p)")
    root: str = Field("", description="Folder of the tree that the paths are relative to")
    when: str | None = None


def _kind_of(*keys: str) -> Any:
    """Choose the member of a union by the key that is there, so that an error speaks of one shape only."""

    def choose(value: Any) -> str | None:
        if isinstance(value, str):
            return "slug"
        for key in keys:
            if (value.get(key) if isinstance(value, dict) else getattr(value, key.replace("-", "_"), None)) is not None:
                return key
        return None

    return Discriminator(
        choose,
        custom_error_type="unknown_kind",
        custom_error_message="needs one of the keys " + ", ".join(keys),
    )


SeriesEntry = Annotated[
    Annotated[Slug, Tag("slug")]
    | Annotated[SeriesPatch, Tag("patch")]
    | Annotated[SeriesPull, Tag("pull")]
    | Annotated[SeriesRevert, Tag("revert")]
    | Annotated[SeriesCherryPick, Tag("cherry-pick")]
    | Annotated[SeriesFile, Tag("file")],
    _kind_of("patch", "pull", "revert", "cherry-pick", "file"),
]


class EnvironmentSpec(Strict):
    """Where repros run. Without `requirements`: the interpreter that runs patchkit (standard library only)."""

    requirements: RelativePath | None = Field(None, description="Requirements file, relative to the recipe; a venv is made from it")
    python: str | None = Field(None, description="Interpreter to use as it is (hardware machines with torch and vllm installed)")
    env: dict[str, str] = Field(default_factory=dict)
    model_caches: tuple[str, ...] = Field((), description="Folders that probes may share (HF_HOME …), never compile caches")


class ImageSpec(Strict):
    """The image: files of the patched tree over a base."""

    base: str = Field("none", description="Image reference, an OCI archive or layout folder (oci:PATH), or none")
    mode: Literal["overlay"] = "overlay"
    root: str | None = Field(None, description="Folder of the image that holds the package; found in the base when absent")
    tags: tuple[str, ...] = ("{name}:{version}-{tree}",)


class Recipe(Strict):
    """recipe.yaml: upstream commits, a series of patches, the issues that they answer, and the image."""

    format: Literal[1]
    name: Slug
    description: str = ""
    include: RelativePath | None = None
    upstream: dict[Slug, Upstream] = Field(min_length=1)
    target: Target = Target()
    pins: dict[str, str] = Field(default_factory=dict, description="Every other moving part, by name")
    series: tuple[SeriesEntry, ...] = ()
    issues: tuple[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?$")], ...] = Field(
        (), description="Issue names; `name/repro` takes one repro of the issue only"
    )
    environment: EnvironmentSpec = EnvironmentSpec()
    image: ImageSpec = ImageSpec()

    @property
    def main_upstream(self) -> str:
        """Return the upstream that is patched by default: the one that pairs with another, else the first."""
        paired = [name for name, upstream in self.upstream.items() if upstream.pairs_with]
        return (paired or list(self.upstream))[0]


# --- patch.yaml and its rewrite files ------------------------------------------------------------------------------


class RewriteReplace(Strict):
    """Replace what an ast-grep pattern matches inside one enclosing definition."""

    file: RelativePath
    inside: str | None = Field(None, description="Qualified name of the enclosing function or class")
    match: str
    replace: str
    expect: int = Field(1, ge=1, description="Matches there must be; any other number is an error, never a guess")


class RewriteImport(Strict):
    """Add an import statement unless it is there."""

    file: RelativePath
    inside: str | None = None
    import_: str = Field(alias="import", description="A whole statement: from x import y")


class RewriteInsert(Strict):
    """Insert text after or before what a pattern matches."""

    file: RelativePath
    inside: str | None = None
    after: str | None = None
    before: str | None = None
    insert: str
    expect: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _one_side(self) -> RewriteInsert:
        if (self.after is None) == (self.before is None):
            raise ValueError("needs exactly one of `after` and `before`")
        return self


class RewriteAppend(Strict):
    """Append text to the end of a file, or of the definition named by `inside`."""

    file: RelativePath
    inside: str | None = None
    append: str


class RewriteCreate(Strict):
    """Create a new file of the tree from a file beside the rewrite."""

    file: RelativePath
    create: RelativePath


RewriteStep = Annotated[
    Annotated[RewriteReplace, Tag("match")]
    | Annotated[RewriteImport, Tag("import")]
    | Annotated[RewriteInsert, Tag("insert")]
    | Annotated[RewriteAppend, Tag("append")]
    | Annotated[RewriteCreate, Tag("create")],
    _kind_of("match", "import", "insert", "append", "create"),
]


class ChangePatch(Strict):
    """A unified diff, git diff or mailbox beside patch.yaml."""

    patch: RelativePath
    exclude: tuple[str, ...] = ()
    strip: int = Field(1, ge=0, le=10)
    root: str = ""
    when: str | None = None


class ChangeRewrite(Strict):
    """Structural steps: a YAML list of rewrite steps beside patch.yaml."""

    rewrite: RelativePath
    when: str | None = None


class ChangeFile(Strict):
    """A whole new file of the tree."""

    file: RelativePath
    source: RelativePath
    when: str | None = None


class ChangeRevert(Strict):
    """The reverse of one upstream commit."""

    revert: CommitId
    when: str | None = None


class ChangeCherryPick(Strict):
    """One upstream commit."""

    cherry_pick: CommitId
    exclude: tuple[str, ...] = ()
    when: str | None = None


class ChangePull(Strict):
    """A pull request."""

    pull: int = Field(gt=0)
    exclude: tuple[str, ...] = ()
    when: str | None = None


Change = Annotated[
    Annotated[ChangePatch, Tag("patch")]
    | Annotated[ChangeRewrite, Tag("rewrite")]
    | Annotated[ChangeFile, Tag("file")]
    | Annotated[ChangeRevert, Tag("revert")]
    | Annotated[ChangeCherryPick, Tag("cherry-pick")]
    | Annotated[ChangePull, Tag("pull")],
    _kind_of("patch", "rewrite", "file", "revert", "cherry-pick", "pull"),
]


class Patch(Strict):
    """patch.yaml: one logical patch, whatever upstream does to the lines around it."""

    format: Literal[1]
    title: str
    why: str = ""
    upstream: Slug = "vllm"
    issue: tuple[Slug, ...] = Field((), description="Issues that this patch fixes")
    upstream_status: str = Field("Pending", description="OpenEmbedded Upstream-Status: Pending, Submitted [URL], Backport [URL] …")
    origin: str | None = Field(None, description="DEP-3 Origin")
    author: str | None = None
    requires: tuple[Slug, ...] = ()
    when: str | None = None
    remove_when: str | None = None
    change: tuple[Change, ...] = Field(min_length=1, description="The first entry whose `when` holds is used")

    @field_validator("upstream_status")
    @classmethod
    def _known_status(cls, value: str) -> str:
        known = ("Pending", "Submitted", "Backport", "Denied", "Inactive-Upstream", "Inappropriate")
        if value.split(" ", 1)[0].rstrip(":") not in known:
            raise ValueError(f"begins with one of {', '.join(known)}")
        return value


# --- issue.yaml ----------------------------------------------------------------------------------------------------

Fidelity = Literal["real", "stubbed", "static", "needs-gpu"]


class Expects(Strict):
    """What the repro must answer without and with the series."""

    without: Literal["good", "bad"] = "bad"
    with_: Literal["good", "bad"] = Field("good", alias="with")


class Repro(Strict):
    """One script that tells good from bad."""

    name: Slug
    fidelity: Fidelity
    script: RelativePath
    environment: Slug | None = Field(None, description="A requirements file of recipes/environments; none: plain Python")
    signature: str | None = Field(None, description="Overrides the issue's signature")
    timeout_seconds: int = Field(300, gt=0)
    repeat: int = Field(1, ge=1, le=100)


class Issue(Strict):
    """issue.yaml: one upstream issue, its signatures and its repros (the first is the default, cheapest first)."""

    format: Literal[1]
    title: str
    links: tuple[str, ...] = ()
    upstream: Slug = "vllm"
    affects: tuple[str, ...] = ()
    signature: str = Field(description="Regular expression; a failure whose output lacks it is a skip, not a bad")
    log_signatures: tuple[str, ...] = ()
    expects: Expects = Expects()
    repros: tuple[Repro, ...] = Field(min_length=1)
