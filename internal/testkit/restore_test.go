package testkit_test

import (
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
)

func TestAControlPlaneStartsAnew(t *testing.T) {
	c := kubetest.Start(t, testkit.Options{Name: "anew"})
	admin := newClient(t, c.Kubeconfig())
	uid := func() string {
		t.Helper()
		var ns v1.Namespace
		if err := admin.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &ns); err != nil {
			t.Fatal(err)
		}
		return string(ns.UID)
	}
	has := func(name string) bool {
		t.Helper()
		err := admin.Get(t.Context(), client.ObjectKeyFromObject(configMap(name)), configMap(""))
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return !apierrors.IsNotFound(err)
	}
	create := func(name string) int {
		t.Helper()
		cm := configMap(name)
		if err := admin.Create(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		version, err := strconv.Atoi(cm.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}

	create("before")
	first := uid()
	saved, err := c.SaveCopy()
	if err != nil {
		t.Fatal(err)
	}
	newest := create("after")

	if err := c.Restore(t.Context(), saved, 0); err != nil {
		t.Fatal(err)
	}
	if uid() != first || !has("before") || has("after") {
		t.Errorf("restored: same cluster %v, old object %v, new object %v", uid() == first, has("before"), has("after"))
	}

	if err := c.Restore(t.Context(), saved, 1000); err != nil {
		t.Fatal(err)
	}
	if has("after") {
		t.Error("it has not gone back")
	}
	if v := create("bumped"); v < newest+500 {
		t.Errorf("the revision is %d after %d", v, newest)
	}

	if err := c.Empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if uid() == first || has("before") {
		t.Errorf("emptied: same cluster %v, old object %v", uid() == first, has("before"))
	}
}
