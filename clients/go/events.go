package hustings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// eventReason is client-go's reason, by which people and tools find these events.
	eventReason = "LeaderElection"
	// waitingEvents is how many events may wait. Further ones are lost; the election is not affected.
	waitingEvents = 16
	// eventTimeout is how long the publication of one event may take.
	eventTimeout = 5 * time.Second
	// longestInstance is the longest reportingInstance that the API server accepts.
	longestInstance = 128
)

// events publishes the beginning and the end of each term of one elector.
type events struct {
	elector *Elector
	queue   chan *eventsv1.Event
	start   func()
}

func newEvents(e *Elector) *events {
	p := &events{elector: e, queue: make(chan *eventsv1.Event, waitingEvents)}
	p.start = sync.OnceFunc(func() { go p.publish() })
	return p
}

func (p *events) began(leaseUID string)       { p.enqueue(leaseUID, "BecomeLeader", "became leader") }
func (p *events) ended(leaseUID string)       { p.enqueue(leaseUID, "StopLeading", "stopped leading") }
func (p *events) renewed(time.Duration, bool) {}

func (p *events) enqueue(leaseUID, action, what string) {
	p.start()
	e, now := p.elector, time.Now()
	instance := e.identity
	if len(instance) > longestInstance {
		instance = instance[:longestInstance]
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.namespace,
			// client-go's form: unique, since no two terms of a Lease begin in one nanosecond.
			Name: fmt.Sprintf("%s.%x", e.lease, now.UnixNano()),
		},
		EventTime:           metav1.NewMicroTime(now),
		Type:                corev1.EventTypeNormal,
		Reason:              eventReason,
		Action:              action,
		Note:                e.identity + " " + what,
		ReportingController: "hustings-elector",
		ReportingInstance:   instance,
		Regarding: corev1.ObjectReference{
			APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: e.namespace, Name: e.lease, UID: types.UID(leaseUID),
		},
	}
	select {
	case p.queue <- event:
	default:
		e.log.Debug("event dropped: too many events are waiting")
	}
}

// publish publishes events until the elector has ended and none is left.
func (p *events) publish() {
	for {
		select {
		case event := <-p.queue:
			p.post(event)
		case <-p.elector.ended.Done():
			// The end of the last term.
			select {
			case event := <-p.queue:
				p.post(event)
				continue
			default:
				return
			}
		}
	}
}

func (p *events) post(event *eventsv1.Event) {
	if err := p.elector.connections.post("/apis/events.k8s.io/v1/namespaces/"+event.Namespace+"/events", event); err != nil {
		p.elector.log.Debug("failed to publish an event", "error", err)
	}
}

// post creates an object, without any consequence for the connections of the elector.
func (c *connections) post(path string, object any) error {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	c.mutex.Lock()
	client := c.current.client
	c.mutex.Unlock()
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, longestAnswer))
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("the server answered %s", response.Status)
	}
	return err
}
