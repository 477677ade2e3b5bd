// Package controller has the controllers of the example project.
package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// nameKey is the key of a ConfigMap that names whom to greet.
	nameKey = "greet"
	// greetingKey is the key that the controller writes.
	greetingKey = "greeting"
)

// GreetingReconciler writes a greeting into each ConfigMap that names somebody to greet.
type GreetingReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;patch

// Reconcile writes the greeting if it is missing or wrong.
func (r *GreetingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var config corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name, ok := config.Data[nameKey]
	greeting := "Hello, " + name + "!"
	if !ok || config.Data[greetingKey] == greeting {
		return ctrl.Result{}, nil
	}
	before := config.DeepCopy()
	config.Data[greetingKey] = greeting
	if err := r.Patch(ctx, &config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	logf.FromContext(ctx).Info("greeted", "name", name)
	return ctrl.Result{}, nil
}

// SetupWithManager sets up the controller with the Manager.
func (r *GreetingReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Named("greeting").Complete(r)
}
