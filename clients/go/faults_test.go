package hustings

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"hustings.io/go/internal/testkit"
)

func TestATermEndsWhenRenewalsFailAndANewOneBeginsWhenTheySucceed(t *testing.T) {
	status := func(code int, retryAfter string) testkit.Fault {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			testkit.Fail(w, code, http.StatusText(code), "l")
			return true
		}
	}
	cut := func(w http.ResponseWriter, r *http.Request) bool {
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		return connection.Close() == nil
	}
	for name, fault := range map[string]testkit.Fault{
		"409": status(409, ""), "429": status(429, "1"), "500": status(500, ""), "403": status(403, ""),
		"silent": testkit.Silence, "cut": cut,
	} {
		t.Run(name, func(t *testing.T) {
			server := testkit.NewServerWithLease(t)
			options, _ := testOptions(t, "a", quick)
			r := startReplica(t, server, options, nil)
			term := r.awaitLeader(t)
			server.SetFault(fault)
			testkit.Eventually(t, "the term ends", func() bool { return !r.IsLeader() })
			<-term.Context().Done()
			if _, ok := r.Token(); ok {
				t.Error("there is a token without a term")
			}
			server.SetFault(nil)
			if again := r.awaitLeader(t); again == term || again.Token <= term.Token {
				t.Errorf("token %d follows %d", again.Token, term.Token)
			}
		})
	}
}

func TestOneFailedRenewalCostsNoTerm(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	options, _ := testOptions(t, "a", steady)
	r := startReplica(t, server, options, nil)
	term := r.awaitLeader(t)
	// The write is stored, and its answer is lost: the outcome is unknown.
	var lost atomic.Int32
	var fault testkit.Fault
	fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch || lost.Load() >= 3 {
			return false
		}
		lost.Add(1)
		server.Handle(discarded{}, r)
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		return connection.Close() == nil
	}
	server.SetFault(fault)
	testkit.Eventually(t, "answers are lost", func() bool { return lost.Load() == 3 })
	patches := server.Requests(http.MethodPatch, testkit.Leases+"/l")
	testkit.Eventually(t, "renewals go on", func() bool {
		return server.Requests(http.MethodPatch, testkit.Leases+"/l") > patches+3
	})
	if r.Term() != term {
		t.Error("the term is over")
	}
}

// discarded is an answer that nobody reads.
type discarded struct{}

func (discarded) Header() http.Header            { return http.Header{} }
func (discarded) Write(text []byte) (int, error) { return len(text), nil }
func (discarded) WriteHeader(int)                {}

// A watch may fall silent although its connection lives: the standby polls, and takes a released Lease.
func TestASilentWatchDelaysNoSuccessorForLong(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	var silent atomic.Bool
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" || !silent.Load() {
			return false
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	})
	options, _ := testOptions(t, "a", steady)
	holder := startReplica(t, server, options, nil)
	holder.awaitLeader(t)
	silent.Store(true)
	server.CloseClientConnections()
	options, _ = testOptions(t, "b", steady)
	standby := startReplica(t, server, options, nil)
	testkit.Eventually(t, "the standby knows the holder", func() bool { return standby.Holder() == "a" })
	holder.stop()
	if err := <-holder.ended; err != nil {
		t.Error(err)
	}
	standby.awaitLeader(t)
}

// After a failover of the load balancer, existing connections get no answer, and new ones work.
func TestADeadConnectionIsReplacedAndCostsNoTerm(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	var failedOver atomic.Bool
	var dead sync.Map
	var lost atomic.Int32
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !failedOver.Load() {
			dead.Store(r.RemoteAddr, true)
			return false
		}
		if _, ok := dead.Load(r.RemoteAddr); !ok {
			return false
		}
		if r.Method == http.MethodPatch {
			lost.Add(1)
		}
		return testkit.Silence(w, r)
	})
	options, _ := testOptions(t, "a", steady)
	options.Timing.RequestTimeout = quick.RequestTimeout
	r := startReplica(t, server, options, nil)
	term := r.awaitLeader(t)
	failedOver.Store(true)
	patches := server.Requests(http.MethodPatch, testkit.Leases+"/l")
	testkit.Eventually(t, "renewals go on", func() bool {
		return server.Requests(http.MethodPatch, testkit.Leases+"/l") > patches+5
	})
	if r.Term() != term || lost.Load() > 1 {
		t.Errorf("the term is over, or %d renewals were lost", lost.Load())
	}
}

