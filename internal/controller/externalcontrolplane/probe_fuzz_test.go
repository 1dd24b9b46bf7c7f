package externalcontrolplane

import (
	"net/http"
	"testing"

	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
)

// Whatever answers at a kubeconfig's server: what is shown of it is short, and who it is belongs to each that is available.
func FuzzAnswers(f *testing.F) {
	for _, text := range [][2]string{
		{`{"gitVersion": "v1.37.0"}`, `{"metadata": {"uid": "its-uid"}}`}, {`{"gitVersion": "<script>"}`, `{"metadata": {"uid": ""}}`},
		{`{"gitVersion": 7}`, `{"metadata": {"uid": "x"}}`}, {`null`, `null`}, {`{}`, `{"metadata": {"uid": "x", "creationTimestamp": "never"}}`}, {``, `[]`},
	} {
		f.Add(uint16(0), []byte(text[0]), []byte(text[1]))
	}
	f.Add(uint16(1), []byte(`{}`), []byte(`{}`))
	f.Add(uint16(201), []byte(`{}`), []byte(`{}`))
	var (
		status             int
		version, namespace []byte
	)
	cfg := server(f,
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = w.Write(version) }, // some statuses have no body
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(namespace) })
	f.Fuzz(func(t *testing.T, code uint16, first, second []byte) {
		status, version, namespace = 200+int(code)%400, first, second
		got := ask(t.Context(), cfg)
		if got.Reason == "" || got.available() != (got.ClusterUID != "") || got.available() == (got.Message != "") {
			t.Errorf("of %d %q and %q it makes %+v", status, version, namespace, got)
		}
		if len(got.Message) > 512 || len(got.Version) > mostVersion || len(got.ClusterUID) > mostUID || got.available() && status != http.StatusOK {
			t.Errorf("of %d %q and %q it makes %+v", status, version, namespace, got)
		}
		if got.Reason == controlplanev1.ReasonKubeconfigInvalid {
			t.Errorf("the kubeconfig is said to be wrong: %+v", got)
		}
	})
}
