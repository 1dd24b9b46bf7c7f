// Package config_test holds what config/ starts and reads to what keeps a fleet served and its secrets kept.
package config_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// Prometheus shows its token to whom it reads: to Pods of the namespaces that are installed, not to any that bears our label.
func TestPrometheusReadsOurNamespacesAlone(t *testing.T) {
	var ours []string
	for _, file := range []string{"manager/manager.yaml", "agent/agent.yaml", "proxy/proxy.yaml"} {
		for _, w := range workloads(t, file) {
			if !slices.Contains(ours, w.Namespace) {
				ours = append(ours, w.Namespace)
			}
		}
	}
	file := struct {
		Jobs []struct {
			Name string `json:"job_name"`
			Kube []struct {
				Role       string
				Namespaces struct{ Names []string }
			} `json:"kubernetes_sd_configs"`
		} `json:"scrape_configs"`
	}{}
	if err := yaml.Unmarshal(read(t, "prometheus/scrape.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, job := range file.Jobs {
		for _, k := range job.Kube {
			found++
			if !reflect.DeepEqual(k.Namespaces.Names, ours) {
				t.Errorf("job %s reads each %s of namespaces %q, want %q", job.Name, k.Role, k.Namespaces.Names, ours)
			}
		}
	}
	if found == 0 {
		t.Error("it finds nothing")
	}
}

// Alerts fire where something is missing, and for reasons that there are.
func TestAlertsKnowWhatThereIs(t *testing.T) {
	expressions, reasons := map[string]string{}, []string{
		clusterv1.ReasonPending, clusterv1.ReasonNoProxies, clusterv1.ReasonWaitingForProxies, clusterv1.ReasonPartlyServed, clusterv1.ReasonNotServed,
		clusterv1.ReasonHubChanged, clusterv1.ReasonWaitingForService, clusterv1.ReasonServiceRefused,
	}
	file := struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}{}
	if err := yaml.Unmarshal(read(t, "prometheus/rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			expressions[r.Alert] = r.Expr
		}
	}
	for alert, part := range map[string]string{
		"FairleadNotServed":   `{reason=~"` + strings.Join(reasons, "|") + `"}`,
		"FairleadAgentSilent": `(up{job="fairlead-agent"}) unless`,
		"FairleadNoManager":   `absent(`,
	} {
		if !strings.Contains(expressions[alert], part) {
			t.Errorf("%s has no %s: %s", alert, part, expressions[alert])
		}
	}
}

// workloads are the Deployments and DaemonSets of a file.
func workloads(t *testing.T, file string) []appsv1.DaemonSet {
	t.Helper()
	var all []appsv1.DaemonSet
	for _, document := range strings.Split(string(read(t, file)), "\n---\n") {
		w := appsv1.DaemonSet{} // of a Deployment it has all that is asked for here
		if err := yaml.Unmarshal([]byte(document), &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if w.Kind == "Deployment" || w.Kind == "DaemonSet" {
			all = append(all, w)
		}
	}
	if len(all) != 1 {
		t.Fatalf("%s: %d workloads", file, len(all))
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
