#!/usr/bin/env bash
# deps.sh COMMAND... : see that these commands are there; as root, install what is missing from Debian.
set -euo pipefail

declare -A package=(
  [nft]=nftables [conntrack]=conntrack [haproxy]=haproxy [wrk]=wrk [ip]=iproute2 [gcc]='gcc libc6-dev'
)

missing=()
for command; do
  PATH="$PATH:/usr/sbin:/sbin" type -P "$command" >/dev/null || missing+=(${package[$command]:?"$command: no package is known; add it to hack/deps.sh"})
done
((${#missing[@]})) || exit 0

if ((EUID)); then
  echo "missing here; install with: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get -q -q update
apt-get -q -q install --yes --no-install-recommends "${missing[@]}" >/dev/null
