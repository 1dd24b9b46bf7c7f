package service_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// fieldsOf are the names of a kind's fields as users write them.
func fieldsOf[T any](prefix string) []string {
	var out []string
	for f := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, prefix+name)
	}
	return out
}

// Whoever reads docs/services.md finds every field of a Service there.
func TestEveryFieldOfAServiceIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/services.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := append(fieldsOf[v1.ServiceSpec](""), fieldsOf[v1.ServicePort]("ports[].")...)
	if len(fields) < 25 {
		t.Fatalf("only %d fields: %q", len(fields), fields)
	}
	for _, f := range fields {
		if f != "ports" && !strings.Contains(string(page), "`"+f+"`") {
			t.Errorf("docs/services.md doesn't say what %s does", f)
		}
	}
}

func TestWhatIsNotALoadBalancersChangesNothing(t *testing.T) {
	for name, change := range map[string]func(*v1.Service){
		"targetPort":  func(s *v1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") },
		"appProtocol": func(s *v1.Service) { s.Spec.Ports[0].AppProtocol = ptr.To("kubernetes.io/h2c") },
		"selector":    func(s *v1.Service) { s.Spec.Selector = map[string]string{"app": "web"} },
		"clusterIP": func(s *v1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.9", []string{"10.96.0.9"}
		},
		"externalIPs":              func(s *v1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.9"} },
		"externalName":             func(s *v1.Service) { s.Spec.ExternalName = "example.com" },
		"publishNotReadyAddresses": func(s *v1.Service) { s.Spec.PublishNotReadyAddresses = true },
		"internalTrafficPolicy":    func(s *v1.Service) { s.Spec.InternalTrafficPolicy = ptr.To(v1.ServiceInternalTrafficPolicyLocal) },
	} {
		if got := service.Want(web(change), "", nil); !equality.Semantic.DeepEqual(got.Spec, plain()) || len(got.Problems) > 0 {
			t.Errorf("%s: %+v, %+v", name, got.Spec, got.Problems)
		}
	}
}
