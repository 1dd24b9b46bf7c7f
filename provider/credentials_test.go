package provider

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

const infraGroup = "infrastructure.cluster.x-k8s.io"

// kept is an object with the contract's spec alone.
type kept struct {
	*unstructured.Unstructured
	spec contract.Spec
}

func (k *kept) Contract() (*contract.Spec, *contract.Status) { return &k.spec, nil }

func newKept(annotations map[string]string) *kept {
	k := &kept{Unstructured: &unstructured.Unstructured{}}
	k.SetNamespace("ns")
	k.SetName("lb")
	k.SetAnnotations(annotations)
	return k
}

// of is an object of namespace ns, named as its kind is in small letters.
func of(group, version, kind string, spec any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	u.SetNamespace("ns")
	u.SetName(strings.ToLower(kind))
	return u
}

// clusterOf refers to an infrastructure and a control plane, by their kinds.
func clusterOf(infra, plane string) *unstructured.Unstructured {
	return of(clusterKind.Group, "v1beta2", "Cluster", map[string]any{
		"infrastructureRef": map[string]any{"apiGroup": infraGroup, "kind": infra, "name": strings.ToLower(infra)},
		"controlPlaneRef":   map[string]any{"apiVersion": infraGroup + "/v1", "kind": plane, "name": strings.ToLower(plane)},
	})
}

// reading is a reconciler of a provider whose family has an AWSCluster, an AzureCluster and a FooCluster, and that may not read one kind.
func reading(t *testing.T, forbidden string, there ...client.Object) *reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: infraGroup, Version: "v1"}})
	for _, k := range []string{"AWSCluster", "AzureCluster", "FooCluster", "DockerCluster"} {
		kinds.Add(schema.GroupVersionKind{Group: infraGroup, Version: "v1", Kind: k}, meta.RESTScopeNamespace)
	}
	there = append(there, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "key"}, Data: map[string][]byte{"token": []byte("hidden")}})
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(there...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			kind := o.GetObjectKind().GroupVersionKind().Kind
			if _, isSecret := o.(*corev1.Secret); isSecret {
				kind = "Secret"
			}
			if kind == forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, key.Name, errors.New("user foo may not"))
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	family := func(kind, field string) InfraCluster {
		return InfraCluster{GroupKind: schema.GroupKind{Group: infraGroup, Kind: kind}, CredentialField: field}
	}
	return &reconciler{live: live, kinds: kinds, Options: Options{InfraClusters: []InfraCluster{
		family("AWSCluster", "identityRef"), family("AzureCluster", "identityRef"), family("FooCluster", ""),
	}}}
}

