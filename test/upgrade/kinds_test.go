package upgrade

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/testkit"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// installBefore gives the hub the kinds and roles of the version before. What only this version has stays.
func (s *site) installBefore(ctx context.Context) error {
	root, err := testkit.ModuleRoot()
	if err != nil {
		return err
	}
	names, err := run(root, "git", "ls-tree", "--name-only", s.commit, "config/crd/", "config/rbac/hub/")
	if err != nil {
		return err
	}
	applied := 0
	for _, name := range strings.Fields(names) {
		if path.Ext(name) != ".yaml" || path.Base(name) == "kustomization.yaml" {
			continue
		}
		text, err := run(root, "git", "show", s.commit+":"+name)
		if err != nil {
			return err
		}
		for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096); ; {
			u := &unstructured.Unstructured{}
			if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			if len(u.Object) == 0 || u.GetKind() == "" || strings.HasPrefix(u.GetAPIVersion(), "flowcontrol.apiserver.k8s.io/") {
				continue // the fleet's hub shares nothing out
			}
			if err := s.Hub.Apply(ctx, u); err != nil {
				return err
			}
			applied++
		}
	}
	if applied == 0 {
		return errors.New("the version before has no kinds")
	}
	return nil
}

// installNow is the first step of an upgrade.
func (s *site) installNow(ctx context.Context) error {
	if err := crd.Install(ctx, s.Hub.RESTConfig()); err != nil {
		return err
	}
	return rbac.InstallHub(ctx, s.Hub.RESTConfig())
}
