package providerkind

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/provider/contract"
	"k8s.io/apimachinery/pkg/runtime"
)

// Members are what a LoadBalancer's object says of its members.
type Members struct {
	// Name of the object, for messages.
	Name string
	// Status, as the contract has it.
	Status contract.Status
}

// Members reads them. nil: the LoadBalancer has no object, or it can't be read, as why says.
func (k *Kinds) Members(ctx context.Context, l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) (out *Members, why string, err error) {
	of, has := noted(l)
	if !has {
		if of, _, has = wanted(l, class); !has {
			return nil, "the LoadBalancer has no provider object", nil
		}
	}
	kind, t, err := k.follow(ctx, of.GroupKind)
	if err != nil {
		return nil, "", err
	}
	if t != nil {
		return nil, t.message, nil
	}
	o, err := k.read(ctx, k.Cache, kind, l.Namespace, of.Name)
	if err != nil {
		return nil, "", err
	}
	name := of.text(l.Namespace)
	if o == nil || OwnerOf(o) != l.Name {
		return nil, name + " isn't there, or not this LoadBalancer's", nil
	}
	out = &Members{Name: name}
	status, _ := o.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &out.Status); err != nil {
		return nil, fmt.Sprintf("%s has a status that isn't the contract's: %v", name, err), nil
	}
	return out, "", nil
}

// Generation of a TargetGroup that the members were made from; 0: they weren't.
func (m *Members) Generation(g *v1alpha1.TargetGroup) int64 {
	if m.Status.Observed == nil {
		return 0
	}
	for _, o := range m.Status.Observed.TargetGroups {
		if o.Name == g.Name && o.UID == string(g.UID) {
			return o.Generation
		}
	}
	return 0
}

// Of is what is said of the member of that name and address; false: nothing, or not of one alone.
func (m *Members) Of(name, address string) (clusterv1.TargetStatus, bool) {
	var found []clusterv1.TargetStatus
	for _, t := range m.Status.Targets {
		if t.Name == name && t.Address == address {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		return clusterv1.TargetStatus{}, false
	}
	return found[0], true
}
