// A component that elects its leader as most components do, and knows nothing of Hustings: by the manager of
// controller-runtime, or by client-go's RunOrDie. The tests assist it.
//
// The environment names the Lease: LEASE and POD_NAMESPACE.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	die := flag.Bool("run-or-die", false, "elect by client-go's RunOrDie, not by a manager")
	release := flag.Bool("release-on-cancel", false, "RunOrDie's ReleaseOnCancel")
	duration := flag.Duration("lease-duration", 15*time.Second, "the LeaseDuration; the renew deadline is two thirds of it")
	flag.Parse()
	deadline := *duration * 2 / 3

	ctrl.SetLogger(klog.Background())
	signals := ctrl.SetupSignalHandler()
	if *die {
		runOrDie(signals, *release, *duration, deadline)
		return
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection:   true,
		LeaderElectionID: os.Getenv("LEASE"),
		LeaseDuration:    duration,
		RenewDeadline:    &deadline,
	})
	exitOn(err)
	exitOn(manager.Start(signals))
}

// runOrDie leads as client-go's own example does: a process that has lost the Lease ends.
func runOrDie(signals context.Context, release bool, duration, deadline time.Duration) {
	host, err := os.Hostname()
	exitOn(err)
	leaderelection.RunOrDie(signals, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: os.Getenv("LEASE"), Namespace: os.Getenv("POD_NAMESPACE")},
			Client:     kubernetes.NewForConfigOrDie(ctrl.GetConfigOrDie()).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		ReleaseOnCancel: release,
		LeaseDuration:   duration,
		RenewDeadline:   deadline,
		RetryPeriod:     2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(work context.Context) { <-work.Done() },
			OnStoppedLeading: func() { os.Exit(0) },
		},
	})
}

func exitOn(err error) {
	if err != nil {
		klog.Error(err)
		os.Exit(1)
	}
}
