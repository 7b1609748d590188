#!/bin/bash
# docker/check-dockerfile.sh [FOLDER]: carries out docker/Dockerfile without a container engine, and proves what it makes.
#
# Every stage is a folder tree: FROM debian:12 is a debootstrap of Debian 12 (once), FROM another stage a copy of it; RUN runs in a
# chroot, COPY copies. Then the image's own words are put to the test: as its user, with its environment, in a network of its own,
# ENTRYPOINT and CMD are started and HEALTHCHECK must pass; SIGTERM must end it. Packages come from the mirror that this machine's apt
# uses. Needs root, about 2 GB in FOLDER (a temporary one, removed at the end, if none is given) and a few minutes.
set -euo pipefail

fail() { echo "check-dockerfile: $*" >&2; exit 1; }

[ "$(id -u)" -eq 0 ] || { echo "this needs root: chroot and mount" >&2; exit 1; }
# mounts made here are seen by nobody else, and go with this process
[ "${IN_OWN_MOUNTS:-}" = yes ] || IN_OWN_MOUNTS=yes exec unshare --mount --propagation private "$0" "$@"

context="$(cd "$(dirname "$(realpath "$0")")/.." && pwd)"
dockerfile="$context/docker/Dockerfile"
if [ "${1:-}" = --prove ]; then
    work="" # the proof of one stage, started by finish_stage()
elif [ $# -gt 0 ]; then
    mkdir -p "$1"
    work="$(realpath "$1")"
else
    work="$(mktemp -d)"
    trap 'rm -rf --one-file-system "$work"' EXIT
fi

[ -z "$work" ] || "$context/.ci/install" chroot

# ---- Debian ----

# The first Debian archive that apt is configured with, in either of apt's notations.
mirror() {
    # shellcheck disable=SC2046
    awk '/^deb[ \t]/ { for (i = 2; i <= NF; i++) if ($i ~ /^[a-z]+:\/\/.*\/debian\/?$/) { print $i; exit } }
             /^URIs:/ { for (i = 2; i <= NF; i++) if ($i ~ /\/debian\/?$/) { print $i; exit } }' \
        $(find /etc/apt/sources.list /etc/apt/sources.list.d -type f 2>/dev/null)
}

# What lets apt reach its mirror from here: its sources, its settings of proxies and certificates, name resolution.
lend_apt() {
    local root=$1
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    grep -rhsiE '^Acquire::(http|https|ftp)' /etc/apt/apt.conf /etc/apt/apt.conf.d >"$root/etc/apt/apt.conf.d/90check" || true
    if [ -d /etc/ssl/certs ]; then
        mkdir -p "$root/etc/ssl"
        cp -rL /etc/ssl/certs "$root/etc/ssl/" 2>/dev/null || true
    fi
}

base() {
    [ ! -e "$work/base.done" ] || return 0
    local from
    from="$(mirror)"
    [ -n "$from" ] || fail "no Debian mirror in /etc/apt"
    echo "== debootstrap of Debian 12"
    rm -rf --one-file-system "$work/base"
    debootstrap --variant=minbase bookworm "$work/base" "$from" >"$work/debootstrap.log" 2>&1 ||
        { tail -20 "$work/debootstrap.log" >&2; fail "debootstrap failed"; }
    lend_apt "$work/base"
    touch "$work/base.done"
}

# ---- the Dockerfile's instructions ----

root="" stage="" directory=/ user=root
declare -A is_stage
environment=()
entrypoint="" command="" health="" stop_signal=SIGTERM

# In the stage's tree, as the given user, in the given directory: a shell command. enter() becomes it, inside() waits for it.
enter() {
    local as=$1 where=$2 script=$3
    local ids=0:0
    [ "$as" = root ] || ids="$(awk -F: -v name="$as" '$1 == name { print $3 ":" $4 }' "$root/etc/passwd")"
    [ -n "$ids" ] || fail "there is no user $as in the image"
    exec chroot --userspec="$ids" "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive "${environment[@]}" /bin/sh -c "cd '$where' && $script"
}

inside() { (enter "$@"); }

from() { # SOURCE [AS NAME]
    local source=$1
    finish_stage
    stage="${3:-last}"
    root="$work/stage-$stage"
    directory=/ user=root environment=() entrypoint="" command="" health="" stop_signal=SIGTERM
    rm -rf --one-file-system "$root"
    if [ -n "${is_stage[$source]:-}" ]; then
        cp -a "$work/stage-$source" "$root"
    elif [ "$source" = debian:12 ]; then
        base
        cp -a "$work/base" "$root"
    else
        fail "FROM $source: only debian:12 and earlier stages are known here"
    fi
    is_stage[$stage]=yes
}

run() {
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    mountpoint -q "$root/dev" || mount --rbind /dev "$root/dev"
    inside "$user" "$directory" "$*" >"$work/run.log" 2>&1 || { tail -40 "$work/run.log" >&2; fail "RUN failed in stage $stage"; }
    umount -R "$root/dev" "$root/proc"
}

copy() { # [--from=STAGE] SOURCE... TARGET
    local tree="$context" target
    if [[ $1 == --from=* ]]; then
        tree="$work/stage-${1#--from=}"
        [ -n "${is_stage[${1#--from=}]:-}" ] || fail "COPY $1: there is no such stage yet"
        shift
    fi
    target="${*: -1}"
    [[ $target == /* ]] || target="$directory/$target"
    if [[ $target == */ || $target == */. || $target == */./ ]]; then
        mkdir -p "$root$target"
    else
        mkdir -p "$root$(dirname "$target")"
    fi
    for source in "${@:1:$#-1}"; do
        if [ "$source" = . ]; then # as .dockerignore leaves it
            (cd "$tree" && tar -c --exclude-vcs --exclude='./build*' --exclude=__pycache__ .) | tar -x -C "$root$target"
        else
            cp -a --no-preserve=ownership "$tree/${source#/}" "$root$target"
        fi
    done
}

# ["a", "b"] as shell words.
words() {
    /usr/bin/python3 -c 'import json, shlex, sys; print(" ".join(map(shlex.quote, json.loads(sys.argv[1]))))' "$1"
}

carry_out() { # INSTRUCTION REST
    local rest=$2
    case "$1" in
    FROM | COPY)
        local arguments
        read -ra arguments <<<"$rest"
        if [ "$1" = FROM ]; then from "${arguments[@]}"; else copy "${arguments[@]}"; fi
        ;;
    RUN) run "$rest" ;;
    WORKDIR) directory="$rest"; mkdir -p "$root$directory" ;;
    ENV) environment+=("$rest") ;;
    USER) user="$rest" ;;
    EXPOSE) ;;
    STOPSIGNAL) stop_signal="$rest" ;;
    HEALTHCHECK) health="${rest#*CMD }" ;;
    ENTRYPOINT) entrypoint="$(words "$rest")" ;;
    CMD) command="$(words "$rest")" ;;
    *) fail "$1 is not known here" ;;
    esac
}