// Whose credentials are used, in the order of the proposal; and never the provider's own where others are named, or may be.
func TestCredentials(t *testing.T) {
	ref := func(group, kind, name string) *contract.CredentialReference {
		return &contract.CredentialReference{APIGroup: group, Kind: kind, Name: name}
	}
	named := func(fields ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			out[fields[i].(string)] = fields[i+1]
		}
		return out
	}
	last := map[string]string{contract.CredentialsAnnotation: `{"kind":"Secret","name":"key","namespace":"ns"}`}
	for name, tc := range map[string]struct {
		own         *contract.CredentialReference
		annotations map[string]string
		deleted     bool
		// infra is the Cluster's kind; "": there is no Cluster. field is what is in spec of what is there; nil: it isn't.
		infra     string
		spec      any
		forbidden string
		// want is group/kind/namespace/name; "": the provider's own. says is in the problem's message.
		want, says string
		secret     bool
	}{
		"nobody names any":                     {},
		"the object's own":                     {own: ref("", "Secret", "key"), want: "/Secret/ns/key", secret: true},
		"its own go first":                     {own: ref("foo", "Account", "a"), infra: "FooCluster", forbidden: "FooCluster", want: "foo/Account/ns/a"},
		"its own aren't there":                 {own: ref("", "", "none"), says: "spec.credentialRef"},
		"another family's aren't asked":        {infra: "DockerCluster", forbidden: "DockerCluster", spec: named("credentialRef", named("name", "key"))},
		"the family's names none":              {infra: "AWSCluster", spec: named()},
		"nor does an empty one":                {infra: "AWSCluster", spec: named("identityRef", named("kind", "", "name", nil))},
		"nor another field than its kind's":    {infra: "AWSCluster", spec: named("credentialRef", named("name", "key"))},
		"of the family, by the usual field":    {infra: "FooCluster", spec: named("credentialRef", named("name", "key")), want: "/Secret/ns/key", secret: true},
		"of the family, by its kind's field":   {infra: "AWSCluster", spec: named("identityRef", named("kind", "AWSClusterRoleIdentity", "name", "a")), want: infraGroup + "/AWSClusterRoleIdentity/ns/a"},
		"of another namespace, by its kind":    {infra: "AzureCluster", spec: named("identityRef", named("apiVersion", "g/v1", "kind", "AzureClusterIdentity", "namespace", "x", "name", "a")), want: "g/AzureClusterIdentity/x/a"},
		"a Secret, as core's":                  {infra: "AzureCluster", spec: named("identityRef", named("apiVersion", "v1", "kind", "Secret", "name", "key")), want: "/Secret/ns/key", secret: true},
		"a Secret of another namespace":        {infra: "AzureCluster", spec: named("identityRef", named("kind", "Secret", "namespace", "x", "name", "key")), says: "of namespace x"},
		"with what we don't know":              {infra: "FooCluster", spec: named("credentialRef", named("name", "key", "cloudName", "c", "cacert", int64(7))), want: "/Secret/ns/key", secret: true},
		"a Secret that isn't there":            {infra: "FooCluster", spec: named("credentialRef", named("name", "none")), says: "spec.credentialRef of FooCluster foocluster"},
		"no name":                              {infra: "AWSCluster", spec: named("identityRef", named("kind", "AWSClusterRoleIdentity")), says: "has no name"},
		"no object":                            {infra: "AWSCluster", spec: named("identityRef", "a"), says: "isn't an object"},
		"no text":                              {infra: "AWSCluster", spec: named("identityRef", named("name", int64(7))), says: "has a name that is no text"},
		"no spec":                              {infra: "AWSCluster", spec: "a", says: "spec.identityRef of AWSCluster awscluster"},
		"the family's may not be read":         {infra: "AWSCluster", forbidden: "AWSCluster", says: "user foo may not"},
		"nor at the end":                       {infra: "AWSCluster", forbidden: "AWSCluster", annotations: last, deleted: true, says: "user foo may not"},
		"the Secret may not be read":           {infra: "FooCluster", spec: named("credentialRef", named("name", "key")), forbidden: "Secret", says: "user foo may not"},
		"the family's isn't there yet":         {infra: "AWSCluster", says: "isn't there"},
		"it is no more":                        {infra: "AWSCluster", annotations: last, want: "/Secret/ns/key", secret: true},
		"the Cluster is no more":               {annotations: last, want: "/Secret/ns/key", secret: true},
		"it is no more, and was never used":    {infra: "AWSCluster", deleted: true},
		"an annotation of somebody else":       {infra: "AWSCluster", annotations: map[string]string{contract.CredentialsAnnotation: "mine"}, says: contract.CredentialsAnnotation},
		"an annotation that says nothing":      {annotations: map[string]string{contract.CredentialsAnnotation: "{}"}, says: contract.CredentialsAnnotation},
		"what the family names now goes first": {infra: "FooCluster", annotations: map[string]string{contract.CredentialsAnnotation: "mine"}, spec: named("credentialRef", named("name", "key")), want: "/Secret/ns/key", secret: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newKept(tc.annotations)
			o.spec.CredentialRef = tc.own
			if tc.deleted {
				now := metav1.Now()
				o.SetDeletionTimestamp(&now)
			}
			var there []client.Object
			var cluster *unstructured.Unstructured
			if tc.infra != "" {
				cluster = clusterOf(tc.infra, "Plane")
			}
			if tc.spec != nil {
				there = append(there, of(infraGroup, "v1", tc.infra, tc.spec))
			}
			got, problem, err := reading(t, tc.forbidden, there...).credentials(t.Context(), o, cluster)
			if err != nil {
				t.Fatal(err)
			}
			if tc.says != "" {
				if problem == nil || problem.reason != contract.ReasonCredentialsNotFound || !strings.Contains(problem.message, tc.says) {
					t.Errorf("the problem is %+v, with %+v", problem, got)
				}
				return
			}
			if problem != nil {
				t.Fatalf("the problem is %+v", problem)
			}
			text := ""
			if got.Ref != nil {
				text = strings.Join([]string{got.Ref.APIGroup, got.Ref.Kind, got.Namespace, got.Ref.Name}, "/")
			}
			if text != tc.want || (string(got.Secret["token"]) == "hidden") != tc.secret {
				t.Errorf("they are %q, %d keys", text, len(got.Secret))
			}
		})
	}
}

