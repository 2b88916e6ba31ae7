#!/usr/bin/env bash
# Gradescope runs this once to build the image: it installs Python, bubblewrap and all packages that are imported.
set -euo pipefail
root=${AUTOGRADER_ROOT:-/autograder}
python=
find_python() {
    for name in python3.13 python3.12 python3.11 python3; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            python=$name
            return
        fi
    done
}
if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends bubblewrap libseccomp2 util-linux >/dev/null
    for version in 3.13 3.12 3.11; do
        find_python
        if [ -z "$python" ]; then
            apt-get install -y -qq --no-install-recommends "python$version" "python$version-venv" >/dev/null 2>&1 || true
        fi
    done
fi
find_python
if [ -z "$python" ]; then
    echo "Python 3.11, 3.12 or 3.13 was not found and could not be installed." >&2
    exit 1
fi
"$python" -m venv "$root/python"
"$root/python/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check \
    -r "$root/source/requirements.txt"
