# Fairlead. Two commands do everything: make demo and make test.
.DEFAULT_GOAL := help
.PHONY: help demo test test-capi bench-capi check generate bench bench-dataplane build kube metallb capi clusterctl components
# One set of build flags, so that all builds and tests share one compile cache.
export CGO_ENABLED := 0
BIG := GOGC=off GOMEMLIMIT=3GiB
# Tests that run programs are run anew each time: of those go's cache of results knows nothing.
ANEW := go test -count=1
PURE := ./internal/lb/... ./internal/dataplane/builtin/... ./internal/dataplane/nftables/... ./internal/health/... ./internal/resolve/... ./internal/traffic/...

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build kube ## A hub, two tenant clusters and two proxies on this machine; ARGS=--check runs its story and ends
	bin/fairlead demo $(ARGS)

test: build kube metallb ## As root: all tests: units, data planes in network namespaces, real API servers, the demo's story
	@hack/deps.sh nft conntrack gcc
	go test -p 1 -timeout 20m $$(go list ./... | grep -v fairlead/test/)
	$(ANEW) -p 1 -timeout 20m $$(go list ./test/... | grep -v -e /test/e2e -e /test/survival)
	$(ANEW) -timeout 20m -v ./test/e2e # alone, because it measures traffic
	$(ANEW) -timeout 20m -v ./test/survival # likewise
	CGO_ENABLED=1 go test -race -timeout 10m $(PURE)
	go -C hack/kube test -timeout 10m ./...

test-capi: build kube capi clusterctl ## As root: load balancers of control planes under Cluster API's own controllers; ARGS=-all tells all stories
	@hack/deps.sh nft
	go -C test/capi vet ./... && go -C test/capi test -count=1 -parallel 4 -timeout 40m -v . $(ARGS)

bench-capi: build kube capi ## As root: what clients of such control planes lose, with hooks and without, by data plane; and a hundred Clusters at once
	@hack/deps.sh nft
	go -C test/capi test -count=1 -parallel 2 -timeout 90m -v -run TestStories -bench . -benchtime 1x . -all -every 20ms

check: ## Formatting, vet, staticcheck, import rules, generated code up to date
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run: gofmt -w on these files"; exit 1; }
	$(BIG) go vet ./...
	$(BIG) go -C hack/kube vet ./...
	go run ./hack/lint
	go run ./hack/crdgen -check
	$(BIG) go build -C hack/tools -o ../../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...

generate: ## Deep copies and CRDs from api/
	go run ./hack/crdgen

bench: build kube ## The figures, each beside a plain echo on the same servers: of one tenant, then of fifty with 10,000 LoadBalancers
	go run ./test/bench $(ARGS); one=$$?; go run ./test/bench -scale $(ARGS) && exit $$one

bench-dataplane: ## As root, with nft and haproxy: the data planes beside none, rules by hand and HAProxy; a quarter of an hour, ARGS=-quick two minutes
	@hack/deps.sh nft haproxy
	go run ./test/bench-dataplane $(ARGS)

build: ## bin/fairlead
	@mkdir -p bin
	$(BIG) go build -o bin/fairlead ./cmd/fairlead

kube: ## bin/kube: etcd, kube-apiserver, controllers and hollow nodes, for demo and tests
	@hack/kube/build.sh bin/kube

metallb: ## bin/metallb: MetalLB's controller, a hub's Services for tests
	@hack/metallb/build.sh bin/metallb

capi: ## bin/capi: Cluster API's controllers, for tests; with an empty build cache 13 minutes of CPU time
	@hack/capi/build.sh bin/capi

clusterctl: ## bin/clusterctl: Cluster API's command, for tests
	@hack/clusterctl/build.sh bin/clusterctl

# The version of the release; metadata.yaml must have its series.
VERSION ?= v0.1.0
components: ## What clusterctl init --addon fairlead installs, as a repository on disk: bin/clusterctl/repository; VERSION=v0.1.0
	go run ./hack/components -version=$(VERSION)
