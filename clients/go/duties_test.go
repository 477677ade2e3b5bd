package hustings

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"hustings.io/go/internal/core"
	"hustings.io/go/internal/testkit"
)

// bodyOf returns the body of a request, which the server can still read.
func bodyOf(r *http.Request) string {
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	return string(text)
}

func TestThisProcessNoLongerLeadsWhenItsReleaseIsSent(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	options, _ := testOptions(t, "a", steady)
	r := startReplica(t, server, options, nil)
	r.awaitLeader(t)
	var releases, early atomic.Int32
	server.SetFault(func(_ http.ResponseWriter, request *http.Request) bool {
		if request.Method == http.MethodPatch && strings.Contains(bodyOf(request), `"holderIdentity":""`) {
			releases.Add(1)
			if r.IsLeader() || r.Term() != nil {
				early.Add(1)
			}
		}
		return false
	})
	r.stop()
	if err := <-r.ended; err != nil || releases.Load() == 0 || early.Load() != 0 {
		t.Errorf("error %v, %d releases, %d of them while it leads", err, releases.Load(), early.Load())
	}
}

// Neither retries nor the rate limit of the configuration come between the core and the server.
func TestEachRequestIsSentOnceAndAtOnce(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	config := server.Config()
	config.QPS, config.Burst = 1e-6, 1
	options, _ := testOptions(t, "a", steady)
	r := start(t, createFor(t, config, options), nil)
	r.awaitLeader(t)
	var mutex sync.Mutex
	bodies := map[string]int{}
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		mutex.Lock()
		defer mutex.Unlock()
		bodies[bodyOf(r)]++
		w.Header().Set("Retry-After", "0")
		testkit.Fail(w, []int{429, 500, 503, 504}[len(bodies)%4], "Unavailable", "l")
		return true
	})
	defer server.SetFault(nil)
	testkit.Eventually(t, "renewals have failed with each status", func() bool {
		mutex.Lock()
		defer mutex.Unlock()
		return len(bodies) >= 4
	})
	mutex.Lock()
	defer mutex.Unlock()
	for body, times := range bodies {
		if times > 1 {
			t.Errorf("sent %d times: %s", times, body)
		}
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	var followed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if followed.Store(r.URL.Path != "/"); !followed.Load() {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	connections, err := connectionsOf(&rest.Config{Host: server.URL}, systemClock)
	if err != nil {
		t.Fatal(err)
	}
	got, until := make(reports, 1), systemClock.moment()+time.Minute.Microseconds()
	connections.send(t.Context(), &core.Request{ID: 1, Method: "GET", Path: "/", UntilUs: until}, got.report)
	if event := <-got; event.Event != "answer" || event.Status != http.StatusTemporaryRedirect || followed.Load() {
		t.Errorf("followed: %t, %+v", followed.Load(), event)
	}
}

func TestATokenThatIsRefusedIsReadAnewAndCostsNoTerm(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	var valid atomic.Value
	valid.Store("first")
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+valid.Load().(string) {
			return false
		}
		testkit.Fail(w, http.StatusUnauthorized, "Unauthorized", "")
		return true
	})
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	config := server.Config()
	config.BearerTokenFile = file
	options, _ := testOptions(t, "a", steady)
	r := start(t, createFor(t, config, options), nil)
	term := r.awaitLeader(t)
	write("second")
	valid.Store("second")
	renewedAt := func() any { return server.Lease("l")["spec"].(testkit.Object)["renewTime"] }
	before := renewedAt()
	testkit.Eventually(t, "renewals succeed again", func() bool { return renewedAt() != before })
	if r.Term() != term {
		t.Error("the term is over")
	}
}

// While a process is suspended, its clock counts on, and its loop does nothing.
func TestAProcessThatWasSuspendedNoLongerLeads(t *testing.T) {
	server := testkit.NewServerWithLease(t)
	var suspended atomic.Int64
	connections, err := connectionsOf(server.Config(), clock{
		moment: func() int64 { return systemClock.moment() + suspended.Load() }, wall: systemClock.wall,
	})
	if err != nil {
		t.Fatal(err)
	}
	options, _ := testOptions(t, "a", steady)
	elector, err := newElector(connections, "n", "l", options)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, elector, nil)
	term := r.awaitLeader(t)
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodPatch && testkit.Silence(w, r)
	})
	suspended.Add(steady.RenewDeadline.Microseconds())
	if r.IsLeader() || r.Term() != nil {
		t.Error("it leads although its validity has ended")
	}
	<-term.Over()
	<-term.Context().Done()
	server.SetFault(nil)
	if again := r.awaitLeader(t); again.Token <= term.Token {
		t.Errorf("token %d follows %d", again.Token, term.Token)
	}
}

// In a time namespace, CLOCK_BOOTTIME alone is ahead, as after a suspension.
func TestTheClockCountsSuspension(t *testing.T) {
	const ahead = 1_000_000 * time.Second
	seconds := strconv.Itoa(int(ahead.Seconds()))
	command := exec.Command("unshare", "--time", "--boottime", seconds, "--fork", os.Args[0])
	command.Env = append(os.Environ(), clockVariable+"=1")
	output, err := command.Output()
	if err != nil {
		t.Skipf("this machine allows no time namespace: %v", err)
	}
	moment, err := strconv.ParseInt(string(output), 10, 64)
	if early := time.Duration(systemClock.moment()-moment)*time.Microsecond + ahead; err != nil || early < 0 || early > time.Minute {
		t.Errorf("%q, %v, %s", output, err, early)
	}
}
