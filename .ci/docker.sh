#!/usr/bin/env bash
# The real parts that the contract tests of images need: a Docker engine that answers, a registry program, and a base
# image, made here from Debian packages since CI cannot pull one. Idempotent.
set -euo pipefail
base=patchkit-base:bookworm
log=${TMPDIR:-/tmp}/patchkit-dockerd.log

for program in dockerd:docker.io docker-registry:docker-registry debootstrap:debootstrap iptables:iptables; do
    command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
done
if [ "${missing+set}" ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

answers() { docker version >/dev/null 2>&1; }
start() {
    setsid nohup dockerd "$@" >"$log" 2>&1 </dev/null &
    local engine=$!
    for _ in $(seq 120); do
        if answers; then return 0; fi
        kill -0 "$engine" 2>/dev/null || return 1
        sleep 0.5
    done
    kill "$engine"
    wait "$engine" || true
    return 1
}
# where the machine is a container itself, overlay2 and the bridge may be missing
answers || start || start --storage-driver=vfs || start --storage-driver=vfs --iptables=false --bridge=none || {
    tail -20 "$log"
    echo "no Docker engine can be started here" >&2
    exit 1
}

if ! docker image inspect "$base" >/dev/null 2>&1; then
    root=$(mktemp -d)
    debootstrap --variant=minbase --include=python3-venv,ca-certificates,git bookworm "$root" >"$root.log" ||
        { tail -20 "$root.log"; exit 1; }
    tar -C "$root" --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' \
        --exclude='./usr/share/locale/*' --exclude='./usr/share/man/*' -c . |
        docker import -c 'CMD ["python3"]' - "$base" >/dev/null
    rm -rf "$root" "$root.log"
fi
echo "Docker engine $(docker version --format '{{.Server.Version}}'), base image $base"
