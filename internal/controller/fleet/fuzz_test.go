package fleet

import (
	"encoding/json"
	"strconv"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
)

// Whatever a proxy's Lease says: the proxy counts as through no more than its status and a Lease that reads well say.
func FuzzLease(f *testing.F) {
	for _, s := range [][3]string{
		{"b", `{"addresses":"9"}`, ""}, {"b", `{"addresses":"9"}`, "7"}, {"b", `{"addresses":"9"}`, "8"}, {"b", `{"addresses":"9"}`, "x"}, {"c", `{"addresses":"9"}`, "7"},
		{"b", `{"addresses":9}`, "7"}, {"b", `{"addresses":"9","loadBalancers":{}}`, "7"}, {"b", `{"addresses":"-9"}`, "7"}, {"b", `{"addresses":"99999999999999999999"}`, "7"},
		{"b", `null`, "-7"}, {"", `{"addresses":"9"}`, "7"}, {"b", `{"addresses":"9"`, "7"}, {"b", `{"addresses":"0x9"}`, "+7"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, boot, through, seq string) {
		fleet := newFleet(nil)
		p := proxyAt("", "5")
		p.Status.Seq = 7
		fleet.SetProxy(p)
		l := leaseOf(boot, through, 1)
		l.Annotations[v1alpha1.AnnotationSeq] = seq
		fleet.ListLease(l)
		got := one(t, fleet).Through
		most := proof.Vector{Addresses: 5}
		var said v1alpha1.Through
		n, err := strconv.ParseInt(seq, 10, 64)
		if boot == p.Status.Boot && json.Unmarshal([]byte(through), &said) == nil && (seq == "" || err == nil && n <= p.Status.Seq) {
			most = most.Max(proof.ParseThrough(said))
		}
		if !most.Reaches(got) || !got.Reaches(proof.Vector{Addresses: 5}) {
			t.Fatalf("through %+v, at most %+v", got, most)
		}
	})
}
