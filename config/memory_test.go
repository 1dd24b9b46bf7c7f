package config_test

import "testing"

// All tenants share managers and proxies: what one of them stores must not have these killed.
func TestWhatTenantsShareHasNoMemoryLimit(t *testing.T) {
	for _, file := range []string{"manager/manager.yaml", "proxy/proxy.yaml"} {
		for _, w := range workloads(t, file) {
			for _, c := range w.Spec.Template.Spec.Containers {
				if limit, ok := c.Resources.Limits["memory"]; ok {
					t.Errorf("%s: container %s is killed at %s", file, c.Name, limit.String())
				}
				if c.Resources.Requests.Memory().IsZero() {
					t.Errorf("%s: container %s asks for no memory", file, c.Name)
				}
			}
		}
	}
}
