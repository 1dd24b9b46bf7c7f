# programs.sh is for build.sh OUT of a folder whose go.mod names others' programs: it goes there, and ends the script if OUT was made of the
# same versions by the same Go. Else the script says what takes how long, builds, and calls built.
set -eu

out=$1
case $out in /*) ;; *) out=$PWD/$out ;; esac
cd "$(dirname "$0")"

stamp=$({ go env GOVERSION GOOS GOARCH; cat go.mod go.sum build.sh ../programs.sh; } | cksum)
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then # delete OUT as a whole, if at all
	exit 0
fi
mkdir -p "$out/crd"
rm -f "$out/stamp" # none while it is half made
start=$(date +%s)

# program NAME PACKAGE: builds one, with the same flags as the main module, so that all share one build cache.
program() {
	CGO_ENABLED=0 GOGC=off GOMEMLIMIT=3GiB go build -o "$out/$1" -ldflags "-s -w" "$2"
	echo "  $1 after $(($(date +%s) - start)) s" >&2
}

# source_of MODULE: says where its files lie.
source_of() {
	go mod download "$1"
	go list -m -f '{{.Dir}}' "$1"
}

# kinds FOLDER: copies the CustomResourceDefinitions that are in it.
kinds() {
	for kind in "$1"/*.yaml; do
		cat "$kind" >"$out/crd/${kind##*/}" # not its mode: the module cache is read-only
	done
}

built() {
	printf '%s\n' "$stamp" >"$out/stamp"
	echo "built $out in $(($(date +%s) - start)) s" >&2
}
