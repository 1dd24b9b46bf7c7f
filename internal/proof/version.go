package proof

import (
	"fmt"
	"strconv"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Version is a resource version of one resource; they are comparable since
// Kubernetes 1.35. 0: none.
type Version uint64

// ParseVersion reads a resource version; an empty one is 0.
func ParseVersion(s string) (Version, error) {
	if s == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q: must be a number", s)
	}
	return Version(v), nil
}

// Vector is a version of each resource that proxies build from.
type Vector struct {
	LoadBalancers, TargetGroups, Addresses, Classes, Tenants Version
}

// ParseThrough reads what a proxy says. An entry that is no number counts as 0: it proves nothing.
func ParseThrough(t v1alpha1.Through) Vector {
	read := func(s string) Version {
		v, err := ParseVersion(s)
		if err != nil {
			return 0
		}
		return v
	}
	return Vector{read(t.LoadBalancers), read(t.TargetGroups), read(t.Addresses), read(t.LoadBalancerClasses), read(t.Tenants)}
}

// Reaches says whether v is at least need in each entry.
func (v Vector) Reaches(need Vector) bool {
	return v.LoadBalancers >= need.LoadBalancers && v.TargetGroups >= need.TargetGroups && v.Addresses >= need.Addresses &&
		v.Classes >= need.Classes && v.Tenants >= need.Tenants
}

// Max takes the newer of each entry.
func (v Vector) Max(o Vector) Vector {
	return Vector{
		max(v.LoadBalancers, o.LoadBalancers), max(v.TargetGroups, o.TargetGroups), max(v.Addresses, o.Addresses),
		max(v.Classes, o.Classes), max(v.Tenants, o.Tenants),
	}
}
