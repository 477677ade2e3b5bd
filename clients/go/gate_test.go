package hustings

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"hustings.io/go/internal/testkit"
)

const configMaps = "/api/v1/namespaces/n/configmaps"

func gateOf(t *testing.T, elector *Elector, options GateOptions) (*Gate, *http.Client) {
	t.Helper()
	gate, err := elector.Gate(options)
	if err != nil {
		t.Fatal(err)
	}
	return gate, &http.Client{Transport: gate.Wrap(http.DefaultTransport)}
}

// standby returns an elector that does not run.
func standby(t *testing.T, server *testkit.Server) *Elector {
	t.Helper()
	options, _ := testOptions(t, "standby", steady)
	return create(t, server, options)
}

func send(client *http.Client, method, url, body string) error {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func TestAStandbyReadsAndWritesNothing(t *testing.T) {
	server := testkit.NewServer(t)
	gate, client := gateOf(t, standby(t, server), GateOptions{Allow: AllowEvents})
	for _, c := range []struct {
		method, target, body string
		passes               bool
	}{
		{"GET", configMaps + "?watch=true", "", true},
		{"GET", configMaps + "?labelSelector=" + strings.Repeat("a", 1<<16), "", true},
		{"POST", configMaps, "{}", false},
		{"PATCH", configMaps + "/c", "{}", false},
		{"PATCH", configMaps + "/c?dryRun=All", "{}", true},
		{"DELETE", configMaps + "/c", `{"dryRun":["All"]}`, true},
		{"DELETE", configMaps + "/c", `{}`, false},
		{"DELETE", configMaps + "/c", "", false},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "{}", true},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "{}", true},
		{"POST", "/apis/example.com/v1/subjectaccessreviews", "{}", false},
		{"POST", "/api/v1/namespaces/n/events", "{}", true},
		{"PATCH", "/apis/events.k8s.io/v1/namespaces/n/events/e", "{}", true},
		{"POST", "/apis/example.com/v1/namespaces/n/events", "{}", false},
		{"GET", "/api/v1/namespaces/n/pods/p/exec?command=rm", "", false},
		{"POST", "/api/v1/namespaces/n/services/s/proxy/api/v1/events", "", false},
	} {
		err := send(client, c.method, server.URL+c.target, c.body)
		if c.passes && err != nil || !c.passes && !IsNotLeading(err) {
			t.Errorf("%s %s %s: %v", c.method, c.target, c.body, err)
		}
	}
	if gate.IsOpen() {
		t.Error("the gate is open")
	}
	upgrade, err := http.NewRequest(http.MethodGet, server.URL+"/apis/example.com/v1/consoles/c", nil)
	if err != nil {
		t.Fatal(err)
	}
	upgrade.Header.Set("Upgrade", "websocket")
	if _, err := client.Do(upgrade); !IsNotLeading(err) {
		t.Errorf("an upgrade: %v", err)
	}
}

// client-go wraps the error of a transport.
func TestARejectedWriteOfClientGoNamesTheLeaseAndTheWayOut(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", steady)
	r := startReplica(t, server, options, nil)
	gate, _ := gateOf(t, standby(t, server), GateOptions{})
	config := server.Config()
	config.Wrap(gate.Wrap)
	_, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("n").
		Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	if !IsNotLeading(err) || !strings.Contains(err.Error(), "not the leader of Lease n/l: the write was not sent; retry") {
		t.Errorf("error: %v", err)
	}
	// The server's address may have a path.
	r.awaitLeader(t)
	config = server.Config()
	config.Host += "/k8s/clusters/c-1"
	elector, err := New(config, "n", "l", options)
	if err != nil {
		t.Fatal(err)
	}
	_, client := gateOf(t, elector, GateOptions{})
	if err := send(client, "GET", config.Host+"/api/v1/namespaces/n/pods/p/exec", ""); !IsNotLeading(err) {
		t.Errorf("an exec behind a prefix: %v", err)
	}
}

func TestAParkedWriteIsSentOnPromotionAndThereIsRoomForAFewOnly(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", steady)
	holder := startReplica(t, server, options, nil)
	holder.awaitLeader(t)
	options, _ = testOptions(t, "b", steady)
	other := startReplica(t, server, options, nil)
	_, client := gateOf(t, other.Elector, GateOptions{Deadline: 20 * time.Second, Park: 1, ParkFor: time.Minute})
	_, hasty := gateOf(t, other.Elector, GateOptions{Park: 1, ParkFor: time.Millisecond})
	if err := send(hasty, "POST", server.URL+configMaps, "{}"); !IsNotLeading(err) {
		t.Errorf("error: %v", err)
	}
	parked := make(chan error, 2)
	for range 2 {
		go func() { parked <- send(client, "POST", server.URL+configMaps, "{}") }()
	}
	if err := <-parked; !IsNotLeading(err) || !strings.Contains(err.Error(), "1 writes are waiting already") {
		t.Errorf("error: %v", err)
	}
	if count := server.Requests("POST", configMaps); count != 0 {
		t.Errorf("%d writes of a standby were sent", count)
	}
	holder.stop()
	if err := <-parked; err != nil {
		t.Error(err)
	}
	if !other.IsLeader() {
		t.Error("sent without leadership")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	request, _ := http.NewRequestWithContext(gone, "POST", server.URL+configMaps, nil)
	if _, err := client.Do(request); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
}

// stalled makes each write of ConfigMaps wait until the test releases it. await waits until one has arrived.
func stalled(t *testing.T, server *testkit.Server) (await func(), release chan struct{}) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != configMaps {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	return func() {
		t.Helper()
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Fatal("no write has arrived")
		}
	}, release
}

