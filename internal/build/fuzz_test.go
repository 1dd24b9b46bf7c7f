package build

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// fuzzLine is a line of a fuzzed input: an object, by the name of its kind.
type fuzzLine struct {
	Kind   string
	Object json.RawMessage
}

// readFuzzed reads what of the lines is an object; the last one of a name counts.
func readFuzzed(text []byte) hub {
	h := hub{}
	for line := range bytes.Lines(text) {
		var l fuzzLine
		if json.Unmarshal(line, &l) != nil {
			continue
		}
		o := map[string]metav1.Object{
			"LoadBalancer": &clusterv1.LoadBalancer{}, "TargetGroup": &v1alpha1.TargetGroup{}, "Address": &v1alpha1.Address{},
			"LoadBalancerClass": &v1alpha1.LoadBalancerClass{}, "Tenant": &v1alpha1.Tenant{},
		}[l.Kind]
		if o != nil && json.Unmarshal(l.Object, o) == nil {
			h[keyOf(o)] = o
		}
	}
	return h
}

func kindOf(o metav1.Object) string { return reflect.TypeOf(o).Elem().Name() }

// fuzzed is the text that readFuzzed reads as h.
func fuzzed(f testing.TB, h hub) []byte {
	var out []byte
	for _, k := range slices.Sorted(maps.Keys(h)) {
		o, err := json.Marshal(h[k])
		if err != nil {
			f.Fatal(err)
		}
		line, err := json.Marshal(fuzzLine{kindOf(h[k]), o})
		if err != nil {
			f.Fatal(err)
		}
		out = append(append(out, line...), '\n')
	}
	return out
}

// Whatever objects say, and whether or not an API server would take it: what is built is sound, and the same step by step.
func FuzzBuild(f *testing.F) {
	f.Add(fuzzed(f, goodHub()))
	f.Add(fuzzed(f, hub{"": drawn(drawLoadBalancer)}))
	for seed := range 40 {
		f.Add(fuzzed(f, rapid.Custom(func(t *rapid.T) hub { return drawHub(t, 12) }).Example(seed)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h := readFuzzed(text)
		opts := Options{ProxyPool: "edge", Zone: "east"}
		keys := slices.Sorted(maps.Keys(h))
		objects := h.objects(keys)
		objects.Names = map[string][]netip.Addr{"elb.example": {netip.MustParseAddr("10.0.0.9")}}
		whole := Whole(objects, opts)
		mustBeSound(t, whole)

		b := New(opts)
		slices.Reverse(keys)
		for _, k := range keys {
			b.Set(h[k])
			b.Program()
		}
		b.SetNames(objects.Names)
		if x, y := say(b.Program()), say(whole); !reflect.DeepEqual(x, y) {
			t.Fatalf("step by step %+v\nwhole        %+v", x, y)
		}
		for _, k := range keys {
			b.Delete(h[k])
		}
		if p := b.Program(); len(p.Tenants)+len(p.Listeners) > 0 {
			t.Fatalf("nothing is left, and built: %+v", p)
		}
		validateAll(h)
	})
}

// validateAll must come back, whatever the objects say.
func validateAll(h hub) {
	for _, o := range h {
		switch o := o.(type) {
		case *clusterv1.LoadBalancer:
			Validate(o, nil, nil)
			for _, x := range h {
				if c, ok := x.(*v1alpha1.LoadBalancerClass); ok {
					Validate(o, c, nil)
				}
			}
		case *v1alpha1.TargetGroup:
			ValidateTargetGroup(o, nil, Admit([]*v1alpha1.TargetGroup{o}, nil))
		case *v1alpha1.LoadBalancerClass:
			ValidateClass(o)
		case *v1alpha1.Tenant:
			ValidateTenant(o)
		}
	}
}

func drawn[T metav1.Object](draw func(*rapid.T) T) metav1.Object {
	return rapid.Custom(func(t *rapid.T) T { return draw(t) }).Example(1)
}

// FuzzSteps lets coverage choose what the property test draws at random.
func FuzzSteps(f *testing.F) {
	f.Add([]byte{})
	f.Fuzz(rapid.MakeFuzz(stepByStep))
}
