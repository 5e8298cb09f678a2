# Sourced by the other scripts: a virtual environment with this checkout in it, made once and kept.
# environment FOLDER EXTRAS: afterwards $python is its interpreter.

say() { printf '\n== %s\n' "$*" >&2; }

environment() {
    local folder=$1 extras=$2 base
    python=$folder/bin/python
    if [ ! -x "$python" ]; then
        for base in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
            if [ -n "$base" ] && command -v "$base" >/dev/null &&
                "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then break; fi
            base=
        done
        [ -n "$base" ] || { echo "no Python of at least 3.11 was found; name one: PYTHON=/path/to/python $0" >&2; exit 2; }
        say "making a virtual environment in $folder with $base"
        "$base" -m venv "$folder"
    fi
    # The stamp says which pyproject.toml was installed, so that a second call has nothing to do.
    local wanted
    wanted="$extras $(cksum <pyproject.toml) $(cksum <harness/__init__.py) $PWD"
    if [ "$(cat "$folder/tta-installed" 2>/dev/null)" != "$wanted" ]; then
        say "installing tta-harness[$extras] into $folder (the first time: several GB, some minutes)"
        "$python" -m pip install --quiet --disable-pip-version-check -e ".[$extras]"
        printf '%s' "$wanted" >"$folder/tta-installed"
    fi
}
