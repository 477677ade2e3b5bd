package hustings

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hustings.io/go/internal/core"
	"hustings.io/go/internal/testkit"
)

// reports collects what happens to requests.
type reports chan core.Event

func (r reports) report(event core.Event, _ []byte) { r <- event }

// A connection may have failed because the file of the certificates has changed.
func TestARequestThatCouldNotBeSentReplacesTheConnections(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	built := 0
	connections, err := newConnections(server.URL, systemClock, func() (*pool, error) {
		built++
		transport := new(http.Transport)
		if built == 1 {
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("unknown authority") }
		}
		return &pool{clientOf(transport), transport.CloseIdleConnections}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, until := make(reports, 1), systemClock.moment()+time.Minute.Microseconds()
	for id, expected := range []string{"failed", "answer"} {
		connections.send(t.Context(), &core.Request{ID: uint64(id), Method: "GET", Path: "/", UntilUs: until}, got.report)
		if event := <-got; event.Event != expected {
			t.Errorf("%+v", event)
		}
	}
}

// After a failover of the load balancer, each request on an existing connection gets no answer, while new connections
// work at once. One request finds that out, and not one for each connection.
func TestOneRequestWithoutAnAnswerReplacesAllConnectionsAndSilentStreams(t *testing.T) {
	var stale, together sync.Map
	var failedOver atomic.Bool
	var arrived sync.WaitGroup
	arrived.Add(3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failedOver.Load() {
			stale.Store(r.RemoteAddr, true)
		} else if _, ok := stale.Load(r.RemoteAddr); ok {
			<-r.Context().Done()
			return
		}
		if _, again := together.LoadOrStore(r.URL.Path, true); !again && r.URL.Path != "/watch" {
			// Three at once need three connections.
			arrived.Done()
			arrived.Wait()
		}
		if r.URL.Path == "/watch" {
			_, _ = io.WriteString(w, "line\ncut o")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	connections, err := newConnections(server.URL, systemClock, func() (*pool, error) {
		transport := &http.Transport{MaxIdleConnsPerHost: 10}
		return &pool{clientOf(transport), transport.CloseIdleConnections}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, id := make(reports, 10), uint64(0)
	send := func(path string, timeout time.Duration, stream bool) {
		id++
		until := systemClock.moment() + timeout.Microseconds()
		connections.send(t.Context(), &core.Request{ID: id, Method: "GET", Path: path, UntilUs: until, Stream: stream}, got.report)
	}
	next := func() core.Event {
		t.Helper()
		select {
		case event := <-got:
			return event
		case <-time.After(time.Minute):
			t.Fatal("nothing happens to a request")
			return core.Event{}
		}
	}
	expect := func(id uint64, what string) core.Event {
		t.Helper()
		event := next()
		if event.ID != id || event.Event != what {
			t.Fatalf("%+v, not %d %s", event, id, what)
		}
		return event
	}
	// Only its silence ends it while this test lasts.
	send("/watch", time.Hour, true)
	expect(1, "line")
	for _, path := range []string{"/a", "/b", "/c"} {
		send(path, time.Minute, false)
	}
	for range 3 {
		if event := next(); event.Status != http.StatusOK {
			t.Errorf("%+v", event)
		}
	}
	failedOver.Store(true)
	send("/a", 50*time.Millisecond, false)
	if event := expect(5, "failed"); !*event.Sent {
		t.Error("the request was sent")
	}
	send("/b", time.Minute, false)
	send("/c", time.Minute, false)
	seen := map[uint64]core.Event{}
	for range 3 {
		event := next()
		seen[event.ID] = event
	}
	if seen[6].Status != http.StatusOK || seen[7].Status != http.StatusOK {
		t.Errorf("the next requests used stale connections: %+v", seen)
	}
	if seen[1].Event != "end" {
		t.Errorf("the silent stream goes on, or its cut line was reported: %+v", seen)
	}

	send("/watch", time.Minute, true)
	expect(8, "line")
	connections.cancel([]uint64{8})
	expect(8, "end")
	// Certainly nothing of it leaves the process.
	connections.server = "http://127.0.0.1:1"
	send("/a", time.Minute, false)
	if event := expect(9, "failed"); *event.Sent {
		t.Errorf("%+v", event)
	}
}

// An opaque wrapper does not tell what it wraps.
type opaque struct{ next http.RoundTripper }

func (o opaque) RoundTrip(request *http.Request) (*http.Response, error) {
	return o.next.RoundTrip(request)
}

func TestAnElectorThatHasEndedLeavesNoConnectionAndNoInstance(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", steady)
	config := server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return opaque{next} })
	r := start(t, createFor(t, config, options), nil)
	r.awaitLeader(t)
	if server.Connections.Load() == 0 {
		t.Fatal("the server has counted no connection")
	}
	r.stop()
	testkit.Eventually(t, "no connection is left", func() bool { return server.Connections.Load() == 0 })
	// The loop closes the instance before the connections.
	r.connections.mutex.Lock()
	defer r.connections.mutex.Unlock()
	if r.instance.Drop(r.handle) == nil {
		t.Fatal("the instance still answers")
	}
}
