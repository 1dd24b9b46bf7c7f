package externalcontrolplane

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// parse turns a kubeconfig into a client configuration. Errors say what to mend, in words that have nothing of its content.
//
// Whoever may write the Secret isn't who runs the manager: what would have this process read a file of its own, run a program, go
// through a proxy of his, or send credentials in clear or to whoever answers is refused.
func parse(kubeconfig []byte) (*rest.Config, error) {
	file, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it doesn't parse: put a kubeconfig in")
	}
	at := file.Contexts[file.CurrentContext]
	if at == nil {
		return nil, errors.New("current-context names none of its contexts: set it")
	}
	cluster, user := file.Clusters[at.Cluster], file.AuthInfos[at.AuthInfo]
	switch {
	case cluster == nil:
		return nil, errors.New("its context names none of its clusters: mend contexts")
	case user == nil:
		return nil, errors.New("its context names none of its users: mend contexts")
	}
	if err := selfContained(cluster, user); err != nil {
		return nil, err
	}
	if u, err := url.Parse(cluster.Server); err != nil || len(cluster.Server) > mostServer || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("cluster.server must be https://host:port, with %d bytes at most", mostServer)
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*file, file.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, errors.New("its cluster or user isn't complete: mend it, until kubectl takes it")
	}
	return cfg, nil
}

// selfContained says what a kubeconfig has outside of itself, and whether it leaves open who is to answer.
func selfContained(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	switch {
	case cluster.CertificateAuthority != "":
		return errors.New("cluster.certificate-authority names a file: put its content into certificate-authority-data")
	case cluster.ProxyURL != "":
		return errors.New("cluster.proxy-url leads elsewhere: take it out, and have cluster.server be one that is reached directly")
	case cluster.InsecureSkipTLSVerify:
		return errors.New("cluster.insecure-skip-tls-verify sends the credentials to whoever answers: take it out, and put the server's authority into certificate-authority-data")
	case user.ClientCertificate != "":
		return errors.New("user.client-certificate names a file: put its content into client-certificate-data")
	case user.ClientKey != "":
		return errors.New("user.client-key names a file: put its content into client-key-data")
	case user.TokenFile != "":
		return errors.New("user.tokenFile names a file: put its content into token")
	case user.Exec != nil:
		return errors.New("user.exec runs a program: use a token or a client certificate")
	case user.AuthProvider != nil:
		return errors.New("user.auth-provider isn't supported: use a token or a client certificate")
	}
	return nil
}
