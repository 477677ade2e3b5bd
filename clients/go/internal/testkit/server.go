// Package testkit has what the tests of several packages share: an API server for Leases with faults, a real control
// plane, and the check that no two replicas lead at once.
package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An Object is a Kubernetes object.
type Object = map[string]any

// Leases is the path of the Leases of namespace n.
const Leases = "/apis/coordination.k8s.io/v1/namespaces/n/leases"

// A Server is an API server that knows Leases of namespace n, and counts what else it is asked for.
type Server struct {
	*httptest.Server
	// Connections are the connections that are open.
	Connections atomic.Int64
	mutex       sync.Mutex
	version     int
	leases      map[string]Object
	changed     chan struct{}
	history     []change
	requests    map[string]int
	fault       Fault
	// real answers what no fault does; nil for the model.
	real *realServer
}

// A Fault may answer a request instead of the server. It returns whether it has.
type Fault func(w http.ResponseWriter, r *http.Request) bool

type change struct {
	version int
	kind    string
	lease   Object
}

// NewServer starts a server that ends with the test.
func NewServer(t testing.TB) *Server {
	s := StartServer()
	t.Cleanup(s.Stop)
	return s
}

// StartServer starts a server that ends with [Server.Stop].
func StartServer() *Server {
	s := &Server{version: 1, leases: map[string]Object{}, changed: make(chan struct{}), requests: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.Connections.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.Connections.Add(-1)
		}
	}
	s.Server.Start()
	return s
}

// Stop ends the server and its connections.
func (s *Server) Stop() {
	s.CloseClientConnections()
	s.Close()
}

// Config returns the configuration of a client of this server.
func (s *Server) Config() *rest.Config { return &rest.Config{Host: s.URL} }

// SetFault makes the fault answer requests; nil ends that.
func (s *Server) SetFault(fault Fault) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.fault = fault
}

