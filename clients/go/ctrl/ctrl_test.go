package ctrl

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"hustings.io/go"
	"hustings.io/go/internal/testkit"
)

var (
	// quick are durations by which a term lasts for a few seconds without a renewal, for tests that wait for its end.
	quick = hustings.Timing{
		LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 100 * time.Millisecond, StopGrace: time.Minute,
	}
	// steady are durations by which a machine under load costs no term.
	steady = hustings.Timing{
		LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 100 * time.Millisecond, StopGrace: time.Minute,
	}
)

// A replica is a manager with one controller.
type replica struct {
	election *Election
	manager  ctrl.Manager
	config   *rest.Config
	started  chan struct{}
	mayEnd   chan struct{}
	stop     context.CancelFunc
	ended    chan error
}

func start(
	t *testing.T, server *testkit.Server, identity string, timing hustings.Timing, options ctrl.Options, more ...manager.Runnable,
) *replica {
	t.Helper()
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
	r.manager = mgr
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		close(r.started)
		<-ctx.Done()
		<-r.mayEnd
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	for _, runnable := range more {
		if err := mgr.Add(runnable); err != nil {
			t.Fatal(err)
		}
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

// isLocked returns whether another elector of this process has to wait until the Lease has expired.
func isLocked(t *testing.T, server *testkit.Server) bool {
	t.Helper()
	var log strings.Builder
	election := NewOrDie(server.Config(), "n", "l", Options{Identity: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	election.Elector().Abandon()
	return strings.Contains(log.String(), "cannot lock this container")
}

func TestAManagerRunsItsControllersOnlyWhileItLeadsAndStopsThemBeforeTheRelease(t *testing.T) {
	server := testkit.NewServer(t)
	first := start(t, server, "a", steady, ctrl.Options{LeaderElection: true})
	<-first.started
	if err := first.write(t); err != nil {
		t.Error(err)
	}
	second := start(t, server, "b", steady, ctrl.Options{LeaderElection: true})
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

func TestAStandbyServesItsWebhooksAndFillsItsCaches(t *testing.T) {
	server := testkit.NewServer(t)
	first := start(t, server, "a", steady, ctrl.Options{LeaderElection: true})
	<-first.started
	tlsServer := httptest.NewTLSServer(nil)
	defer tlsServer.Close()
	address := testkit.FreeAddress(t)
	webhooks := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: address.Port, TLSOpts: []func(*tls.Config){
		func(config *tls.Config) {
			config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return &tlsServer.TLS.Certificates[0], nil
			}
		},
	}})
	webhooks.Register("/admit", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	second := start(t, server, "b", steady, ctrl.Options{
		LeaderElection: true,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds, nil },
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{"n": {}},
			// The model knows no other selector.
			DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", "l"),
		},
	}, webhooks)
	testkit.Eventually(t, "the webhook answers", func() bool {
		answer, err := tlsServer.Client().Get("https://" + address.String() + "/admit")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	testkit.Eventually(t, "the cache has the Lease", func() bool {
		var lease coordinationv1.Lease
		err := second.manager.GetClient().Get(t.Context(), types.NamespacedName{Namespace: "n", Name: "l"}, &lease)
		return err == nil && *lease.Spec.HolderIdentity == "a"
	})
	select {
	case <-second.started:
		t.Error("the controller of a standby runs")
	default:
	}
	for _, replica := range []*replica{second, first} {
		close(replica.mayEnd)
		replica.stop()
		<-replica.ended
	}
}

func TestALossEndsTheManagerWithoutAWaitForItsControllers(t *testing.T) {
	t.Setenv("POD_UID", "pod-of-loss-"+strconv.Itoa(os.Getpid()))
	server := testkit.NewServer(t)
	r := start(t, server, "a", quick, ctrl.Options{LeaderElection: true})
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
	if elector.Err() == nil || !isLocked(t, server) {
		t.Error("the elector, or another one of this process, may lead at once, while the controller runs")
	}
}

func TestATermThatIsGivenUpStopsTheManagerFirst(t *testing.T) {
	t.Setenv("POD_UID", "pod-of-release-"+strconv.Itoa(os.Getpid()))
	server := testkit.NewServer(t)
	r := start(t, server, "a", steady, ctrl.Options{LeaderElection: true})
	<-r.started
	close(r.mayEnd)
	r.election.Elector().Resign()
	if err := <-r.ended; err != nil || server.Holder("l") != "" || isLocked(t, server) {
		t.Errorf("error %v, holder %q, locked: %t", err, server.Holder("l"), isLocked(t, server))
	}
}

func TestControllersThatDoNotStopKeepTheLeaseFromBeingReleasedOrTakenBack(t *testing.T) {
	t.Setenv("POD_UID", "pod-of-grace-"+strconv.Itoa(os.Getpid()))
	server := testkit.NewServer(t)
	timeout := 100 * time.Millisecond
	r := start(t, server, "a", steady, ctrl.Options{LeaderElection: true, GracefulShutdownTimeout: &timeout})
	<-r.started
	r.stop()
	if err := <-r.ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
	if r.election.Elector().IsLeader() || server.Holder("l") != "a" || !isLocked(t, server) {
		t.Errorf("%q holds the Lease, locked: %t", server.Holder("l"), isLocked(t, server))
	}
}

func TestWithoutAnElectionTheManagerStartsAndWritesAtOnce(t *testing.T) {
	server := testkit.NewServer(t)
	r := start(t, server, "a", steady, ctrl.Options{})
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

func TestAManagerThatAsksForWhatTheElectionDoesNotDoIsRefused(t *testing.T) {
	server := testkit.NewServer(t)
	for _, c := range []struct {
		options ctrl.Options
		wayOut  string
	}{
		{ctrl.Options{GracefulShutdownTimeout: new(time.Duration(-1))}, "raise Timing.StopGrace"},
		{ctrl.Options{GracefulShutdownTimeout: new(time.Duration(0))}, "raise Timing.StopGrace"},
		{ctrl.Options{GracefulShutdownTimeout: new(time.Hour)}, "raise Timing.StopGrace"},
		{ctrl.Options{LeaderElectionNamespace: "other"}, "name Lease other/l: pass"},
		{ctrl.Options{LeaderElectionID: "other"}, "name Lease n/other: pass"},
		{ctrl.Options{LeaderElectionConfig: server.Config()}, "pass it to New"},
		{ctrl.Options{LeaderElectionLabels: map[string]string{"a": "b"}}, "label the Lease once"},
		{ctrl.Options{LeaderElectionResourceLockInterface: newLock(nil)}, "has its own lock"},
	} {
		c.options.LeaderElection = true
		r := start(t, server, "a", steady, c.options)
		if err := <-r.ended; err == nil || !strings.Contains(err.Error(), c.wayOut) {
			t.Errorf("%s: %v", c.wayOut, err)
		}
	}
}

// A manager that stops has fixed its shutdown before, so it would wait for its controllers.
func TestALossWhileControllersStopEndsRunAtOnce(t *testing.T) {
	server := testkit.NewServer(t)
	r := start(t, server, "a", quick, ctrl.Options{LeaderElection: true})
	<-r.started
	r.stop()
	server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
		testkit.Fail(w, http.StatusInternalServerError, "InternalError", "l")
		return true
	})
	// The controller never ends.
	if err := <-r.ended; !errors.Is(err, ErrLost) {
		t.Errorf("error: %v", err)
	}
}

func TestAStandbyThatStopsDoesNotTakeTheLease(t *testing.T) {
	server := testkit.NewServer(t)
	leader := start(t, server, "a", steady, ctrl.Options{LeaderElection: true})
	<-leader.started
	slow := make(chan struct{})
	standby := start(t, server, "b", steady, ctrl.Options{LeaderElection: true}, everywhere(func(ctx context.Context) error {
		<-ctx.Done()
		<-slow
		return nil
	}))
	elector := standby.election.Elector()
	testkit.Eventually(t, "the standby knows the holder", func() bool { return elector.Holder() == "a" })
	standby.stop()
	testkit.Eventually(t, "the standby has stopped its elector", func() bool { return elector.Err() != nil })
	close(leader.mayEnd)
	leader.stop()
	if err := <-leader.ended; err != nil || server.Holder("l") != "" {
		t.Errorf("error %v, holder %q", err, server.Holder("l"))
	}
	close(slow)
	if err := <-standby.ended; err != nil {
		t.Error(err)
	}
}

// As with `make run`.
func TestOutsideAPodANamespaceIsNeededForAnElectionOnly(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	server := testkit.NewServer(t)
	election := NewOrDie(server.Config(), "", "l", Options{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, elects := range []bool{false, true} {
		options := ctrl.Options{LeaderElection: elects, Metrics: metricsserver.Options{BindAddress: "0"}}
		mgr, err := ctrl.NewManager(election.GatedConfig(), election.Manager(options))
		if err != nil {
			t.Fatal(err)
		}
		if err := election.Run(ctx, mgr); errors.Is(err, hustings.ErrNoNamespace) != elects || err != nil && !elects {
			t.Errorf("error: %v", err)
		}
		if elects && mgr.Start(ctx) == nil {
			t.Error("a manager without its election runs")
		}
	}
}

func TestTheMetricsOfControllerRuntimeNameTheLeaseAndGoWithThoseOfHustings(t *testing.T) {
	ours := hustings.NewMetrics().WithoutMasterStatus()
	metrics.Registry.MustRegister(ours)
	defer metrics.Registry.Unregister(ours)
	server := testkit.NewServer(t)
	r := start(t, server, "a", steady, ctrl.Options{LeaderElection: true})
	<-r.started
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	named := slices.ContainsFunc(families, func(family *dto.MetricFamily) bool {
		return family.GetName() == "leader_election_master_status" && slices.ContainsFunc(family.GetMetric(), func(m *dto.Metric) bool {
			return m.GetLabel()[0].GetValue() == "l" && m.GetGauge().GetValue() == 1
		})
	})
	if !named {
		t.Errorf("%v", families)
	}
	close(r.mayEnd)
	r.stop()
	<-r.ended
}

func TestAManagerThatIsStartedWithoutTheElectionSaysSo(t *testing.T) {
	election := NewOrDie(testkit.NewServer(t).Config(), "n", "l", Options{Identity: "a"})
	if _, _, err := election.lock.Get(t.Context()); !errors.Is(err, errNotRun) {
		t.Errorf("error: %v", err)
	}
}

// everywhere is work that runs in standbys, too.
type everywhere func(context.Context) error

func (f everywhere) Start(ctx context.Context) error { return f(ctx) }
func (everywhere) NeedLeaderElection() bool          { return false }
