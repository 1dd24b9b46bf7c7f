package differential_test

// What hollow nodes do otherwise than kube-proxy, and why. hack/kube/hollow/doc.go says it to who uses them.
const (
	onlyElsewhere = "Local, and only other nodes have endpoints: kube-proxy drops packets, which needs root; a closed socket refuses"
	nobodyListens = "a hollow node accepts a connection before it looks for the Pod; kube-proxy has the Pod's kernel refuse it"
	clientSeen    = "a hollow node hands the client's own connection to the Pod; kube-proxy puts the node's address in its place, so that answers come back by it"
	rulesStay     = "a hollow node closes its ports when its Node is deleted; of kube-proxy, which ends, the rules stay"
)
