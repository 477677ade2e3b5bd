package hustings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hustings.io/go/internal/testkit"
)

func TestTheLeaseIsReleasedAfterTheWorkHasEndedAndNotBefore(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	options, _ := testOptions(t, "a", steady)
	mayEnd, held := make(chan struct{}), make(chan func(), 1)
	r := startReplica(t, server, options, func(ctx context.Context, term *Term) {
		release, ok := term.Hold()
		if !ok {
			t.Error("no work may begin in a new term")
		}
		held <- release
		<-mayEnd
	})
	term := r.awaitLeader(t)
	release := <-held
	r.stop()
	<-term.Context().Done()
	for _, end := range []func(){func() { close(mayEnd) }, release} {
		patches := server.Requests(http.MethodPatch, testkit.Leases+"/l")
		testkit.Eventually(t, "renewals go on", func() bool {
			return server.Requests(http.MethodPatch, testkit.Leases+"/l") > patches+3
		})
		if server.Holder("l") != "a" || !r.IsLeader() {
			t.Error("the Lease is given up while work runs")
		}
		if _, ok := term.Hold(); ok {
			t.Error("work may begin although the term is to be given up")
		}
		end()
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if holder := server.Holder("l"); holder != "" {
		t.Errorf("%s still holds the Lease", holder)
	}
}

func TestWorkThatDoesNotStopLetsTheLeaseExpire(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	options, _ := testOptions(t, "a", quick)
	forever := make(chan struct{})
	defer close(forever)
	r := startReplica(t, server, options, func(context.Context, *Term) { <-forever })
	term := r.awaitLeader(t)
	r.stop()
	if err := <-r.ended; !errors.Is(err, ErrWorkDidNotStop) {
		t.Errorf("error: %v", err)
	}
	<-term.Aborted()
	if err := r.Check(time.Hour); !errors.Is(err, ErrWorkDidNotStop) {
		t.Errorf("a health check says %v", err)
	}
	if r.IsLeader() || server.Holder("l") != "a" {
		t.Error("the Lease was given up while work runs")
	}
	options, _ = testOptions(t, "b", quick)
	startReplica(t, server, options, nil).awaitLeader(t)
}

// A panic of the work ends the process. The Lease is given up before, unless it has to expire.
func TestAPanicOfTheWorkEndsTheProcess(t *testing.T) {
	for panics, holder := range map[string]string{"at once": "", "late": "a"} {
		t.Run(panics, func(t *testing.T) {
			server := testkit.NewServerWithLease(t)
			report := filepath.Join(t.TempDir(), "report")
			replica := helper{
				Server: server.URL, Lease: "l", Report: report, Identity: "a",
				Seconds: [3]float64{3600, 3000, 1}, Panics: panics,
			}.start(t)
			if panics == "late" {
				testkit.Eventually(t, "it leads", func() bool { return len(testkit.Reigns(t, report)) == 1 })
				_ = replica.Process.Signal(syscall.SIGTERM)
			}
			if err := replica.Wait(); err == nil || err.Error() != "exit status 2" {
				t.Errorf("it ended with %v", err)
			}
			if server.Lease("l") == nil || server.Holder("l") != holder {
				t.Errorf("%q holds the Lease", server.Holder("l"))
			}
		})
	}
}

func TestAPanicOfTheWorkDoesNotWaitForAServerThatIsSilent(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	options, _ := testOptions(t, "a", Timing{LeaseDuration: time.Hour, RenewDeadline: 50 * time.Minute})
	elector := create(t, server, options)
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error("the panic does not continue with its value:", err)
		}
		server.SetFault(nil)
	}()
	_ = elector.Run(t.Context(), func(context.Context, *Term) {
		server.SetFault(testkit.Silence)
		panic(io.ErrUnexpectedEOF)
	})
}

// Until the work has ended, the elector tries to keep the Lease.
func TestAStopWaitsForASecondReleaseAndNotForAServerThatIsDown(t *testing.T) {
	down := func(w http.ResponseWriter, _ *http.Request) bool {
		testkit.Fail(w, http.StatusInternalServerError, "InternalError", "l")
		return true
	}
	var hung atomic.Bool
	stalls := func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodPatch && !hung.Swap(true) && testkit.Silence(w, r)
	}
	for name, test := range map[string]struct {
		fault  func(http.ResponseWriter, *http.Request) bool
		during bool // the work
		holder string
	}{
		"the server is down":         {down, true, "a"},
		"one release gets no answer": {stalls, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := testkit.NewServerWithLease(t)
			options, log := testOptions(t, "a", steady)
			options.Timing.RequestTimeout = 2 * time.Second
			var ended time.Time
			r := startReplica(t, server, options, func(ctx context.Context, _ *Term) {
				<-ctx.Done()
				patches := server.Requests(http.MethodPatch, testkit.Leases+"/l")
				for test.during && server.Requests(http.MethodPatch, testkit.Leases+"/l") == patches {
					time.Sleep(10 * time.Millisecond)
				}
				ended = time.Now()
			})
			r.awaitLeader(t)
			server.SetFault(test.fault)
			r.stop()
			err := <-r.ended
			if took := time.Since(ended); err != nil || took > steady.RenewDeadline/2 {
				t.Errorf("error %v, %s after the work", err, took)
			}
			if server.Holder("l") != test.holder || strings.Contains(log.String(), "it expires") != (test.holder == "a") {
				t.Errorf("%q holds the Lease", server.Holder("l"))
			}
		})
	}
}

// Until the work has ended, a successor in the same place must not take the Lease back at once.
func TestTheLockOfAPlaceIsHeldUntilTheWorkHasEnded(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	inPlace := func() (Options, *lockedBuffer) {
		options, log := testOptions(t, "a", quick)
		options.PodUID, options.Container = fmt.Sprintf("pod-of-work-%d", os.Getpid()), "web"
		return options, log
	}
	isLocked := func() bool {
		options, log := inPlace()
		create(t, server, options).close()
		return strings.Contains(log.String(), "cannot lock this container")
	}
	mayEnd := make(chan struct{})
	options, _ := inPlace()
	r := startReplica(t, server, options, func(context.Context, *Term) { <-mayEnd })
	r.awaitLeader(t)
	r.stop()
	if err := <-r.ended; !errors.Is(err, ErrWorkDidNotStop) || !isLocked() {
		t.Errorf("locked: %t, error: %v", isLocked(), err)
	}
	close(mayEnd)
	testkit.Eventually(t, "the place is free", func() bool { return !isLocked() })
}
