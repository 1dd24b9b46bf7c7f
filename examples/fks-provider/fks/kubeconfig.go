package fks

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/fks-provider/api/controlplane"
	"fairlead.dev/fairlead/examples/fks-provider/cloud"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What Cluster API's contract says of the Secret with a Cluster's kubeconfig.
const (
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigType   = corev1.SecretType("cluster.x-k8s.io/secret")
	kubeconfigKey    = "value"
)

// kubeconfig has the Secret be there from which Cluster API reaches the control plane. Not "": why it isn't.
func (r *controlPlanes) kubeconfig(ctx context.Context, o *controlplane.FKSControlPlane, cluster string, made cloud.ControlPlane, e clusterv1.Endpoint) (string, error) {
	text, err := kubeconfigOf(cluster, made, e)
	if err != nil {
		return "", err
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: cluster + kubeconfigSuffix}}
	err = r.live.Get(ctx, client.ObjectKeyFromObject(s), s)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading Secret %s: %w", s.Name, err)
	}
	there := err == nil
	if there {
		ref := metav1.GetControllerOf(s)
		if ref == nil || ref.Kind != "FKSControlPlane" || ref.Name != o.Name {
			return fmt.Sprintf("Secret %s is there, and not this control plane's: delete it, and it is made anew.", s.Name), nil
		}
		if ref.UID == o.UID && bytes.Equal(s.Data[kubeconfigKey], text) && s.Labels[clusterv1.ClusterNameLabel] == cluster {
			return "", nil
		}
	}
	before := s.DeepCopy()
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels[clusterv1.ClusterNameLabel] = cluster
	ref := metav1.NewControllerRef(o, controlplane.GroupVersion.WithKind("FKSControlPlane"))
	ref.BlockOwnerDeletion = nil // for which one must be allowed to write the owner's finalizers
	s.OwnerReferences = []metav1.OwnerReference{*ref}
	s.Data = map[string][]byte{kubeconfigKey: text}
	if there {
		err = r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	} else {
		s.Type = kubeconfigType
		err = r.client.Create(ctx, s)
	}
	if err != nil {
		return "", fmt.Errorf("writing Secret %s: %w", s.Name, err)
	}
	return "", nil
}

// kubeconfigOf is complete in itself.
func kubeconfigOf(cluster string, made cloud.ControlPlane, e clusterv1.Endpoint) ([]byte, error) {
	user := cluster + "-admin"
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{cluster: {
			Server: "https://" + net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), CertificateAuthorityData: made.CA,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: made.Token}},
		Contexts:       map[string]*clientcmdapi.Context{cluster: {Cluster: cluster, AuthInfo: user}},
		CurrentContext: cluster,
	})
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return text, nil
}
