package ctrl

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"hustings.io/go"
	"hustings.io/go/internal/testkit"
)

// A replica is a manager with one controller.
type replica struct {
	election *Election
	config   *rest.Config
	started  chan struct{}
	mayEnd   chan struct{}
	stop     context.CancelFunc
	ended    chan error
}

func start(t *testing.T, server *testkit.Server, identity string, options ctrl.Options) *replica {
	t.Helper()
	timing := hustings.Timing{
		LeaseDuration: 2 * time.Second, RenewDeadline: time.Second, RetryPeriod: 100 * time.Millisecond, StopGrace: time.Minute,
	}
	r := &replica{
		election: NewOrDie(server.Config(), "n", "l", Options{Identity: identity, Timing: timing}),
		started:  make(chan struct{}), mayEnd: make(chan struct{}), ended: make(chan error, 1),
	}
	r.config = r.election.GatedConfig()
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	mgr, err := ctrl.NewManager(r.config, r.election.Manager(options))
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		close(r.started)
		<-ctx.Done()
		<-r.mayEnd
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	go func() { r.ended <- r.election.Run(ctx, mgr) }()
	return r
}

func (r *replica) write(t *testing.T) error {
	_, err := kubernetes.NewForConfigOrDie(r.config).CoreV1().ConfigMaps("n").
		Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	return err
}

func TestAManagerRunsItsControllersOnlyWhileItLeadsAndStopsThemBeforeTheRelease(t *testing.T) {
	server := testkit.NewServer(t)
	first := start(t, server, "a", ctrl.Options{LeaderElection: true})
	<-first.started
	if err := first.write(t); err != nil {
		t.Error(err)
	}
	second := start(t, server, "b", ctrl.Options{LeaderElection: true})
	testkit.Eventually(t, "the standby knows the holder", func() bool { return second.election.Elector().Holder() == "a" })
	if err := second.write(t); !hustings.IsNotLeading(err) {
		t.Errorf("a standby wrote: %v", err)
	}
	first.stop()
	patches := server.Requests(http.MethodPatch, testkit.Leases+"/l")
	testkit.Eventually(t, "renewals go on", func() bool {
		return server.Requests(http.MethodPatch, testkit.Leases+"/l") > patches+5
	})
	select {
	case <-second.started:
		t.Error("two controllers run")
	default:
	}
	close(first.mayEnd)
	if err := <-first.ended; err != nil {
		t.Error(err)
	}
	<-second.started
	close(second.mayEnd)
	second.stop()
	if err := <-second.ended; err != nil || server.Holder("l") != "" {
		t.Errorf("error %v, holder %q", err, server.Holder("l"))
	}
}

func TestALossEndsTheManagerWithoutAWaitForItsControllers(t *testing.T) {
	server := testkit.NewServer(t)
	r := start(t, server, "a", ctrl.Options{LeaderElection: true})
	<-r.started
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		testkit.Fail(w, http.StatusInternalServerError, "InternalError", "l")
		return true
	})
	elector := r.election.Elector()
	testkit.Eventually(t, "the Lease is lost", func() bool { return !elector.IsLeader() })
	began := time.Now()
	// The controller never ends.
	if err := <-r.ended; !errors.Is(err, ErrLost) {
		t.Errorf("error: %v", err)
	}
	t.Logf("the manager ended %s after the loss", time.Since(began))
	if elector.Err() == nil {
		t.Error("the elector may lead again, while the controller runs")
	}
}

func TestATermThatIsGivenUpStopsTheManagerFirst(t *testing.T) {
	server := testkit.NewServer(t)
	r := start(t, server, "a", ctrl.Options{LeaderElection: true})
	<-r.started
	close(r.mayEnd)
	r.election.Elector().Resign()
	if err := <-r.ended; err != nil || server.Holder("l") != "" {
		t.Errorf("error %v, holder %q", err, server.Holder("l"))
	}
}

func TestControllersThatDoNotStopKeepTheLeaseFromBeingReleased(t *testing.T) {
	server := testkit.NewServer(t)
	timeout := 100 * time.Millisecond
	r := start(t, server, "a", ctrl.Options{LeaderElection: true, GracefulShutdownTimeout: &timeout})
	<-r.started
	r.stop()
	if err := <-r.ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
	if r.election.Elector().IsLeader() || server.Holder("l") != "a" {
		t.Errorf("%q holds the Lease", server.Holder("l"))
	}
}

func TestWithoutAnElectionTheManagerStartsAndWritesAtOnce(t *testing.T) {
	server := testkit.NewServer(t)
	r := start(t, server, "a", ctrl.Options{})
	<-r.started
	close(r.mayEnd)
	if err := r.write(t); err != nil {
		t.Error(err)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if server.Lease("l") != nil {
		t.Error("it stood for election")
	}
}

func TestAManagerThatWouldNotWaitForItsControllersIsRefused(t *testing.T) {
	server := testkit.NewServer(t)
	r := start(t, server, "a", ctrl.Options{LeaderElection: true, GracefulShutdownTimeout: new(time.Duration(0))})
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "n/l: GracefulShutdownTimeout must not be 0") {
		t.Errorf("error: %v", err)
	}
}
