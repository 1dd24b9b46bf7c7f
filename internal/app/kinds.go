package app

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// kinds says in which version the hub serves a kind. The mapper below remembers which versions a group has, so that it never finds a kind that
// comes in a further one, as most of Cluster API's providers' do: their group is ours too. Here the hub is asked again before a kind is missing.
type kinds struct {
	meta.RESTMapper
	versions func(group string) ([]string, error)
}

// newKinds is a manager's MapperProvider. It may be used concurrently.
func newKinds(cfg *rest.Config, h *http.Client) (meta.RESTMapper, error) {
	m, err := apiutil.NewDynamicRESTMapper(cfg, h)
	if err != nil {
		return nil, err
	}
	hub, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, h)
	if err != nil {
		return nil, err
	}
	return kinds{m, func(group string) ([]string, error) {
		if group == "" { // has one version
			return nil, nil
		}
		g := &metav1.APIGroup{}
		// Without a context, as the mapper below asks: its interface gives none.
		err := hub.RESTClient().Get().AbsPath("apis", group).Do(context.Background()).Into(g)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("asking the hub for group %s: %w", group, err)
		}
		return versionsOf(g), nil
	}}, nil
}

// versionsOf a group, the preferred one first.
func versionsOf(g *metav1.APIGroup) []string {
	out := []string{g.PreferredVersion.Version}
	for _, v := range g.Versions {
		if v.Version != out[0] {
			out = append(out, v.Version)
		}
	}
	return out
}

// RESTMapping is in one of the versions, or without any in that which the hub prefers.
func (k kinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	found, missing := k.RESTMapper.RESTMapping(kind, versions...)
	if len(versions) > 0 || !meta.IsNoMatchError(missing) {
		return found, missing
	}
	served, err := k.versions(kind.Group)
	if err != nil {
		return nil, err
	}
	for _, v := range served {
		if found, err := k.RESTMapper.RESTMapping(kind, v); !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	return nil, missing
}