func TestTheLeaseIsGivenUpWhenNoWriteIsUnderWay(t *testing.T) {
	server := testkit.NewServer(t)
	await, release := stalled(t, server)
	options, _ := testOptions(t, "a", steady)
	r := startReplica(t, server, options, nil)
	r.awaitLeader(t)
	_, client := gateOf(t, r.Elector, GateOptions{Deadline: 20 * time.Second})
	written := make(chan error, 1)
	go func() { written <- send(client, "POST", server.URL+configMaps, "{}") }()
	await()
	r.stop()
	testkit.Eventually(t, "the gate admits no more", func() bool {
		return IsNotLeading(send(client, "PATCH", server.URL+configMaps+"/c", "{}"))
	})
	if server.Holder("l") != "a" {
		t.Error("the Lease was given up during a write")
	}
	close(release)
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := <-r.ended; err != nil || server.Holder("l") != "" {
		t.Errorf("error %v, holder %q", err, server.Holder("l"))
	}
}

func TestAWriteEndsWithItsTermAndAtItsDeadline(t *testing.T) {
	server := testkit.NewServer(t)
	await, _ := stalled(t, server)
	options, _ := testOptions(t, "a", steady)
	r := startReplica(t, server, options, nil)
	term := r.awaitLeader(t)
	_, client := gateOf(t, r.Elector, GateOptions{Deadline: 3 * time.Second})
	err := send(client, "POST", server.URL+configMaps, "{}")
	if gate, ok := errors.AsType[*GateError](err); !ok || !gate.OutcomeUnknown || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("error: %v", err)
	}
	await()
	gate, _ := gateOf(t, r.Elector, GateOptions{Deadline: 20 * time.Second})
	client = &http.Client{Transport: gate.Within(term).Wrap(http.DefaultTransport)}
	written := make(chan error, 1)
	go func() { written <- send(client, "POST", server.URL+configMaps, "{}") }()
	await()
	server.Patch("l", testkit.Object{"spec": testkit.Object{"holderIdentity": "thief"}})
	err = <-written
	if gate, ok := errors.AsType[*GateError](err); !ok || !gate.OutcomeUnknown || !strings.Contains(err.Error(), "lost") {
		t.Errorf("error: %v", err)
	}
	if err := send(client, "POST", server.URL+configMaps, "{}"); !IsNotLeading(err) {
		t.Errorf("a write of a former term: %v", err)
	}
}

func TestNoWriteBeginsThatMayOutlastItsTerm(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", Timing{})
	r := startReplica(t, server, options, nil)
	r.awaitLeader(t)
	gate, client := gateOf(t, r.Elector, GateOptions{Deadline: 7 * time.Second})
	testkit.Eventually(t, "the gate is open", gate.IsOpen)
	server.SetFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		testkit.Fail(w, http.StatusInternalServerError, "InternalError", "l")
		return true
	})
	testkit.Eventually(t, "the gate closes", func() bool { return !gate.IsOpen() })
	if err := send(client, "POST", server.URL+configMaps, "{}"); !IsNotLeading(err) || !r.IsLeader() {
		t.Errorf("error: %v; leads: %t", err, r.IsLeader())
	}
	server.SetFault(nil)
}

func TestAGateWhoseDeadlineDoesNotFitIsRefused(t *testing.T) {
	elector := standby(t, testkit.NewServer(t))
	for _, options := range []GateOptions{{Deadline: time.Minute}, {Deadline: -1}, {Park: -1}} {
		if _, err := elector.Gate(options); err == nil || !strings.Contains(err.Error(), "n/l") {
			t.Errorf("%+v: %v", options, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// client-go repeats a request whose answer says when.
func TestAWriteIsNotRepeatedInAnotherTerm(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", steady)
	r := startReplica(t, server, options, nil)
	r.awaitLeader(t)
	gate, _ := gateOf(t, r.Elector, GateOptions{})
	busy := gate.Wrap(roundTrip(func(request *http.Request) (*http.Response, error) {
		header := http.Header{"Retry-After": {"1"}}
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: http.NoBody, Request: request}, nil
	}))
	for method, isRepeated := range map[string]bool{http.MethodGet: true, http.MethodPost: false} {
		request, err := http.NewRequest(method, server.URL+configMaps, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := busy.RoundTrip(request)
		if err != nil || (response.Header.Get("Retry-After") != "") != isRepeated {
			t.Errorf("%s: %v, %v", method, response, err)
		}
	}
}

// upgraded is the connection of an upgrade.
type upgraded struct{ io.ReadWriteCloser }

func (upgraded) CloseWrite() error { return io.ErrClosedPipe }

func TestAnUpgradeLeavesNothingBehindWhenItIsClosed(t *testing.T) {
	server := testkit.NewServer(t)
	options, _ := testOptions(t, "a", steady)
	r := startReplica(t, server, options, nil)
	r.awaitLeader(t)
	gate, _ := gateOf(t, r.Elector, GateOptions{})
	near, _ := net.Pipe()
	var sent context.Context
	transport := gate.Wrap(roundTrip(func(request *http.Request) (*http.Response, error) {
		sent = request.Context()
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: http.Header{}, Body: upgraded{near}, Request: request}, nil
	}))
	request, err := http.NewRequest(http.MethodPost, server.URL+"/api/v1/namespaces/n/pods/p/exec", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	connection, ok := response.Body.(interface {
		io.ReadWriteCloser
		CloseWrite() error
	})
	if !ok || connection.CloseWrite() != io.ErrClosedPipe || sent.Err() != nil {
		t.Fatalf("%T, %v", response.Body, sent.Err())
	}
	if err := connection.Close(); err != nil || sent.Err() == nil {
		t.Errorf("error %v, and the context lives on", err)
	}
}