// A saboteur does harm in the loop of an elector, after the next renewal.
type saboteur struct {
	armed atomic.Bool
	harm  func()
	// terms counts those that have ended.
	terms atomic.Int32
}

func (*saboteur) began(string)   {}
func (s *saboteur) ended(string) { s.terms.Add(1) }
func (s *saboteur) renewed(time.Duration, bool) {
	if s.armed.Load() {
		s.harm()
	}
}

// corrupt makes the next call of the module trap, since all pointers in its memory lead out of it.
func corrupt(e *Elector) {
	field := reflect.ValueOf(e.instance).Elem().FieldByName("module")
	memory := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(api.Module).Memory()
	all, _ := memory.Read(0, memory.Size())
	for at := range all {
		all[at] = 0xff
	}
}

func TestAfterATrapOrAPanicTheProcessNeverLeadsAgainAndTheLeaseExpires(t *testing.T) {
	for cause, harm := range map[string]func(*Elector){
		"wasm error: ":   corrupt,
		"of an observer": func(*Elector) { panic("of an observer") },
	} {
		t.Run(cause, func(t *testing.T) {
			server := testkit.NewServerWithLease(t)
			options, _ := testOptions(t, "a", quick)
			// A machine under load costs no term before the harm is done.
			options.Timing.LeaseDuration, options.Timing.RenewDeadline = 10*time.Second, 8*time.Second
			elector := create(t, server, options)
			saboteur := &saboteur{harm: func() { harm(elector) }}
			elector.observers = append(elector.observers, saboteur)
			held := make(chan *Term, 1)
			r := start(t, elector, func(ctx context.Context, term *Term) {
				// This work never ends.
				if _, ok := term.Hold(); ok {
					select {
					case held <- term:
					default:
						t.Error("no work may begin in a new term")
					}
				}
				<-ctx.Done()
			})
			term := <-held
			saboteur.armed.Store(true)
			err := <-r.ended
			<-term.Aborted()
			if err == nil || !strings.Contains(err.Error(), "n/l will not lead again") || !strings.Contains(err.Error(), cause) {
				t.Errorf("error: %v", err)
			}
			if r.IsLeader() || r.Term() != nil || term.Context().Err() == nil || r.Check(time.Minute) == nil {
				t.Error("a dead elector leads")
			}
			if saboteur.terms.Load() != 1 {
				t.Error("observers do not know that the term has ended")
			}
			if server.Holder("l") != "a" {
				t.Error("the Lease was released, although nothing is known of the work")
			}
			options, _ = testOptions(t, "b", quick)
			startReplica(t, server, options, nil).awaitLeader(t)
		})
	}
}

func TestAResignedTermIsGivenUpAndAnotherReplicaLeads(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	options, _ := testOptions(t, "a", steady)
	first := startReplica(t, server, options, nil)
	first.awaitLeader(t)
	options, _ = testOptions(t, "b", steady)
	second := startReplica(t, server, options, nil)
	testkit.Eventually(t, "the second knows the holder", func() bool { return second.Holder() == "a" })
	first.Resign()
	second.awaitLeader(t)
	if first.IsLeader() {
		t.Error("two lead")
	}
}

