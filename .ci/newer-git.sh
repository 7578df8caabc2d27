#!/usr/bin/env bash
# newer-git.sh FOLDER: put the git of Debian 13 (2.47) into FOLDER/bin, beside the machine's own git, which stays as it
# is. apt brings it with all its libraries from where this machine's own packages come from, and it runs on its own
# loader. Idempotent.
set -euo pipefail
suite=trixie
mkdir -p "$1"
to=$(cd "$1" && pwd)
[ -x "$to/bin/git" ] && exec "$to/bin/git" version

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt reads as another user
mkdir -p "$work"/{lists,archives}/partial
: >"$work/status" # nothing counts as installed, so that every library comes along
site=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | head -n 1)
[ -n "$site" ] || { echo "newer-git.sh: no Debian among this machine's package sources" >&2; exit 1; }
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main" >"$work/sources.list"
packages() {
    apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$work/lists" -o Dir::State::Status="$work/status" -o Dir::Cache::Archives="$work/archives" \
        -o Dir::Cache::PkgCache= -o Dir::Cache::SrcPkgCache= -o APT::Update::Post-Invoke-Success::= "$@"
}
packages update
packages --download-only --no-install-recommends --yes install git >/dev/null

rm -rf "$to/root" "$to/bin"
mkdir "$to/root"
for archive in "$work"/archives/*.deb; do
    dpkg -x "$archive" "$to/root"
done

# programs of Debian 13 do not start on an older C library: in place of each stands a script that calls their own loader
core=$to/root/usr/lib/git-core
loader=$(find "$to/root/usr/lib" -type f -name 'ld-linux*.so.*')
for program in "$to"/root/usr/bin/git* "$core"/*; do
    if [ -f "$program" ] && [ ! -L "$program" ] && [ "$(head -c 4 "$program" | tail -c 3)" = ELF ]; then
        mv "$program" "$program.real"
        cat >"$program" <<END
#!/bin/sh
export GIT_EXEC_PATH='$core' GIT_TEMPLATE_DIR='$to/root/usr/share/git-core/templates'
exec '$loader' --library-path '${loader%/*}' --argv0 "\$0" '$program.real' "\$@"
END
        chmod 755 "$program"
    fi
done
mkdir "$work/bin"
find "$to/root/usr/bin" -name 'git*' ! -name '*.real' -exec ln -s {} "$work/bin" ';'
mv "$work/bin" "$to/bin"
"$to/bin/git" version
