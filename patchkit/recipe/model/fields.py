"""What the models are made of: scalar types that explain themselves, and the shapes that recipes and patches share."""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Any

from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field

from patchkit.recipe.condition import parse_condition
from patchkit.tools.git.paths import check_path


def _kebab(name: str) -> str:
    """Keys with a dash as people write them in YAML; units keep their underscore (`timeout_seconds`)."""
    return name if name.endswith("_seconds") else name.replace("_", "-")


def _parses(text: str) -> str:
    parse_condition(text)
    return text


def _compiles(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # "[[" will mean something else in a later Python
            re.compile(text)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return text


def _is_version(text: str) -> str:
    try:
        Version(text)
    except InvalidVersion as error:
        raise ValueError(f"{text!r} is not a version (PEP 440)") from error
    return text


def _stays_in_tree(text: str) -> str:
    try:
        check_path(text)
    except ValueError as error:
        raise ValueError(f"must be a path of the upstream tree: {error}") from error
    return text


def _begins_with_status(text: str) -> str:
    known = ("Pending", "Submitted", "Backport", "Denied", "Inactive-Upstream", "Inappropriate")
    if re.split(r"[\s:]", text, maxsplit=1)[0] not in known:
        raise ValueError(f"must begin with one of {', '.join(known)}")
    return text


def _names_image(template: str) -> str:
    from patchkit.errors import RequestError
    from patchkit.tools.registry import parse_reference

    for field in re.findall(r"\{([^{}]*)\}", template):
        if field not in TAG_FIELDS:
            raise ValueError(f"{{{field}}} is not known; known are {', '.join(f'{{{name}}}' for name in TAG_FIELDS)}")
    try:
        parse_reference(re.sub(r"\{\w+\}", "1", template))
    except RequestError as error:
        raise ValueError(f"{template!r} is not the name of an image: {error.hint}") from error
    return template


TAG_FIELDS = ("name", "version", "tree", "arch")
SLUG, ISSUE_NAME = r"^[a-z0-9][a-z0-9._-]*$", r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?$"
OBJECT_ID, SHA256 = r"^[0-9a-f]{40}$", r"^[0-9a-f]{64}$"
PATTERNS = {  # what a pattern asks for, in words: error messages say this instead of the pattern
    SLUG: "must be a name of lower-case letters, digits, `.`, `_` and `-`",
    ISSUE_NAME: "must be the name of an issue, or `issue/repro`, in lower-case letters, digits, `.`, `_` and `-`",
    r"^[^/\\].*$": "must be a relative path",
    r"^[0-9a-f]{7,40}$": "must be a commit id: 7 to 40 hexadecimal digits, in lower case",
    r"^[^-\s][^\s]*$": "must be a tag, branch, commit id or pull/N: no spaces, and no `-` in front",
    OBJECT_ID: "must be a whole git id: 40 hexadecimal digits",
    SHA256: "must be a sha256: 64 hexadecimal digits",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "must be the name of an environment variable",
    r"^[a-z][a-z0-9_]*$": "must be the name of a Python module: lower-case letters, digits and `_`, no `.py`",
}
Slug = Annotated[str, Field(pattern=SLUG, max_length=80)]
IssueName = Annotated[str, Field(pattern=ISSUE_NAME, max_length=161)]
RelativePath = Annotated[str, Field(pattern=r"^[^/\\].*$", max_length=1000)]
TreePath = Annotated[RelativePath, AfterValidator(_stays_in_tree)]
ObjectId = Annotated[str, Field(pattern=OBJECT_ID)]
Sha256 = Annotated[str, Field(pattern=SHA256)]
CommitId = Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]
Revision = Annotated[str, Field(pattern=r"^[^-\s][^\s]*$", max_length=200)]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
ModuleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=80)]
VersionText = Annotated[str, Field(json_schema_extra={"format": "version"}), AfterValidator(_is_version)]
When = Annotated[str, Field(max_length=2000, json_schema_extra={"format": "condition"}), AfterValidator(_parses)]
ImageTag = Annotated[str, Field(max_length=512), AfterValidator(_names_image)]
UpstreamStatus = Annotated[str, AfterValidator(_begins_with_status)]
Regex = Annotated[str, Field(max_length=2000, json_schema_extra={"format": "regex"}), AfterValidator(_compiles)]


class Strict(BaseModel):
    """Frozen, strict, no unknown keys; its validator is built when something is first validated."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=_kebab, populate_by_name=True, defer_build=True
    )


def kind_of(*keys: str) -> Any:
    """Choose the member of a union by the key that is there, so that an error speaks of one shape only."""

    def choose(value: Any) -> str | None:
        if isinstance(value, str):
            return "<name>"
        for key in keys:
            names = (key, key.replace("-", "_"), f"{key}_")
            found = value.get(key) if isinstance(value, dict) else next((getattr(value, n, None) for n in names), None)
            if found is not None or (not isinstance(value, dict) and any(hasattr(value, n) for n in names)):
                return f"<{key}>"
        return None

    message = "needs one of the keys " + ", ".join(keys)
    return Discriminator(choose, custom_error_type="unknown_kind", custom_error_message=message)


class Conditional(Strict):
    """Something that is used only where its condition holds."""

    when: When | None = Field(None, description="Used only at commits where this condition holds")


class Diff(Conditional):
    """How to read a diff."""

    exclude: tuple[str, ...] = Field((), description="Globs of files to leave out of the diff, e.g. tests/**")
    strip: int = Field(1, ge=0, le=10, description="Leading path parts to remove (patch -p)")
    root: str = Field("", description="Folder of the tree that the paths of the diff are relative to")


class ChangePull(Conditional):
    """A pull request of the upstream, frozen to a commit by the lock."""

    pull: int = Field(gt=0, description="Number of the pull request")
    exclude: tuple[str, ...] = Field((), description="Globs of files to leave out, e.g. tests/**")


class ChangeRevert(Conditional):
    """The reverse of one upstream commit."""

    revert: CommitId = Field(description="The commit to take back")


class ChangeCherryPick(Conditional):
    """One upstream commit, taken onto the base."""

    cherry_pick: CommitId = Field(description="The commit to take")
    exclude: tuple[str, ...] = Field((), description="Globs of files to leave out, e.g. tests/**")