func TestAReplicaWithAHigherKeyIsHandedTheLease(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	low, none, high := int64(5), (*int64)(nil), int64(1<<62)
	options, _ := testOptions(t, "a", steady)
	options.Key = &low
	first := startReplica(t, server, options, nil)
	term := first.awaitLeader(t)
	keys := make(chan *int64, 2)
	keys <- none
	options, _ = testOptions(t, "b", steady)
	options.Keys = keys
	var leaders lockedBuffer
	options.OnNewLeader = func(identity string) { fmt.Fprint(&leaders, identity) }
	second := startReplica(t, server, options, nil)
	testkit.Eventually(t, "the second knows the holder", func() bool { return second.Holder() == "a" })
	keys <- &high
	if next := second.awaitLeader(t); next.Token <= term.Token {
		t.Errorf("token %d follows %d", next.Token, term.Token)
	}
	testkit.Eventually(t, "both holders are reported", func() bool { return leaders.String() == "ab" })
}

// A thief that edits the Lease ends the term at once.
func TestATermThatIsLostToAnotherHolderEndsAtOnce(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	options, log := testOptions(t, "a", Timing{})
	r := startReplica(t, server, options, nil)
	term := r.awaitLeader(t)
	server.Patch("l", testkit.Object{"spec": testkit.Object{"holderIdentity": "thief"}})
	<-term.Context().Done()
	if r.IsLeader() {
		t.Error("two lead")
	}
	testkit.Eventually(t, "the loss is logged", func() bool { return strings.Contains(log.String(), "code=lost") })
}

func TestInvalidSettingsAreRefusedWithTheNameOfTheLease(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	for _, c := range []struct {
		namespace, lease string
		options          Options
		expected         string
	}{
		{"n", "L", Options{Identity: "a"}, "n/L"},
		{"n", "l", Options{Identity: "a", Timing: Timing{RenewDeadline: time.Hour}}, "renew deadline"},
		{"n", "l", Options{Identity: "a", Timing: Timing{LeaseDuration: 1500 * time.Millisecond}}, "whole seconds"},
		{"n", "l", Options{Identity: "a", Timing: Timing{StopGrace: -1}}, "Timing.StopGrace is -1ns"},
		{"n", "l", Options{Identity: "a", FailOpen: -time.Second}, "FailOpen is -1s"},
		{"n", "l", Options{Identity: "a", Strategy: "OldestEmulationVersion"}, "set BinaryVersion"},
		{"n", "l", Options{Identity: "a", BinaryVersion: "1.0", Key: new(int64(1))}, "remove BinaryVersion"},
		{"n", "l", Options{Identity: "A", BinaryVersion: "1.0.0"}, "A"},
	} {
		_, err := New(server.Config(), c.namespace, c.lease, c.options)
		if err == nil || !strings.Contains(err.Error(), c.expected) || !strings.Contains(err.Error(), c.namespace+"/"+c.lease) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A restarted container takes its own Lease back at once.
func TestARestartedContainerTakesItsLeaseBackAtOnce(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	report := filepath.Join(t.TempDir(), "report")
	replica := helper{
		Server: server.URL, Lease: "l", Report: report, Identity: "a",
		PodUID: fmt.Sprintf("pod-%d", os.Getpid()), Container: "web", Seconds: [3]float64{3600, 3000, 1},
	}
	first := replica.start(t)
	testkit.Eventually(t, "it leads", func() bool { return len(testkit.Reigns(t, report)) == 1 })
	_ = first.Process.Kill()
	_ = first.Wait()
	replica.start(t)
	testkit.Eventually(t, "it leads again, long before the Lease expires", func() bool { return len(testkit.Reigns(t, report)) == 2 })
}

func TestAnElectorIsStuckNeitherBeforeItRunsNorWhenAStepIsALittleLate(t *testing.T) {
	options, _ := testOptions(t, "a", steady)
	elector := create(t, testkit.NewServerWithLease(t), options)
	defer elector.close()
	if err := elector.Check(0); err != nil {
		t.Error(err)
	}
	elector.clock = clock{moment: func() int64 { return 0 }}
	for late, stuck := range map[time.Duration]bool{longestTimer: false, longestTimer + time.Millisecond: true} {
		elector.dueAt.Store(-late.Microseconds())
		if err := elector.Check(0); (err != nil) != stuck {
			t.Errorf("%s late: %v", late, err)
		}
	}
}
