package app

import (
	"fmt"
	"io"
	"log/slog"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	"fairlead.dev/fairlead/internal/version"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Scheme returns a new scheme with Kubernetes' own kinds and ours.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return s, nil
}

// LoadConfig reads a kubeconfig: the file named, else $KUBECONFIG, else the
// home directory's, else the Pod's own. component names us in the user agent.
// The client is not throttled: the API server's priority and fairness is.
func LoadConfig(kubeconfig, context, component string) (*rest.Config, error) {
	cfg, _, err := LoadConfigAndNamespace(kubeconfig, context, component)
	return cfg, err
}

// LoadConfigAndNamespace is LoadConfig with the context's namespace.
func LoadConfigAndNamespace(kubeconfig, context, component string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading kubeconfig %q: %w", kubeconfig, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the namespace of kubeconfig %q: %w", kubeconfig, err)
	}
	cfg.UserAgent = "fairlead-" + component + "/" + version.String()
	cfg.QPS, cfg.Burst = -1, -1
	return cfg, namespace, nil
}

// LogOptions choose how a process logs.
type LogOptions struct {
	// Format is text or json.
	Format string
	// Level is debug, info, warn or error.
	Level string
}

// NewLogger writes to w as the options say.
func NewLogger(w io.Writer, o LogOptions) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.Level)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	h := &slog.HandlerOptions{Level: level}
	switch o.Format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, h)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, h)), nil
	}
	return nil, fmt.Errorf("--log-format %q: must be text or json", o.Format)
}
