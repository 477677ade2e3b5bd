package testkit

import (
	"context"
	"encoding/json"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A realServer is a real API server behind the faults of a [Server].
type realServer struct {
	proxy  *httputil.ReverseProxy
	leases dynamic.ResourceInterface
}

// NewServerWithLease is like [NewServer], for tests of the Lease l alone. Behind the faults is the real control plane, if
// there is one.
func NewServerWithLease(t testing.TB) *Server {
	s := NewServer(t)
	if os.Getenv(kubeconfigVariable) == "" && os.Getenv(upVariable) == "" {
		return s
	}
	config := Config(t)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil && !errors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	leases := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{
		Group: "coordination.k8s.io", Version: "v1", Resource: "leases",
	}).Namespace("n")
	if err := leases.Delete(t.Context(), "l", metav1.DeleteOptions{}); err != nil && !errors.IsNotFound(err) {
		t.Fatal(err)
	}
	s.real = &realServer{leases: leases, proxy: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(address)
			r.Out.Header.Del("Authorization")
		},
		Transport:     transport,
		FlushInterval: -1,
	}}
	return s
}

func (r *realServer) lease(name string) Object {
	lease, err := r.leases.Get(context.Background(), name, metav1.GetOptions{})
	if errors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		// It must not look like a Lease that is missing or free.
		panic(err)
	}
	return lease.Object
}

func (r *realServer) patch(name string, patch Object) {
	text, err := json.Marshal(patch)
	if err == nil {
		_, err = r.leases.Patch(context.Background(), name, types.MergePatchType, text, metav1.PatchOptions{})
	}
	if err != nil {
		panic(err)
	}
}
