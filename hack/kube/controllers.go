package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"

	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	sacontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"fairlead.dev/fairlead/hack/kube/scheduler"
)

// Every controller below but scheduler is the one kube-controller-manager runs, wired
// the way cmd/kube-controller-manager/app wires it, with that command's default settings.
var defaultControllers = []string{
	"namespace", "serviceaccount", "serviceaccount-token", "root-ca-publisher",
	"clusterrole-aggregation", "garbage-collector", "endpointslice",
	"deployment", "replicaset", "node-lifecycle", "taint-eviction", "scheduler",
}

// Off unless asked for: endpointslice-mirroring, which only serves Endpoints without
// a selector, and resourcequota, which needs the admission plugin of that name.

type controllerEnv struct {
	ctx      context.Context
	cfg      *rest.Config
	inf      informers.SharedInformerFactory
	start    []func(context.Context)
	started  chan struct{}
	saKey    string
	rootCA   []byte
	gcPeriod time.Duration
	grace    time.Duration
}

func (e *controllerEnv) config(name string) *rest.Config {
	return rest.AddUserAgent(rest.CopyConfig(e.cfg), name)
}

func (e *controllerEnv) client(name string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(e.config(name))
}

func (e *controllerEnv) add(f func(context.Context)) { e.start = append(e.start, f) }

func (e *controllerEnv) addWorkers(run func(context.Context, int), n int) {
	e.add(func(ctx context.Context) { run(ctx, n) })
}

