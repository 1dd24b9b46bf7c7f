package externalcontrolplane

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// hidden stands in each place of a kubeconfig whose content nobody is to read elsewhere.
const hidden = "sEcReT"

func kubeconfig(t *testing.T, change func(*clientcmdapi.Config, *clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cluster, user := &clientcmdapi.Cluster{Server: "https://api.example.com:6443/sub"}, &clientcmdapi.AuthInfo{Token: hidden}
	cfg.Clusters["c"], cfg.AuthInfos["u"], cfg.Contexts["x"], cfg.CurrentContext = cluster, user, &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	if change != nil {
		change(cfg, cluster, user)
	}
	b, err := clientcmd.Write(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Nothing of the manager's machine is used, and what is wrong is told without what is in it.
func TestWhatOfAKubeconfigIsUsed(t *testing.T) {
	with := func(change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
		return kubeconfig(t, func(_ *clientcmdapi.Config, c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { change(c, u) })
	}
	whole := func(change func(*clientcmdapi.Config)) []byte {
		return kubeconfig(t, func(x *clientcmdapi.Config, _ *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { change(x) })
	}
	for name, c := range map[string]struct {
		kubeconfig []byte
		says       string // "": it is taken
	}{
		"a token": {kubeconfig(t, nil), ""},
		"basic": {with(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.Username, u.Password = "", "a", hidden
		}), ""},
		"unused programs": {whole(func(x *clientcmdapi.Config) { x.AuthInfos["other"] = &clientcmdapi.AuthInfo{TokenFile: hidden} }), ""},
		"nothing":         {nil, "current-context"},
		"garbage":         {[]byte("\x00" + hidden), "doesn't parse"},
		"a scalar":        {[]byte("users: " + hidden), "doesn't parse"},
		"no context":      {whole(func(x *clientcmdapi.Config) { x.CurrentContext = "" }), "current-context"},
		"another context": {whole(func(x *clientcmdapi.Config) { x.CurrentContext = hidden }), "current-context"},
		"no cluster":      {whole(func(x *clientcmdapi.Config) { delete(x.Clusters, "c") }), "clusters"},
		"no user":         {whole(func(x *clientcmdapi.Config) { delete(x.AuthInfos, "u") }), "users"},
		"no server":       {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "" }), "cluster.server"},
		"in clear":        {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "http://api.example.com" }), "cluster.server"},
		"no host":         {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://" }), "cluster.server"},
		"no URL":          {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://a b" + hidden }), "cluster.server"},
		"longer than a status": {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = "https://" + strings.Repeat("a", mostServer)
		}), "cluster.server"},
		"a user in it":   {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://u:" + hidden + "@a" }), "cluster.server"},
		"authority file": {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthority = "/" + hidden }), "certificate-authority-data"},
		"certificate file": {with(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.ClientCertificate, u.ClientKeyData = "", "/"+hidden, []byte(hidden)
		}), "client-certificate-data"},
		"key file": {with(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.ClientCertificateData, u.ClientKey = "", []byte(hidden), "/"+hidden
		}), "client-key-data"},
		"token file": {with(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token, u.TokenFile = "", "/"+hidden }), "token"},
		"a program": {with(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: hidden, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}), "user.exec"},
		"a plugin": {with(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: hidden}
		}), "user.auth-provider"},
		"a proxy":         {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "http://" + hidden }), "cluster.proxy-url"},
		"a SOCKS proxy":   {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "socks5://" + hidden }), "cluster.proxy-url"},
		"whoever answers": {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.InsecureSkipTLSVerify = true }), "certificate-authority-data"},
		"whoever answers, with an authority": {with(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, []byte(hidden)
		}), "cluster.insecure-skip-tls-verify"},
		"unused ways": {whole(func(x *clientcmdapi.Config) {
			x.Clusters["other"] = &clientcmdapi.Cluster{ProxyURL: "http://" + hidden, InsecureSkipTLSVerify: true}
		}), ""},
		"a certificate without key": {with(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.ClientCertificateData = "", []byte(hidden)
		}), "isn't complete"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parse(c.kubeconfig)
			switch {
			case c.says == "" && err != nil:
				t.Fatal(err)
			case c.says == "":
				if cfg.Host != "https://api.example.com:6443/sub" {
					t.Errorf("the host is %s", cfg.Host)
				}
			case err == nil || !strings.Contains(err.Error(), c.says):
				t.Errorf("got %v, not %s", err, c.says)
			case strings.Contains(err.Error(), hidden):
				t.Errorf("%q tells what nobody is to read", err)
			}
		})
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: {token: t}}]\n"))
	f.Add([]byte("current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'https://a', proxy-url: 'http://b', insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: t}}]\n"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg, err := parse(b)
		if err == nil && (!strings.HasPrefix(cfg.Host, "https://") || cfg.BearerTokenFile != "" || cfg.CAFile != "" || cfg.CertFile != "" || cfg.KeyFile != "" || cfg.ExecProvider != nil || cfg.Proxy != nil || cfg.Insecure) {
			t.Errorf("%+v", cfg)
		}
	})
}
