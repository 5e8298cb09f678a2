# Sourced by the other scripts: a virtual environment with this checkout installed, created once and kept.
# environment FOLDER EXTRAS: sets $python to its interpreter.

say() { printf '\n== %s\n' "$*" >&2; }

environment() {
    local folder=$1 extras=$2 base clear=
    python=$folder/bin/python
    # Not by the interpreter alone: `venv` makes it before pip, and may be interrupted or find no ensurepip.
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        for base in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
            if [ -n "$base" ] && command -v "$base" >/dev/null &&
                "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then break; fi
            base=
        done
        [ -n "$base" ] || { echo "Python 3.11 or later was not found; set it: PYTHON=/path/to/python $0" >&2; exit 2; }
        say "creating a virtual environment in $folder with $base"
        if [ -e "$folder/pyvenv.cfg" ]; then clear=--clear; fi  # only what is an environment is deleted
        "$base" -m venv $clear "$folder" >&2 || {
            echo "$base could not make a virtual environment in $folder; on Debian and Ubuntu, install what it needs with" \
                "'apt install python3-venv' (for another Python than the system's: python3.X-venv), and call $0 again" >&2
            exit 2
        }
    fi
    # The stamp records which pyproject.toml was installed, so that a second call has nothing to do.
    local wanted
    wanted="$extras $(cksum <pyproject.toml) $(cksum <harness/__init__.py) $PWD"
    if [ "$(cat "$folder/tta-installed" 2>/dev/null)" != "$wanted" ]; then
        say "installing tta-harness[$extras] into $folder (the first time: several GB, a few minutes)"
        "$python" -m pip install --quiet --disable-pip-version-check -e ".[$extras]"
        printf '%s' "$wanted" >"$folder/tta-installed"
    fi
}
