package controller_test

import "strings"

// calm holds that the manager wrote no more often to the namespaces of stories than their changes need: nothing that stands still, is refused or
// is taken off by hand is written again and again. most are about twice as many writes as a busy machine has them, refused ones too.
func (h *hub) calm(most map[string]int) {
	h.t.Helper()
	all, _, err := h.control.Writes(0)
	if err != nil {
		h.t.Fatal(err)
	}
	wrote, resources := map[string]int{}, map[string]map[string]int{}
	for _, w := range all {
		if !strings.HasSuffix(w.User, ":fairlead-manager") {
			continue
		}
		wrote[w.Namespace]++
		if resources[w.Namespace] == nil {
			resources[w.Namespace] = map[string]int{}
		}
		resources[w.Namespace][w.Resource]++
	}
	for story, n := range most {
		if wrote[story] == 0 || wrote[story] > n {
			h.t.Errorf("the manager wrote %d times in %s, not %d at most: %v", wrote[story], story, n, resources[story])
		}
	}
}
