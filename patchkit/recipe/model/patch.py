"""patch.yaml and its rewrite files as types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Tag, TypeAdapter, model_validator

from patchkit.recipe.model.fields import (
    ChangeCherryPick,
    ChangePull,
    ChangeRevert,
    Conditional,
    Diff,
    ObjectId,
    RelativePath,
    Sha256,
    Slug,
    Strict,
    TreePath,
    UpstreamStatus,
    When,
    kind_of,
)


class Step(Strict):
    """Where a rewrite step works."""

    file: TreePath = Field(description="File of the upstream tree")
    inside: str | None = Field(None, description="Qualified name of the enclosing function or class")


class RewriteReplace(Step):
    """Replace what an ast-grep pattern matches inside one enclosing definition."""

    match: str = Field(description="ast-grep pattern")
    replace: str = Field(description="What stands there afterwards; $NAME and $$$NAME are those of the pattern")
    expect: int = Field(1, ge=1, description="Matches there must be; any other number is an error, never a guess")


class RewriteImport(Step):
    """Add an import statement unless it is there."""

    import_: str = Field(alias="import", description="A whole statement: from x import y")


class RewriteInsert(Step):
    """Insert text after or before what a pattern matches."""

    after: str | None = Field(None, description="ast-grep pattern of what stands before the text")
    before: str | None = Field(None, description="ast-grep pattern of what stands after the text")
    insert: str = Field(description="The text")
    expect: int = Field(1, ge=1, description="Matches there must be; any other number is an error, never a guess")

    @model_validator(mode="after")
    def _one_side(self) -> RewriteInsert:
        if (self.after is None) == (self.before is None):
            raise ValueError("needs exactly one of `after` and `before`")
        return self


class RewriteAppend(Step):
    """Append text to the end of a file, or of the definition named by `inside`."""

    append: str = Field(description="The text")


class RewriteCreate(Strict):
    """Create a new file of the tree from a file of the patch folder."""

    file: TreePath = Field(description="The new file of the upstream tree")
    create: RelativePath = Field(description="The file that becomes it, relative to patch.yaml")


RewriteStep = Annotated[
    Annotated[RewriteReplace, Tag("<match>")]
    | Annotated[RewriteImport, Tag("<import>")]
    | Annotated[RewriteInsert, Tag("<insert>")]
    | Annotated[RewriteAppend, Tag("<append>")]
    | Annotated[RewriteCreate, Tag("<create>")],
    kind_of("match", "import", "insert", "append", "create"),
]
Steps: TypeAdapter[tuple[RewriteStep, ...]] = TypeAdapter(
    Annotated[tuple[RewriteStep, ...], Field(min_length=1, title="Rewrite", description="The steps, in order")],
    config=ConfigDict(defer_build=True),
)


class ChangePatch(Diff):
    """A unified diff, git diff or mailbox beside patch.yaml."""

    patch: RelativePath = Field(description="The diff, relative to patch.yaml")


class ChangeRewrite(Conditional):
    """Structural steps: a YAML list of rewrite steps beside patch.yaml."""

    rewrite: RelativePath = Field(description="The file with the steps, relative to patch.yaml")


class ChangeFile(Conditional):
    """A whole new file of the tree."""

    file: TreePath = Field(description="The new file of the upstream tree")
    source: RelativePath = Field(description="The file that becomes it, relative to patch.yaml")


Change = Annotated[
    Annotated[ChangePatch, Tag("<patch>")]
    | Annotated[ChangeRewrite, Tag("<rewrite>")]
    | Annotated[ChangeFile, Tag("<file>")]
    | Annotated[ChangeRevert, Tag("<revert>")]
    | Annotated[ChangeCherryPick, Tag("<cherry-pick>")]
    | Annotated[ChangePull, Tag("<pull>")],
    kind_of("patch", "rewrite", "file", "revert", "cherry-pick", "pull"),
]


class Imported(Strict):
    """Where `patchkit import` had a patch from, held still by a commit or a sha256; a second import compares them."""

    from_: str = Field(
        alias="from", description="What was imported: pull/N, a commit or ref, a URL, the name of a file"
    )
    part: int | None = Field(None, gt=0, description="Which patch of a mailbox, from 1")
    commit: ObjectId | None = Field(None, description="The commit, or the head of the pull request")
    base: ObjectId | None = Field(None, description="The commit that it was made on")
    sha256: Sha256 | None = Field(None, description="Digest of what was read")
    state: Literal["open", "closed", "merged"] | None = Field(
        None, description="State of the pull request at that time"
    )
    merged_as: ObjectId | None = Field(None, description="The commit with which upstream took it")


class Patch(Strict):
    """patch.yaml: one logical patch, whatever upstream does to the lines around it."""

    format: Literal[1] = Field(description="Version of this file format")
    title: str = Field(description="What the patch does, in one line")
    why: str = Field("", description="Why it is needed")
    upstream: Slug = Field("vllm", description="The upstream that it patches")
    issue: tuple[Slug, ...] = Field((), description="Issues that this patch fixes")
    upstream_status: UpstreamStatus = Field(
        "Pending", description="OpenEmbedded Upstream-Status: Pending, Submitted [URL], Backport [URL] …"
    )
    origin: str | None = Field(None, description="DEP-3 Origin")
    author: str | None = Field(None, description="Name <mail address>")
    imported: Imported | None = Field(None, description="Where it was imported from; `patchkit import` writes it")
    requires: tuple[Slug, ...] = Field((), description="Patches that must stand before this one in a series")
    when: When | None = Field(None, description="The patch is applicable only where this condition holds")
    remove_when: When | None = Field(None, description="The patch is not needed any more where this condition holds")
    change: tuple[Change, ...] = Field(min_length=1, description="The first entry whose `when` holds is used")