func runControllers(ctx context.Context, args []string) error {
	fs := pflag.NewFlagSet("controllers", pflag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig with cluster-admin rights")
	saKey := fs.String("service-account-private-key-file", "", "key to sign legacy service account tokens")
	rootCA := fs.String("root-ca-file", "", "CA certificate published to every namespace")
	names := fs.StringSlice("controllers", defaultControllers, "controllers to run")
	gcPeriod := fs.Duration("gc-discovery-period", 30*time.Second, "how often the garbage collector looks for new kinds")
	grace := fs.Duration("node-monitor-grace-period", 50*time.Second, "time without a node heartbeat until it is NotReady")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	// kube-controller-manager limits itself to 20 requests a second; loopback needs no limit.
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"

	e := &controllerEnv{ctx: ctx, cfg: cfg, started: make(chan struct{}), saKey: *saKey, gcPeriod: *gcPeriod, grace: *grace}
	if *rootCA != "" {
		if e.rootCA, err = os.ReadFile(*rootCA); err != nil {
			return err
		}
	}
	trim := func(o any) (any, error) {
		if a, err := meta.Accessor(o); err == nil && a.GetManagedFields() != nil {
			a.SetManagedFields(nil)
		}
		return o, nil
	}
	e.inf = informers.NewSharedInformerFactoryWithOptions(e.client("shared-informers"), 12*time.Hour, informers.WithTransform(trim))
	mdc := metadata.NewForConfigOrDie(jsonConfig(e.config("metadata-informers")))
	mdInf := metadatainformer.NewSharedInformerFactoryWithOptions(mdc, 12*time.Hour, metadatainformer.WithTransform(trim))

	probe := e.client("wait")
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 60*time.Second, true, func(ctx context.Context) (bool, error) {
		b, err := probe.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil && string(b) == "ok", nil
	})
	if err != nil {
		return fmt.Errorf("API server is not ready: %w", err)
	}
	for _, n := range *names {
		if err := e.build(n, informerfactory.NewInformerFactory(e.inf, mdInf)); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	for _, f := range e.start {
		go f(ctx)
	}
	e.inf.Start(ctx.Done())
	mdInf.Start(ctx.Done())
	close(e.started)
	klog.InfoS("Controllers started", "controllers", strings.Join(*names, ","))
	<-ctx.Done()
	return nil
}

// jsonConfig lets the metadata client choose its own content type.
func jsonConfig(c *rest.Config) *rest.Config {
	c.ContentType, c.AcceptContentTypes = "", ""
	return c
}

func (e *controllerEnv) build(name string, all informerfactory.InformerFactory) error {
	ctx, core, apps := e.ctx, e.inf.Core().V1(), e.inf.Apps().V1()
	switch name {
	case "namespace":
		cfg := e.config("namespace-controller")
		c := kubernetes.NewForConfigOrDie(cfg)
		nc := namespace.NewNamespaceController(ctx, c, metadata.NewForConfigOrDie(jsonConfig(rest.CopyConfig(cfg))),
			c.Discovery().ServerPreferredNamespacedResources, core.Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)
		e.addWorkers(nc.Run, 10)
	case "serviceaccount":
		c, err := sacontroller.NewServiceAccountsController(klog.FromContext(ctx), core.ServiceAccounts(), core.Namespaces(),
			e.client("service-account-controller"), sacontroller.DefaultServiceAccountsControllerOptions())
		if err != nil {
			return err
		}
		e.addWorkers(c.Run, 1)
	case "serviceaccount-token":
		key, err := keyutil.PrivateKeyFromFile(e.saKey)
		if err != nil {
			return err
		}
		gen, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
		if err != nil {
			return err
		}
		c, err := sacontroller.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), e.client("tokens-controller"),
			sacontroller.TokensControllerOptions{TokenGenerator: gen, RootCA: e.rootCA})
		if err != nil {
			return err
		}
		e.addWorkers(c.Run, 5)
	case "root-ca-publisher":
		c, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), e.client("root-ca-cert-publisher"), e.rootCA)
		if err != nil {
			return err
		}
		e.addWorkers(c.Run, 1)
	case "clusterrole-aggregation":
		c := clusterroleaggregation.NewClusterRoleAggregation(e.inf.Rbac().V1().ClusterRoles(), e.client("clusterrole-aggregation-controller").RbacV1())
		e.addWorkers(c.Run, 5)
	case "garbage-collector":
		dc := e.client("generic-garbage-collector")
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(dc.Discovery()))
		mdc := metadata.NewForConfigOrDie(jsonConfig(e.config("generic-garbage-collector")))
		c, err := garbagecollector.NewGarbageCollector(ctx, dc, mdc, mapper, garbagecollector.DefaultIgnoredResources(), all, e.started)
		if err != nil {
			return err
		}
		e.add(func(ctx context.Context) { c.Run(ctx, 20, e.gcPeriod) })
		e.add(func(ctx context.Context) { c.Sync(ctx, dc.Discovery(), e.gcPeriod) })
	case "endpointslice":
		c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), e.inf.Discovery().V1().EndpointSlices(), 100,
			e.client("endpointslice-controller"), 0)
		e.addWorkers(c.Run, 5)
	case "endpointslice-mirroring":
		c := endpointslicemirroring.NewController(ctx, core.Endpoints(), e.inf.Discovery().V1().EndpointSlices(), core.Services(), 1000,
			e.client("endpointslicemirroring-controller"), 0)
		e.addWorkers(c.Run, 5)
	case "deployment":
		c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), e.client("deployment-controller"))
		if err != nil {
			return err
		}
		e.addWorkers(c.Run, 5)
	case "replicaset":
		c := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), e.client("replicaset-controller"), replicaset.BurstReplicas)
		e.addWorkers(c.Run, 5)
	case "node-lifecycle":
		c, err := nodelifecycle.NewNodeLifecycleController(ctx, e.inf.Coordination().V1().Leases(), core.Pods(), core.Nodes(), apps.DaemonSets(),
			e.client("node-controller"), 5*time.Second, time.Minute, e.grace, 0.1, 0.01, 50, 0.55)
		if err != nil {
			return err
		}
		e.add(c.Run)
	case "scheduler":
		c, err := scheduler.New(e.client("scheduler"), core.Pods(), core.Nodes())
		if err != nil {
			return err
		}
		e.add(c.Run)
	case "resourcequota":
		return e.buildResourceQuota(all)
	case "taint-eviction":
		c, err := tainteviction.New(ctx, e.client("node-controller"), core.Pods(), core.Nodes(), "taint-eviction-controller")
		if err != nil {
			return err
		}
		e.add(c.Run)
	default:
		return fmt.Errorf("unknown controller")
	}
	return nil
}
