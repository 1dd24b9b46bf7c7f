package app

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lazy is a mapper that finds a kind only if it is asked for a version of it.
type lazy struct {
	meta.RESTMapper
	served schema.GroupVersionKind
}

func (l lazy) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind == l.served.GroupKind() && slices.Contains(versions, l.served.Version) {
		return &meta.RESTMapping{GroupVersionKind: l.served}, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
}

func TestKindsOfAFurtherVersionAreFound(t *testing.T) {
	served := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "AWSCluster"}
	away := errors.New("it is away")
	asked := 0
	k := kinds{lazy{served: served}, func(group string) ([]string, error) {
		if asked++; asked > 2 {
			return nil, away
		}
		return versionsOf(&metav1.APIGroup{
			Versions:         []metav1.GroupVersionForDiscovery{{Version: "v1beta1"}, {Version: "v1beta2"}},
			PreferredVersion: metav1.GroupVersionForDiscovery{Version: "v1beta1"},
		}), nil
	}}
	if m, err := k.RESTMapping(served.GroupKind()); err != nil || m.GroupVersionKind != served {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := k.RESTMapping(schema.GroupKind{Group: served.Group, Kind: "FooCluster"}); !meta.IsNoMatchError(err) {
		t.Errorf("a kind that isn't there: %v", err)
	}
	if _, err := k.RESTMapping(served.GroupKind(), "v1beta1"); !meta.IsNoMatchError(err) || asked != 2 {
		t.Errorf("of a version that it isn't in: %v, after %d questions", err, asked)
	}
	if _, err := k.RESTMapping(served.GroupKind()); !errors.Is(err, away) {
		t.Errorf("a hub that is away: %v", err)
	}
}
