package providertest

import (
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var clusterKind = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}

const clusterVersion = "v1beta2"

// standIn is the CRD of a kind whose objects take anything.
func standIn(kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	anything, singular := true, strings.ToLower(kind.Kind)
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular, Kind: kind.Kind, ListKind: kind.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &anything,
				}},
			}},
		},
	}
}

type cluster struct{ *unstructured.Unstructured }

func newCluster(namespace, name string) cluster {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterKind.WithVersion(clusterVersion))
	u.SetNamespace(namespace)
	u.SetName(name)
	return cluster{u}
}

// with gives it a spec.
func (c cluster) with(spec map[string]any) *unstructured.Unstructured {
	c.Object["spec"] = spec
	return c.Unstructured
}