// Lease returns a Lease, or nil.
func (s *Server) Lease(name string) Object {
	if s.real != nil {
		return s.real.lease(name)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.leases[name]
}

// Holder returns the holder of a Lease, or nothing.
func (s *Server) Holder(name string) string {
	spec, _ := s.Lease(name)["spec"].(Object)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// Requests returns how many requests with this method have had this path.
func (s *Server) Requests(method, path string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.requests[method+" "+path]
}

// Patch merges a patch into a Lease, whatever its version is.
func (s *Server) Patch(name string, patch Object) {
	if s.real != nil {
		s.real.patch(name, patch)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.store("MODIFIED", merge(s.leases[name], patch).(Object))
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	s.requests[r.Method+" "+r.URL.Path]++
	fault := s.fault
	s.mutex.Unlock()
	if fault == nil || !fault(w, r) {
		s.Handle(w, r)
	}
}

// Handle handles a request without the fault.
func (s *Server) Handle(w http.ResponseWriter, r *http.Request) {
	if s.real != nil {
		s.real.proxy.ServeHTTP(w, r)
		return
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Leases), "/")
	switch {
	case !strings.HasPrefix(r.URL.Path, Leases):
		if r.Method == http.MethodGet {
			Fail(w, http.StatusNotFound, "NotFound", name)
			return
		}
		answer(w, http.StatusCreated, Object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet && name == "":
		s.list(w, r)
	case r.Method == http.MethodGet:
		if lease := s.Lease(name); lease != nil {
			answer(w, http.StatusOK, lease)
		} else {
			Fail(w, http.StatusNotFound, "NotFound", name)
		}
	case r.Method == http.MethodPost:
		s.create(w, r)
	case r.Method == http.MethodPatch:
		s.patch(w, r, name)
	default:
		Fail(w, http.StatusMethodNotAllowed, "MethodNotAllowed", name)
	}
}

// selected returns the name that the field selector of a list or watch names.
func selected(r *http.Request) string {
	return strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	items := []Object{}
	if lease := s.leases[selected(r)]; lease != nil {
		items = append(items, lease)
	}
	answer(w, http.StatusOK, Object{
		"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
		"metadata": Object{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	})
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var lease Object
	if json.NewDecoder(r.Body).Decode(&lease) != nil {
		Fail(w, http.StatusBadRequest, "BadRequest", "")
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	metadata := lease["metadata"].(Object)
	name := metadata["name"].(string)
	if s.leases[name] != nil {
		Fail(w, http.StatusConflict, "AlreadyExists", name)
		return
	}
	metadata["uid"] = fmt.Sprintf("uid-%d", s.version)
	metadata["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	answer(w, http.StatusCreated, s.store("ADDED", lease))
}

func (s *Server) patch(w http.ResponseWriter, r *http.Request, name string) {
	var patch Object
	if json.NewDecoder(r.Body).Decode(&patch) != nil {
		Fail(w, http.StatusBadRequest, "BadRequest", name)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	lease := s.leases[name]
	if lease == nil {
		Fail(w, http.StatusNotFound, "NotFound", name)
		return
	}
	present, wanted := lease["metadata"].(Object), patch["metadata"].(Object)
	if wanted["resourceVersion"] != present["resourceVersion"] {
		Fail(w, http.StatusConflict, "Conflict", name)
		return
	}
	answer(w, http.StatusOK, s.store("MODIFIED", merge(lease, patch).(Object)))
}

// store stores a version of a Lease.
func (s *Server) store(kind string, lease Object) Object {
	s.version++
	metadata := maps.Clone(lease["metadata"].(Object))
	metadata["resourceVersion"] = strconv.Itoa(s.version)
	lease = maps.Clone(lease)
	lease["metadata"], lease["kind"], lease["apiVersion"] = metadata, "Lease", "coordination.k8s.io/v1"
	s.leases[metadata["name"].(string)] = lease
	s.history = append(s.history, change{s.version, kind, lease})
	close(s.changed)
	s.changed = make(chan struct{})
	return lease
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	name := selected(r)
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	event := func(kind string, object Object) {
		text, _ := json.Marshal(Object{"type": kind, "object": object})
		_, _ = w.Write(append(text, '\n'))
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		s.mutex.Lock()
		lease := s.leases[name]
		after = s.version
		s.mutex.Unlock()
		if lease != nil {
			event("ADDED", lease)
		}
		event("BOOKMARK", Object{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": Object{
			"resourceVersion": strconv.Itoa(after), "annotations": Object{"k8s.io/initial-events-end": "true"},
		}})
	}
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	timeout := time.After(time.Duration(seconds) * time.Second)
	for {
		s.mutex.Lock()
		changed, history := s.changed, s.history
		s.mutex.Unlock()
		for _, change := range history {
			if change.version > after && change.lease["metadata"].(Object)["name"] == name {
				event(change.kind, change.lease)
				after = change.version
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-timeout:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// Silence is a [Fault]: the connection stays, and nothing answers.
func Silence(_ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return true
}

// Fail answers with a Status.
func Fail(w http.ResponseWriter, code int, reason, name string) {
	answer(w, code, Object{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code,
		"details": Object{"name": name, "group": "coordination.k8s.io", "kind": "leases"},
	})
}

func answer(w http.ResponseWriter, code int, object Object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// merge applies a JSON merge patch.
func merge(value, patch any) any {
	fields, ok := patch.(Object)
	if !ok {
		return patch
	}
	merged, _ := value.(Object)
	merged = maps.Clone(merged)
	if merged == nil {
		merged = Object{}
	}
	for name, field := range fields {
		if field == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], field)
		}
	}
	return merged
}

// FreeAddress returns an address of this machine at which nothing listens. Its port is below those that the kernel assigns,
// one of which could be taken before its use.
func FreeAddress(t testing.TB) *net.TCPAddr {
	t.Helper()
	for {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 20000 + rand.IntN(12000)})
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return listener.Addr().(*net.TCPAddr)
	}
}

// Eventually waits until the condition holds. It fails the test after three minutes.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within three minutes: %s", what)
		}
	}
}
