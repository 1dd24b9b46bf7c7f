package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
)

func newClient(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func TestObjectsSurviveAnAPIServerRestart(t *testing.T) {
	c := kubetest.Start(t, testkit.Options{Name: "restart"})
	admin := newClient(t, c.Kubeconfig())
	if err := admin.Create(t.Context(), configMap("before")); err != nil {
		t.Fatal(err)
	}
	if err := c.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := admin.Get(ctx, client.ObjectKeyFromObject(configMap("before")), configMap("")); err == nil {
		t.Fatal("the stopped API server answers")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(configMap("before")), configMap("")); err != nil {
		t.Fatal(err)
	}
	// The controllers found it again.
	if err := admin.Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "after"}}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, 30*time.Second, "a service account in a new namespace", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: "after", Name: "default"}, &v1.ServiceAccount{})
	})
}

func TestControlPlanesStartSideBySide(t *testing.T) {
	var planes [3]*testkit.ControlPlane
	var errs [3]error
	var all sync.WaitGroup
	for i := range planes {
		all.Go(func() { planes[i], errs[i] = testkit.Start(t.Context(), testkit.Options{}) })
	}
	all.Wait()
	for _, c := range planes {
		if c != nil {
			defer func() {
				if err := c.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(c.Dir()); !os.IsNotExist(err) {
					t.Errorf("its directory is left: %v", err)
				}
			}()
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i, c := range planes {
		for _, other := range planes[i+1:] {
			if c.Subnet() == other.Subnet() {
				t.Errorf("two have subnet %s", c.Subnet())
			}
		}
	}
}

func TestUsersHaveTheirRightsAndTheirNameInTheAuditLog(t *testing.T) {
	c := kubetest.Start(t, testkit.Options{Name: "users", Audit: true})
	path, err := c.UserKubeconfig("jane", "developers")
	if err != nil {
		t.Fatal(err)
	}
	if err := newClient(t, path).Create(t.Context(), configMap("jane")); !apierrors.IsForbidden(err) {
		t.Errorf("a user without a role: %v", err)
	}
	path, err = c.UserKubeconfig("root", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	_, offset, err := c.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := newClient(t, path).Create(t.Context(), configMap("root")); err != nil {
		t.Fatal(err)
	}
	path, err = c.ServiceAccountKubeconfig(t.Context(), "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	if err := newClient(t, path).Create(t.Context(), configMap("account")); !apierrors.IsForbidden(err) {
		t.Errorf("a service account without a role: %v", err)
	}
	writes, _, err := c.Writes(offset)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"root": 201, "system:serviceaccount:default:default": 403}
	for _, w := range writes {
		if code, ok := want[w.User]; ok && w.Verb == "create" && w.Resource == "configmaps" && w.StatusCode == code {
			delete(want, w.User)
		}
	}
	if len(want) > 0 {
		t.Errorf("not in the audit log: %v; there: %+v", want, writes)
	}
}

func TestQuotaCounts(t *testing.T) {
	c := kubetest.Start(t, testkit.Options{Name: "quota", Quota: true, PriorityAndFairness: true})
	admin := newClient(t, c.Kubeconfig())
	quota := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"}}
	quota.Spec.Hard = v1.ResourceList{"count/configmaps": quantity("2")} // one is the root CA
	if err := admin.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, 30*time.Second, "the count", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if n := quota.Status.Used["count/configmaps"]; n.Value() != 1 {
			return errors.New(n.String())
		}
		return nil
	})
	if err := admin.Create(t.Context(), configMap("second")); err != nil {
		t.Fatal(err)
	}
	// The API server knows a quota by a watch of its own, which may lag, and what came before is counted later.
	kubetest.Eventually(t, 30*time.Second, "the refusal beyond the quota", func(ctx context.Context) error {
		if err := admin.Create(ctx, configMap("third"), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("it must be forbidden, and got %v", err)
		}
		return nil
	})
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	_, err := testkit.Start(t.Context(), testkit.Options{KubeBinary: filepath.Join(t.TempDir(), "kube")})
	if !errors.Is(err, testkit.ErrNoKubeBinary) {
		t.Errorf("without a binary: %v", err)
	}
	_, err = testkit.Start(t.Context(), testkit.Options{APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !contains(err, "unknown flag: --no-such-flag") {
		t.Errorf("with a wrong flag: %v", err)
	}
}