// What is remembered is what was used, and only where the object doesn't say it itself.
func TestCredentialsAreRemembered(t *testing.T) {
	o := newKept(nil)
	used := Credentials{Ref: &contract.CredentialReference{APIGroup: "g", Kind: "Account", Name: "a"}, Namespace: "x", Secret: Secret{"token": []byte("hidden")}}
	remember(o, used)
	got, err := remembered(o)
	if err != nil || got.Ref == nil || *got.Ref != *used.Ref || got.Namespace != "x" || strings.Contains(o.GetAnnotations()[contract.CredentialsAnnotation], "hidden") {
		t.Errorf("%v is remembered as %+v, %v", o.GetAnnotations(), got, err)
	}
	o.spec.CredentialRef = used.Ref
	remember(o, used)
	if len(o.GetAnnotations()) > 0 {
		t.Errorf("though it says it itself it has %v", o.GetAnnotations())
	}
}

// The fields by which InfraClusters name credentials, by their providers' own CRDs.
func TestCredentialFieldsOfInfraClusters(t *testing.T) {
	for kind, field := range map[string]string{"AWSCluster": "identityRef", "AzureCluster": "identityRef", "VSphereCluster": "identityRef", "GCPCluster": "credentialsRef"} {
		t.Run(kind, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("..", "internal", "endpoint", "testdata", "infraclusters", infraGroup+"_"+strings.ToLower(kind)+"s.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(b, crd); err != nil {
				t.Fatal(err)
			}
			for _, v := range crd.Spec.Versions {
				spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
				if !v.Served || spec.Properties[field].Properties["name"].Type == "string" {
					continue
				}
				t.Errorf("version %s has no spec.%s.name", v.Name, field)
			}
			example := map[string]any{"name": "a", "kind": "VSphereClusterIdentity"}
			got, err := namedBy(of(infraGroup, "v1", kind, map[string]any{field: example}), field)
			if err != nil || got.Ref == nil || got.Ref.Name != "a" || got.Ref.APIGroup != infraGroup {
				t.Errorf("it is read as %+v, %v", got, err)
			}
		})
	}
}

// Whether a LoadBalancer is its Cluster's control plane's: what may not be read says nothing, and isn't taken for "no".
func TestControlPlaneThatMayNotBeRead(t *testing.T) {
	plane := of(infraGroup, "v1", "DockerCluster", nil) // whatever its kind
	plane.SetAnnotations(map[string]string{"loadbalancer.cluster.x-k8s.io/name": "lb"})
	for name, tc := range map[string]struct {
		forbidden    string
		role         clusterv1.Role
		annotation   string
		yes, unknown bool
	}{
		"its control plane names it":   {yes: true},
		"that may not be read":         {forbidden: "DockerCluster", unknown: true},
		"the role is said":             {forbidden: "DockerCluster", role: clusterv1.RoleControlPlane, yes: true},
		"another role is":              {forbidden: "DockerCluster", role: clusterv1.RoleWorkload},
		"the Cluster names it":         {forbidden: "DockerCluster", annotation: "lb", yes: true},
		"the Cluster names another":    {forbidden: "DockerCluster", annotation: "other"},
		"the Cluster goes before that": {annotation: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clusterOf("FooCluster", "DockerCluster")
			if tc.annotation != "" {
				cluster.SetAnnotations(map[string]string{"loadbalancer.cluster.x-k8s.io/name": tc.annotation})
			}
			l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lb"}, Spec: clusterv1.LoadBalancerSpec{Role: tc.role}}
			yes, problem, err := reading(t, tc.forbidden, plane.DeepCopy()).controlPlane(t.Context(), l, cluster)
			if err != nil || yes != tc.yes || (problem != nil) != tc.unknown {
				t.Errorf("it says %t, %+v, %v", yes, problem, err)
			}
			if problem != nil && (problem.reason != contract.ReasonRoleUnknown || !strings.Contains(problem.message, "user foo may not")) {
				t.Errorf("the problem is %+v", problem)
			}
		})
	}
}
