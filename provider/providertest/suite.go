package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/contract"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Suite tests one provider. The API server is for it alone: it installs Fairlead's kinds; where Cluster API isn't there, a Cluster
// without a schema; and an InfraCluster of its own, which it lets everybody get, and for a while nobody.
type Suite struct {
	// Config of an administrator of an API server that has the provider's own CRD.
	Config *rest.Config
	// ControllerConfig is of the identity that the controller runs as. Default: Config.
	ControllerConfig *rest.Config
	// Options as in production. The suite shortens Resync, and Timeout and Poll where they aren't set, so that what is done at times is done soon.
	Options provider.Options
	// AddToScheme adds the provider's kind.
	AddToScheme func(*runtime.Scheme) error
	// New returns an object of the provider's kind that its CRD takes, without name and contract fields.
	New func() provider.Object
	// Endpoint returns one that the provider can serve, another one at each call.
	Endpoint func() clusterv1.Endpoint
	// Members are at least three addresses that take connections at TargetPort, as long as the suite runs.
	Members    []string
	TargetPort int32
	// Patience is how long anything may take. Default: 1 min.
	Patience time.Duration
	// Only are the names of the stories to be told. Default: all of them, and the controller's restart.
	Only []string
}

// stage is what a story plays on.
type stage struct {
	Suite
	api    client.Client
	faults *faulty
	stop   func() error
}

// Run runs all stories, at once where testing's flag -parallel lets it.
func (s Suite) Run(t *testing.T) {
	if len(s.Members) < 3 || s.New == nil || s.Endpoint == nil || s.AddToScheme == nil || s.TargetPort == 0 {
		t.Fatal("providertest.Suite: set New, Endpoint, AddToScheme, TargetPort, and three Members")
	}
	for _, name := range s.Only {
		if stories[name] == nil {
			t.Fatalf("providertest.Suite: Only: there is no story %q", name)
		}
	}
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	if s.ControllerConfig == nil {
		s.ControllerConfig = s.Config
	}
	g := &stage{Suite: s, faults: &faulty{Provider: s.Options.Provider, owners: map[string]*owner{}}}
	g.Options.Provider, g.Options.Resync = g.faults, time.Second
	g.Options.InfraClusters = append(slices.Clip(g.Options.InfraClusters), provider.InfraCluster{GroupKind: familyKind.GroupKind(), CredentialField: familyField})
	if g.Options.Timeout == 0 {
		g.Options.Timeout = 2 * time.Second
	}
	if g.Options.Poll == 0 {
		g.Options.Poll = 200 * time.Millisecond
	}
	g.install(t)
	g.start(t)
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("the controller: %v", err)
		}
	})
	t.Run("stories", func(t *testing.T) {
		for name, story := range stories {
			if len(s.Only) > 0 && !slices.Contains(s.Only, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(g.play(t))
			})
		}
	})
	if len(s.Only) > 0 {
		return
	}
	t.Run("a controller that starts again changes nothing", func(t *testing.T) { restarted(g.play(t), g) })
}

// install has the API server serve Fairlead's kinds and Clusters.
func (g *stage) install(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(provider.AddToScheme(scheme), g.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), eventsv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(fast(g.Config), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	g.api = api
	ctx, cancel := context.WithTimeout(t.Context(), g.Patience)
	defer cancel()
	if err := crd.Install(ctx, fast(g.Config)); err != nil {
		t.Fatal(err)
	}
	for _, k := range []schema.GroupVersionKind{clusterKind.WithVersion(clusterVersion), familyKind, secretiveKind} {
		g.serve(ctx, t, k)
	}
	if err := g.mayReadFamily(ctx, true); err != nil {
		t.Fatal(err)
	}
}

// serve has the API server serve a stand-in of a kind that it doesn't serve.
func (g *stage) serve(ctx context.Context, t *testing.T, kind schema.GroupVersionKind) {
	t.Helper()
	_, err := g.api.RESTMapper().RESTMapping(kind.GroupKind())
	if err == nil {
		return
	}
	if !meta.IsNoMatchError(err) {
		t.Fatal(err)
	}
	if err := g.api.Create(ctx, standIn(kind)); err != nil {
		t.Fatal(err)
	}
	eventually(t, g.Patience, kind.Kind+"s to be served", func(ctx context.Context) error {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return g.api.List(ctx, l)
	})
}

func fast(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = -1, -1
	return c
}

// start runs the controller until stop.
func (g *stage) start(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(provider.AddToScheme(scheme), g.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	several := true
	mgr, err := ctrl.NewManager(fast(g.ControllerConfig), ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &several},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := provider.Setup(ctx, mgr, g.Options); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	g.stop = func() error {
		cancel()
		return <-ended
	}
}

// eventually waits until f returns nil.
func eventually(t *testing.T, patience time.Duration, what string, f func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := f(ctx)
		if err == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, errors.Join(err, last))
	}
}

// is says why a condition isn't Type=Status/Reason; a want may end at the status.
func is(o provider.Object, want string) error {
	_, status := o.Contract()
	kind, rest, _ := strings.Cut(want, "=")
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s yet", kind)
	}
	if got := string(c.Status) + "/" + c.Reason; got != rest && string(c.Status) != rest {
		return fmt.Errorf("%s is %s (%s), not %s", kind, got, c.Message, rest)
	}
	if c.ObservedGeneration != o.GetGeneration() {
		return fmt.Errorf("%s is of generation %d, not %d", kind, c.ObservedGeneration, o.GetGeneration())
	}
	return nil
}

// isGone says why an object isn't.
func isGone(ctx context.Context, api client.Client, o client.Object) error {
	err := api.Get(ctx, client.ObjectKeyFromObject(o), o)
	if err == nil {
		return errors.New("it is there")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// contractOf returns an object's spec, for short.
func contractOf(o provider.Object) *contract.Spec {
	spec, _ := o.Contract()
	return spec
}

// objectMeta of a story's objects.
func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
