package survival

import (
	"testing"

	"fairlead.dev/fairlead/internal/fleet"
)

// inKernel are the failures of a fleet whose kernels carry the traffic: nothing of ours that dies may cost a connection.
var inKernel = []scenario{
	{name: "StoppedProxy", run: stoppedProxy},
	{name: "BlindProxy", run: blindProxy},
	{name: "HangingNode", run: hangingNode},
	{name: "LeaderOverlap", run: leaderOverlap},
	{name: "HubAway", run: hubAway},
	{name: "KilledParts", run: killedParts, kills: true},
	{name: "HubRestored", run: hubRestored},
	{name: "HubReplaced", run: hubReplaced},
	{name: "TenantLost", run: tenantLost, once: true},
}

// inProcess are those of a fleet whose proxies carry it themselves.
var inProcess = []scenario{
	{name: "CutOffProxy", run: cutOffProxy},
	{name: "StoppedNode", run: stoppedNode},
	{name: "ReturnedProxy", run: returnedProxy},
	{name: "FencedProxy", run: fencedProxy},
	{name: "SameName", run: sameName},
	{name: "TenantRestored", run: tenantRestored},
	{name: "SecondCluster", run: secondCluster},
	{name: "NodesWithoutKubeProxy", run: nodesWithoutKubeProxy},
	{name: "TenantDeleted", run: tenantDeleted, once: true},
}

func TestInKernel(t *testing.T) {
	survive(t, fleet.Options{Dataplane: "nftables", Namespaces: true}, inKernel)
}

func TestInProcess(t *testing.T) {
	survive(t, fleet.Options{}, inProcess)
}
