#!/bin/sh
# build.sh OUT: builds MetalLB's controller at OUT/controller, with its kinds in OUT/crd.
. "$(dirname "$0")/../programs.sh"

echo "building MetalLB's controller: with an empty build cache 2 to 4 minutes of CPU time" >&2
program controller go.universe.tf/metallb/controller
kinds "$(source_of go.universe.tf/metallb)/config/crd/bases"
built