# ---- what came out ----

# The stage serves as an engine would start it, becomes healthy, runs as its user, and ends when it is told to.
# In a network of its own (unshare --net), so that its ports are free.
prove() {
    local pid attempt owner
    ip link set lo up
    mount -t proc proc "$root/proc"
    enter "$user" "$directory" "exec $entrypoint $command" >"$work/serve-$stage.log" 2>&1 &
    pid=$!
    for attempt in $(seq 100); do
        ! inside "$user" / "$health" >/dev/null 2>&1 || break
        if [ "$attempt" -eq 100 ] || ! kill -0 "$pid" 2>/dev/null; then
            cat "$work/serve-$stage.log" >&2
            kill "$pid" 2>/dev/null || true
            fail "stage $stage does not become healthy"
        fi
        sleep 0.1
    done
    owner="$(ps -o uid= -p "$pid" | tr -d ' ')"
    [ "$owner" -ne 0 ] || fail "stage $stage runs as root"
    kill -s "${stop_signal#SIG}" "$pid"
    wait "$pid" || [ $? -gt 128 ] || fail "stage $stage ended with an error at $stop_signal"
    umount "$root/proc"
    echo "== stage $stage: healthy as user $user ($owner), ended by $stop_signal"
}

finish_stage() {
    [ -n "$health" ] || return 0
    [ "$user" != root ] || fail "stage $stage runs as root"
    declare -p root stage directory user environment entrypoint command health stop_signal work >"$work/prove-$stage.sh"
    unshare --net "$0" --prove "$work/prove-$stage.sh"
}

if [ -z "$work" ]; then
    # shellcheck disable=SC1090
    . "$2"
    prove
    exit
fi

while IFS= read -r line; do
    case "$line" in
    '' | '#'*) continue ;;
    esac
    echo "-- $line"
    carry_out "${line%% *}" "${line#* }"
done < <(sed -e ':join' -e '/\\$/ { N; s/\\\n[ ]*//; b join' -e '}' "$dockerfile")
finish_stage
echo "all steps of docker/Dockerfile went through"
