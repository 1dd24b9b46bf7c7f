package testkit

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	authentication "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is how long a ServiceAccount's token is valid.
const tokenLife = 24 * time.Hour

const mastersGroup = "system:masters"

// writeKeys makes all keys and certificates and writes the files that the parts read.
func (c *ControlPlane) writeKeys() error {
	var err error
	if c.ca, err = newAuthority(); err != nil {
		return err
	}
	server, err := c.ca.server(c.subnet.host(1))
	if err != nil {
		return err
	}
	_, tokens, err := newKey()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt":            c.ca.pem,
		"apiserver.crt":     server.cert,
		"apiserver.key":     server.key,
		"sa.key":            tokens,
		"audit-policy.yaml": []byte(auditPolicy),
	} {
		if err := os.WriteFile(c.path(name), data, 0o600); err != nil {
			return err
		}
	}
	// Parts have names of their own, so that the audit log tells who wrote what.
	for file, user := range map[string]string{
		c.Kubeconfig():                   "admin",
		c.path("controllers.kubeconfig"): "kube-controllers",
		c.path("nodes.kubeconfig"):       "hollow-nodes",
	} {
		if err := c.writeUserKubeconfig(file, user, mastersGroup); err != nil {
			return err
		}
	}
	return c.loadConfig()
}

// UserKubeconfig writes a kubeconfig with a client certificate of a user and returns
// its path. Group system:masters may do everything; others have what RBAC gives them.
func (c *ControlPlane) UserKubeconfig(user string, groups ...string) (string, error) {
	f, err := c.newKubeconfigFile("user-*.kubeconfig")
	if err != nil {
		return "", err
	}
	return f, c.writeUserKubeconfig(f, user, groups...)
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of an existing
// ServiceAccount, valid for a day, and returns its path.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	seconds := int64(tokenLife / time.Second)
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &seconds}}
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	if err := c.call(ctx, http.MethodPost, path, request, request); err != nil {
		return "", fmt.Errorf("requesting token of service account %s/%s: %w", namespace, name, err)
	}
	f, err := c.newKubeconfigFile("serviceaccount-*.kubeconfig")
	if err != nil {
		return "", err
	}
	return f, c.writeKubeconfig(f, &clientcmdapi.AuthInfo{Token: request.Status.Token}, namespace)
}

func (c *ControlPlane) newKubeconfigFile(pattern string) (string, error) {
	f, err := os.CreateTemp(c.dir, pattern)
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

func (c *ControlPlane) writeUserKubeconfig(file, user string, groups ...string) error {
	pair, err := c.ca.client(user, groups)
	if err != nil {
		return err
	}
	return c.writeKubeconfig(file, &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}, "")
}

func (c *ControlPlane) writeKubeconfig(file string, who *clientcmdapi.AuthInfo, namespace string) error {
	name := c.options.Name
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: c.url("https", apiServerPort), CertificateAuthorityData: c.ca.pem}
	cfg.AuthInfos[name] = who
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	cfg.CurrentContext = name
	if err := clientcmd.WriteToFile(*cfg, file); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}
