package hustings

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"hustings.io/go/internal/testkit"
)

var (
	// quick are durations by which a term lasts for seconds without a renewal, for tests that wait for its end.
	quick = Timing{
		LeaseDuration: 4 * time.Second, RenewDeadline: 2500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond,
		RequestTimeout: time.Second, StopGrace: 500 * time.Millisecond,
	}
	// steady are durations by which a machine under load costs no term.
	steady = Timing{
		LeaseDuration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 100 * time.Millisecond,
		RequestTimeout: 5 * time.Second, StopGrace: time.Minute,
	}
)

// A lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.String()
}

// testOptions returns options of a replica, and its log, which is shown if the test fails.
func testOptions(t *testing.T, identity string, timing Timing) (Options, *lockedBuffer) {
	log := new(lockedBuffer)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log)
		}
	})
	handler := slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	return Options{Identity: identity, Timing: timing, Logger: slog.New(handler)}, log
}

// A replica runs an elector until the end of the test.
type replica struct {
	*Elector
	stop  context.CancelFunc
	ended chan error
}

// create returns an elector that does not run yet.
func create(t *testing.T, server *testkit.Server, options Options) *Elector {
	t.Helper()
	return createFor(t, server.Config(), options)
}

func createFor(t *testing.T, config *rest.Config, options Options) *Elector {
	t.Helper()
	elector, err := New(config, "n", "l", options)
	if err != nil {
		t.Fatal(err)
	}
	return elector
}

func startReplica(t *testing.T, server *testkit.Server, options Options, lead func(context.Context, *Term)) replica {
	t.Helper()
	return start(t, create(t, server, options), lead)
}

func start(t *testing.T, elector *Elector, lead func(context.Context, *Term)) replica {
	ctx, stop := context.WithCancel(t.Context())
	r := replica{elector, stop, make(chan error, 1)}
	if lead == nil {
		lead = func(ctx context.Context, _ *Term) { <-ctx.Done() }
	}
	go func() { r.ended <- elector.Run(ctx, lead) }()
	t.Cleanup(func() {
		stop()
		<-elector.ended.Done()
	})
	return r
}

func (r replica) awaitLeader(t *testing.T) *Term {
	t.Helper()
	var term *Term
	testkit.Eventually(t, r.Identity()+" leads", func() bool {
		term = r.Term()
		return term != nil
	})
	return term
}
