package service

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	maxName  = 63
	hashSize = 10
)

// Name is the name of a Service's LoadBalancer in the hub: the Service's, cut, and
// a hash of namespace and name. It is the same after a backup is restored.
func Name(service types.NamespacedName) string {
	sum := sha256.Sum256([]byte(service.Namespace + "/" + service.Name))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashSize]
	cut := service.Name
	if most := maxName - 1 - hashSize; len(cut) > most {
		cut = cut[:most]
	}
	return strings.TrimRight(cut, "-.") + "-" + hash
}

// Key names a Service.
func Key(s *v1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}

const originKind = "Service/"

// OriginOf is what an object that is made from a Service says of that, in the annotation fairlead.dev/origin.
func OriginOf(service types.NamespacedName) string {
	return originKind + service.Namespace + "/" + service.Name
}

// Origin returns the Service that a hub's object was made from; false if it was
// made from none, or has not the name that Name gives.
func Origin(o metav1.Object) (types.NamespacedName, bool) {
	rest, ok := strings.CutPrefix(o.GetAnnotations()[v1alpha1.AnnotationOrigin], originKind)
	namespace, name, slash := strings.Cut(rest, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return key, ok && slash && namespace != "" && name != "" && o.GetName() == Name(key)
}
